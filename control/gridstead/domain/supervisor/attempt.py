# SPDX-License-Identifier: Apache-2.0
"""One run of a job in Slurm, and the meaning of its end for the grid.

A Slurm job id is one *attempt*. After a crash of the controller a Slurm job id can disappear or be
used again. Every base state of Slurm is in one of the tables; a test compares the tables with
Slurm's list. A state that is in no table is an error.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridstead.domain.jobs.ids import JobKey
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.errors import UnexpectedOutput

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
        slurm_job_id: Slurm's id. It is not unique over time.
        name: The name of the Slurm job. Untrusted: its user can change it.
        job_key: The job key in its AdminComment. None if it has none.
        user: The name of its Linux user. For jobs of the grid this is the customer's address.
        state: Slurm's base state, upper case, one of ALIVE_STATES or END_STATES.
        submitted_at: Unix seconds.
        started_at: Unix seconds. None if it never started.
        ended_at: Unix seconds. None while it is alive.
        suspended_s: Time that it was suspended, seconds.
        exit_code: Wait status (code << 8 | signal).
        time_limit_min: Its time limit, minutes. None if it has none or if it is not known.
        uid: Its Linux user id. None if it is not known.
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

    @property
    def is_alive(self) -> bool:
        """Whether it is running or may still run."""
        return self.state in ALIVE_STATES

    @property
    def has_started(self) -> bool:
        """Whether its script has started."""
        if self.is_alive:
            return self.state in STARTED_STATES and self.started_at is not None
        return self.started_at is not None and self.ended_at is not None and self.ended_at > 0

    @property
    def elapsed_s(self) -> int:
        """Seconds from start to end without suspensions, as sacct's ElapsedRaw.

        0 if it has not started or not ended.
        """
        if self.started_at is None or self.ended_at is None:
            return 0
        return max(0, self.ended_at - self.started_at - self.suspended_s)


def check_state(state: str, *, source: str) -> str:
    """Return the base state of a state that Slurm prints.

    Args:
        state: The printed state. A suffix, as in ``CANCELLED by 1000``, is removed.
        source: The command that printed it, for the error.

    Raises:
        UnexpectedOutput: If the base state is in no table.
    """
    base = state.split(" ", 1)[0].rstrip("+")
    if base not in ALIVE_STATES and base not in END_STATES:
        raise UnexpectedOutput(source, state)
    return base


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSample:
    """All jobs that slurmctld lists: those that are alive, and those that ended within MinJobAge.

    Unit: ``taken_at`` Unix seconds.
    """

    taken_at: int
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingSample:
    """All records of slurmdbd for some job names, including duplicates.

    Attributes:
        taken_at: Unix seconds.
        is_complete: Whether the queue from slurmctld to slurmdbd was empty. If it was, a job that
            is not in the records does not exist.
        attempts: Not sorted. If a record says that its job is alive, that state is ignored,
            because only slurmctld knows which jobs are alive.
    """

    taken_at: int
    is_complete: bool
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """A report of a node or of slurmctld about an attempt. It is a hint and can only lower a bill.

    Attributes:
        sequence: Its sequence number at the agent, increasing.
        event: ``start`` or ``end`` of the batch step, or ``record`` for a line of the job
            completion spool.
        slurm_job_id: Slurm's id.
        uid: The Linux user id of the attempt.
        occurred_at: Unix seconds by the clock of the node.
    """

    sequence: int
    event: str
    slurm_job_id: int
    uid: int
    occurred_at: int
