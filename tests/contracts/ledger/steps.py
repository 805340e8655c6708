# SPDX-License-Identifier: Apache-2.0
"""The effects of each step of a job. Module meta_scheduler checks the rights of the caller."""

from __future__ import annotations

from dataclasses import dataclass

from tests.contracts.ledger import credit, providers, records
from tests.contracts.ledger.model import MAX_UINT, ContractModel, Refused
from tests.contracts.ledger.paid_time import emitted_minutes_floor
from tests.contracts.ledger.state import NOBODY, Job, QueueKind

from gridstead.domain.jobs.billing import SECONDS_PER_MINUTE, divide_escrow, paid_seconds_ceil
from gridstead.domain.jobs.lifecycle import JobState

GRID = "MetaScheduler"
NO_EVIDENCE = bytes(32)


@dataclass(frozen=True, slots=True)
class Report:
    """A provider's report about a job that has ended. ``seconds`` is the billed run time."""

    seconds: int
    exit_code: int
    error: str
    evidence: bytes = NO_EVIDENCE


def claim(model: ContractModel, job: Job) -> None:
    """Mark a matched job as claimed, and emit its paid minutes."""
    records.transition(model, job, JobState.SCHEDULED, claimed_at=model.now)
    minutes = emitted_minutes_floor(job.escrow, job.price)
    model.emit(GRID, "ClaimJobEvent", job.customer, job.provider, job.id, minutes, job.definition)
    model.emit(GRID, "JobClaimed", job.id, job.provider)


def unmatch(model: ContractModel, job: Job) -> None:
    """Return a job that has not started to PENDING. After a request to cancel, end it instead."""
    if job.state not in (JobState.META_SCHEDULED, JobState.SCHEDULED):
        raise Refused("MetaScheduledScheduledStatusOnly", int(job.state))
    if is_requested(job):
        end_unpaid(model, job, JobState.CANCELLED)
        return
    records.unmatch(model, job)
    model.emit(GRID, "JobRefusedEvent", job.id, job.provider, job.customer)
    model.emit(GRID, "JobUnmatched", job.id, job.provider)


def start(model: ContractModel, job: Job, started_at: int) -> None:
    """Mark a job as running since a time. The time is clamped between the claim and now."""
    start_time = max(job.claimed_at, min(started_at, model.now))
    records.transition(model, job, JobState.RUNNING, started_at=start_time)
    providers.count_start(model, job.provider)
    model.emit(GRID, "JobStarted", job.id, job.provider, start_time)


