# SPDX-License-Identifier: Apache-2.0
"""Plans the contract calls about one job that this provider has claimed: its start and its end.

``claimed_job.py`` decides which of these calls a job needs. A call that ends a job waits until the
claim of the job is confirmed.
"""

from __future__ import annotations

from collections.abc import Iterator

from gridstead.domain.jobs.job import Job
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.actions import Action, Put
from gridstead.domain.supervisor.attempt import END_STATES, Attempt
from gridstead.domain.supervisor.end_text import end_text
from gridstead.domain.supervisor.settlement import (
    billed_seconds,
    evidence_hash,
    max_billable_seconds,
)
from gridstead.domain.supervisor.snapshot import Snapshot, SupervisorPolicy
from gridstead.domain.transactions.calls import Refuse, SetRunning, Settle, outbox_key

NO_EVIDENCE = "0x" + "00" * 32


def report_start(job: Job, attempt: Attempt) -> Put:
    """Return the report of a start, which does not wait for confirmations.

    If a reorg removes the claim, the contract refuses the start, and the start is planned again.
    """
    call = SetRunning(job_key=job.job_key, started_at=attempt.started_at or 0)
    return Put(key=outbox_key(call), call=call)


def report_end(
    job: Job, attempt: Attempt, snapshot: Snapshot, policy: SupervisorPolicy
) -> Iterator[Action]:
    """Report the start and then the end of an ended job to the chain.

    The end waits until the start is mined and the claim is confirmed. If a request to cancel limits
    the bill, the end also waits until the request is confirmed: a reorg that removes the request
    removes the limit. Without a start, the contract accepts some end states but pays nothing, and
    refuses the other end states.

    If the attempt ended before its script started, the end state is CANCELLED, FAILED or PANICKED.
    If its customer requested to cancel such a job, it is refused instead.
    """
    if job.state is JobState.SCHEDULED and attempt.has_started:
        yield report_start(job, attempt)
        return
    if is_unstarted_request(job):
        yield from refuse_request(job, snapshot, policy)
        return
    if not _is_claim_confirmed(job, snapshot, policy):
        return
    if job.bill_until is not None and not snapshot.is_request_confirmed(job):
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
    reports = snapshot.reports_about(attempt)
    seconds = billed_seconds(job, attempt, reports, hook_timeout_s=policy.hook_timeout_s)
    if policy.deepsquare_slack_min is None:
        return seconds
    max_seconds = max_billable_seconds(
        job, now=snapshot.head.timestamp, slack_min=policy.deepsquare_slack_min
    )
    return min(seconds, max_seconds)


def refuse_request(job: Job, snapshot: Snapshot, policy: SupervisorPolicy) -> Iterator[Action]:
    """Refuse a job with a request to cancel.

    Without the request, the refusal would exclude this provider from the job. So the refusal waits
    until the request is confirmed.
    """
    if snapshot.is_request_confirmed(job):
        yield from refuse(job, snapshot, policy)


def refuse(job: Job, snapshot: Snapshot, policy: SupervisorPolicy) -> Iterator[Action]:
    """Refuse a job that has not started. Without a request to cancel, it is matched again."""
    if _is_claim_confirmed(job, snapshot, policy):
        call = Refuse(job_key=job.job_key)
        yield Put(key=outbox_key(call), call=call)


def give_up(
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


def is_unstarted_request(job: Job) -> bool:
    """Return whether a job has a request to cancel and the chain has not recorded its start."""
    return job.state is JobState.SCHEDULED and job.cancel_requested


def _is_claim_confirmed(job: Job, snapshot: Snapshot, policy: SupervisorPolicy) -> bool:
    """Return whether the claim of a job has enough confirmations.

    The contract stores only the block of the last transition. So for a running job whose claim was
    read before the last restart, the block of the start counts, which is later than the claim.
    """
    claim_block = job.state_block
    if job.state is JobState.RUNNING:
        claim_block = snapshot.claim_blocks.get(job.id, job.state_block)
    return snapshot.head.number - claim_block >= policy.confirmations
