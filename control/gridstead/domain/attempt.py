# SPDX-License-Identifier: Apache-2.0
"""One run of a job in Slurm, as Slurm tells it, and what its end means for the grid.

A Slurm job id is one *attempt*: it can vanish or be used again after a crash of the controller.
Every base state of Slurm is in one of the tables; a test compares them with Slurm's own list. A
state that is in none is an error.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridstead.domain.ids import JobKey
from gridstead.domain.lifecycle import JobState
from gridstead.errors import UnexpectedOutput

ALIVE_STATES = frozenset(
    {"PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING", "REQUEUED", "REQUEUE_FED",
     "REQUEUE_HOLD", "RESV_DEL_HOLD", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "POWER_UP_NODE"}
)  # fmt: skip
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
        slurm_job_id: Slurm's id; not a key.
        name: Slurm job name. Untrusted: its user can change it.
        job key: What its AdminComment proves; None if it proves nothing.
        user: Linux user name; the customer's address for our jobs.
        state: Slurm's base state, upper case, one of ALIVE_STATES or END_STATES.
        submitted_at: Unix seconds.
        started_at: Unix seconds; None if it never started.
        ended_at: Unix seconds; None while it is alive.
        suspended_s: Seconds it was suspended.
        exit_code: Wait status (code << 8 | signal).
        time_limit_min: Its limit, minutes; None if it has none or the source does not tell.
        uid: Linux uid that it runs as; None if the source does not tell.
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
    def alive(self) -> bool:
        """Whether it may still run or is running."""
        return self.state in ALIVE_STATES

    @property
    def started(self) -> bool:
        """Whether its script has run or runs."""
        if self.alive:
            return self.state in STARTED_STATES and self.started_at is not None
        return self.started_at is not None and self.ended_at is not None and self.ended_at > 0

    @property
    def elapsed_s(self) -> int:
        """Seconds from start to end without suspension, as sacct's ElapsedRaw; 0 if it never
        started or never ended.
        """
        if self.started_at is None or self.ended_at is None:
            return 0
        return max(0, self.ended_at - self.started_at - self.suspended_s)


def check_state(state: str, *, source: str) -> str:
    """Return a base state of Slurm that is in one of the tables.

    Args:
        state: As Slurm writes it; a suffix such as ``CANCELLED by 1000`` is dropped.
        source: The command, for the error.

    Raises:
        UnexpectedOutput: If no table has it.
    """
    base = state.split(" ", 1)[0].rstrip("+")
    if base not in ALIVE_STATES and base not in END_STATES:
        raise UnexpectedOutput(source, state)
    return base


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSample:
    """All jobs that slurmctld lists at one moment: alive, and ended within its MinJobAge. Unit:
    Unix seconds.
    """

    taken_at: int
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingSample:
    """All records of slurmdbd for the names that were asked, duplicates included.

    Attributes:
        taken_at: Unix seconds.
        complete: The queue from slurmctld to slurmdbd was empty, so what is not here did not
            happen.
        attempts: Unsorted. Alive states here are not believed: slurmctld knows better.
    """

    taken_at: int
    complete: bool
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """What a node or slurmctld said of an attempt: a hint, and at most a reason to bill less.

    Attributes:
        sequence: Position in the agent's stream, growing.
        event: ``start`` or ``end`` of the batch step, or ``record`` for a line of the job
            completion spool.
        slurm_job_id: Slurm's id.
        uid: Linux uid that the attempt ran as.
        at: Unix seconds, the node's clock.
    """

    sequence: int
    event: str
    slurm_job_id: int
    uid: int
    occurred_at: int
