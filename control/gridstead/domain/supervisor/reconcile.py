# SPDX-License-Identifier: Apache-2.0
"""Plans a supervisor's next actions from one snapshot of the chain, Slurm and the journal.

The plan depends only on the current state. So a restarted supervisor needs no recovery procedure:
its first plan contains the actions that a crash interrupted. A submission and the report of a start
follow a claim in the newest block at once. Irreversible actions wait until the claim has enough
confirmations.

This module plans claims, and the jobs and Slurm jobs that are not claimed by us. ``claimed_job.py``
plans the jobs that are claimed by us.

In this module "our" and "us" mean the provider of this supervisor. A job is *cold* when it is
settled, and *hot* until then.
"""

from __future__ import annotations

from collections.abc import Iterator

from gridstead.domain.jobs.ids import JobKey
from gridstead.domain.jobs.job import Block, Job
from gridstead.domain.jobs.lifecycle import COLD, JobState
from gridstead.domain.supervisor.actions import Action, Put, cancel, cancel_and_note, note
from gridstead.domain.supervisor.attempt import Attempt
from gridstead.domain.supervisor.claimed_job import plan_claimed_job
from gridstead.domain.supervisor.claims import claim_count
from gridstead.domain.supervisor.journal import EntryKind, JournalRecord
from gridstead.domain.supervisor.snapshot import Snapshot, SupervisorPolicy
from gridstead.domain.transactions.calls import (
    Call,
    ClaimCancelling,
    ClaimJobs,
    ClaimTopUp,
    claim_outbox_key,
    is_claim_outbox_key,
)

NOT_CLAIMED = "the job is not claimed by this provider on the chain"


def plan_jobs(snapshot: Snapshot, policy: SupervisorPolicy) -> tuple[Action, ...]:
    """Return the actions to perform now, in order. Jobs that are being submitted have none."""
    actions: list[Action] = list(_plan_claims(snapshot, policy))
    for job_key, record in snapshot.records.items():
        if job_key in snapshot.submitting:
            continue
        job = snapshot.jobs.get(job_key.job_id)
        if job is not None and is_claimed(job, job_key, policy.provider):
            actions.extend(plan_claimed_job(record, job, snapshot, policy))
        else:
            actions.extend(_plan_unclaimed_job(record, job, snapshot, policy))
    actions.extend(_cancel_orphans(snapshot, policy))
    return tuple(action for action in actions if not _is_in_outbox(action, snapshot))


def _is_in_outbox(action: Action, snapshot: Snapshot) -> bool:
    return isinstance(action, Put) and action.key in snapshot.open_outbox_keys


def is_claimed(job: Job, job_key: JobKey, provider: str) -> bool:
    """Return whether the provider has claimed the job with this job key and has not settled it."""
    is_hot = job.state in {JobState.SCHEDULED, JobState.RUNNING}
    return job.job_key == job_key and job.provider == provider and is_hot


def is_head_after_claim(record: JournalRecord, head: Block) -> bool:
    """Return whether the newest block is younger than the claim of a record.

    Only such a block shows whether the claim is still on the chain.
    """
    return head.timestamp > (record.claimed_at or 0)


# Claims


def _plan_claims(snapshot: Snapshot, policy: SupervisorPolicy) -> Iterator[Action]:
    """Claim the entries of our queues.

    The next claim does not wait for the confirmations of a mined claim.
    """
    job_count = claim_count(snapshot, policy)
    claims: tuple[tuple[int, Call], ...] = (
        (job_count, ClaimJobs(limit=job_count)),
        (snapshot.queues.cancelling, ClaimCancelling()),
        (snapshot.queues.top_up, ClaimTopUp()),
    )
    # One call to Gridstead's contracts claims many entries, and one call to DeepSquare's contracts
    # claims one entry.
    max_calls = 1 if policy.deepsquare_slack_min is None else policy.claim_limit
    for queue_size, call in claims:
        if any(is_claim_outbox_key(key, call) for key in snapshot.open_outbox_keys):
            continue  # Such a claim is already in the outbox.
        for index in range(min(queue_size, max_calls)):
            key = claim_outbox_key(call, block=snapshot.head.number, index=index)
            yield Put(key=key, call=call)


