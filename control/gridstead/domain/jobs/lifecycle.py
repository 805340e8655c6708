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


_S = JobState

HOT = frozenset({_S.PENDING, _S.META_SCHEDULED, _S.SCHEDULED, _S.RUNNING})
COLD = frozenset(_S) - HOT

LEGAL_TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    _S.PENDING: frozenset({_S.META_SCHEDULED, _S.CANCELLED, _S.PANICKED}),
    _S.META_SCHEDULED: frozenset({_S.PENDING, _S.SCHEDULED, _S.CANCELLED, _S.PANICKED}),
    _S.SCHEDULED: frozenset({_S.PENDING, _S.RUNNING, _S.CANCELLED, _S.FAILED, _S.PANICKED}),
    _S.RUNNING: frozenset({_S.CANCELLED, _S.FINISHED, _S.FAILED, _S.OUT_OF_CREDITS, _S.PANICKED}),
    **{state: frozenset() for state in COLD},
}


def is_legal(from_state: JobState, to_state: JobState) -> bool:
    """Return whether a job may change from ``from_state`` to ``to_state``."""
    return to_state in LEGAL_TRANSITIONS[from_state]
