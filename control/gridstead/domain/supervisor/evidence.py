# SPDX-License-Identifier: Apache-2.0
"""Decides what is known of a job in Slurm, from slurmctld, slurmdbd and our journal.

Only slurmctld knows which jobs are alive. slurmdbd knows which jobs ended, how, and after how long.
A record is missing from slurmdbd only if no record waits in slurmctld's queue to slurmdbd. A job is
absent only if two samples, some seconds apart, do not have it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gridstead.domain.jobs.ids import JobKey
from gridstead.domain.supervisor.attempt import AccountingSample, Attempt, LiveSample, NodeReport
from gridstead.domain.supervisor.journal import JournalRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Alive:
    """The job is pending or running.

    Attributes:
        attempt: The attempt that is alive.
        duplicates: Further live attempts of the same job. They must be cancelled.
    """

    attempt: Attempt
    duplicates: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The job ended. ``attempt`` is the record to bill."""

    attempt: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """Slurm does not have the job.

    Attributes:
        is_confirmed: Whether a second sample confirmed it, or no submission was ever started.
    """

    is_confirmed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The state of the job is not known now."""


Evidence = Alive | Ended | Absent | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitTimes:
    """How long to wait before a conclusion. Units: seconds.

    Attributes:
        clock_skew_s: The maximum difference between two clocks.
        submission_s: A submission whose result is not known may reach Slurm this long after it was
            started.
        absent_after_s: The time between two samples that confirm an absence.
        accounting_s: The time for an end that slurmctld lists to reach slurmdbd.
        rejection_s: The time before a submission that Slurm refused is repeated.
    """

    clock_skew_s: int = 60
    submission_s: int = 60
    absent_after_s: int = 6
    accounting_s: int = 30
    rejection_s: int = 60


def belongs(attempt: Attempt, *, job_key: JobKey, customer: str, not_before: int) -> bool:
    """Return whether an attempt belongs to a job.

    Its job key and its user must be those of the job, and it must not be older than the claim.
    """
    return (
        attempt.job_key == job_key
        and attempt.user == customer
        and attempt.submitted_at >= not_before
    )


def assess(
    record: JournalRecord,
    *,
    customer: str,
    live: LiveSample | None,
    accounting: AccountingSample | None,
    wait_times: WaitTimes,
) -> Evidence:
    """Return what is known of a job.

    Args:
        record: Our record of the job.
        customer: The customer's address, which is the name of the Linux user.
        live: The jobs that slurmctld lists. None if it did not answer.
        accounting: The records of slurmdbd. None if it did not answer.
        wait_times: How long to wait before a conclusion.
    """
    if live is None:
        return Unknown()
    not_before = (record.claimed_at or 0) - wait_times.clock_skew_s
    listed = _attempts_of(record, live.attempts, customer=customer, not_before=not_before)
    alive = [attempt for attempt in listed if attempt.is_alive]
    if alive:
        return _assess_alive(alive, accounting)
    if accounting is None and record.submit_intended_at is None:
        return Unknown()
    recorded: list[Attempt] = []
    if accounting is not None:
        recorded = _attempts_of(
            record, accounting.attempts, customer=customer, not_before=not_before
        )
    evidence = _assess_ended(record, listed, recorded, live=live, wait_times=wait_times)
    if evidence is not None:
        return evidence
    return _assess_absence(record, live=live, accounting=accounting, wait_times=wait_times)


def _attempts_of(
    record: JournalRecord, attempts: Iterable[Attempt], *, customer: str, not_before: int
) -> list[Attempt]:
    """Return the attempts of a job, except those that we cancelled or that Slurm refused."""
    counted = []
    for attempt in attempts:
        is_ours = belongs(attempt, job_key=record.job_key, customer=customer, not_before=not_before)
        run = (attempt.slurm_job_id, attempt.submitted_at)
        is_cancelled_by_us = run in record.cancelled_by_us
        if is_ours and not is_cancelled_by_us and not _was_rejected(attempt, record):
            counted.append(attempt)
    return counted


def _was_rejected(attempt: Attempt, record: JournalRecord) -> bool:
    """Return whether Slurm created this record for a submission that it refused."""
    is_other = attempt.slurm_job_id != record.slurm_job_id
    has_run = attempt.is_alive or attempt.has_started
    return record.rejection_count > 0 and is_other and not has_run


def _assess_alive(alive: list[Attempt], accounting: AccountingSample | None) -> Alive | Ended:
    """Return the evidence of a job of which slurmctld lists live attempts.

    The job runs as the first attempt that started, or as the first one if none started.
    """
    in_order = sorted(alive, key=lambda a: (a.submitted_at, a.slurm_job_id))
    attempt = next((a for a in in_order if a.has_started), in_order[0])
    ended = _recorded_end(attempt, accounting)
    if ended is not None:
        return Ended(attempt=ended)
    return Alive(attempt=attempt, duplicates=tuple(a for a in in_order if a is not attempt))


def _recorded_end(attempt: Attempt, accounting: AccountingSample | None) -> Attempt | None:
    """Return slurmdbd's record of the end of a run that slurmctld lists as running.

    slurmctld loses its last seconds in a crash. After a crash it may list a run as running forever
    although it has reported its end to slurmdbd.
    """
    if accounting is None or not attempt.has_started:
        return None
    for record in accounting.attempts:
        if not record.is_alive and record.ended_at and _run_of(record) == _run_of(attempt):
            return record
    return None


def _run_of(attempt: Attempt) -> tuple[object, ...]:
    """Return the values that identify one run of a Slurm job."""
    started = (attempt.submitted_at, attempt.started_at)
    return (attempt.slurm_job_id, *started, attempt.job_key, attempt.user)


def _assess_ended(
    record: JournalRecord,
    listed: Iterable[Attempt],
    recorded: Iterable[Attempt],
    *,
    live: LiveSample,
    wait_times: WaitTimes,
) -> Ended | Unknown | None:
    """Return the evidence of a job that ended. Returns None if there is no end of the job.

    slurmdbd's record decides how long the job ran. slurmctld's record is used only if the job is
    missing from slurmdbd for a long time.
    """
    ended = _latest_end(record, recorded)
    if ended is not None:
        return Ended(attempt=ended)
    ended = _latest_end(record, listed)
    if ended is None:
        return None
    is_overdue = live.taken_at - (ended.ended_at or 0) > wait_times.accounting_s
    return Ended(attempt=ended) if is_overdue else Unknown()


def _latest_end(record: JournalRecord, attempts: Iterable[Attempt]) -> Attempt | None:
    """Return the last ended attempt, preferably with the Slurm job id of the journal."""
    ended = [attempt for attempt in attempts if not attempt.is_alive and attempt.ended_at]
    known = [attempt for attempt in ended if attempt.slurm_job_id == record.slurm_job_id]
    return max(known or ended, key=lambda a: (a.submitted_at, a.ended_at or 0), default=None)


def _assess_absence(
    record: JournalRecord,
    *,
    live: LiveSample,
    accounting: AccountingSample | None,
    wait_times: WaitTimes,
) -> Absent | Unknown:
    """Return the evidence of a job that neither slurmctld nor slurmdbd has."""
    if record.submit_intended_at is None:
        return Absent(is_confirmed=True)
    if accounting is None or not accounting.is_complete:
        return Unknown()
    is_unknown = record.slurm_job_id is None and not record.rejection_reason
    if is_unknown and live.taken_at - record.submit_intended_at < wait_times.submission_s:
        return Unknown()
    if record.absent_since is None:
        return Absent(is_confirmed=False)
    absent_s = live.taken_at - record.absent_since
    return Absent(is_confirmed=absent_s >= wait_times.absent_after_s)


def node_seconds(attempt: Attempt, reports: Iterable[NodeReport]) -> int | None:
    """Return how long the batch step ran by the node's clock.

    Returns None if no report of its end matches. A report matches if it has the uid of the attempt
    and its time is between the start and the recorded end of the attempt. This figure can only
    lower a bill: if slurmctld missed an end, it records the time at which it noticed the end.
    """
    if attempt.uid is None or attempt.started_at is None or attempt.ended_at is None:
        return None
    ends = []
    for report in reports:
        is_same = (report.slurm_job_id, report.uid) == (attempt.slurm_job_id, attempt.uid)
        is_in_time = attempt.started_at <= report.occurred_at <= attempt.ended_at
        if report.event == "end" and is_same and is_in_time:
            ends.append(report.occurred_at)
    if not ends:
        return None
    return max(0, max(ends) - attempt.started_at - attempt.suspended_s)