# Jobs that are not claimed by us


def _plan_unclaimed_job(
    record: JournalRecord, job: Job | None, snapshot: Snapshot, policy: SupervisorPolicy
) -> Iterator[Action]:
    """Plan for a job that is cold, refused, not claimed, replaced by another job, or unknown.

    After a reorg a claim may disappear for a few blocks. So an attempt is cancelled only after its
    claim has been missing for ``policy.confirmations`` blocks. Blocks that are older than the claim
    do not count, because a node that lags behind does not have the claim yet. If our job is cold,
    nobody pays for its attempt, and the attempt is cancelled at once.
    """
    is_missing = _is_missing_for_confirmations(record, snapshot, policy)
    if is_missing or _is_settled(record, job, policy):
        reason = NOT_CLAIMED if job is None else f"the job is {job.state.name} on the chain"
        for attempt in snapshot.live_attempts(record.job_key):
            yield from cancel_and_note(record, attempt, reason)
    if is_missing:
        yield from _close_if_absent(record, snapshot, policy)


def _is_settled(record: JournalRecord, job: Job | None, policy: SupervisorPolicy) -> bool:
    """Return whether the job of a record is our job on the chain and is cold."""
    if job is None or job.job_key != record.job_key:
        return False
    return job.provider == policy.provider and job.state in COLD


def _is_missing_for_confirmations(
    record: JournalRecord, snapshot: Snapshot, policy: SupervisorPolicy
) -> bool:
    since_block = snapshot.unclaimed_since_block.get(record.job_key)
    if since_block is None or not is_head_after_claim(record, snapshot.head):
        return False
    return snapshot.head.number - since_block >= policy.confirmations


def _close_if_absent(
    record: JournalRecord, snapshot: Snapshot, policy: SupervisorPolicy
) -> Iterator[Action]:
    """Close a job in the journal if it has no live attempt and none can appear any more.

    If the result of a submission is unknown, an attempt may still appear for
    ``submission_timeout_s`` after the start of the submission.
    """
    if snapshot.controller_sample is None or snapshot.live_attempts(record.job_key):
        return
    has_submission = record.submit_intended_at is not None
    is_result_unknown = has_submission and record.slurm_job_id is None
    waited_s = snapshot.now - (record.submit_intended_at or 0)
    if not is_result_unknown or waited_s > policy.wait_times.submission_timeout_s:
        yield note(record, EntryKind.CLOSED, occurred_at=snapshot.now)


# Slurm jobs without a record


def _cancel_orphans(snapshot: Snapshot, policy: SupervisorPolicy) -> Iterator[Action]:
    """Cancel the live attempts with a job key of our contracts that belong to none of our jobs."""
    attempts = () if snapshot.controller_sample is None else snapshot.controller_sample.attempts
    for attempt in attempts:
        if attempt.is_alive and _is_orphan(attempt, snapshot, policy):
            assert attempt.job_key is not None
            yield cancel(attempt, attempt.job_key, NOT_CLAIMED)


def _is_orphan(attempt: Attempt, snapshot: Snapshot, policy: SupervisorPolicy) -> bool:
    """Return whether an attempt has a job key of our contracts but belongs to none of our jobs.

    A recent attempt is not an orphan, because its claim may be in a block that is not read yet.
    """
    job_key = attempt.job_key
    if job_key is None or job_key in snapshot.records:
        return False
    if attempt.submitted_at > snapshot.head.timestamp - policy.wait_times.clock_skew_s:
        return False
    if job_key.job_id.chain_id != policy.chain_id or job_key.job_id.contract != policy.contract:
        return False
    job = snapshot.jobs.get(job_key.job_id)
    if job is None or job.job_key != job_key:
        return True
    return job.provider != policy.provider or job.state in COLD
