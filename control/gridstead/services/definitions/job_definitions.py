# SPDX-License-Identifier: Apache-2.0
"""The Job Definition service, which stores job scripts and sends them to providers.

Rule 1: a script is rendered and durably stored before its id is returned. Rule 2: a request must
contain a signature of an unused challenge of this service. Rule 3: a script is sent to a provider
only if, at the newest block, a job of the script's owner is matched to this provider and names the
script. Rule 4: the content of a workflow is never logged.
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

from gridstead.domain.definitions.challenge import (
    RANDOM_BYTES,
    make_challenge,
    nonce_expiry,
    nonce_of,
)
from gridstead.domain.definitions.job_definition import (
    Recover,
    ScriptAnswer,
    ScriptRequest,
    denial_reason,
    needs_script,
    script_id,
)
from gridstead.domain.jobs.billing import paid_seconds_ceil
from gridstead.domain.jobs.ids import parse_address
from gridstead.domain.jobs.job import Job
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.logs.access import (
    WritePermit,
    check_key_length,
    make_write_token,
    token_expiry,
)
from gridstead.domain.logs.log import log_of
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
from gridstead.ports import Clock, Ledger, Modules, UsedNonces
from gridstead.services.definitions.script_keeper import ScriptKeeper
from gridstead.workflow.modules import check_module
from gridstead.workflow.parse import from_graphql
from gridstead.workflow.render import ScriptPaths, render, secrets_of
from gridstead.workflow.schema import ModuleSource, Workflow

CountBytes = Callable[[int], None]
"""Counts a number of bytes against the caller's limit. Raises LimitExceeded above the limit."""

MODULES_TIMEOUT_S = 60  # all modules of a workflow together; clients do not wait longer
SALT_BYTES = 16
# The maximum number of reads of a job that is not matched yet, and the seconds between two reads.
# Old supervisors wait for 10 s.
MAX_MATCH_READS = 10
MATCH_READ_INTERVAL_S = 0.5
MAX_WAITING_REQUESTS = 4  # each waiting request occupies a thread
# Maximum clock difference between instances. A used nonce is remembered for this long after it
# expires, because an instance whose clock is behind still accepts the nonce.
CLOCK_SKEW_S = 600

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggerAccess:
    """The address of the grid's logger, and the key that creates write tokens for it.

    Attributes:
        url: ``host:port``.
        key: The key that signs write tokens. The logger has the same key.
    """

    url: str
    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        check_key_length(self.key)

    def log_variables(self, job: Job, *, now: int) -> dict[str, bytes]:
        """Return the environment variables with which a job can write its log.

        ``now`` is in Unix seconds. The validity of the write token starts at this time.
        """
        log_id = log_of(job)
        expires_at = token_expiry(now, paid_s=paid_seconds_ceil(job.escrow, job.price_per_min))
        token = make_write_token(self.key, WritePermit(log=log_id, expires_at=expires_at))
        variables = {
            "GRIDSTEAD_LOGGER_URL": self.url,
            "GRIDSTEAD_LOG_OWNER": log_id.owner,
            "GRIDSTEAD_LOG_NAME": log_id.name,
            "GRIDSTEAD_LOG_TOKEN": token,
        }
        return {name: value.encode() for name, value in variables.items()}


