# SPDX-License-Identifier: Apache-2.0
"""The cluster agent: what the supervisor may have done to Slurm, and nothing more.

It stands between a network and SlurmUser's rights, so each request is judged as if its sender were
hostile.
Rule 1: jobs are queued for wallets only, as the wallet's own account, with their job key. Rule 2:
only a job that carries the job key that the caller names is ended or extended. Implements ports
``Scheduler`` and ``Reports``.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable

import structlog

from gridstead.domain.accounts import WalletRange
from gridstead.domain.attempt import AccountingSample, LiveSample, NodeReport
from gridstead.domain.ids import is_address, parse_job_key, parse_slurm_name
from gridstead.domain.job import Hardware
from gridstead.domain.submission import MAX_ENVIRONMENT_BYTES, MAX_SCRIPT_BYTES, Gate, Submission
from gridstead.errors import AssociationUnknown, InvalidInput, SchedulerUnavailable
from gridstead.ports import Accounts, Clock, ReportStore, Slurm

NAMES_MAX = 20_000
WAIT_MAX_S = 30.0
REASSOCIATE_EVERY_S = 60
TIME_LIMIT_MAX_MIN = 366 * 24 * 60
_COUNT_MAX = 10_000_000
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")

log = structlog.get_logger()


class Agent:
    """Judges requests and carries them out.

    Args:
        slurm: SlurmUser's hands.
        accounts: Users, directories and associations as this host sees them.
        reports: What plugins said.
        wallets: The ids that jobs may run as.
        clock: Says how long ago slurmctld was last made to read its associations.
    """

    def __init__(
        self,
        *,
        slurm: Slurm,
        accounts: Accounts,
        reports: ReportStore,
        wallets: WalletRange,
        clock: Clock,
    ) -> None:
        self._slurm = slurm
        self._accounts = accounts
        self._reports = reports
        self._wallets = wallets
        self._clock = clock
        self._reassociate_at = 0
        self._lock = threading.Lock()

    def submit(self, submission: Submission) -> int:
        """Queue an attempt if it is sound and its user is here; port Scheduler.

        Raises:
            InvalidInput: It is not sound; nothing is queued.
        """
        self._check(submission)
        user = self._accounts.user(submission.user.address)
        if user is None:
            raise SchedulerUnavailable(
                f"could not find user {submission.user.address}", detail="nothing was queued"
            )
        if user != submission.user:
            raise InvalidInput(f"user {user.address} is {user.uid}:{user.gid} here")
        self._accounts.associate(user.address)
        try:
            slurm_job_id = self._slurm.submit(submission)
        except AssociationUnknown:
            self._reassociate(user.address)
            raise
        log.info(
            "job_submitted", job_id=submission.job_key.job_id.number, slurm_job_id=slurm_job_id
        )
        return slurm_job_id

    def cancel(self, slurm_job_id: int, *, job_key: str) -> None:
        """End an attempt that carries this job key; port Scheduler."""
        if self._carries(slurm_job_id, job_key):
            self._slurm.cancel(slurm_job_id)
            log.info("job_cancelled", slurm_job_id=slurm_job_id)

    def extend(self, slurm_job_id: int, *, job_key: str, time_limit_min: int) -> None:
        """Raise the limit of an attempt that carries this job key, never lower it; port Scheduler."""
        _check_count("time limit", time_limit_min, 1, TIME_LIMIT_MAX_MIN)
        if self._carries(slurm_job_id, job_key, below_min=time_limit_min):
            self._slurm.extend(slurm_job_id, time_limit_min=time_limit_min)
            log.info("job_extended", slurm_job_id=slurm_job_id)

    def live(self) -> LiveSample:
        """Return what slurmctld lists; port Scheduler."""
        return self._slurm.live()

    def accounting(self, names: Iterable[str], *, since: int) -> AccountingSample:
        """Return what slurmdbd has under these names; port Scheduler.

        Raises:
            InvalidInput: A name is not one of a job of the grid.
        """
        wanted = sorted(set(names))
        if (
            len(wanted) > NAMES_MAX
            or any(parse_slurm_name(name) is None for name in wanted)
            or since < 0
        ):
            raise InvalidInput("invalid look-up of job names")
        return self._slurm.accounting(wanted, since=since)

    def gate(self, address: str) -> Gate:
        """Return whether a customer can run here; port Scheduler."""
        if not is_address(address):
            raise InvalidInput(f"invalid address {address[:80]!r}")
        user = self._accounts.user(address)
        if user is None:
            return Gate(user=None, missing=(f"user {address} does not resolve",))
        if not self._wallets.holds(user):
            return Gate(
                user=user, missing=(f"user {address} is {user.uid}:{user.gid}, not a wallet's ids",)
            )
        missing = self._accounts.missing_directories(user)
        if not missing:
            self._accounts.associate(address)
        return Gate(user=user, missing=missing)

    def hardware(self) -> Hardware:
        """Return the cluster's nodes; port Scheduler."""
        return self._slurm.hardware()

    def pull(self, *, after: int, wait_s: float) -> tuple[NodeReport, ...]:
        """Return what plugins said since; port Reports."""
        return self._reports.after(after, wait_s=min(max(wait_s, 0.0), WAIT_MAX_S))

    def _reassociate(self, address: str) -> None:
        """Mend a slurmctld that started while slurmdbd was down: it has its users from a file and
        never asks again.
        """
        with self._lock:
            now = self._clock.now()
            if now < self._reassociate_at:
                return
            self._reassociate_at = now + REASSOCIATE_EVERY_S
        log.warning(
            "association_unknown", address=address, action="slurmctld reads all associations anew"
        )
        self._accounts.reassociate(address)

    def _carries(self, slurm_job_id: int, job_key: str, *, below_min: int | None = None) -> bool:
        if parse_job_key(job_key) is None:
            raise InvalidInput(f"invalid job key {job_key[:200]!r}")
        found = self._slurm.find(slurm_job_id)
        if found is None or not found.alive or str(found.job_key) != job_key:
            return False
        return below_min is None or found.time_limit_min is None or found.time_limit_min < below_min

    def _check(self, submission: Submission) -> None:
        if not self._wallets.holds(submission.user):
            user = submission.user
            raise InvalidInput(
                f"cannot submit for {user.address[:80]!r}", detail=f"ids {user.uid}:{user.gid}"
            )
        if parse_job_key(str(submission.job_key)) != submission.job_key:
            raise InvalidInput("invalid job key")
        resources = submission.resources
        for what, count in (
            ("tasks", resources.tasks),
            ("CPUs per task", resources.cpus_per_task),
            ("memory per CPU", resources.memory_per_cpu_mb),
        ):
            _check_count(what, count, 1, _COUNT_MAX)
        _check_count("GPUs", resources.gpus, 0, _COUNT_MAX)
        _check_count("time limit", submission.time_limit_min, 1, TIME_LIMIT_MAX_MIN)
        _check_script(submission.script.text)
        _check_environment(submission.script.environment.items())


def _check_count(what: str, count: int, lowest: int, highest: int) -> None:
    if not lowest <= count <= highest:
        raise InvalidInput(f"{what} cannot be {count}", detail=f"from {lowest} to {highest}")


def _check_script(text: str) -> None:
    if not text.startswith("#!") or "\0" in text or len(text.encode()) > MAX_SCRIPT_BYTES:
        raise InvalidInput(
            "invalid script", detail="needs an interpreter line, no zero bytes, at most 1 MiB"
        )


def _check_environment(variables: Iterable[tuple[str, str]]) -> None:
    size = 0
    for name, value in variables:
        if (
            not _VARIABLE.fullmatch(name)
            or name.startswith(("SLURM", "SBATCH", "LD_", "SPANK"))
            or "\0" in value
        ):
            raise InvalidInput(f"invalid environment variable {name[:80]!r}")
        size += len(name) + len(value.encode()) + 2
    if size > MAX_ENVIRONMENT_BYTES:
        raise InvalidInput(
            "environment is too large", detail=f"{size} bytes, at most {MAX_ENVIRONMENT_BYTES}"
        )
