# SPDX-License-Identifier: Apache-2.0
"""The actions that a supervisor can perform. A plan is a sequence of actions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gridstead.domain.jobs.ids import JobKey
from gridstead.domain.jobs.job import Job
from gridstead.domain.supervisor.attempt import Attempt
from gridstead.domain.supervisor.evidence import is_cancelled_by_us
from gridstead.domain.supervisor.journal import EntryKind, JournalEntry, JournalRecord
from gridstead.domain.transactions.calls import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Put a call to the contracts into the outbox.

    The supervisor stores the call with ``Outbox.put_all``. The sender
    (``services/transactions/sender.py``) reads it in its own tick and sends it to the chain.
    """

    key: str
    call: Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Append an entry to the journal."""

    entry: JournalEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """Check the customer's gate, fetch the job's script and submit the job to Slurm.

    Unit: ``time_limit_min`` minutes.
    """

    job: Job
    time_limit_min: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Cancel a Slurm job."""

    slurm_job_id: int
    job_key: JobKey
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Extend:
    """Raise the time limit of a Slurm job after its customer paid for more time.

    Unit: ``time_limit_min`` minutes since the start of the Slurm job.
    """

    slurm_job_id: int
    job_key: JobKey
    time_limit_min: int


Action = Put | Note | Submit | Cancel | Extend


def note(
    record: JournalRecord,
    kind: EntryKind,
    *,
    occurred_at: int,
    slurm_job_id: int | None = None,
    reason: str = "",
) -> Note:
    """Return the action that appends an entry about the job of a record.

    Unit: ``occurred_at`` Unix seconds.
    """
    entry = JournalEntry(
        job_key=record.job_key,
        kind=kind,
        occurred_at=occurred_at,
        slurm_job_id=slurm_job_id,
        reason=reason,
    )
    return Note(entry=entry)


def cancel_and_note(record: JournalRecord, attempt: Attempt, reason: str) -> Iterator[Action]:
    """Yield the actions that cancel an attempt whose end is not the end of the job.

    The journal records the cancellation first. We may submit the job again later.
    """
    if not is_cancelled_by_us(attempt, record):
        yield note(
            record,
            EntryKind.CANCELLED_BY_US,
            occurred_at=attempt.submitted_at,
            slurm_job_id=attempt.slurm_job_id,
            reason=reason,
        )
    yield cancel(attempt, record.job_key, reason)


def cancel(attempt: Attempt, job_key: JobKey, reason: str) -> Cancel:
    """Return the action that cancels an attempt."""
    return Cancel(slurm_job_id=attempt.slurm_job_id, job_key=job_key, reason=reason)
