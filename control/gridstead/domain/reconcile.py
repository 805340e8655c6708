# SPDX-License-Identifier: Apache-2.0
"""What a supervisor does next: one pure function over one snapshot.

Every start is a recovery: the plan is computed from what the chain, Slurm and the journal say now,
so whatever was left undone is simply the rest of the plan. A claim may act on the newest block;
everything that cannot be undone waits until the claim has enough confirmations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from gridstead.domain.actions import Action, Cancel, Extend, Note, Put, Submit
from gridstead.domain.attempt import END_STATES, Attempt
from gridstead.domain.calls import (
    Call,
    ClaimCancelling,
    ClaimJobs,
    ClaimTopUp,
    Refuse,
    SetRunning,
    Settle,
)
from gridstead.domain.evidence import Absent, Alive, Ended, Unknown, belongs, weigh
from gridstead.domain.ids import JobKey, is_batch_location_hash
from gridstead.domain.job import Block, Job
from gridstead.domain.journal import EntryKind, JournalEntry, JournalRecord
from gridstead.domain.lifecycle import COLD, JobState, is_legal
from gridstead.domain.settlement import billed_seconds, evidence_hash, slack_seconds, time_limit_min
from gridstead.domain.snapshot import Rules, Snapshot

NO_EVIDENCE = "0x" + "00" * 32

# Outbox keys begin with these words and a colon. They are stored: a released one never changes.
CLAIM_KEY, CLAIM_CANCELLING_KEY, CLAIM_TOP_UP_KEY = "claim", "claim-cancelling", "claim-top-up"
RUNNING_KEY, SETTLE_KEY, REFUSE_KEY = "running", "settle", "refuse"


def plan_jobs(snapshot: Snapshot, rules: Rules) -> tuple[Action, ...]:
    """Return what to do now, in order."""
    actions: list[Action] = list(_claims(snapshot, rules))
    for job_key, record in snapshot.records.items():
        job = snapshot.jobs.get(job_key.job_id.number)
        if job is not None and is_claimed(job, job_key, rules.provider):
            actions.extend(_ours(record, job, snapshot, rules))
        else:
            actions.extend(_not_ours(record, job, snapshot, rules))
    actions.extend(_orphans(snapshot, rules))
    open_keys = snapshot.open_keys
    return tuple(a for a in actions if not (isinstance(a, Put) and a.key in open_keys))


def _claims(snapshot: Snapshot, rules: Rules) -> Iterator[Action]:
    """Take what waits in our queues; a claim that is mined need not be final before the next one."""
    wanted: tuple[tuple[str, int, Call], ...] = (
        (CLAIM_KEY, snapshot.queues.claimable, ClaimJobs(limit=rules.claim_limit)),
        (CLAIM_CANCELLING_KEY, snapshot.queues.cancelling, ClaimCancelling()),
        (CLAIM_TOP_UP_KEY, snapshot.queues.top_up, ClaimTopUp()),
    )
    for name, waiting, call in wanted:
        if any(key.startswith(f"{name}:") for key in snapshot.open_keys):
            continue  # It is under way.
        for turn in range(min(waiting, 1 if rules.plain_slack_min is None else rules.claim_limit)):
            yield Put(key=f"{name}:{snapshot.head.number}:{turn}", call=call)


def _alive_with(job_key: JobKey, snapshot: Snapshot) -> list[Attempt]:
    return (
        [a for a in snapshot.live.attempts if a.alive and a.job_key == job_key]
        if snapshot.live
        else []
    )


def _close_when_gone(record: JournalRecord, snapshot: Snapshot, rules: Rules) -> Iterator[Action]:
    """Close a job once slurmctld lists nothing of it, and a submission under way has had time to
    show.
    """
    if snapshot.live is None or _alive_with(record.job_key, snapshot):
        return
    is_known = record.intended_at is None or record.slurm_job_id is not None
    if is_known or snapshot.now - (record.intended_at or 0) > rules.patience.submission_s:
        yield Note(
            entry=JournalEntry(
                job_key=record.job_key, kind=EntryKind.CLOSED, occurred_at=snapshot.now
            )
        )


def is_claimed(job: Job, job_key: JobKey, provider: str) -> bool:
    """Return whether the chain gives this job to the provider: claimed by it and hot."""
    hot = job.state in {JobState.SCHEDULED, JobState.RUNNING}
    return job.job_key == job_key and job.provider == provider and hot


def knows_claim(record: JournalRecord, head: Block) -> bool:
    """Return whether a chain with this newest block would have the claim of a record: it is younger
    than the claim.
    """
    return head.timestamp > (record.claimed_at or 0)


def _not_ours(
    record: JournalRecord, job: Job | None, snapshot: Snapshot, rules: Rules
) -> Iterator[Action]:
    """Cold, given back, not claimed (any more), another job's number now, or unknown to the chain.

    A reorg, or a node that lags behind, shows the same for a few blocks and then the claim again.
    So nothing is undone before it lasted for the confirmations, unless the job of our own claim is
    cold: then nobody pays for what runs. Blocks older than the claim, of a node that still reads
    its way up to it, are no confirmations of anything.
    """
    job_key = record.job_key
    settled = (
        job is not None
        and job.job_key == job_key
        and job.provider == rules.provider
        and job.state in COLD
    )
    since = snapshot.unclaimed_since.get(job_key)
    lasts = (
        since is not None
        and knows_claim(record, snapshot.head)
        and snapshot.head.number - since >= rules.confirmations
    )
    if settled or lasts:
        reason = (
            "the chain does not give it to us"
            if job is None
            else f"the chain says {job.state.name}"
        )
        for attempt in _alive_with(job_key, snapshot):
            yield from _cancel(record, attempt, reason)
    if lasts:
        yield from _close_when_gone(record, snapshot, rules)


def _cancel(record: JournalRecord, attempt: Attempt, reason: str) -> Iterator[Action]:
    """End an attempt and remember that its end says nothing of the job, should the chain give it to
    us again.
    """
    if (attempt.slurm_job_id, attempt.submitted_at) not in record.cancelled_by_us:
        submitted_at, slurm_job_id = attempt.submitted_at, attempt.slurm_job_id
        yield Note(
            entry=JournalEntry(
                job_key=record.job_key,
                kind=EntryKind.CANCELLED_BY_US,
                occurred_at=submitted_at,
                slurm_job_id=slurm_job_id,
                reason=reason,
            )
        )
    yield Cancel(slurm_job_id=attempt.slurm_job_id, job_key=record.job_key, reason=reason)


def _ours(record: JournalRecord, job: Job, snapshot: Snapshot, rules: Rules) -> Iterator[Action]:
    """Claimed by us and hot."""
    if not is_batch_location_hash(job.batch_location_hash):
        yield from _give_up(
            job, snapshot, rules, JobState.FAILED, "the id of its script is malformed"
        )
        return
    yield from _impostors(record, job, snapshot, rules)
    ending = [
        a
        for a in _alive_with(record.job_key, snapshot)
        if (a.slurm_job_id, a.submitted_at) in record.cancelled_by_us
    ]
    if ending:
        for attempt in ending:
            yield Cancel(
                slurm_job_id=attempt.slurm_job_id,
                job_key=record.job_key,
                reason="it was undone before",
            )
        return
    evidence = weigh(
        record,
        customer=job.customer,
        live=snapshot.live,
        accounting=snapshot.accounting,
        patience=rules.patience,
    )
    if record.absent_since is not None and isinstance(evidence, Alive | Ended):
        yield Note(
            entry=JournalEntry(
                job_key=record.job_key, kind=EntryKind.PRESENT, occurred_at=snapshot.now
            )
        )
    match evidence:
        case Unknown():
            return
        case Alive(attempt=attempt, surplus=surplus):
            for extra in surplus:
                yield Cancel(
                    slurm_job_id=extra.slurm_job_id,
                    job_key=record.job_key,
                    reason="a second attempt",
                )
            yield from _follow(record, job, attempt, snapshot, rules)
        case Ended(attempt=attempt):
            yield from _end(job, attempt, snapshot, rules)
        case Absent(confirmed=confirmed):
            yield from _missing(record, job, snapshot, rules, confirmed=confirmed)
        case _:
            assert_never(evidence)


def _impostors(
    record: JournalRecord, job: Job, snapshot: Snapshot, rules: Rules
) -> Iterator[Action]:
    not_before = (record.claimed_at or 0) - rules.patience.clock_skew_s
    for attempt in _alive_with(record.job_key, snapshot):
        if not belongs(
            attempt, job_key=record.job_key, customer=job.customer, not_before=not_before
        ):
            reason = f"slurm job {attempt.slurm_job_id} of {attempt.user} carries this job's job key and is not its own"
            yield Note(
                entry=JournalEntry(
                    job_key=record.job_key,
                    kind=EntryKind.IMPOSTOR,
                    occurred_at=snapshot.now,
                    reason=reason,
                )
            )
            yield Cancel(slurm_job_id=attempt.slurm_job_id, job_key=record.job_key, reason=reason)


def _claim_is_confirmed(job: Job, snapshot: Snapshot, rules: Rules) -> bool:
    # A job is set running only after its claim was confirmed, so a running one needs no second
    # wait.
    return (
        job.state is JobState.RUNNING
        or snapshot.head.number - job.state_block >= rules.confirmations
    )


def _follow(
    record: JournalRecord, job: Job, attempt: Attempt, snapshot: Snapshot, rules: Rules
) -> Iterator[Action]:
    """It waits or runs in Slurm."""
    durable_at = (record.intended_at or 0) + rules.patience.absent_after_s
    if record.slurm_job_id != attempt.slurm_job_id or (
        not record.seen and snapshot.now >= durable_at
    ):
        kind = EntryKind.SEEN if snapshot.now >= durable_at else EntryKind.SUBMITTED
        yield Note(
            entry=JournalEntry(
                job_key=record.job_key,
                kind=kind,
                occurred_at=snapshot.now,
                slurm_job_id=attempt.slurm_job_id,
            )
        )
    if job.cancel_requested:
        yield Cancel(
            slurm_job_id=attempt.slurm_job_id,
            job_key=record.job_key,
            reason="its customer cancelled it",
        )
    elif attempt.time_limit_min is not None and attempt.time_limit_min < (
        limit := time_limit_min(job, longest=rules.max_time_limit_min)
    ):
        yield Extend(
            slurm_job_id=attempt.slurm_job_id, job_key=record.job_key, time_limit_min=limit
        )
    if (
        job.state is JobState.SCHEDULED
        and attempt.started
        and _claim_is_confirmed(job, snapshot, rules)
    ):
        yield _set_running(job, attempt)


def _set_running(job: Job, attempt: Attempt) -> Put:
    call = SetRunning(job_key=job.job_key, started_at=attempt.started_at or 0)
    return Put(key=f"{RUNNING_KEY}:{job.job_key}", call=call)


def _end(job: Job, attempt: Attempt, snapshot: Snapshot, rules: Rules) -> Iterator[Action]:
    """It ended: start and end reach the chain in this order.

    They go together if the contract takes the end of a running job only: should the start get lost,
    so does the end, and is told again. A failure or a cancellation would be taken without a run,
    and nobody paid.
    """
    if not _claim_is_confirmed(job, snapshot, rules):
        return
    state = END_STATES[attempt.state]
    if job.state is JobState.SCHEDULED and attempt.started:
        yield _set_running(job, attempt)
        if is_legal(job.state, state) or rules.plain_slack_min is not None:
            return
    elif job.state is JobState.SCHEDULED and state not in {JobState.CANCELLED, JobState.FAILED}:
        state = JobState.PANICKED
    seconds = billed_seconds(job, attempt, snapshot.reports)
    if rules.plain_slack_min is not None:
        seconds = min(
            seconds,
            slack_seconds(job, now=snapshot.head.timestamp, slack_min=rules.plain_slack_min),
        )
    call = Settle(
        job_key=job.job_key,
        state=state,
        seconds=seconds,
        exit_code=attempt.exit_code,
        error="" if state is JobState.FINISHED else f"Slurm says {attempt.state}",
        evidence=evidence_hash(attempt),
    )
    yield Put(key=f"{SETTLE_KEY}:{job.job_key}", call=call)


def _missing(
    record: JournalRecord, job: Job, snapshot: Snapshot, rules: Rules, *, confirmed: bool
) -> Iterator[Action]:
    """Slurm has no trace of it."""
    if not confirmed:
        since = record.absent_since
        if snapshot.live is not None and (
            since is None or since > snapshot.now
        ):  # or the clock was set back
            # The sample may be as young as now, and the next is as old as its question: what lies
            # between counts.
            yield Note(
                entry=JournalEntry(
                    job_key=record.job_key, kind=EntryKind.ABSENT, occurred_at=snapshot.now
                )
            )
        return
    limit = time_limit_min(job, longest=rules.max_time_limit_min)
    if record.unrunnable or limit < 1:
        reason = record.unrunnable or "its credits do not pay for one minute"
        state = JobState.FAILED if job.state is JobState.SCHEDULED else JobState.PANICKED
        yield from _give_up(job, snapshot, rules, state, reason)
    elif job.cancel_requested:
        yield from _give_up(job, snapshot, rules, JobState.CANCELLED, "cancelled before it started")
    elif record.rejected and record.rejections < rules.max_attempts:
        # Slurm has many words for "not now", and nobody knows all of them.
        if not 0 <= snapshot.now - (record.rejected_at or 0) < rules.patience.rejection_s:
            yield Submit(job=job, time_limit_min=limit)
    elif record.rejected and job.state is JobState.SCHEDULED:
        if _claim_is_confirmed(job, snapshot, rules):
            yield Put(key=f"{REFUSE_KEY}:{job.job_key}", call=Refuse(job_key=job.job_key))
    elif record.rejected or record.attempts >= rules.max_attempts:
        reason = record.rejected or f"lost by Slurm {record.attempts} times"
        yield from _give_up(job, snapshot, rules, JobState.PANICKED, reason)
    else:
        yield Submit(job=job, time_limit_min=limit)


def _give_up(
    job: Job, snapshot: Snapshot, rules: Rules, state: JobState, reason: str
) -> Iterator[Action]:
    """End a job that never ran or left no trace; nothing is billed."""
    if _claim_is_confirmed(job, snapshot, rules):
        call = Settle(
            job_key=job.job_key,
            state=state,
            seconds=0,
            exit_code=0,
            error=reason,
            evidence=NO_EVIDENCE,
        )
        yield Put(key=f"{SETTLE_KEY}:{job.job_key}", call=call)


def _orphans(snapshot: Snapshot, rules: Rules) -> Iterator[Action]:
    """Live attempts that carry a job key of our contracts, that no record knows, and that the chain
    does not give us.
    """
    if snapshot.live is None:
        return
    settled_at = snapshot.head.timestamp - rules.patience.clock_skew_s
    for attempt in snapshot.live.attempts:
        job_key = attempt.job_key
        if not attempt.alive or job_key is None or job_key in snapshot.records:
            continue
        job = snapshot.jobs.get(job_key.job_id.number)
        if attempt.submitted_at > settled_at:
            continue
        wanted = (
            job is not None
            and job.job_key == job_key
            and job.provider == rules.provider
            and job.state not in COLD
        )
        same_contracts = (job_key.job_id.chain_id, job_key.job_id.contract) == (
            rules.chain_id,
            rules.contract,
        )
        if same_contracts and not wanted:
            yield Cancel(
                slurm_job_id=attempt.slurm_job_id,
                job_key=job_key,
                reason="the chain does not give it to us",
            )
