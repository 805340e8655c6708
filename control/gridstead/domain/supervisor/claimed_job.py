# SPDX-License-Identifier: Apache-2.0
"""Plans the next actions for one job that this provider has claimed and has not settled.

The plan follows the state of the job in Slurm, see ``evidence.py``: a live job is reported as
running, an ended job is settled, and a job that Slurm does not have is submitted or given up.
``reconcile.py`` plans for all jobs and passes the claimed jobs to this module.

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
    Put,
    Submit,
    cancel,
    cancel_and_note,
    note,
)
from gridstead.domain.supervisor.attempt import END_STATES, Attempt
from gridstead.domain.supervisor.end_text import NO_SCRIPT, REFUSED_BY_SLURM, end_text
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
from gridstead.domain.supervisor.journal import EntryKind, JournalRecord
from gridstead.domain.supervisor.settlement import (
    billed_seconds,
    evidence_hash,
    max_billable_seconds,
    time_limit_min,
)
from gridstead.domain.supervisor.snapshot import Snapshot, SupervisorPolicy
from gridstead.domain.transactions.calls import Refuse, SetRunning, Settle, outbox_key

CANCELLED_BY_CUSTOMER = "its customer cancelled it"
NO_EVIDENCE = "0x" + "00" * 32


def plan_claimed_job(
    record: JournalRecord, job: Job, snapshot: Snapshot, policy: SupervisorPolicy
) -> Iterator[Action]:
    """Plan for a hot job that is claimed by us."""
    if not is_batch_location_hash(job.batch_location_hash):
        reason = "the id of its script is malformed"
        yield from _give_up(job, snapshot, policy, JobState.FAILED, reason)
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
        yield _report_start(job, attempt)


def _stop_attempt(
    record: JournalRecord, job: Job, attempt: Attempt, snapshot: Snapshot
) -> Iterator[Action]:
    """Cancel an attempt because the customer requested to cancel its job.

    A reorg may remove the request. An attempt that has not started is cancelled at once: its end is
    not the end of the job, so the job can be submitted again. An attempt that has started cannot be
    repeated, so it runs until the request is confirmed.
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


def _report_end(
    job: Job, attempt: Attempt, snapshot: Snapshot, policy: SupervisorPolicy
) -> Iterator[Action]:
    """Report the start and then the end of an ended job to the chain.

    The end waits until the start is mined and the claim is confirmed. Without a start, the contract
    accepts some end states but pays nothing, and refuses the other end states.

    If the attempt ended before its script started, the end state is CANCELLED, FAILED or PANICKED.
    If its customer requested to cancel such a job, it is refused instead.
    """
    if job.state is JobState.SCHEDULED and attempt.has_started:
        yield _report_start(job, attempt)
        return
    if _is_unstarted_request(job):
        yield from _refuse_request(job, snapshot, policy)
        return
    if not _is_claim_confirmed(job, snapshot, policy):
        return
    state = END_STATES[attempt.state]
    if job.state is JobState.SCHEDULED and state not in {JobState.CANCELLED, JobState.FAILED}:
        state = JobState.PANICKED
    call = Settle(
        job_key=job.job_key,
        state=state,
        seconds=_seconds_to_bill(job, attempt, snapshot, policy),
        exit_code=attempt.exit_code,
        error=end_text(attempt, job.resources),
        evidence=evidence_hash(attempt),
    )
    yield Put(key=outbox_key(call), call=call)


def _seconds_to_bill(
    job: Job, attempt: Attempt, snapshot: Snapshot, policy: SupervisorPolicy
) -> int:
    seconds = billed_seconds(job, attempt, snapshot.reports, hook_timeout_s=policy.hook_timeout_s)
    if policy.deepsquare_slack_min is None:
        return seconds
    max_seconds = max_billable_seconds(
        job, now=snapshot.head.timestamp, slack_min=policy.deepsquare_slack_min
    )
    return min(seconds, max_seconds)


