# SPDX-License-Identifier: Apache-2.0
"""Decides what a supervisor does next, from one snapshot of the chain, Slurm and the journal.

A start of the supervisor needs no special recovery: the plan is computed from the current state, so
it contains everything that a crash left to do. A claim acts on the newest block. Everything that is
irreversible waits until the claim has enough confirmations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from gridstead.domain.jobs.ids import JobKey, is_batch_location_hash
from gridstead.domain.jobs.job import Block, Job
from gridstead.domain.jobs.lifecycle import COLD, JobState, is_legal
from gridstead.domain.supervisor.actions import Action, Cancel, Extend, Note, Put, Submit
from gridstead.domain.supervisor.attempt import END_STATES, Attempt
from gridstead.domain.supervisor.evidence import (
    Absent,
    Alive,
    Ended,
    Evidence,
    Unknown,
    assess,
    belongs,
)
from gridstead.domain.supervisor.journal import EntryKind, JournalEntry, JournalRecord
from gridstead.domain.supervisor.settlement import (
    billed_seconds,
    evidence_hash,
    slack_seconds,
    time_limit_min,
)
from gridstead.domain.supervisor.snapshot import Rules, Snapshot
from gridstead.domain.transactions.calls import (
    Call,
    ClaimCancelling,
    ClaimJobs,
    ClaimTopUp,
    Refuse,
    SetRunning,
    Settle,
    claim_key,
    is_claim_key,
    key_of,
)

NO_EVIDENCE = "0x" + "00" * 32
NOT_CLAIMED = "the job is not claimed by this provider on the chain"


def plan_jobs(snapshot: Snapshot, rules: Rules) -> tuple[Action, ...]:
    """Return what to do now, in order."""
    actions: list[Action] = list(_claims(snapshot, rules))
    for job_key, record in snapshot.records.items():
        job = snapshot.jobs.get(job_key.job_id)
        if job is not None and is_claimed(job, job_key, rules.provider):
            actions.extend(_claimed_job(record, job, snapshot, rules))
        else:
            actions.extend(_unclaimed_job(record, job, snapshot, rules))
    actions.extend(_orphans(snapshot, rules))
    return tuple(a for a in actions if not (isinstance(a, Put) and a.key in snapshot.open_keys))


def is_claimed(job: Job, job_key: JobKey, provider: str) -> bool:
    """Return whether a job has this job key, is claimed by the provider and is hot."""
    is_hot = job.state in {JobState.SCHEDULED, JobState.RUNNING}
    return job.job_key == job_key and job.provider == provider and is_hot


def knows_claim(record: JournalRecord, head: Block) -> bool:
    """Return whether the newest block is younger than the claim of a record.

    An older block cannot have the claim.
    """
    return head.timestamp > (record.claimed_at or 0)


# Claims


def _claims(snapshot: Snapshot, rules: Rules) -> Iterator[Action]:
    """Claim the entries of our queues.

    A claim that is mined needs no confirmations before the next claim.
    """
    claims: tuple[tuple[int, Call], ...] = (
        (snapshot.queues.claimable, ClaimJobs(limit=rules.claim_limit)),
        (snapshot.queues.cancelling, ClaimCancelling()),
        (snapshot.queues.top_up, ClaimTopUp()),
    )
    # DeepSquare's contracts take one entry of a queue per claim.
    most = 1 if rules.plain_slack_min is None else rules.claim_limit
    for queue_size, call in claims:
        if any(is_claim_key(key, call) for key in snapshot.open_keys):
            continue  # Such a claim is already in the outbox.
        for index in range(min(queue_size, most)):
            key = claim_key(call, block=snapshot.head.number, index=index)
            yield Put(key=key, call=call)


# Jobs that are not claimed by us


def _unclaimed_job(
    record: JournalRecord, job: Job | None, snapshot: Snapshot, rules: Rules
) -> Iterator[Action]:
    """Plan for a job that is cold, refused, not claimed, replaced by another job, or unknown.

    After a reorg, or on a node that lags behind, a claim may disappear for a few blocks. So nothing
    is cancelled before the claim is missing for the confirmations. If our claimed job is cold,
    nobody pays for the run, and it is cancelled at once. Blocks that are older than the claim do
    not count: a node that lags behind does not have the claim yet.
    """
    is_missing = _is_missing_for_confirmations(record, snapshot, rules)
    if is_missing or _is_settled(record, job, rules):
        reason = NOT_CLAIMED if job is None else f"the job is {job.state.name} on the chain"
        for attempt in _live_attempts(record.job_key, snapshot):
            yield from _cancel_for_good(record, attempt, reason)
    if is_missing:
        yield from _close_if_gone(record, snapshot, rules)


def _is_settled(record: JournalRecord, job: Job | None, rules: Rules) -> bool:
    """Return whether the chain has the job of a record as our job in a cold state."""
    if job is None or job.job_key != record.job_key:
        return False
    return job.provider == rules.provider and job.state in COLD


def _is_missing_for_confirmations(record: JournalRecord, snapshot: Snapshot, rules: Rules) -> bool:
    since = snapshot.unclaimed_since.get(record.job_key)
    if since is None or not knows_claim(record, snapshot.head):
        return False
    return snapshot.head.number - since >= rules.confirmations


def _cancel_for_good(record: JournalRecord, attempt: Attempt, reason: str) -> Iterator[Action]:
    """Cancel an attempt, and note in the journal that its end is not the end of the job.

    The job may be claimed by us again later.
    """
    if not _is_cancelled_by_us(record, attempt):
        yield Note(
            entry=JournalEntry(
                job_key=record.job_key,
                kind=EntryKind.CANCELLED_BY_US,
                occurred_at=attempt.submitted_at,
                slurm_job_id=attempt.slurm_job_id,
                reason=reason,
            )
        )
    yield _cancel(attempt, record.job_key, reason)


def _close_if_gone(record: JournalRecord, snapshot: Snapshot, rules: Rules) -> Iterator[Action]:
    """Close a job if slurmctld lists no attempt of it and none can still appear."""
    if snapshot.live is None or _live_attempts(record.job_key, snapshot):
        return
    is_known = record.submit_intended_at is None or record.slurm_job_id is not None
    if is_known or snapshot.now - (record.submit_intended_at or 0) > rules.wait_times.submission_s:
        yield _note(record, EntryKind.CLOSED, snapshot)


# Jobs that are claimed by us


def _claimed_job(
    record: JournalRecord, job: Job, snapshot: Snapshot, rules: Rules
) -> Iterator[Action]:
    """Plan for a hot job that is claimed by us."""
    if not is_batch_location_hash(job.batch_location_hash):
        reason = "the id of its script is malformed"
        yield from _give_up(job, snapshot, rules, JobState.FAILED, reason)
        return
    yield from _impostors(record, job, snapshot, rules)
    live = _live_attempts(record.job_key, snapshot)
    cancelled = [attempt for attempt in live if _is_cancelled_by_us(record, attempt)]
    if cancelled:
        for attempt in cancelled:
            yield _cancel(attempt, record.job_key, "it was cancelled before")
        return
    evidence = assess(
        record,
        customer=job.customer,
        live=snapshot.live,
        accounting=snapshot.accounting,
        wait_times=rules.wait_times,
    )
    if record.absent_since is not None and isinstance(evidence, Alive | Ended):
        yield _note(record, EntryKind.PRESENT, snapshot)
    yield from _act_on(evidence, record, job, snapshot, rules)


def _act_on(
    evidence: Evidence, record: JournalRecord, job: Job, snapshot: Snapshot, rules: Rules
) -> Iterator[Action]:
    match evidence:
        case Unknown():
            return
        case Alive(attempt=attempt, duplicates=duplicates):
            for extra in duplicates:
                yield _cancel(extra, record.job_key, "it is a second attempt of the job")
            yield from _follow(record, job, attempt, snapshot, rules)
        case Ended(attempt=attempt):
            yield from _end(job, attempt, snapshot, rules)
        case Absent(is_confirmed=True):
            yield from _restart_or_give_up(record, job, snapshot, rules)
        case Absent():
            yield from _note_absence(record, snapshot)
        case _:
            assert_never(evidence)


def _impostors(
    record: JournalRecord, job: Job, snapshot: Snapshot, rules: Rules
) -> Iterator[Action]:
    """Cancel the live Slurm jobs that have the job key but do not belong to the job."""
    not_before = (record.claimed_at or 0) - rules.wait_times.clock_skew_s
    for attempt in _live_attempts(record.job_key, snapshot):
        if belongs(attempt, job_key=record.job_key, customer=job.customer, not_before=not_before):
            continue
        reason = (
            f"slurm job {attempt.slurm_job_id} of {attempt.user} has this job's job key but does "
            "not belong to it"
        )
        yield _note(record, EntryKind.IMPOSTOR, snapshot, reason=reason)
        yield _cancel(attempt, record.job_key, reason)


def _follow(
    record: JournalRecord, job: Job, attempt: Attempt, snapshot: Snapshot, rules: Rules
) -> Iterator[Action]:
    """Plan for a job that is pending or running in Slurm."""
    yield from _note_seen(record, attempt, snapshot, rules)
    if job.cancel_requested:
        yield _cancel(attempt, record.job_key, "its customer cancelled it")
    else:
        yield from _extend(job, attempt, rules)
    is_waiting = job.state is JobState.SCHEDULED
    if is_waiting and attempt.has_started and _claim_is_confirmed(job, snapshot, rules):
        yield _set_running(job, attempt)


def _note_seen(
    record: JournalRecord, attempt: Attempt, snapshot: Snapshot, rules: Rules
) -> Iterator[Action]:
    """Note an attempt that is new, or that is durable in slurmctld for the first time."""
    durable_at = (record.submit_intended_at or 0) + rules.wait_times.absent_after_s
    is_durable = snapshot.now >= durable_at
    is_new = record.slurm_job_id != attempt.slurm_job_id
    if is_new or (is_durable and not record.is_durable):
        kind = EntryKind.SEEN if is_durable else EntryKind.SUBMITTED
        yield _note(record, kind, snapshot, slurm_job_id=attempt.slurm_job_id)


def _extend(job: Job, attempt: Attempt, rules: Rules) -> Iterator[Action]:
    """Raise the time limit of an attempt after a top-up."""
    limit = time_limit_min(job, longest=rules.max_time_limit_min)
    if attempt.time_limit_min is not None and attempt.time_limit_min < limit:
        yield Extend(slurm_job_id=attempt.slurm_job_id, job_key=job.job_key, time_limit_min=limit)


def _end(job: Job, attempt: Attempt, snapshot: Snapshot, rules: Rules) -> Iterator[Action]:
    """Report the start and the end of a job that ended to the chain, in this order.

    The contract accepts some end states only for a running job. Then both calls are put at once: if
    the start gets lost, the contract skips the end, and both are reported again. The contract would
    accept a failure or a cancellation without a start and pay nothing. Then the end waits until the
    start is mined.
    """
    if not _claim_is_confirmed(job, snapshot, rules):
        return
    state = END_STATES[attempt.state]
    if job.state is JobState.SCHEDULED and attempt.has_started:
        yield _set_running(job, attempt)
        if is_legal(job.state, state) or rules.plain_slack_min is not None:
            return
    elif job.state is JobState.SCHEDULED and state not in {JobState.CANCELLED, JobState.FAILED}:
        state = JobState.PANICKED
    error = "" if state is JobState.FINISHED else f"Slurm reports {attempt.state}"
    call = Settle(
        job_key=job.job_key,
        state=state,
        seconds=_seconds_to_bill(job, attempt, snapshot, rules),
        exit_code=attempt.exit_code,
        error=error,
        evidence=evidence_hash(attempt),
    )
    yield Put(key=key_of(call), call=call)


def _seconds_to_bill(job: Job, attempt: Attempt, snapshot: Snapshot, rules: Rules) -> int:
    seconds = billed_seconds(job, attempt, snapshot.reports)
    if rules.plain_slack_min is None:
        return seconds
    most = slack_seconds(job, now=snapshot.head.timestamp, slack_min=rules.plain_slack_min)
    return min(seconds, most)


def _note_absence(record: JournalRecord, snapshot: Snapshot) -> Iterator[Action]:
    """Note the first sample without the job.

    The note has the current time. The next sample is dated by the time of its request, so the time
    between the two samples is never overestimated.
    """
    since = record.absent_since
    clock_was_set_back = since is not None and since > snapshot.now
    if snapshot.live is not None and (since is None or clock_was_set_back):
        yield _note(record, EntryKind.ABSENT, snapshot)


def _restart_or_give_up(
    record: JournalRecord, job: Job, snapshot: Snapshot, rules: Rules
) -> Iterator[Action]:
    """Submit a job that Slurm does not have, or give it up."""
    limit = time_limit_min(job, longest=rules.max_time_limit_min)
    if record.unrunnable_reason or limit < 1:
        reason = record.unrunnable_reason or "its credits do not pay for one minute"
        state = JobState.FAILED if job.state is JobState.SCHEDULED else JobState.PANICKED
        yield from _give_up(job, snapshot, rules, state, reason)
    elif job.cancel_requested:
        yield from _give_up(job, snapshot, rules, JobState.CANCELLED, "cancelled before it started")
    elif record.rejection_reason:
        yield from _retry_rejected(record, job, snapshot, rules)
    elif record.attempt_count >= rules.max_attempts:
        reason = f"lost by Slurm {record.attempt_count} times"
        yield from _give_up(job, snapshot, rules, JobState.PANICKED, reason)
    else:
        yield Submit(job=job, time_limit_min=limit)


def _retry_rejected(
    record: JournalRecord, job: Job, snapshot: Snapshot, rules: Rules
) -> Iterator[Action]:
    """Submit a job again that Slurm refused, or refuse it on the chain.

    Slurm has many messages for a temporary refusal, and their list is not known. So every refusal
    is retried.
    """
    if record.rejection_count < rules.max_attempts:
        waited_s = snapshot.now - (record.rejected_at or 0)
        clock_was_set_back = waited_s < 0
        if clock_was_set_back or waited_s >= rules.wait_times.rejection_s:
            limit = time_limit_min(job, longest=rules.max_time_limit_min)
            yield Submit(job=job, time_limit_min=limit)
    elif job.state is not JobState.SCHEDULED:
        yield from _give_up(job, snapshot, rules, JobState.PANICKED, record.rejection_reason)
    elif _claim_is_confirmed(job, snapshot, rules):
        call = Refuse(job_key=job.job_key)
        yield Put(key=key_of(call), call=call)


def _give_up(
    job: Job, snapshot: Snapshot, rules: Rules, state: JobState, reason: str
) -> Iterator[Action]:
    """End a job that never ran or of which there is no record. Nothing is billed."""
    if _claim_is_confirmed(job, snapshot, rules):
        call = Settle(
            job_key=job.job_key,
            state=state,
            seconds=0,
            exit_code=0,
            error=reason,
            evidence=NO_EVIDENCE,
        )
        yield Put(key=key_of(call), call=call)


# Slurm jobs without a record


def _orphans(snapshot: Snapshot, rules: Rules) -> Iterator[Action]:
    """Cancel the live attempts of our contracts that have no record and are not claimed by us."""
    attempts = () if snapshot.live is None else snapshot.live.attempts
    for attempt in attempts:
        if attempt.is_alive and _is_orphan(attempt, snapshot, rules):
            assert attempt.job_key is not None
            yield _cancel(attempt, attempt.job_key, NOT_CLAIMED)


def _is_orphan(attempt: Attempt, snapshot: Snapshot, rules: Rules) -> bool:
    """Return whether an attempt of our contracts belongs to no job of ours.

    An attempt that is younger than the newest block may belong to a claim of a later block.
    """
    job_key = attempt.job_key
    if job_key is None or job_key in snapshot.records:
        return False
    if attempt.submitted_at > snapshot.head.timestamp - rules.wait_times.clock_skew_s:
        return False
    contracts = (job_key.job_id.chain_id, job_key.job_id.contract)
    if contracts != (rules.chain_id, rules.contract):
        return False
    job = snapshot.jobs.get(job_key.job_id)
    if job is None or job.job_key != job_key:
        return True
    return job.provider != rules.provider or job.state in COLD


# Parts of several plans


def _claim_is_confirmed(job: Job, snapshot: Snapshot, rules: Rules) -> bool:
    """Return whether the claim of a job has enough confirmations.

    A job becomes RUNNING only after its claim was confirmed, so a running job needs no second wait.
    """
    if job.state is JobState.RUNNING:
        return True
    return snapshot.head.number - job.state_block >= rules.confirmations


def _live_attempts(job_key: JobKey, snapshot: Snapshot) -> list[Attempt]:
    """Return the live Slurm jobs with a job key. Empty if slurmctld did not answer."""
    if snapshot.live is None:
        return []
    return [a for a in snapshot.live.attempts if a.is_alive and a.job_key == job_key]


def _is_cancelled_by_us(record: JournalRecord, attempt: Attempt) -> bool:
    return (attempt.slurm_job_id, attempt.submitted_at) in record.cancelled_by_us


def _note(
    record: JournalRecord,
    kind: EntryKind,
    snapshot: Snapshot,
    *,
    slurm_job_id: int | None = None,
    reason: str = "",
) -> Note:
    entry = JournalEntry(
        job_key=record.job_key,
        kind=kind,
        occurred_at=snapshot.now,
        slurm_job_id=slurm_job_id,
        reason=reason,
    )
    return Note(entry=entry)


def _cancel(attempt: Attempt, job_key: JobKey, reason: str) -> Cancel:
    return Cancel(slurm_job_id=attempt.slurm_job_id, job_key=job_key, reason=reason)


def _set_running(job: Job, attempt: Attempt) -> Put:
    call = SetRunning(job_key=job.job_key, started_at=attempt.started_at or 0)
    return Put(key=key_of(call), call=call)
