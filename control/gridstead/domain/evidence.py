# SPDX-License-Identifier: Apache-2.0
"""What Slurm's two witnesses, together with our own memory, say of one job.

slurmctld alone knows what is alive. slurmdbd knows what ended, how and after how long; it is
believed to have no record only when nothing waits to reach it. Absence on one sample is not
evidence: it takes two, some seconds apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gridstead.domain.attempt import AccountingSample, Attempt, LiveSample, NodeReport
from gridstead.domain.ids import JobKey
from gridstead.domain.journal import JournalRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Alive:
    """It runs or waits; ``surplus`` are further live attempts of the same job, which must not be."""

    attempt: Attempt
    surplus: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """It ended, and this is the record to bill by."""

    attempt: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """No trace of it. Unless ``confirmed``, this is only the first sample, or nothing was ever
    submitted.
    """

    confirmed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Nothing can be concluded now."""


Evidence = Alive | Ended | Absent | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait before believing. Units: seconds.

    Attributes:
        clock_skew_s: Clocks may differ so much.
        absent_after_s: Between two samples without a trace.
        submission_s: A submission whose outcome is unknown may still arrive so long after it was
            begun.
        accounting_s: For slurmdbd to hear of an end that slurmctld lists.
        rejection_s: Before a submission that Slurm refused is tried again.
    """

    clock_skew_s: int = 60
    submission_s: int = 60
    absent_after_s: int = 6
    accounting_s: int = 30
    rejection_s: int = 60


def belongs(attempt: Attempt, *, job_key: JobKey, customer: str, not_before: int) -> bool:
    """Return whether an attempt is this job's: its job key, its customer's user, and not older than
    its claim.
    """
    return (
        attempt.job_key == job_key
        and attempt.user == customer
        and attempt.submitted_at >= not_before
    )


def weigh(
    record: JournalRecord,
    *,
    customer: str,
    live: LiveSample | None,
    accounting: AccountingSample | None,
    patience: Patience,
) -> Evidence:
    """Return what is known of a job.

    Args:
        record: Our memory of it.
        customer: Its customer, which is the Linux user.
        live: What slurmctld lists; None if it did not answer.
        accounting: What slurmdbd has; None if it did not answer.
        patience: How long to wait before believing.
    """
    if live is None:
        return Unknown()
    not_before = (record.claimed_at or 0) - patience.clock_skew_s

    def counts(attempt: Attempt) -> bool:
        is_ours = belongs(attempt, job_key=record.job_key, customer=customer, not_before=not_before)
        is_undone = (attempt.slurm_job_id, attempt.submitted_at) in record.cancelled_by_us
        return is_ours and not is_undone and not _was_rejected(attempt, record)

    ours = [a for a in live.attempts if counts(a)]
    alive = sorted((a for a in ours if a.alive), key=lambda a: (a.submitted_at, a.slurm_job_id))
    if alive:
        chosen = next((a for a in alive if a.started), alive[0])
        over = _ended_after_all(chosen, accounting)
        if over is not None:
            return Ended(attempt=over)
        return Alive(attempt=chosen, surplus=tuple(a for a in alive if a is not chosen))
    if accounting is None and record.intended_at is None:
        return Unknown()
    ended = _latest_end(record, (a for a in accounting.attempts if counts(a)) if accounting else ())
    if ended is not None:
        return Ended(attempt=ended)
    listed = _latest_end(record, ours)
    if listed is not None:
        # slurmdbd has the last word on how long; slurmctld's will do when slurmdbd stays silent.
        overdue = live.taken_at - (listed.ended_at or 0) > patience.accounting_s
        return Ended(attempt=listed) if overdue else Unknown()
    return _absence(record, live=live, accounting=accounting, patience=patience)


def _was_rejected(attempt: Attempt, record: JournalRecord) -> bool:
    """Return whether this is no attempt, but what Slurm leaves of some submissions that it refuses."""
    is_other = attempt.slurm_job_id != record.slurm_job_id
    return record.rejections > 0 and is_other and not attempt.alive and not attempt.started


def _ended_after_all(attempt: Attempt, accounting: AccountingSample | None) -> Attempt | None:
    """Return slurmdbd's ended record of the very run that slurmctld lists as running.

    A crash makes slurmctld forget its last seconds, so it may list for ever a run that it once
    reported as ended.
    """
    if accounting is None or not attempt.started:
        return None

    def run(one: Attempt) -> tuple[object, ...]:
        return (one.slurm_job_id, one.submitted_at, one.started_at, one.job_key, one.user)

    return next(
        (a for a in accounting.attempts if not a.alive and a.ended_at and run(a) == run(attempt)),
        None,
    )


def _latest_end(record: JournalRecord, attempts: Iterable[Attempt]) -> Attempt | None:
    ended = [a for a in attempts if not a.alive and a.ended_at]
    mine = [a for a in ended if a.slurm_job_id == record.slurm_job_id]
    return max(mine or ended, key=lambda a: (a.submitted_at, a.ended_at or 0), default=None)


def _absence(
    record: JournalRecord,
    *,
    live: LiveSample,
    accounting: AccountingSample | None,
    patience: Patience,
) -> Absent | Unknown:
    if record.intended_at is None:
        return Absent(confirmed=True)
    if accounting is None or not accounting.complete:
        return Unknown()
    is_unknown = record.slurm_job_id is None and not record.rejected
    if is_unknown and live.taken_at - record.intended_at < patience.submission_s:
        return Unknown()
    since = record.absent_since
    return Absent(confirmed=since is not None and live.taken_at - since >= patience.absent_after_s)


def node_seconds(attempt: Attempt, reports: Iterable[NodeReport]) -> int | None:
    """Return how long the batch step ran by the node's own clock; None if no matching end was
    reported.

    A report matches if its uid is the attempt's and its time lies between the attempt's start and
    recorded end. Such a figure can only lower a bill: slurmctld dates an end that it missed by when
    it heard of it.
    """
    if attempt.uid is None or attempt.started_at is None or attempt.ended_at is None:
        return None
    start, end = attempt.started_at, attempt.ended_at
    matching = [
        r for r in reports
        if r.slurm_job_id == attempt.slurm_job_id and r.uid == attempt.uid and start <= r.occurred_at <= end
    ]  # fmt: skip
    last = max((r.occurred_at for r in matching if r.event == "end"), default=None)
    return None if last is None else max(0, last - start - attempt.suspended_s)
