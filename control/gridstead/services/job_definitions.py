# SPDX-License-Identifier: Apache-2.0
"""Keeps the scripts of jobs and hands each only to the provider that the chain has matched to its
job.

Rule 1: a script is rendered and durably stored before its id is given out. Rule 2: an answer needs
a signature over a challenge of ours that was never used before, and the chain's word at the newest
block. Rule 3: a script goes to jobs of its owner alone. Rule 4: nothing of a workflow is logged.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from gridstead.domain.billing import paid_seconds_ceil
from gridstead.domain.challenge import CHANCE_BYTES, make_challenge, nonce_end, nonce_of
from gridstead.domain.ids import parse_address
from gridstead.domain.job import Job
from gridstead.domain.job_definition import (
    Recover,
    ScriptAnswer,
    ScriptRequest,
    is_open,
    refusal,
    script_id,
)
from gridstead.domain.lifecycle import JobState
from gridstead.domain.log import LogId, log_identity_of
from gridstead.domain.log_access import WritePermit, check_key, token_end, write_token
from gridstead.errors import (
    ChainUnavailable,
    ConfigError,
    InvalidInput,
    InvalidWorkflow,
    JobDefinitionUnavailable,
    ModuleUnavailable,
    NotAllowed,
    ScriptDamaged,
    ScriptUnavailable,
)
from gridstead.ports import Clock, Ledger, Modules, TakenNonces
from gridstead.services.script_keeper import ScriptKeeper
from gridstead.workflow.modules import check_module
from gridstead.workflow.parse import from_graphql
from gridstead.workflow.render import ScriptPaths, render, secrets_of
from gridstead.workflow.schema import ModuleSource, Workflow

Charge = Callable[[int], None]
"""Counts so many bytes for a caller, or raises TooMuch."""

MODULES_PATIENCE_S = 60  # for all modules of a workflow; clients wait no longer
SALT_BYTES = 16
LOOKS, LOOK_S = 10, 0.5  # old supervisors wait for 10 s
MAX_WAITING = 4  # each keeps a thread from others
CLOCKS_DIFFER_S = (
    600  # those of instances; the one that is ahead must not forget what the one behind still takes
)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggerAccess:
    """How a provider's jobs reach the grid's logger.

    Attributes:
        url: ``host:port``.
        key: What write tokens are made with; shared with the logger.
    """

    url: str
    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        check_key(self.key)

    def secrets(self, job: Job, *, now: int) -> dict[str, bytes]:
        """Return what a job's environment must hold for its output to be written, from now (Unix
        seconds) on.
        """
        log_id = LogId(
            owner=job.customer, name=job.id.slurm_name, log_identity=log_identity_of(job.job_key)
        )
        expires_at = token_end(now, paid_s=paid_seconds_ceil(job.escrow, job.price_per_min))
        variables = {
            "GRIDSTEAD_LOGGER_URL": self.url,
            "GRIDSTEAD_LOG_OWNER": log_id.owner,
            "GRIDSTEAD_LOG_NAME": log_id.name,
            "GRIDSTEAD_LOG_TOKEN": write_token(
                self.key, WritePermit(log=log_id, expires_at=expires_at)
            ),
        }
        return {name: value.encode() for name, value in variables.items()}


class JobDefinitions:
    """The service; safe to call from many threads.

    Args:
        keeper: Has the records and knows whose they are.
        nonces: Which challenges were answered.
        challenge_keys: What challenges are made with, the newest first; the same in all instances.
        ledger: The chain.
        clock: Wall time.
        recover: Finds who signed.
        logger: How jobs reach the logger.
        modules: Where modules come from.
        site: Paths on a provider's nodes.
        random_bytes: Returns so many unpredictable bytes.
        pause: Returns so many seconds later.
    """

    def __init__(  # noqa: PLR0913 # one argument per collaborator
        self,
        *,
        keeper: ScriptKeeper,
        nonces: TakenNonces,
        challenge_keys: tuple[bytes, ...],
        ledger: Ledger,
        clock: Clock,
        recover: Recover,
        logger: LoggerAccess,
        modules: Modules,
        site: ScriptPaths | None = None,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._keeper = keeper
        self._nonces = nonces
        self._challenge_keys = challenge_keys
        self._ledger = ledger
        self._clock = clock
        self._recover = recover
        self._logger = logger
        self._modules = modules
        self._site = site
        self._random_bytes = random_bytes
        self._pause = pause
        self._waiting = threading.BoundedSemaphore(MAX_WAITING)

    def submit(self, mapping: Mapping[str, object], customer: str, charge: Charge) -> str:
        """Store a workflow, given as the wire has it, and return the id for its job.

        Args:
            mapping: The workflow.
            customer: Address of the wallet whose jobs alone it is for; empty: of the first whose
                job names it.
            charge: Told what is stored. A small workflow may become a large script.

        Raises:
            InvalidWorkflow: It breaks rules; nothing is stored.
            InvalidInput: The customer is no address, or the script would be too large.
            TooMuch: Too many scripts without a hot job are stored, too many modules are being
                fetched, or the caller has sent too much.
            ModuleUnavailable: A module that it uses could not be fetched now; nothing is stored.
        """
        owner = parse_address(customer) if customer else ""
        workflow = from_graphql(mapping, modules=self._patient())
        record = json.dumps(self._record_of(workflow))
        charge(len(record))
        batch_location_hash = script_id(record)
        self._keeper.keep(batch_location_hash, record, owner=owner)
        log.info(
            "workflow_stored", batch_location_hash=batch_location_hash, steps=len(workflow.steps)
        )
        return batch_location_hash

    def _record_of(self, workflow: Workflow) -> dict[str, object]:
        own = dict(secrets_of(workflow))
        record = {
            "salt": self._random_bytes(SALT_BYTES).hex(),
            "script": render(workflow, site=self._site),
            "logged": workflow.enable_logging,
            "secrets": own,
        }
        if workflow.enable_logging and not own:  # else it is the same script, or none
            record["script_without_secrets"] = render(
                workflow, secrets_beside=False, site=self._site
            )
        return record

    def validate(self, mapping: Mapping[str, object]) -> str:
        """Return ``valid``, or in words which rules a module breaks, given as the wire has it."""
        try:
            check_module(mapping)
        except InvalidWorkflow as err:
            return "\n".join(map(str, err.problems))
        return "valid"

    def _patient(self) -> Callable[[ModuleSource], str]:
        """Return what fetches modules until the time for a workflow's is over."""
        end = self._clock.now() + MODULES_PATIENCE_S

        def text_of(source: ModuleSource) -> str:
            if self._clock.now() > end:
                raise ModuleUnavailable(
                    "could not fetch the modules of a workflow", detail="it took too long"
                )
            return self._modules.text(source)

        return text_of

    def challenge(self, address: str = "") -> bytes:
        """Return what a provider has to sign: JSON with ``message`` and a new ``nonce``.

        Args:
            address: The one wallet whose signature is taken, lower case; empty: any wallet's, once.
        """
        chance = self._random_bytes(CHANCE_BYTES)
        return make_challenge(
            self._challenge_keys[0], now=self._clock.now(), chance=chance, address=address
        )

    def get_sbatch(self, request: ScriptRequest) -> ScriptAnswer:
        """Return the script of a job that is matched to the caller. Asking again, with a new
        challenge, is safe.

        Raises:
            NotAllowed: The signature, the challenge, the provider or the customer is wrong.
            ScriptUnavailable: There is no such script, or the job is over, or has another one.
            ChainUnavailable: The chain did not tell of a matched job (yet).
            JobDefinitionUnavailable: The script does not open, which its operator can mend.
        """
        self._authenticate(request)
        job = self._job(request)
        reason = refusal(job, request)
        if reason:
            raise NotAllowed(
                f"cannot hand out script {request.batch_location_hash[:64]!r}", detail=reason
            )
        try:
            record = self._record(job, request)
        except (ConfigError, ScriptDamaged) as err:
            log.error(
                "script_unreadable",
                job_id=job.id.number,
                code=err.code,
                reason=str(err),
                hint=err.hint,
            )
            raise JobDefinitionUnavailable(
                "the Job Definition service cannot open the script"
            ) from err
        log.info(
            "script_given",
            job_id=job.id.number,
            provider=job.provider,
            secrets_beside=request.secrets_beside,
        )
        return self._answer(json.loads(record), job, secrets_beside=request.secrets_beside)

    def _record(self, job: Job, request: ScriptRequest) -> str:
        name = job.id.slurm_name
        stored = self._keeper.find(request.batch_location_hash) if is_open(job, request) else None
        if stored is None:
            raise ScriptUnavailable(f"no script for job {name}", detail=f"it is {job.state.name}")
        if not stored.owner:
            raise ChainUnavailable(f"could not tell whose the script of job {name} is")
        if stored.owner != job.customer:
            log.warning(
                "script_refused",
                job_id=job.id.number,
                provider=job.provider,
                reason="another customer's",
            )
            raise ScriptUnavailable(f"no script for job {name}", detail="it is another customer's")
        return stored.record

    def _authenticate(self, request: ScriptRequest) -> None:
        nonce = nonce_of(request.challenge)
        ends_at = nonce_end(self._challenge_keys, nonce, address=request.provider)
        if ends_at is None or self._clock.now() > ends_at:
            raise NotAllowed("the challenge is not one of ours for this provider, or is too old")
        try:
            signer = self._recover(request.challenge, request.signature)
        except InvalidInput as err:
            raise NotAllowed("cannot tell who signed the challenge", detail=str(err)) from err
        if signer != request.provider:
            raise NotAllowed("the challenge is not signed by this provider")
        if not self._nonces.take(nonce, ends_at=ends_at + CLOCKS_DIFFER_S):
            raise NotAllowed("the challenge is used")

    def _job(self, request: ScriptRequest) -> Job:
        """Return the job, which is matched.

        An old supervisor asks as soon as its own node shows the match, and fails the job if ours
        does not yet: we look again for it, unless others wait already.
        """
        waits = not request.secrets_beside and self._waiting.acquire(blocking=False)
        try:
            for _ in range(LOOKS if waits else 1):
                head = self._ledger.head()
                job = self._ledger.jobs([request.job_number], at_block=head).get(request.job_number)
                if job is not None and job.state is not JobState.PENDING:
                    return job
                if waits:
                    self._pause(LOOK_S)
        finally:
            if waits:
                self._waiting.release()
        said = "unknown" if job is None else "not matched"
        raise ChainUnavailable(f"job {request.job_number} is {said} at block {head.number}")

    def _answer(self, record: Mapping[str, Any], job: Job, *, secrets_beside: bool) -> ScriptAnswer:
        if not secrets_beside:
            if record["secrets"]:
                reason = "the job has secrets, which this provider cannot take beside its script"
                raise ScriptUnavailable(f"no script for job {job.id.slurm_name}", detail=reason)
            script = record.get("script_without_secrets", record["script"])
            return ScriptAnswer(script=script, logger_url=self._logger.url)
        own = {name: text.encode() for name, text in record["secrets"].items()}
        beside = self._logger.secrets(job, now=self._clock.now())
        return ScriptAnswer(
            script=record["script"],
            logger_url=self._logger.url,
            secrets=(beside if record["logged"] else {}) | own,
            log_write_token=beside["GRIDSTEAD_LOG_TOKEN"].decode(),
        )
