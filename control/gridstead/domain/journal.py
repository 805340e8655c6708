# SPDX-License-Identifier: Apache-2.0
"""What a supervisor remembers of a job: a list of entries, and what follows from it.

Replaying the entries of a job gives its record. An entry is written before the act it names is begun (*intended*)
and after its outcome is known, so a crash between the two leaves a question and never a lie.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from gridstead.domain.ids import Proof


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
    UNDONE = "undone"  # slurm_job_id, at its submission: cancelled by us, as the chain did not give us the job
    STRANGER = "stranger"  # reason: a Slurm job claims to be it and is not
    CLOSED = "closed"  # nothing more to do


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the journal. Units: ``at`` Unix seconds."""

    proof: Proof
    kind: EntryKind
    at: int
    slurm_job_id: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """What the entries of one job add up to.

    Attributes:
        proof: The job.
        claimed_at: When we first saw it as ours; None if we never did.
        attempts: How many submissions are known to have reached Slurm.
        intended_at: When the last submission was begun; None if none was.
        slurm_job_id: Of the last submission; None while its outcome is not known.
        rejected: Why Slurm refused the last submission; empty if it did not.
        rejected_at: When Slurm last refused one; None if it never did.
        rejections: How many it refused.
        unrunnable: Why the job cannot run anywhere; empty if nothing says so.
        seen: The last submission was listed long enough after it to be durable in slurmctld.
        undone: (Slurm job id, submission time) of attempts that we ended ourselves; they say nothing of the job.
        absent_since: First of the samples in a row that had no trace of it; None if the last one had.
    """

    proof: Proof
    claimed_at: int | None = None
    attempts: int = 0
    intended_at: int | None = None
    slurm_job_id: int | None = None
    rejected: str = ""
    rejected_at: int | None = None
    rejections: int = 0
    unrunnable: str = ""
    seen: bool = False
    undone: frozenset[tuple[int, int]] = frozenset()
    absent_since: int | None = None
    closed: bool = False


def apply(record: JobRecord, entry: Entry) -> JobRecord:
    """Return the record after one more entry."""
    match entry.kind:
        case EntryKind.CLAIMED:
            return replace(record, claimed_at=record.claimed_at or entry.at)
        case EntryKind.SUBMIT_INTENDED:
            return replace(record, intended_at=entry.at, slurm_job_id=None, seen=False, absent_since=None, rejected="")
        case EntryKind.SUBMITTED:
            return _placed(record, entry)
        case EntryKind.SUBMIT_REJECTED:
            reason, rejections = entry.reason or "rejected", record.rejections + 1
            return replace(record, rejected=reason, rejected_at=entry.at, rejections=rejections)
        case EntryKind.SCRIPT_UNAVAILABLE:
            return replace(record, unrunnable=entry.reason or "no script")
        case EntryKind.SEEN:
            return replace(_placed(record, entry), seen=True, absent_since=None)
        case EntryKind.UNDONE:
            return replace(record, undone=record.undone | {(entry.slurm_job_id or 0, entry.at)})
        case EntryKind.ABSENT:
            return replace(record, absent_since=min(record.absent_since or entry.at, entry.at))
        case EntryKind.PRESENT:
            return replace(record, absent_since=None)
        case EntryKind.STRANGER:
            return record
        case EntryKind.CLOSED:
            return replace(record, closed=True)


def _placed(record: JobRecord, entry: Entry) -> JobRecord:
    """Return the record of a job that is known to be in Slurm; an id that is new to it is a further attempt."""
    is_new = entry.slurm_job_id != record.slurm_job_id
    return replace(record, slurm_job_id=entry.slurm_job_id, attempts=record.attempts + is_new)


@dataclass(slots=True)
class Records:
    """The records of all open jobs, kept up to date entry by entry.

    What was undone is remembered beyond the end of a record: the chain may give us the job again, and then the attempt
    that we ended ourselves still says nothing of it.
    """

    by_proof: dict[Proof, JobRecord] = field(default_factory=dict)
    _undone: dict[Proof, frozenset[tuple[int, int]]] = field(default_factory=dict)

    def extend(self, entries: Iterable[Entry]) -> None:
        """Apply the entries in order; a closed job has no record, and none is opened by what was undone."""
        for entry in entries:
            proof = entry.proof
            before = self.by_proof.get(proof)
            fresh = JobRecord(proof=proof, undone=self._undone.get(proof, frozenset()))
            record = apply(before or fresh, entry)
            if record.undone:
                self._undone[proof] = record.undone
            if record.closed:
                self.by_proof.pop(proof, None)
            elif before is not None or entry.kind is not EntryKind.UNDONE:
                self.by_proof[proof] = record
