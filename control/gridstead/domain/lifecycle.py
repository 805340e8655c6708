# SPDX-License-Identifier: Apache-2.0
"""The life of a job as a table.

Rule 1: a move that is not in LEGAL is illegal. Rule 2: a cold state is never left. The same table
stands in contracts/src/libraries/Lifecycle.sol; a test compares them for all pairs.

PENDING waits for a provider; META_SCHEDULED is matched to one; SCHEDULED is claimed by it; RUNNING
runs in Slurm. The other five are cold: the money is settled.
"""

from __future__ import annotations

from enum import IntEnum


class JobState(IntEnum):
    """The states of a job; the numbers are the contract's."""

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

LEGAL: dict[JobState, frozenset[JobState]] = {
    _S.PENDING: frozenset({_S.META_SCHEDULED, _S.CANCELLED, _S.PANICKED}),
    _S.META_SCHEDULED: frozenset({_S.PENDING, _S.SCHEDULED, _S.CANCELLED, _S.PANICKED}),
    _S.SCHEDULED: frozenset({_S.PENDING, _S.RUNNING, _S.CANCELLED, _S.FAILED, _S.PANICKED}),
    _S.RUNNING: frozenset({_S.CANCELLED, _S.FINISHED, _S.FAILED, _S.OUT_OF_CREDITS, _S.PANICKED}),
    **{state: frozenset() for state in COLD},
}


def is_legal(from_state: JobState, to_state: JobState) -> bool:
    """Return whether a job may move from one state to the other."""
    return to_state in LEGAL[from_state]
