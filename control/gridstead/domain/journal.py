# SPDX-License-Identifier: Apache-2.0
"""What a supervisor remembers of a job: a list of entries, and what follows from it.

Replaying the entries of a job gives its record. An entry is written before the act it names is
begun (*intended*) and after its outcome is known, so a crash between the two leaves a question and
never a lie.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import assert_never

from gridstead.domain.ids import JobKey


class EntryKind(Enum):
    """What happened to a job here."""

    CLAIMED = "claimed"  # we saw the chain give it to us
    SUBMIT_INTENDED = "submit_intended"  # the next line is a submission
    SUBMITTED = "submitted"  # slurm_job_id
    SUBMIT_REJECTED = "submit_rejected"  # reason: Slurm said no
    SCRIPT_UNAVAILABLE = "script_unavailable"  # reason: nobody can run it
    SEEN = "seen"  # slurm_job_id: listed again long enough after its submission
    ABSENT = "absent"  # first sample that had no trace of it
    PRESENT = "present"  # a trace again, so earlier absence means nothing
    CANCELLED_BY_US = "cancelled_by_us"  # slurm_job_id, at its submission: cancelled by us, as the chain did not give us the job
    IMPOSTOR = "impostor"  # reason: a Slurm job claims to be it and is not
    CLOSED = "closed"  # nothing more to do


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One line of the journal. Units: ``at`` Unix seconds."""

    job_key: JobKey
    kind: EntryKind
    occurred_at: int
    slurm_job_id: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRecord:
    """What the entries of one job add up to.

    Attributes:
        job key: The job. claimed_at: When we first saw it as ours; None if we never did. attempts:
        How many submissions are known to have reached Slurm. intended_at: When the last submission
        was begun; None if none was. slurm_job_id: Of the last submission; None while its outcome is
        not known. rejected: Why Slurm refused the last submission; empty if it did not.
        rejected_at: When Slurm last refused one; None if it never did. rejections: How many it
        refused. unrunnable: Why the job cannot run anywhere; empty if nothing says so. seen: The
        last submission was listed long enough after it to be durable in slurmctld. undone: (Slurm
        job id, submission time) of attempts that we ended ourselves; they say nothing of the job.
        absent_since: First of the samples in a row that had no trace of it; None if the last one
        had.
    """

    job_key: JobKey
    claimed_at: int | None = None
    attempts: int = 0
    intended_at: int | None = None
    slurm_job_id: int | None = None
    rejected: str = ""
    rejected_at: int | None = None
    rejections: int = 0
    unrunnable: str = ""
    seen: bool = False
    cancelled_by_us: frozenset[tuple[int, int]] = frozenset()
    absent_since: int | None = None
    closed: bool = False


def apply(record: JournalRecord, entry: JournalEntry) -> JournalRecord:
    """Return the record after one more entry."""
    match entry.kind:
        case EntryKind.CLAIMED:
            return replace(record, claimed_at=record.claimed_at or entry.occurred_at)
        case EntryKind.SUBMIT_INTENDED:
            return replace(
                record,
                intended_at=entry.occurred_at,
                slurm_job_id=None,
                seen=False,
                absent_since=None,
                rejected="",
            )
        case EntryKind.SUBMITTED:
            return _placed(record, entry)
        case EntryKind.SUBMIT_REJECTED:
            reason, rejections = entry.reason or "rejected", record.rejections + 1
            return replace(
                record, rejected=reason, rejected_at=entry.occurred_at, rejections=rejections
            )
        case EntryKind.SCRIPT_UNAVAILABLE:
            return replace(record, unrunnable=entry.reason or "no script")
        case EntryKind.SEEN:
            return replace(_placed(record, entry), seen=True, absent_since=None)
        case EntryKind.CANCELLED_BY_US:
            return replace(
                record,
                cancelled_by_us=record.cancelled_by_us
                | {(entry.slurm_job_id or 0, entry.occurred_at)},
            )
        case EntryKind.ABSENT:
            return replace(
                record,
                absent_since=min(record.absent_since or entry.occurred_at, entry.occurred_at),
            )
        case EntryKind.PRESENT:
            return replace(record, absent_since=None)
        case EntryKind.IMPOSTOR:
            return record
        case EntryKind.CLOSED:
            return replace(record, closed=True)
        case _:
            assert_never(entry.kind)


def _placed(record: JournalRecord, entry: JournalEntry) -> JournalRecord:
    """Return the record of a job that is known to be in Slurm; an id that is new to it is a further
    attempt.
    """
    is_new = entry.slurm_job_id != record.slurm_job_id
    return replace(record, slurm_job_id=entry.slurm_job_id, attempts=record.attempts + is_new)


@dataclass(slots=True)
class JournalRecords:
    """The records of all open jobs, kept up to date entry by entry.

    What was undone is remembered beyond the end of a record: the chain may give us the job again,
    and then the attempt that we ended ourselves still says nothing of it.
    """

    by_job_key: dict[JobKey, JournalRecord] = field(default_factory=dict)
    _cancelled_by_us: dict[JobKey, frozenset[tuple[int, int]]] = field(default_factory=dict)

    def extend(self, entries: Iterable[JournalEntry]) -> None:
        """Apply the entries in order; a closed job has no record, and none is opened by what was
        undone.
        """
        for entry in entries:
            job_key = entry.job_key
            before = self.by_job_key.get(job_key)
            fresh = JournalRecord(
                job_key=job_key, cancelled_by_us=self._cancelled_by_us.get(job_key, frozenset())
            )
            record = apply(before or fresh, entry)
            if record.cancelled_by_us:
                self._cancelled_by_us[job_key] = record.cancelled_by_us
            if record.closed:
                self.by_job_key.pop(job_key, None)
            elif before is not None or entry.kind is not EntryKind.CANCELLED_BY_US:
                self.by_job_key[job_key] = record
