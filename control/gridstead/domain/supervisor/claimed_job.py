# SPDX-License-Identifier: Apache-2.0
"""Plans the next actions for one job that this provider has claimed and has not settled.

The plan follows the state of the job in Slurm, see ``evidence.py``: a live job is reported as
running, an ended job is settled, and a job that Slurm does not have is submitted or given up. The
contract calls are in ``job_calls.py``. ``reconcile.py`` plans for all jobs and passes the claimed
jobs to this module.

In this module "us" means the provider of this supervisor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from gridstead.domain.jobs.ids import is_batch_location_hash
from gridstead.domain.jobs.job import Job
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.actions import (
    Action,
    Extend,
    Submit,
    cancel,
    cancel_and_note,
    note,
)
from gridstead.domain.supervisor.attempt import Attempt
from gridstead.domain.supervisor.end_text import NO_SCRIPT, REFUSED_BY_SLURM
from gridstead.domain.supervisor.evidence import (
    Absent,
    Alive,
    Assessment,
    Ended,
    Unknown,
    assess_job,
    belongs_to_job,
    is_cancelled_by_us,
)
from gridstead.domain.supervisor.hooks import pre_hook_failed
from gridstead.domain.supervisor.job_calls import (
    give_up,
    is_unstarted_request,
    refuse,
    refuse_request,
    report_end,
    report_start,
)
from gridstead.domain.supervisor.journal import EntryKind, JournalRecord
from gridstead.domain.supervisor.settlement import (
    time_limit_min,
)
from gridstead.domain.supervisor.snapshot import Snapshot, SupervisorPolicy

CANCELLED_BY_CUSTOMER = "its customer cancelled it"


def plan_claimed_job(
    record: JournalRecord, job: Job, snapshot: Snapshot, policy: SupervisorPolicy
) -> Iterator[Action]:
    """Plan for a hot job that is claimed by us."""
    if not is_batch_location_hash(job.batch_location_hash):
        reason = "the id of its script is malformed"
        yield from give_up(job, snapshot, policy, JobState.FAILED, reason)
        return
    yield from _cancel_impostors(record, job, snapshot, policy)
    live_attempts = snapshot.live_attempts(record.job_key)
    cancelled_attempts = [
        attempt for attempt in live_attempts if is_cancelled_by_us(attempt, record)
    ]
    if cancelled_attempts:
        for attempt in cancelled_attempts:
            yield cancel(attempt, record.job_key, "it was cancelled before")
        return
    assessment = assess_job(
        record,
        customer=job.customer,
        controller_sample=snapshot.controller_sample,
        accounting_sample=snapshot.accounting_sample,
        wait_times=policy.wait_times,
    )
    if record.absent_since is not None and isinstance(assessment, Alive | Ended):
        yield note(record, EntryKind.PRESENT, occurred_at=snapshot.now)
    yield from _plan_for_assessment(assessment, record, job, snapshot, policy)


def _plan_for_assessment(
    assessment: Assessment,
    record: JournalRecord,
    job: Job,
    snapshot: Snapshot,
    policy: SupervisorPolicy,
) -> Iterator[Action]:
    match assessment:
        case Unknown():
            return
        case Alive(attempt=attempt, duplicates=duplicates):
            for duplicate in duplicates:
                yield cancel(duplicate, record.job_key, "it is a second attempt of the job")
            yield from _plan_live_job(record, job, attempt, snapshot, policy)
        case Ended(attempt=attempt):
            yield from _plan_ended_job(job, attempt, snapshot, policy)
        case Absent(is_confirmed=True):
            yield from _submit_or_give_up(record, job, snapshot, policy)
        case Absent():
            yield from _note_absence(record, snapshot)
        case _:
            assert_never(assessment)


def _cancel_impostors(
    record: JournalRecord, job: Job, snapshot: Snapshot, policy: SupervisorPolicy
) -> Iterator[Action]:
    """Cancel live Slurm jobs that have the job key but belong to another user or an older claim."""
    not_before = (record.claimed_at or 0) - policy.wait_times.clock_skew_s
    for attempt in snapshot.live_attempts(record.job_key):
        if belongs_to_job(
            attempt, job_key=record.job_key, customer=job.customer, not_before=not_before
        ):
            continue
        reason = (
            f"slurm job {attempt.slurm_job_id} of {attempt.user} has this job's job key but does "
            "not belong to it"
        )
        yield note(record, EntryKind.IMPOSTOR, occurred_at=snapshot.now, reason=reason)
        yield cancel(attempt, record.job_key, reason)


def _plan_live_job(
    record: JournalRecord, job: Job, attempt: Attempt, snapshot: Snapshot, policy: SupervisorPolicy
) -> Iterator[Action]:
    """Plan for a job that is pending or running in Slurm."""
    yield from _note_attempt(record, attempt, snapshot, policy)
    if job.cancel_requested:
        yield from _stop_attempt(record, job, attempt, snapshot)
    else:
        yield from _extend_time_limit(job, attempt, policy)
    if job.state is JobState.SCHEDULED and attempt.has_started:
        yield report_start(job, attempt)


def _stop_attempt(
    record: JournalRecord, job: Job, attempt: Attempt, snapshot: Snapshot
) -> Iterator[Action]:
    """Cancel an attempt because the customer requested to cancel its job.

    A reorg may remove the request. An attempt that has not started is cancelled at once: its end is
    not the end of the job, so the job can be submitted again. An attempt that has started cannot be
    repeated, so it runs until the request is confirmed.

    An attempt may start between the sample and its cancellation. It then ran only after the request
    and is not billed: its job is refused like one that never started.
    """
    if not attempt.has_started:
        yield from cancel_and_note(record, attempt, CANCELLED_BY_CUSTOMER)
    elif snapshot.is_request_confirmed(job):
        yield cancel(attempt, record.job_key, CANCELLED_BY_CUSTOMER)


def _note_attempt(
    record: JournalRecord, attempt: Attempt, snapshot: Snapshot, policy: SupervisorPolicy
) -> Iterator[Action]:
    """Write to the journal that an attempt is new, or that it is durable.

    An attempt is durable some seconds after its submission, when slurmctld has saved its state. A
    crash of slurmctld does not lose a durable attempt.
    """
    durable_at = (record.submit_intended_at or 0) + policy.wait_times.absent_after_s
    is_durable = snapshot.now >= durable_at
    is_new = record.slurm_job_id != attempt.slurm_job_id
    if is_new or (is_durable and not record.is_durable):
        kind = EntryKind.SEEN if is_durable else EntryKind.SUBMITTED
        yield note(record, kind, occurred_at=snapshot.now, slurm_job_id=attempt.slurm_job_id)


def _extend_time_limit(job: Job, attempt: Attempt, policy: SupervisorPolicy) -> Iterator[Action]:
    """Raise the time limit of an attempt after a top-up."""
    paid_limit_min = time_limit_min(job, max_min=policy.max_time_limit_min)
    if attempt.time_limit_min is not None and attempt.time_limit_min < paid_limit_min:
        yield Extend(
            slurm_job_id=attempt.slurm_job_id, job_key=job.job_key, time_limit_min=paid_limit_min
        )


def _plan_ended_job(
    job: Job, attempt: Attempt, snapshot: Snapshot, policy: SupervisorPolicy
) -> Iterator[Action]:
    """Report the end of a job, or give the job up if a failed pre-hook of the site ended it."""
    clock_skew_s = policy.wait_times.clock_skew_s
    if policy.hook_timeout_s and pre_hook_failed(
        attempt, snapshot.reports_about(attempt), clock_skew_s=clock_skew_s
    ):
        reason = "a pre-hook of the provider failed"
        yield from give_up(job, snapshot, policy, JobState.PANICKED, reason)
    else:
        yield from report_end(job, attempt, snapshot, policy)


def _note_absence(record: JournalRecord, snapshot: Snapshot) -> Iterator[Action]:
    """Write the first sample without the job to the journal.

    The entry has the current time, which is later than the sample. The next sample has the time of
    its request. So the time between the two samples is never overestimated.
    """
    since = record.absent_since
    clock_was_set_back = since is not None and since > snapshot.now
    if snapshot.controller_sample is not None and (since is None or clock_was_set_back):
        yield note(record, EntryKind.ABSENT, occurred_at=snapshot.now)


def _submit_or_give_up(
    record: JournalRecord, job: Job, snapshot: Snapshot, policy: SupervisorPolicy
) -> Iterator[Action]:
    """Submit a job that is absent from Slurm, or end it on the chain."""
    paid_limit_min = time_limit_min(job, max_min=policy.max_time_limit_min)
    if is_unstarted_request(job):
        yield from refuse_request(job, snapshot, policy)
    elif record.unrunnable_reason or paid_limit_min < 1:
        reason = NO_SCRIPT if record.unrunnable_reason else "its credits do not pay for one minute"
        state = JobState.FAILED if job.state is JobState.SCHEDULED else JobState.PANICKED
        yield from give_up(job, snapshot, policy, state, reason)
    elif job.cancel_requested:
        if snapshot.is_request_confirmed(job):
            reason = "cancelled before it started"
            yield from give_up(job, snapshot, policy, JobState.CANCELLED, reason)
    elif record.rejection_reason:
        yield from _retry_rejected(record, job, snapshot, policy)
    elif record.attempt_count >= policy.max_attempts:
        reason = f"lost by Slurm {record.attempt_count} times"
        yield from give_up(job, snapshot, policy, JobState.PANICKED, reason)
    else:
        yield Submit(job=job, time_limit_min=paid_limit_min)


def _retry_rejected(
    record: JournalRecord, job: Job, snapshot: Snapshot, policy: SupervisorPolicy
) -> Iterator[Action]:
    """Repeat a submission that Slurm refused, or refuse the job on the chain.

    There is no complete list of the messages with which Slurm refuses a job temporarily. So every
    refusal is retried.
    """
    if record.rejection_count < policy.max_attempts:
        waited_s = snapshot.now - (record.rejected_at or 0)
        clock_was_set_back = waited_s < 0
        if clock_was_set_back or waited_s >= policy.wait_times.rejection_retry_s:
            paid_limit_min = time_limit_min(job, max_min=policy.max_time_limit_min)
            yield Submit(job=job, time_limit_min=paid_limit_min)
    elif job.state is not JobState.SCHEDULED:
        yield from give_up(job, snapshot, policy, JobState.PANICKED, REFUSED_BY_SLURM)
    else:
        yield from refuse(job, snapshot, policy)