class JobDefinitions:
    """The Job Definition service. Its methods may be called from many threads.

    Args:
        keeper: Stores the scripts with their owners.
        nonces: The nonces of used challenges.
        challenge_keys: The keys that sign challenges, newest first. All instances have the same
            keys.
        ledger: The chain.
        clock: Wall time.
        recover: Returns the address that signed a message.
        logger: How jobs reach the logger.
        modules: Fetches modules.
        script_paths: Paths on the provider's nodes.
        random_bytes: Returns the given number of unpredictable bytes.
        sleep: Waits for the given number of seconds.
    """

    def __init__(  # noqa: PLR0913 # one argument per collaborator
        self,
        *,
        keeper: ScriptKeeper,
        nonces: UsedNonces,
        challenge_keys: tuple[bytes, ...],
        ledger: Ledger,
        clock: Clock,
        recover: Recover,
        logger: LoggerAccess,
        modules: Modules,
        script_paths: ScriptPaths | None = None,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._keeper = keeper
        self._nonces = nonces
        self._challenge_keys = challenge_keys
        self._ledger = ledger
        self._clock = clock
        self._recover = recover
        self._logger = logger
        self._modules = modules
        self._script_paths = script_paths
        self._random_bytes = random_bytes
        self._sleep = sleep
        self._waiting_slots = threading.BoundedSemaphore(MAX_WAITING_REQUESTS)

    def submit(
        self, graphql_workflow: Mapping[str, object], customer: str, count_bytes: CountBytes
    ) -> str:
        """Store the script of a workflow and return its id.

        Args:
            graphql_workflow: The workflow in its GraphQL form.
            customer: Address of the owner. If it is empty, the owner is the first customer whose
                job names the script.
            count_bytes: Counts the size of the stored record against the caller's limit. The size
                of the request is not enough, because the script of a small workflow can be large.

        Raises:
            InvalidWorkflow: If the workflow breaks a rule. Nothing is stored.
            InvalidInput: If the customer is not an address, or the script would be too large.
            LimitExceeded: If the scripts without an unsettled job take too much space, if too many
                modules are being fetched, or if the caller has exceeded its limit.
            ModuleUnavailable: If a module could not be fetched. Nothing is stored.
        """
        owner = parse_address(customer) if customer else ""
        workflow = from_graphql(graphql_workflow, fetch_module=self._module_fetcher())
        record = json.dumps(self._new_record(workflow))
        count_bytes(len(record))
        batch_location_hash = script_id(record)
        self._keeper.add(batch_location_hash, record, owner=owner)
        log.info(
            "workflow_stored", batch_location_hash=batch_location_hash, steps=len(workflow.steps)
        )
        return batch_location_hash

    def _new_record(self, workflow: Workflow) -> dict[str, object]:
        workflow_secrets = dict(secrets_of(workflow))
        record = {
            "salt": self._random_bytes(SALT_BYTES).hex(),
            "script": render(workflow, paths=self._script_paths),
            "logged": workflow.enable_logging,
            "secrets": workflow_secrets,
        }
        # Old supervisors cannot receive secrets, so they get a second script, which does not need
        # the secrets of the logger. Without logging, the second script would equal the first. A
        # workflow with secrets of its own cannot run on old supervisors.
        if workflow.enable_logging and not workflow_secrets:
            record["script_without_secrets"] = render(
                workflow, secrets_beside=False, paths=self._script_paths
            )
        return record

    def validate(self, graphql_module: Mapping[str, object]) -> str:
        """Check a module in its GraphQL form.

        Returns:
            ``valid``, or a line for each broken rule.
        """
        try:
            check_module(graphql_module)
        except InvalidWorkflow as err:
            return "\n".join(map(str, err.problems))
        return "valid"

    def _module_fetcher(self) -> Callable[[ModuleSource], str]:
        """Return a function that fetches the modules of one workflow, within one timeout."""
        deadline = self._clock.now() + MODULES_TIMEOUT_S

        def fetch_text(source: ModuleSource) -> str:
            if self._clock.now() > deadline:
                raise ModuleUnavailable(
                    "could not fetch the modules of a workflow", detail="it took too long"
                )
            return self._modules.text(source)

        return fetch_text

    def challenge(self, address: str = "") -> bytes:
        """Return a challenge for a provider to sign: JSON with ``message`` and a new ``nonce``.

        Args:
            address: The only wallet that may sign the challenge, lower case. Empty for any wallet.
                Each challenge is accepted once.
        """
        return make_challenge(
            self._challenge_keys[0],
            now=self._clock.now(),
            random_bytes=self._random_bytes(RANDOM_BYTES),
            address=address,
        )

    def get_sbatch(self, request: ScriptRequest) -> ScriptAnswer:
        """Return the script of a job that is matched to the caller.

        The caller may repeat the request with a new challenge.

        Raises:
            NotAllowed: If the signature, the challenge, the provider or the customer is wrong.
            ScriptUnavailable: If the script does not exist, if the job has ended, or if the job
                names another script.
            ChainUnavailable: If the chain has no such job, or the job is not matched yet.
            JobDefinitionUnavailable: If the script cannot be decrypted. The operator can fix this.
        """
        self._authenticate(request)
        job = self._matched_job(request)
        reason = denial_reason(job, request)
        if reason:
            raise NotAllowed(
                f"cannot hand out script {request.batch_location_hash[:64]!r}", detail=reason
            )
        try:
            record = self._stored_record(job, request)
        except (ConfigError, ScriptDamaged) as err:
            log.error(
                "script_unreadable",
                job_id=job.id,
                code=err.code,
                reason=str(err),
                hint=err.hint,
            )
            raise JobDefinitionUnavailable(
                "the Job Definition service could not unseal the script"
            ) from err
        log.info(
            "script_given",
            job_id=job.id,
            provider=job.provider,
            secrets_beside=request.secrets_beside,
        )
        return self._answer(json.loads(record), job, secrets_beside=request.secrets_beside)

    def _stored_record(self, job: Job, request: ScriptRequest) -> str:
        if not needs_script(job, request):
            raise ScriptUnavailable(
                f"no script for job {job.id}", detail=f"the job is {job.state.name}"
            )
        stored_script = self._keeper.find(request.batch_location_hash)
        if stored_script is None:
            raise ScriptUnavailable(
                f"no script for job {job.id}", detail="no script with this hash is stored"
            )
        if not stored_script.owner:
            raise ChainUnavailable(f"could not find the owner of the script of job {job.id}")
        if stored_script.owner != job.customer:
            log.warning(
                "script_refused",
                job_id=job.id,
                provider=job.provider,
                reason="it belongs to another customer",
            )
            raise ScriptUnavailable(
                f"no script for job {job.id}", detail="the script belongs to another customer"
            )
        return stored_script.record

    def _authenticate(self, request: ScriptRequest) -> None:
        nonce = nonce_of(request.challenge)
        expires_at = nonce_expiry(self._challenge_keys, nonce, address=request.provider)
        if expires_at is None or self._clock.now() > expires_at:
            raise NotAllowed("the challenge is unknown, too old, or made for another provider")
        try:
            signer = self._recover(request.challenge, request.signature)
        except InvalidInput as err:
            raise NotAllowed("invalid signature of the challenge", detail=str(err)) from err
        if signer != request.provider:
            raise NotAllowed("the challenge was not signed by this provider")
        if not self._nonces.mark_used(nonce, expires_at=expires_at + CLOCK_SKEW_S):
            raise NotAllowed("the challenge was used before")

    def _matched_job(self, request: ScriptRequest) -> Job:
        """Return the job of a request, if the job is not PENDING any more.

        An old supervisor sends its request as soon as its own chain node has the match. This
        service's chain node may not have the match yet, and an old supervisor fails the job if the
        request is refused. For an old supervisor, this method therefore waits for the match, unless
        too many requests are waiting already.
        """
        is_old_supervisor = not request.secrets_beside
        can_wait = is_old_supervisor and self._waiting_slots.acquire(blocking=False)
        try:
            read_count = MAX_MATCH_READS if can_wait else 1
            for _ in range(read_count):
                head = self._ledger.head()
                jobs = self._ledger.jobs([request.job_id], at_block=head)
                job = jobs.get(request.job_id)
                if job is not None and job.state is not JobState.PENDING:
                    return job
                if can_wait:
                    self._sleep(MATCH_READ_INTERVAL_S)
        finally:
            if can_wait:
                self._waiting_slots.release()
        problem = "unknown" if job is None else "not matched"
        raise ChainUnavailable(f"job {request.job_id} is {problem} at block {head.number}")

    def _answer(self, record: Mapping[str, Any], job: Job, *, secrets_beside: bool) -> ScriptAnswer:
        if not secrets_beside:
            if record["secrets"]:
                reason = "the job has secrets, and this provider cannot receive secrets"
                raise ScriptUnavailable(f"no script for job {job.id}", detail=reason)
            script = record.get("script_without_secrets", record["script"])
            return ScriptAnswer(script=script, logger_url=self._logger.url)
        variables: dict[str, bytes] = {}
        log_variables = self._logger.log_variables(job, now=self._clock.now())
        if record["logged"]:
            variables |= log_variables
        for name, text in record["secrets"].items():
            variables[name] = text.encode()
        return ScriptAnswer(
            script=record["script"],
            logger_url=self._logger.url,
            secrets=variables,
            log_write_token=log_variables["GRIDSTEAD_LOG_TOKEN"].decode(),
        )
