# SPDX-License-Identifier: Apache-2.0
"""The journal of a supervisor: its entries, and the record of a job that follows from them.

Replaying the entries of a job gives its record. One entry is written before a submission is started
(*intended*), and another one when its result is known. After a crash between the two the result is
unknown, but the journal is never wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import assert_never

from gridstead.domain.jobs.ids import JobKey


class EntryKind(Enum):
    """The kind of a journal entry. The comments name the fields that an entry uses."""

    CLAIMED = "claimed"  # the chain has the job as claimed by us
    SUBMIT_INTENDED = "submit_intended"  # a submission is about to start
    SUBMITTED = "submitted"  # slurm_job_id
    SUBMIT_REJECTED = "submit_rejected"  # reason: why Slurm refused the submission
    SCRIPT_UNAVAILABLE = "script_unavailable"  # reason: why the job cannot be run
    SEEN = "seen"  # slurm_job_id: Slurm still lists it some seconds after its submission
    ABSENT = "absent"  # the first sample without the job
    PRESENT = "present"  # the job is in a sample again; an earlier absence does not count
    # slurm_job_id; occurred_at is the time of its submission. We cancelled the Slurm job because
    # the chain did not have the job as claimed by us.
    CANCELLED_BY_US = "cancelled_by_us"
    IMPOSTOR = "impostor"  # reason: a Slurm job has the job key but does not belong to the job
    CLOSED = "closed"  # nothing remains to do


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """An entry of the journal. Units: ``occurred_at`` Unix seconds."""

    job_key: JobKey
    kind: EntryKind
    occurred_at: int
    slurm_job_id: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRecord:
    """The state of one job that follows from its entries. Times are Unix seconds.

    Attributes:
        job_key: The job.
        claimed_at: When we first saw it as claimed by us. None if we never did.
        attempt_count: How many submissions are known to have reached Slurm.
        submit_intended_at: When the last submission was started. None if none was.
        slurm_job_id: The Slurm job id of the last submission. None while its result is not known.
        rejection_reason: Why Slurm refused the last submission. Empty if it did not.
        rejected_at: When Slurm last refused a submission. None if it never did.
        rejection_count: How many submissions Slurm refused.
        unrunnable_reason: Why the job cannot run. Empty if it can.
        is_durable: Whether slurmctld still listed the last submission after it was durable there.
        cancelled_by_us: (Slurm job id, submission time) of the attempts that we cancelled. Their
            end is not the end of the job.
        absent_since: The first of the last consecutive samples without the job. None if the last
            sample had it.
        is_closed: Whether nothing remains to do.
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
    time = entry.occurred_at
    match entry.kind:
        case EntryKind.CLAIMED:
            return replace(record, claimed_at=record.claimed_at or time)
        case EntryKind.SUBMIT_INTENDED:
            return _with_intention(record, time)
        case EntryKind.SUBMITTED:
            return _with_submission(record, entry)
        case EntryKind.SUBMIT_REJECTED:
            return _with_rejection(record, entry)
        case EntryKind.SCRIPT_UNAVAILABLE:
            return replace(record, unrunnable_reason=entry.reason or "no script")
        case EntryKind.SEEN:
            return replace(_with_submission(record, entry), is_durable=True, absent_since=None)
        case EntryKind.CANCELLED_BY_US:
            run = (entry.slurm_job_id or 0, time)
            return replace(record, cancelled_by_us=record.cancelled_by_us | {run})
        case EntryKind.ABSENT:
            return replace(record, absent_since=min(record.absent_since or time, time))
        case EntryKind.PRESENT:
            return replace(record, absent_since=None)
        case EntryKind.IMPOSTOR:
            return record
        case EntryKind.CLOSED:
            return replace(record, is_closed=True)
        case _:
            assert_never(entry.kind)


def _with_intention(record: JournalRecord, time: int) -> JournalRecord:
    """Return the record of a job of which a submission is about to start."""
    return replace(
        record,
        submit_intended_at=time,
        slurm_job_id=None,
        is_durable=False,
        absent_since=None,
        rejection_reason="",
    )


def _with_rejection(record: JournalRecord, entry: JournalEntry) -> JournalRecord:
    """Return the record of a job of which Slurm refused the last submission."""
    return replace(
        record,
        rejection_reason=entry.reason or "rejected",
        rejected_at=entry.occurred_at,
        rejection_count=record.rejection_count + 1,
    )


def _with_submission(record: JournalRecord, entry: JournalEntry) -> JournalRecord:
    """Return the record of a job that Slurm has. A new Slurm job id counts as a new attempt."""
    attempt_count = record.attempt_count
    if entry.slurm_job_id != record.slurm_job_id:
        attempt_count += 1
    return replace(record, slurm_job_id=entry.slurm_job_id, attempt_count=attempt_count)


@dataclass(slots=True)
class JournalRecords:
    """The records of all open jobs, updated with each entry.

    The attempts that we cancelled are retained after a job is closed: the job may be claimed by us
    again, and the end of such an attempt is then still not the end of the job.
    """

    by_job_key: dict[JobKey, JournalRecord] = field(default_factory=dict)
    _cancelled_by_us: dict[JobKey, frozenset[tuple[int, int]]] = field(default_factory=dict)

    def extend(self, entries: Iterable[JournalEntry]) -> None:
        """Apply entries in order.

        A closed job has no record. A CANCELLED_BY_US entry does not create a record.
        """
        for entry in entries:
            job_key = entry.job_key
            is_open = job_key in self.by_job_key
            record = apply(self.by_job_key.get(job_key) or self._new_record(job_key), entry)
            if record.cancelled_by_us:
                self._cancelled_by_us[job_key] = record.cancelled_by_us
            if record.is_closed:
                self.by_job_key.pop(job_key, None)
            elif is_open or entry.kind is not EntryKind.CANCELLED_BY_US:
                self.by_job_key[job_key] = record

    def _new_record(self, job_key: JobKey) -> JournalRecord:
        cancelled = self._cancelled_by_us.get(job_key, frozenset())
        return JournalRecord(job_key=job_key, cancelled_by_us=cancelled)
