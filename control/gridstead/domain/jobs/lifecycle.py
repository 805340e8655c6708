# SPDX-License-Identifier: Apache-2.0
"""The states of a job and the transitions between them.

A PENDING job waits for a provider. A META_SCHEDULED job is matched to a provider. A SCHEDULED job
is claimed by the provider. A RUNNING job runs in Slurm. These states are *hot*. The other five
states are *cold*: the job is settled.

Rule 1: only the transitions in the table LEGAL_TRANSITIONS are legal.
Rule 2: a job never leaves a cold state.
The contracts have the same table in contracts/src/libraries/Lifecycle.sol. A test compares the two
tables for all pairs of states.
"""

from __future__ import annotations

from enum import IntEnum


class JobState(IntEnum):
    """The states of a job, with the numbers that the contracts use."""

    PENDING = 0
    META_SCHEDULED = 1
    SCHEDULED = 2
    RUNNING = 3
    CANCELLED = 4
    FINISHED = 5
    FAILED = 6
    OUT_OF_CREDITS = 7
    PANICKED = 8


HOT = frozenset({JobState.PENDING, JobState.META_SCHEDULED, JobState.SCHEDULED, JobState.RUNNING})
COLD = frozenset(JobState) - HOT

LEGAL_TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.PENDING: frozenset({JobState.META_SCHEDULED, JobState.CANCELLED, JobState.PANICKED}),
    JobState.META_SCHEDULED: frozenset(
        {JobState.PENDING, JobState.SCHEDULED, JobState.CANCELLED, JobState.PANICKED}
    ),
    JobState.SCHEDULED: frozenset(
        {JobState.PENDING, JobState.RUNNING, JobState.CANCELLED, JobState.FAILED, JobState.PANICKED}
    ),
    JobState.RUNNING: frozenset(
        {
            JobState.CANCELLED,
            JobState.FINISHED,
            JobState.FAILED,
            JobState.OUT_OF_CREDITS,
            JobState.PANICKED,
        }
    ),
    **{state: frozenset() for state in COLD},
}


def is_legal(from_state: JobState, to_state: JobState) -> bool:
    """Return whether a job may change from ``from_state`` to ``to_state``."""
    return to_state in LEGAL_TRANSITIONS[from_state]
