# SPDX-License-Identifier: Apache-2.0
"""Attempts, samples of attempts, and the meaning of Slurm's job states for the grid.

An *attempt* is one Slurm job that runs a job of the grid. After a crash of slurmctld, a Slurm job
id can disappear or be assigned again.

ALIVE_STATES and END_STATES together contain every base state of Slurm. A test compares the two sets
with Slurm's own list. If Slurm prints a state that is in neither set, the program raises an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gridstead.domain.jobs.ids import JobKey
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.errors import UnexpectedOutput

OUT_OF_MEMORY_SIGNAL = 125  # in the wait status of a step that exceeded its memory

ALIVE_STATES = frozenset(
    {
        "PENDING",
        "RUNNING",
        "SUSPENDED",
        "COMPLETING",
        "CONFIGURING",
        "RESIZING",
        "REQUEUED",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "RESV_DEL_HOLD",
        "SIGNALING",
        "SPECIAL_EXIT",
        "STAGE_OUT",
        "STOPPED",
        "POWER_UP_NODE",
    }
)
STARTED_STATES = frozenset(
    {"RUNNING", "SUSPENDED", "COMPLETING", "SIGNALING", "STAGE_OUT", "STOPPED"}
)

END_STATES: dict[str, JobState] = {
    "COMPLETED": JobState.FINISHED,
    "FAILED": JobState.FAILED,
    "OUT_OF_MEMORY": JobState.FAILED,
    "DEADLINE": JobState.FAILED,
    "TIMEOUT": JobState.OUT_OF_CREDITS,
    "CANCELLED": JobState.CANCELLED,
    "NODE_FAIL": JobState.PANICKED,
    "BOOT_FAIL": JobState.PANICKED,
    "PREEMPTED": JobState.PANICKED,
    "REVOKED": JobState.PANICKED,
    "LAUNCH_FAILED": JobState.PANICKED,
    "RECONFIG_FAIL": JobState.PANICKED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A Slurm job.

    Attributes:
        slurm_job_id: Slurm's id. Slurm may assign it again later.
        name: The name of the Slurm job. Untrusted, because its user can change it.
        job_key: The job key in the AdminComment. None if the AdminComment is not a job key.
        user: The name of the Linux user. For jobs of the grid this is the customer's address.
        state: Slurm's base state, upper case, one of ALIVE_STATES or END_STATES.
        submitted_at: Unix seconds.
        started_at: Unix seconds. None if the Slurm job has not started.
        ended_at: Unix seconds. None while the Slurm job is alive.
        suspended_s: How long the Slurm job was suspended, seconds.
        exit_code: The wait status (code << 8 | signal).
        time_limit_min: The time limit, minutes. None if the limit is unknown or does not exist.
        uid: The Linux user id. None if the id is unknown.
        is_step_out_of_memory: Whether Slurm killed a step because it exceeded its memory. The job
            itself then usually fails with an exit code.
        failed_step: The number of the step with which the job failed. Steps are counted from 1, in
            the order in which Slurm created them. None if no step has the exit code of the job.
    """

    slurm_job_id: int
    name: str
    job_key: JobKey | None
    user: str
    state: str
    submitted_at: int
    started_at: int | None = None
    ended_at: int | None = None
    suspended_s: int = 0
    exit_code: int = 0
    time_limit_min: int | None = None
    uid: int | None = None
    is_step_out_of_memory: bool = False
    failed_step: int | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the Slurm job is running or may still run."""
        return self.state in ALIVE_STATES

    @property
    def has_started(self) -> bool:
        """Whether the script of the Slurm job has started."""
        if self.is_alive:
            return self.state in STARTED_STATES and self.started_at is not None
        return self.started_at is not None and self.ended_at is not None and self.ended_at > 0

    @property
    def elapsed_s(self) -> int:
        """Seconds from start to end, minus the suspended time. Equals ElapsedRaw of sacct.

        The value is 0 before the start and before the end.
        """
        if self.started_at is None or self.ended_at is None:
            return 0
        return max(0, self.ended_at - self.started_at - self.suspended_s)


def parse_base_state(state: str, *, source: str) -> str:
    """Return the base state of a state that Slurm printed.

    Args:
        state: The printed state. A suffix, as in ``CANCELLED by 1000``, is removed.
        source: The command that printed the state, for the error message.

    Raises:
        UnexpectedOutput: If the base state is neither in ALIVE_STATES nor in END_STATES.
    """
    base = state.split(" ", 1)[0].rstrip("+")
    if base not in ALIVE_STATES and base not in END_STATES:
        raise UnexpectedOutput(source, state)
    return base


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSample:
    """All jobs that slurmctld lists: live jobs, and jobs that ended within MinJobAge.

    Attributes:
        taken_at: Unix seconds.
        attempts: The jobs, not sorted.
        by_job_key: The jobs that have a job key, by their job key.
    """

    taken_at: int
    attempts: tuple[Attempt, ...]
    by_job_key: Mapping[JobKey, Sequence[Attempt]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_job_key", _group_by_job_key(self.attempts))


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingSample:
    """All records of slurmdbd for some Slurm job names, including duplicates.

    Attributes:
        taken_at: Unix seconds.
        is_complete: Whether the queue from slurmctld to slurmdbd was empty. If the queue was empty,
            every ended job has a record.
        attempts: The records, not sorted. Ignore a live state in a record, because only slurmctld
            knows which jobs are alive.
        by_job_key: The records that have a job key, by their job key.
    """

    taken_at: int
    is_complete: bool
    attempts: tuple[Attempt, ...]
    by_job_key: Mapping[JobKey, Sequence[Attempt]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_job_key", _group_by_job_key(self.attempts))


def _group_by_job_key(attempts: Iterable[Attempt]) -> Mapping[JobKey, Sequence[Attempt]]:
    """Return the attempts that have a job key, by their job key."""
    groups: dict[JobKey, list[Attempt]] = {}
    for attempt in attempts:
        if attempt.job_key is not None:
            groups.setdefault(attempt.job_key, []).append(attempt)
    return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """A report about an attempt, from a node or from slurmctld.

    The supervisor uses a report to lower a bill, and never to raise a bill.

    Attributes:
        sequence: The sequence number that the agent assigned to the report.
        event: ``start`` or ``end`` of the batch step, ``pre_hook_failed`` before the batch step, or
            ``record`` for a line of the job completion spool.
        slurm_job_id: Slurm's id of the attempt.
        uid: The Linux user id of the attempt.
        occurred_at: The time of the event by the clock of the node, Unix seconds.
    """

    sequence: int
    event: str
    slurm_job_id: int
    uid: int
    occurred_at: int
