# SPDX-License-Identifier: Apache-2.0
"""Determines the state of a job in Slurm from slurmctld, slurmdbd and the supervisor's journal.

Only slurmctld knows which jobs are alive. slurmdbd knows which jobs ended, their end states and
their run times. A record may still wait in slurmctld's queue to slurmdbd. A missing record in
slurmdbd therefore proves nothing until that queue is empty. A job counts as absent from Slurm when
two samples, taken some seconds apart, do not contain the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gridstead.domain.jobs.ids import JobKey
from gridstead.domain.supervisor.attempt import (
    AccountingSample,
    Attempt,
    ControllerSample,
    NodeReport,
)
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
        is_confirmed: Whether a second sample confirmed the absence, or no submission was started.
    """

    is_confirmed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The state of the job is not known now."""


Assessment = Alive | Ended | Absent | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitTimes:
    """How long the supervisor waits before it draws a conclusion. Units: seconds.

    Attributes:
        clock_skew_s: The maximum difference between two clocks.
        submission_timeout_s: How long a submission with an unknown result may take to reach Slurm.
        absent_after_s: The minimum time between two samples that confirm an absence.
        accounting_delay_s: How long the record of an ended job may take to reach slurmdbd.
        rejection_retry_s: How long to wait before a submission that Slurm refused is repeated.
    """

    clock_skew_s: int = 60
    submission_timeout_s: int = 60
    absent_after_s: int = 6
    accounting_delay_s: int = 30
    rejection_retry_s: int = 60


def belongs_to_job(attempt: Attempt, *, job_key: JobKey, customer: str, not_before: int) -> bool:
    """Return whether an attempt belongs to a job.

    The attempt must have the job key and the user of the job, and must have been submitted at
    ``not_before`` or later. Unit: ``not_before`` Unix seconds.
    """
    return (
        attempt.job_key == job_key
        and attempt.user == customer
        and attempt.submitted_at >= not_before
    )


def is_cancelled_by_us(attempt: Attempt, record: JournalRecord) -> bool:
    """Return whether the record says that this provider cancelled the attempt."""
    return (attempt.slurm_job_id, attempt.submitted_at) in record.cancelled_by_us


def assess_job(
    record: JournalRecord,
    *,
    customer: str,
    controller_sample: ControllerSample | None,
    accounting_sample: AccountingSample | None,
    wait_times: WaitTimes,
) -> Assessment:
    """Return the state of a job in Slurm.

    Args:
        record: The job's record in the journal.
        customer: The customer's address, which is the name of the Linux user.
        controller_sample: The jobs that slurmctld lists. None if slurmctld did not answer.
        accounting_sample: The records of slurmdbd. None if slurmdbd did not answer.
        wait_times: How long to wait before a conclusion.
    """
    if controller_sample is None:
        return Unknown()
    not_before = (record.claimed_at or 0) - wait_times.clock_skew_s
    listed_attempts = _attempts_of(
        record, controller_sample.by_job_key, customer=customer, not_before=not_before
    )
    live_attempts = [attempt for attempt in listed_attempts if attempt.is_alive]
    if live_attempts:
        return _assess_alive(live_attempts, accounting_sample)
    # A job without a submission in the journal counts as absent, but only if slurmdbd has answered
    # that it has no record of the job.
    if accounting_sample is None and record.submit_intended_at is None:
        return Unknown()
    recorded_attempts: list[Attempt] = []
    if accounting_sample is not None:
        recorded_attempts = _attempts_of(
            record, accounting_sample.by_job_key, customer=customer, not_before=not_before
        )
    assessment = _assess_ended(
        record,
        listed_attempts,
        recorded_attempts,
        controller_sample=controller_sample,
        wait_times=wait_times,
    )
    if assessment is not None:
        return assessment
    return _assess_absence(
        record,
        controller_sample=controller_sample,
        accounting_sample=accounting_sample,
        wait_times=wait_times,
    )


def _attempts_of(
    record: JournalRecord,
    attempts_by_job_key: Mapping[JobKey, Sequence[Attempt]],
    *,
    customer: str,
    not_before: int,
) -> list[Attempt]:
    """Return the attempts of a job, except attempts that were cancelled or that Slurm refused."""
    matching_attempts = []
    for attempt in attempts_by_job_key.get(record.job_key, ()):
        if not belongs_to_job(
            attempt, job_key=record.job_key, customer=customer, not_before=not_before
        ):
            continue
        if not is_cancelled_by_us(attempt, record) and not _was_rejected(attempt, record):
            matching_attempts.append(attempt)
    return matching_attempts


def _was_rejected(attempt: Attempt, record: JournalRecord) -> bool:
    """Return whether an attempt is the record of a submission that Slurm refused."""
    if record.rejection_count == 0 or attempt.slurm_job_id == record.slurm_job_id:
        return False
    return not attempt.is_alive and not attempt.has_started


def _assess_alive(
    live_attempts: list[Attempt], accounting_sample: AccountingSample | None
) -> Alive | Ended:
    """Return the state of a job of which slurmctld lists live attempts.

    If several attempts are alive, the earliest attempt that has started counts as the job. If no
    attempt has started, the earliest attempt counts. The other live attempts are duplicates.
    """
    sorted_attempts = sorted(
        live_attempts, key=lambda attempt: (attempt.submitted_at, attempt.slurm_job_id)
    )
    started_attempts = [attempt for attempt in sorted_attempts if attempt.has_started]
    job_attempt = started_attempts[0] if started_attempts else sorted_attempts[0]
    ended_attempt = _recorded_end(job_attempt, accounting_sample)
    if ended_attempt is not None:
        return Ended(attempt=ended_attempt)
    sorted_attempts.remove(job_attempt)
    return Alive(attempt=job_attempt, duplicates=tuple(sorted_attempts))


def _recorded_end(attempt: Attempt, accounting_sample: AccountingSample | None) -> Attempt | None:
    """Return slurmdbd's record of the end of an attempt that slurmctld lists as running.

    A crash of slurmctld loses the last seconds of its state. After the crash, slurmctld may list an
    attempt as running forever, although slurmdbd has the end of the attempt.
    """
    if accounting_sample is None or attempt.job_key is None or not attempt.has_started:
        return None
    for recorded_attempt in accounting_sample.by_job_key.get(attempt.job_key, ()):
        has_ended = not recorded_attempt.is_alive and recorded_attempt.ended_at
        if has_ended and _run_identity(recorded_attempt) == _run_identity(attempt):
            return recorded_attempt
    return None


def _run_identity(attempt: Attempt) -> tuple[object, ...]:
    """Return the values that identify one run of a Slurm job."""
    return (
        attempt.slurm_job_id,
        attempt.submitted_at,
        attempt.started_at,
        attempt.job_key,
        attempt.user,
    )


def _assess_ended(
    record: JournalRecord,
    listed_attempts: Iterable[Attempt],
    recorded_attempts: Iterable[Attempt],
    *,
    controller_sample: ControllerSample,
    wait_times: WaitTimes,
) -> Ended | Unknown | None:
    """Return the state of a job that ended. Returns None if no attempt of the job has ended.

    The billed time comes from slurmdbd's record. slurmctld's record is used only if slurmdbd still
    has no record after ``wait_times.accounting_delay_s``.
    """
    ended_attempt = _latest_end(record, recorded_attempts)
    if ended_attempt is not None:
        return Ended(attempt=ended_attempt)
    ended_attempt = _latest_end(record, listed_attempts)
    if ended_attempt is None:
        return None
    seconds_since_end = controller_sample.taken_at - (ended_attempt.ended_at or 0)
    if seconds_since_end > wait_times.accounting_delay_s:
        return Ended(attempt=ended_attempt)
    return Unknown()


def _latest_end(record: JournalRecord, attempts: Iterable[Attempt]) -> Attempt | None:
    """Return the last ended attempt.

    Attempts with the Slurm job id of the journal take precedence over other attempts.
    """
    ended_attempts = [attempt for attempt in attempts if not attempt.is_alive and attempt.ended_at]
    journaled_attempts = [
        attempt for attempt in ended_attempts if attempt.slurm_job_id == record.slurm_job_id
    ]
    candidates = journaled_attempts or ended_attempts
    if not candidates:
        return None
    return max(candidates, key=lambda attempt: (attempt.submitted_at, attempt.ended_at or 0))


def _assess_absence(
    record: JournalRecord,
    *,
    controller_sample: ControllerSample,
    accounting_sample: AccountingSample | None,
    wait_times: WaitTimes,
) -> Absent | Unknown:
    """Return the state of a job that neither slurmctld nor slurmdbd has."""
    if record.submit_intended_at is None:
        return Absent(is_confirmed=True)
    if accounting_sample is None or not accounting_sample.is_complete:
        return Unknown()
    has_no_result = record.slurm_job_id is None and not record.rejection_reason
    waited_s = controller_sample.taken_at - record.submit_intended_at
    if has_no_result and waited_s < wait_times.submission_timeout_s:
        return Unknown()
    if record.absent_since is None:
        return Absent(is_confirmed=False)
    absent_s = controller_sample.taken_at - record.absent_since
    return Absent(is_confirmed=absent_s >= wait_times.absent_after_s)


def node_seconds(attempt: Attempt, reports: Iterable[NodeReport]) -> int | None:
    """Return how many seconds the batch step ran by the node's clock.

    Returns None if no report of a job's end matches the attempt. A report matches if it has the
    Slurm job id and the uid of the attempt, and its time is between the start and the end of the
    attempt.

    The end in Slurm's record is too late if slurmctld noticed the end of the job late. In this case
    the result lowers the bill.
    """
    if attempt.uid is None or attempt.started_at is None or attempt.ended_at is None:
        return None
    end_times = []
    for report in reports:
        is_same_job = (report.slurm_job_id, report.uid) == (attempt.slurm_job_id, attempt.uid)
        is_within_run = attempt.started_at <= report.occurred_at <= attempt.ended_at
        if report.event == "end" and is_same_job and is_within_run:
            end_times.append(report.occurred_at)
    if not end_times:
        return None
    return max(0, max(end_times) - attempt.started_at - attempt.suspended_s)
