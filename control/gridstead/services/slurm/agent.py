# SPDX-License-Identifier: Apache-2.0
"""The cluster agent performs only those operations on Slurm that the supervisor needs.

The agent has the rights of SlurmUser and accepts requests from a network. So it checks each request
as if the sender were hostile.

Rule 1: a job is submitted only for a wallet user, under that user's Linux account, with a job key.
Rule 2: a job is cancelled or extended only if its job key equals the job key in the request.

The agent implements the ports ``Scheduler`` and ``Reports``. ``rpc/slurm.py`` parses the job keys
and the Slurm job names in the requests, and refuses malformed keys and names.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable

import structlog

from gridstead.domain.jobs.ids import JobKey, is_address
from gridstead.domain.jobs.job import Hardware
from gridstead.domain.supervisor.attempt import (
    AccountingSample,
    Attempt,
    ControllerSample,
    NodeReport,
)
from gridstead.domain.supervisor.submission import (
    MAX_ENVIRONMENT_BYTES,
    MAX_SCRIPT_BYTES,
    Gate,
    Submission,
)
from gridstead.domain.users.accounts import WalletIdRange
from gridstead.errors import AssociationUnknown, InvalidInput, SchedulerUnavailable
from gridstead.ports import Accounts, Clock, ReportStore, Slurm

MAX_NAMES = 20_000
MAX_WAIT_S = 30.0
REASSOCIATION_INTERVAL_S = 60
MAX_TIME_LIMIT_MIN = 366 * 24 * 60
_MAX_COUNT = 10_000_000
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")

log = structlog.get_logger()


class Agent:
    """Checks requests and performs them.

    Args:
        slurm: Slurm, with the rights of SlurmUser.
        accounts: Users, directories and associations on this host.
        reports: The store of the plugins' reports.
        wallet_ids: The uids and the gid with which jobs may run.
        clock: Wall time, to limit how often slurmctld is made to read associations again.
    """

    def __init__(
        self,
        *,
        slurm: Slurm,
        accounts: Accounts,
        reports: ReportStore,
        wallet_ids: WalletIdRange,
        clock: Clock,
    ) -> None:
        self._slurm = slurm
        self._accounts = accounts
        self._reports = reports
        self._wallet_ids = wallet_ids
        self._clock = clock
        self._reassociated_at: int | None = None
        self._reassociation_lock = threading.Lock()

    def submit(self, submission: Submission) -> int:
        """Submit a job and return its Slurm job id (port Scheduler).

        Raises:
            InvalidInput: If the submission is invalid. Nothing was submitted.
            SchedulerUnavailable: If the user name does not resolve, or as port Scheduler describes.
        """
        self._check_submission(submission)
        user = self._accounts.user(submission.user.address)
        if user is None:
            raise SchedulerUnavailable(
                f"could not find user {submission.user.address}", detail="nothing was submitted"
            )
        if user != submission.user:
            raise InvalidInput(f"user {user.address} has ids {user.uid}:{user.gid} on this host")
        self._accounts.associate(user.address)
        try:
            slurm_job_id = self._slurm.submit(submission)
        except AssociationUnknown:
            self._reassociate(user.address)
            raise
        log.info("job_submitted", job_id=submission.job_key.job_id, slurm_job_id=slurm_job_id)
        return slurm_job_id

    def cancel(self, slurm_job_id: int, *, job_key: JobKey) -> None:
        """Cancel a Slurm job if it has this job key (port Scheduler)."""
        if self._find(slurm_job_id, job_key) is not None:
            self._slurm.cancel(slurm_job_id)
            log.info("job_cancelled", slurm_job_id=slurm_job_id)

    def extend(self, slurm_job_id: int, *, job_key: JobKey, time_limit_min: int) -> None:
        """Raise the time limit of a Slurm job if it has this job key (port Scheduler).

        A time limit is never lowered.

        Raises:
            InvalidInput: If the time limit is out of bounds.
        """
        _check_count("time limit", time_limit_min, 1, MAX_TIME_LIMIT_MIN)
        attempt = self._find(slurm_job_id, job_key)
        if attempt is None:
            return
        if attempt.time_limit_min is None or attempt.time_limit_min < time_limit_min:
            self._slurm.extend(slurm_job_id, time_limit_min=time_limit_min)
            log.info("job_extended", slurm_job_id=slurm_job_id)

    def list_jobs(self) -> ControllerSample:
        """Return the jobs that slurmctld lists (port Scheduler)."""
        return self._slurm.list_jobs()

    def list_records(self, names: Iterable[str], *, since: int) -> AccountingSample:
        """Return slurmdbd's records of the Slurm jobs with these names.

        The parameters differ from those of port Accounting, because a request contains only job
        names.

        Raises:
            InvalidInput: If there are too many names, or the time is negative.
        """
        job_names = sorted(set(names))
        if len(job_names) > MAX_NAMES or since < 0:
            raise InvalidInput("invalid query for job names")
        return self._slurm.list_records(job_names, since=since)

    def check_gate(self, address: str) -> Gate:
        """Return whether jobs of this customer can run on the cluster (port Scheduler).

        Raises:
            InvalidInput: If the address is malformed.
        """
        if not is_address(address):
            raise InvalidInput(f"invalid address {address[:80]!r}")
        user = self._accounts.user(address)
        if user is None:
            return Gate(user=None, missing=(f"user {address} does not resolve",))
        if not self._wallet_ids.contains(user):
            reason = f"ids {user.uid}:{user.gid} of user {address} are not in the wallet range"
            return Gate(user=user, missing=(reason,))
        missing_directories = self._accounts.missing_directories(user)
        if not missing_directories:
            self._accounts.associate(address)
        return Gate(user=user, missing=missing_directories)

    def hardware(self) -> Hardware:
        """Return the nodes of the cluster (port Scheduler)."""
        return self._slurm.hardware()

    def free_nodes(self) -> Hardware:
        """Return the free resources of the nodes that accept jobs (port Scheduler)."""
        return self._slurm.free_nodes()

    def pull(self, *, after: int, wait_s: float) -> tuple[NodeReport, ...]:
        """Return the plugins' reports after a sequence number (port Reports)."""
        bounded_wait_s = min(max(wait_s, 0.0), MAX_WAIT_S)
        return self._reports.list_after(after, wait_s=bounded_wait_s)

    def _reassociate(self, address: str) -> None:
        """Make slurmctld read its associations again, at most once a minute.

        A slurmctld that starts while slurmdbd is down reads the associations from a file. Later it
        never reads them from slurmdbd by itself.
        """
        with self._reassociation_lock:
            now = self._clock.now()
            previous_at = self._reassociated_at
            # The age is negative after the clock was set back.
            if previous_at is not None and 0 <= now - previous_at < REASSOCIATION_INTERVAL_S:
                return
            self._reassociated_at = now
        log.warning(
            "association_unknown", address=address, action="slurmctld reads all associations again"
        )
        self._accounts.reassociate(address)

    def _find(self, slurm_job_id: int, job_key: JobKey) -> Attempt | None:
        """Return the live Slurm job with this id and job key. Returns None if no job has both."""
        attempt = self._slurm.find(slurm_job_id)
        if attempt is None or not attempt.is_alive or attempt.job_key != job_key:
            return None
        return attempt

    def _check_submission(self, submission: Submission) -> None:
        """Raise InvalidInput if a submission is invalid."""
        if not self._wallet_ids.contains(submission.user):
            user = submission.user
            raise InvalidInput(
                f"cannot submit for {user.address[:80]!r}", detail=f"ids {user.uid}:{user.gid}"
            )
        resources = submission.resources
        _check_count("tasks", resources.tasks, 1, _MAX_COUNT)
        _check_count("CPUs per task", resources.cpus_per_task, 1, _MAX_COUNT)
        _check_count("memory per CPU", resources.memory_per_cpu_mb, 1, _MAX_COUNT)
        _check_count("GPUs", resources.gpus, 0, _MAX_COUNT)
        _check_count("time limit", submission.time_limit_min, 1, MAX_TIME_LIMIT_MIN)
        _check_script(submission.script.text)
        _check_environment(submission.script.environment.items())


def _check_count(name: str, count: int, minimum: int, maximum: int) -> None:
    if not minimum <= count <= maximum:
        raise InvalidInput(
            f"{name} cannot be {count}", detail=f"must be from {minimum} to {maximum}"
        )


def _check_script(text: str) -> None:
    has_interpreter = text.startswith("#!")
    is_too_large = len(text.encode()) > MAX_SCRIPT_BYTES
    if not has_interpreter or is_too_large or "\0" in text:
        raise InvalidInput(
            "invalid script", detail="must have an interpreter line, no null bytes, at most 1 MiB"
        )


def _check_environment(variables: Iterable[tuple[str, str]]) -> None:
    size = 0
    for name, value in variables:
        is_reserved = name.startswith(("SLURM", "SBATCH", "LD_", "SPANK"))
        if not _VARIABLE_NAME.fullmatch(name) or is_reserved or "\0" in value:
            raise InvalidInput(f"invalid environment variable {name[:80]!r}")
        size += len(name) + len(value.encode()) + 2  # the equals sign and the null byte
    if size > MAX_ENVIRONMENT_BYTES:
        raise InvalidInput(
            "the environment is too large", detail=f"{size} bytes, at most {MAX_ENVIRONMENT_BYTES}"
        )
