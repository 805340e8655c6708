# SPDX-License-Identifier: Apache-2.0
"""The journal of a supervisor: its entries, and the records of jobs that are computed from them.

The supervisor replays the entries of a job to get the record of the job. It writes one entry before
it starts a submission (SUBMIT_INTENDED), and another entry when the result is known. If it crashes
between the two entries, the journal shows a submission with an unknown result.

In this module "us" means the provider of this supervisor.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import assert_never

from gridstead.domain.jobs.ids import JobKey


class EntryKind(Enum):
    """The kind of a journal entry.

    Attributes:
        CLAIMED: The job is claimed by us on the chain.
        SUBMIT_INTENDED: A submission is about to start.
        SUBMITTED: Slurm has the job. Uses ``slurm_job_id``.
        SUBMIT_REJECTED: Slurm refused the submission. Uses ``reason``.
        SCRIPT_UNAVAILABLE: The job cannot run, because it has no script. Uses ``reason``.
        SEEN: Slurm still lists the job some seconds after its submission. Uses ``slurm_job_id``.
        ABSENT: A sample of Slurm's jobs does not contain the job.
        PRESENT: A sample contains the job again. Earlier absences do not count.
        CANCELLED_BY_US: We cancelled the Slurm job, because the job was not claimed by us on the
            chain, or because its customer cancelled it before the Slurm job started. Uses
            ``slurm_job_id``; ``occurred_at`` is the time of the submission.
        IMPOSTOR: A Slurm job has the job key but does not belong to the job. Uses ``reason``.
        CLOSED: The supervisor has nothing more to do for the job.
    """

    CLAIMED = "claimed"
    SUBMIT_INTENDED = "submit_intended"
    SUBMITTED = "submitted"
    SUBMIT_REJECTED = "submit_rejected"
    SCRIPT_UNAVAILABLE = "script_unavailable"
    SEEN = "seen"
    ABSENT = "absent"
    PRESENT = "present"
    CANCELLED_BY_US = "cancelled_by_us"
    IMPOSTOR = "impostor"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """An entry of the journal. Unit: ``occurred_at`` Unix seconds."""

    job_key: JobKey
    kind: EntryKind
    occurred_at: int
    slurm_job_id: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRecord:
    """The state of one job, computed from its journal entries. Times are Unix seconds.

    Attributes:
        job_key: The key of the job.
        claimed_at: When the job was claimed by us. None if the journal has no claim.
        attempt_count: How many submissions are known to have reached Slurm, except those that we
            cancelled.
        submit_intended_at: When the last submission was started. None if none was started.
        slurm_job_id: The Slurm job id of the last submission. None while its result is unknown.
        rejection_reason: Why Slurm refused the last submission. Empty if Slurm did not refuse it.
        rejected_at: When Slurm last refused a submission. None if Slurm has refused none.
        rejection_count: How many submissions Slurm refused.
        unrunnable_reason: Why the job cannot run. Empty if the job can run.
        is_durable: Whether slurmctld listed the last submission after slurmctld had saved its own
            state.
        cancelled_by_us: (Slurm job id, submission time) of each attempt that we cancelled. The end
            of such an attempt is not the end of the job.
        absent_since: The time of the first sample without the job since the last sample with it.
            None if the last sample contained the job.
        is_closed: Whether the supervisor has nothing more to do for the job.
    """

    job_key: JobKey
    claimed_at: int | None = None
    attempt_count: int = 0
    submit_intended_at: int | None = None
    slurm_job_id: int | None = None
    rejection_reason: str = ""
    rejected_at: int | None = None
    rejection_count: int = 0
    unrunnable_reason: str = ""
    is_durable: bool = False
    cancelled_by_us: frozenset[tuple[int, int]] = frozenset()
    absent_since: int | None = None
    is_closed: bool = False


def apply(  # noqa: C901 # one exhaustive match over the kinds
    record: JournalRecord, entry: JournalEntry
) -> JournalRecord:
    """Return the record after one more entry."""
    occurred_at = entry.occurred_at
    match entry.kind:
        case EntryKind.CLAIMED:
            return replace(record, claimed_at=record.claimed_at or occurred_at)
        case EntryKind.SUBMIT_INTENDED:
            return _with_intention(record, occurred_at)
        case EntryKind.SUBMITTED:
            return _with_submission(record, entry)
        case EntryKind.SUBMIT_REJECTED:
            return _with_rejection(record, entry)
        case EntryKind.SCRIPT_UNAVAILABLE:
            return replace(record, unrunnable_reason=entry.reason or "no script")
        case EntryKind.SEEN:
            return replace(_with_submission(record, entry), is_durable=True, absent_since=None)
        case EntryKind.CANCELLED_BY_US:
            return _with_cancellation(record, entry)
        case EntryKind.ABSENT:
            # After the clock was set back, a later entry can have an earlier time. The earlier time
            # counts.
            absent_since = min(record.absent_since or occurred_at, occurred_at)
            return replace(record, absent_since=absent_since)
        case EntryKind.PRESENT:
            return replace(record, absent_since=None)
        case EntryKind.IMPOSTOR:
            return record
        case EntryKind.CLOSED:
            return replace(record, is_closed=True)
        case _:
            assert_never(entry.kind)


def _with_intention(record: JournalRecord, occurred_at: int) -> JournalRecord:
    """Return the record after the supervisor started a submission."""
    return replace(
        record,
        submit_intended_at=occurred_at,
        slurm_job_id=None,
        is_durable=False,
        absent_since=None,
        rejection_reason="",
    )


def _with_rejection(record: JournalRecord, entry: JournalEntry) -> JournalRecord:
    """Return the record after Slurm refused a submission."""
    return replace(
        record,
        rejection_reason=entry.reason or "rejected",
        rejected_at=entry.occurred_at,
        rejection_count=record.rejection_count + 1,
    )


def _with_submission(record: JournalRecord, entry: JournalEntry) -> JournalRecord:
    """Return the record after Slurm accepted a submission.

    A Slurm job id that differs from the last one counts as a new attempt.
    """
    attempt_count = record.attempt_count
    if entry.slurm_job_id != record.slurm_job_id:
        attempt_count += 1
    return replace(record, slurm_job_id=entry.slurm_job_id, attempt_count=attempt_count)


def _with_cancellation(record: JournalRecord, entry: JournalEntry) -> JournalRecord:
    """Return the record after we cancelled an attempt whose end is not the end of the job.

    Slurm did not lose this attempt, so it does not count.
    """
    cancelled_attempt = (entry.slurm_job_id or 0, entry.occurred_at)
    attempt_count = record.attempt_count
    is_new = cancelled_attempt not in record.cancelled_by_us
    if is_new and entry.slurm_job_id == record.slurm_job_id:
        attempt_count -= 1
    return replace(
        record,
        attempt_count=attempt_count,
        cancelled_by_us=record.cancelled_by_us | {cancelled_attempt},
    )


@dataclass(slots=True)
class JournalRecords:
    """The records of all open jobs, updated with each entry.

    The attempts that we cancelled are remembered after a job is closed. If we claim the job again,
    the end of such an attempt is still not the end of the job.
    """

    by_job_key: dict[JobKey, JournalRecord] = field(default_factory=dict)
    _cancelled_by_us: dict[JobKey, frozenset[tuple[int, int]]] = field(default_factory=dict)

    def extend(self, entries: Iterable[JournalEntry]) -> None:
        """Apply entries in order.

        A CLOSED entry removes the record of the job. A CANCELLED_BY_US entry creates no record.
        """
        for entry in entries:
            job_key = entry.job_key
            old_record = self.by_job_key.get(job_key)
            record = apply(old_record or self._new_record(job_key), entry)
            if record.cancelled_by_us:
                self._cancelled_by_us[job_key] = record.cancelled_by_us
            if record.is_closed:
                self.by_job_key.pop(job_key, None)
            elif old_record is not None or entry.kind is not EntryKind.CANCELLED_BY_US:
                self.by_job_key[job_key] = record

    def _new_record(self, job_key: JobKey) -> JournalRecord:
        cancelled_by_us = self._cancelled_by_us.get(job_key, frozenset())
        return JournalRecord(job_key=job_key, cancelled_by_us=cancelled_by_us)
