# SPDX-License-Identifier: Apache-2.0
"""The steps of a job, after the rights of the caller were checked."""

from __future__ import annotations

from dataclasses import dataclass

from tests.contracts.ledger import credit, providers, records
from tests.contracts.ledger.model import MAX_UINT, ContractModel, Refused
from tests.contracts.ledger.paid_time import emitted_minutes_floor
from tests.contracts.ledger.state import NOBODY, Job, Kind

from gridstead.domain.jobs.billing import SECONDS_PER_MINUTE, paid_seconds_ceil
from gridstead.domain.jobs.billing import settle as divide
from gridstead.domain.jobs.lifecycle import JobState

GRID = "MetaScheduler"
NO_EVIDENCE = bytes(32)


@dataclass(frozen=True, slots=True)
class Report:
    """A provider's report about a job that has ended."""

    seconds: int
    exit_code: int
    error: str
    evidence: bytes = NO_EVIDENCE


def claim(model: ContractModel, job: Job) -> None:
    """Mark a matched job as claimed, and emit the minutes that are paid."""
    records.move(model, job, JobState.SCHEDULED, claimed_at=model.now)
    minutes = emitted_minutes_floor(job.escrow, job.price)
    model.emit(GRID, "ClaimJobEvent", job.customer, job.provider, job.id, minutes, job.definition)
    model.emit(GRID, "JobClaimed", job.id, job.provider)


def unmatch(model: ContractModel, job: Job) -> None:
    """Return a job that has not started to PENDING."""
    if job.state not in (JobState.META_SCHEDULED, JobState.SCHEDULED):
        raise Refused("MetaScheduledScheduledStatusOnly", int(job.state))
    records.unmatch(model, job)
    model.emit(GRID, "JobRefusedEvent", job.id, job.provider, job.customer)
    model.emit(GRID, "JobUnmatched", job.id, job.provider)


def start(model: ContractModel, job: Job, started_at: int) -> None:
    """Mark a job as running since a time, which is limited to between its claim and now."""
    since = max(job.claimed_at, min(started_at, model.now))
    records.move(model, job, JobState.RUNNING, started_at=since)
    providers.count_start(model, job.provider)
    model.emit(GRID, "JobStarted", job.id, job.provider, since)


def settle(model: ContractModel, job: Job, to: JobState, report: Report) -> None:
    """End a job: pay the provider, refund the rest, keep the fee. A panic costs nothing."""
    seconds = 0
    if job.state is JobState.RUNNING and to is not JobState.PANICKED:
        seconds = min(report.seconds, model.now - job.started_at)
        if seconds < report.seconds:
            minutes = -(-report.seconds // SECONDS_PER_MINUTE)
            model.emit(GRID, "BilledTooMuchEvent", job.id, job.provider, minutes)
    cut = model.state.constants["deepsquareCut"]
    bill = divide(escrow=job.escrow, seconds=seconds, price_per_min=job.price, fee_percent=cut)
    records.end(model, job, to, cost=bill.cost, exit_code=report.exit_code, error=report.error)
    model.state.fees += bill.fee
    values = (job.provider, to, bill.cost, bill.fee, seconds, report.evidence)
    model.emit(GRID, "JobSettled", job.id, *values)
    pay(model, job.provider, bill.provider)
    pay(model, job.customer, bill.refund)


def end_unpaid(model: ContractModel, job: Job, to: JobState, error: str = "") -> None:
    """End a job with a full refund.

    The job is added to its provider's cancelling queue, unless a request to cancel has added it.
    """
    records.end(model, job, to, error=error)
    model.emit(GRID, "JobRefunded", job.id, job.customer, job.provider, to, job.escrow)
    if job.provider != NOBODY and not job.cancel_requested:
        records.push(model, Kind.CANCELLING, job)
    pay(model, job.customer, job.escrow)


def toppable(job: Job) -> Job:
    """Return the job; refuse one that is neither claimed nor running."""
    if job.state not in (JobState.SCHEDULED, JobState.RUNNING):
        raise Refused("RunningScheduledStatusOnly", int(job.state))
    return job


def top_up(model: ContractModel, job: Job, payer: str, amount: int) -> None:
    """Add to the escrow of a job; 0 has no effect."""
    if not amount:
        return
    records.top_up(model, job, amount)
    model.emit(GRID, "JobToppedUp", job.id, job.provider, amount)
    pull(model, payer, amount)


def emit_cancellation(model: ContractModel, job: Job) -> None:
    """Emit the event that tells a provider to cancel a job."""
    model.emit(GRID, "ClaimNextCancellingJobEvent", job.customer, model.sender, job.id)


def emit_top_up(model: ContractModel, job: Job) -> None:
    """Emit the additional minutes that the pending top-up pays for."""
    total = emitted_minutes_floor(job.escrow, job.price)
    before = emitted_minutes_floor(job.escrow - job.pending_top_up, job.price)
    records.change(model, job, pending_top_up=0)
    model.emit(GRID, "ClaimNextTopUpJobEvent", job.id, model.sender, total - before)


def expire(model: ContractModel, job: Job) -> None:
    """End the current step of a job after its timeout; an unclaimed match becomes PENDING."""
    last = expiry(model, job)
    by_block = job.state is JobState.META_SCHEDULED
    if (model.block if by_block else model.now) <= last:
        raise Refused("NotExpired", int(job.state), last)
    if by_block:
        unmatch(model, job)
    else:
        end_unpaid(model, job, JobState.PANICKED, "expired")


def expiry(model: ContractModel, job: Job) -> int:
    """Return the last block (of a match) or second before a hot job expires."""
    constants = model.state.constants
    match job.state:
        case JobState.META_SCHEDULED:
            return job.state_block + constants["claimJobTimeout"]
        case JobState.SCHEDULED:
            return job.claimed_at + constants["startTimeout"]
        case JobState.RUNNING:
            return awaited_end(job) + constants["settleGrace"]
        case _:
            return MAX_UINT


def awaited_end(job: Job) -> int:
    """Return when a running job must end: at the end of its paid time, or when it is cancelled."""
    paid = job.started_at + paid_seconds_ceil(job.escrow, job.price)
    return min(paid, job.cancel_requested_at) if job.cancel_requested else paid


def remaining_minutes(model: ContractModel, job: Job) -> int:
    """Return the whole minutes that are paid and have not elapsed; 0 for an overdue job."""
    run = (model.now - job.started_at) // SECONDS_PER_MINUTE if job.state is JobState.RUNNING else 0
    return max(0, emitted_minutes_floor(job.escrow, job.price) - run)


def pull(model: ContractModel, source: str, amount: int) -> None:
    """Transfer credits into the escrow."""
    credit.spend(model, model.grid, source, model.grid, amount)


def pay(model: ContractModel, to: str, amount: int) -> None:
    """Transfer credits out of the escrow; 0 makes no transfer."""
    if amount:
        credit.move(model, model.grid, to, amount)