def _plan_ended_job(
    job: Job, attempt: Attempt, snapshot: Snapshot, policy: SupervisorPolicy
) -> Iterator[Action]:
    """Report the end of a job, or give the job up if a failed pre-hook of the site ended it."""
    clock_skew_s = policy.wait_times.clock_skew_s
    if policy.hook_timeout_s and pre_hook_failed(
        attempt, snapshot.reports, clock_skew_s=clock_skew_s
    ):
        reason = "a pre-hook of the provider failed"
        yield from _give_up(job, snapshot, policy, JobState.PANICKED, reason)
    else:
        yield from _report_end(job, attempt, snapshot, policy)


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
    if _is_unstarted_request(job):
        yield from _refuse_request(job, snapshot, policy)
    elif record.unrunnable_reason or paid_limit_min < 1:
        reason = NO_SCRIPT if record.unrunnable_reason else "its credits do not pay for one minute"
        state = JobState.FAILED if job.state is JobState.SCHEDULED else JobState.PANICKED
        yield from _give_up(job, snapshot, policy, state, reason)
    elif job.cancel_requested:
        if snapshot.is_request_confirmed(job):
            reason = "cancelled before it started"
            yield from _give_up(job, snapshot, policy, JobState.CANCELLED, reason)
    elif record.rejection_reason:
        yield from _retry_rejected(record, job, snapshot, policy)
    elif record.attempt_count >= policy.max_attempts:
        reason = f"lost by Slurm {record.attempt_count} times"
        yield from _give_up(job, snapshot, policy, JobState.PANICKED, reason)
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
        yield from _give_up(job, snapshot, policy, JobState.PANICKED, REFUSED_BY_SLURM)
    else:
        yield from _refuse(job, snapshot, policy)


def _is_unstarted_request(job: Job) -> bool:
    """Return whether a job has a request to cancel and the chain has not recorded its start."""
    return job.state is JobState.SCHEDULED and job.cancel_requested


def _refuse_request(job: Job, snapshot: Snapshot, policy: SupervisorPolicy) -> Iterator[Action]:
    """Refuse a job with a request to cancel.

    Without the request, the refusal would exclude this provider from the job. So the refusal waits
    until the request is confirmed.
    """
    if snapshot.is_request_confirmed(job):
        yield from _refuse(job, snapshot, policy)


def _refuse(job: Job, snapshot: Snapshot, policy: SupervisorPolicy) -> Iterator[Action]:
    if _is_claim_confirmed(job, snapshot, policy):
        call = Refuse(job_key=job.job_key)
        yield Put(key=outbox_key(call), call=call)


def _give_up(
    job: Job, snapshot: Snapshot, policy: SupervisorPolicy, state: JobState, reason: str
) -> Iterator[Action]:
    """End a job whose script never ran, or whose run has no record. Nothing is billed."""
    if _is_claim_confirmed(job, snapshot, policy):
        call = Settle(
            job_key=job.job_key,
            state=state,
            seconds=0,
            exit_code=0,
            error=reason,
            evidence=NO_EVIDENCE,
        )
        yield Put(key=outbox_key(call), call=call)


def _is_claim_confirmed(job: Job, snapshot: Snapshot, policy: SupervisorPolicy) -> bool:
    """Return whether the claim of a job has enough confirmations.

    The contract stores only the block of the last transition. So for a running job whose claim was
    read before the last restart, the block of the start counts, which is later than the claim.
    """
    claim_block = job.state_block
    if job.state is JobState.RUNNING:
        claim_block = snapshot.claim_blocks.get(job.id, job.state_block)
    return snapshot.head.number - claim_block >= policy.confirmations


def _report_start(job: Job, attempt: Attempt) -> Put:
    """Return the report of a start, which does not wait for confirmations.

    If a reorg removes the claim, the contract refuses the start, and the start is planned again.
    """
    call = SetRunning(job_key=job.job_key, started_at=attempt.started_at or 0)
    return Put(key=outbox_key(call), call=call)