def settle(model: ContractModel, job: Job, to: JobState, report: Report) -> None:
    """End a job: pay the provider, keep the fee, and refund the rest.

    A job that panicked or never ran costs nothing.
    """
    is_unclaimed = job.state is JobState.META_SCHEDULED
    if is_unclaimed and not providers.is_joined(model, job.provider):
        raise Refused("ProviderNotJoined")
    seconds = 0
    if job.state is JobState.RUNNING and to is not JobState.PANICKED:
        seconds = min(report.seconds, max(0, billing_end(model, job) - job.started_at))
        if seconds < report.seconds:
            minutes = -(-report.seconds // SECONDS_PER_MINUTE)  # Rounded up.
            model.emit(GRID, "BilledTooMuchEvent", job.id, job.provider, minutes)
    cut = model.state.constants["deepsquareCut"]
    bill = divide_escrow(
        escrow=job.escrow, seconds=seconds, price_per_min=job.price, fee_percent=cut
    )
    records.end(model, job, to, cost=bill.cost, exit_code=report.exit_code, error=report.error)
    model.state.fees += bill.fee
    values = (job.provider, to, bill.cost, bill.fee, seconds, report.evidence)
    model.emit(GRID, "JobSettled", job.id, *values)
    pay_from_escrow(model, job.provider, bill.provider)
    pay_from_escrow(model, job.customer, bill.refund)


def is_requested(job: Job) -> bool:
    """Return whether the customer requested to cancel a job that has not ended."""
    return job.cancel_requested


def bill_until(job: Job) -> int:
    """Return the Unix time after which a job is not billed, or MAX_UINT if there is none."""
    return job.cancel_requested_at if job.requested_unstarted else MAX_UINT


def billing_end(model: ContractModel, job: Job) -> int:
    """Return the Unix time at which the bill of a job ends at the latest."""
    return min(model.now, bill_until(job))


def end_unpaid(model: ContractModel, job: Job, to: JobState, error: str = "") -> None:
    """End a job with a full refund.

    The job is also appended to its provider's queue of cancellations, unless a request to cancel
    has already appended the job.
    """
    records.end(model, job, to, error=error)
    model.emit(GRID, "JobRefunded", job.id, job.customer, job.provider, to, job.escrow)
    if job.provider != NOBODY and not job.cancel_requested:
        records.push(model, QueueKind.CANCELLING, job)
    pay_from_escrow(model, job.customer, job.escrow)


def require_top_up_allowed(job: Job) -> Job:
    """Return the job. A job that is neither claimed nor running is refused."""
    if job.state not in (JobState.SCHEDULED, JobState.RUNNING):
        raise Refused("RunningScheduledStatusOnly", int(job.state))
    return job


def top_up(model: ContractModel, job: Job, payer: str, amount: int) -> None:
    """Add credits of the payer to the escrow of a job. Amount 0 has no effect."""
    if not amount:
        return
    records.top_up(model, job, amount)
    model.emit(GRID, "JobToppedUp", job.id, job.provider, amount)
    pay_into_escrow(model, payer, amount)


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
    """Expire a job after its timeout.

    An unclaimed match becomes PENDING, and a claimed job with a request to cancel CANCELLED. Other
    jobs panic.
    """
    last_valid = expiry(model, job)
    is_unclaimed = job.state is JobState.META_SCHEDULED
    current = model.block if is_unclaimed else model.now
    if current <= last_valid:
        raise Refused("NotExpired", int(job.state), last_valid)
    if is_unclaimed:
        unmatch(model, job)
    elif job.state is JobState.SCHEDULED and job.cancel_requested:
        end_unpaid(model, job, JobState.CANCELLED, "expired")
    else:
        end_unpaid(model, job, JobState.PANICKED, "expired")


def expiry(model: ContractModel, job: Job) -> int:
    """Return the Unix time after which a job may expire, or MAX_UINT if it cannot expire.

    For an unclaimed match, return a block number instead of a time.
    """
    constants = model.state.constants
    match job.state:
        case JobState.META_SCHEDULED:
            return job.state_block + constants["claimJobTimeout"]
        case JobState.SCHEDULED:
            start_expiry = job.claimed_at + constants["startTimeout"]
            if not job.cancel_requested:
                return start_expiry
            return min(start_expiry, job.cancel_requested_at + constants["settleGrace"])
        case JobState.RUNNING:
            return latest_end(job) + constants["settleGrace"]
        case _:
            return MAX_UINT


def latest_end(job: Job) -> int:
    """Return the Unix time at which a running job must end.

    This is the end of the paid time, or the time of the request to cancel if that is earlier.
    """
    paid_until = job.started_at + paid_seconds_ceil(job.escrow, job.price)
    if job.cancel_requested:
        return min(paid_until, job.cancel_requested_at)
    return paid_until


def remaining_minutes(model: ContractModel, job: Job) -> int:
    """Return the paid whole minutes minus the elapsed whole minutes, at least 0."""
    elapsed_min = 0
    if job.state is JobState.RUNNING:
        elapsed_min = (model.now - job.started_at) // SECONDS_PER_MINUTE
    return max(0, emitted_minutes_floor(job.escrow, job.price) - elapsed_min)


def pay_into_escrow(model: ContractModel, source: str, amount: int) -> None:
    """Transfer credits into the escrow."""
    credit.spend(model, model.grid, source, model.grid, amount)


def pay_from_escrow(model: ContractModel, to: str, amount: int) -> None:
    """Transfer credits out of the escrow. Amount 0 makes no transfer."""
    if amount:
        credit.move(model, model.grid, to, amount)
