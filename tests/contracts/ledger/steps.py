# SPDX-License-Identifier: Apache-2.0
"""The steps of a job's life, once it is judged that the caller may take them."""

from __future__ import annotations

from dataclasses import dataclass

from tests.contracts.ledger import credit, providers, records
from tests.contracts.ledger.paid_time import told_minutes_floor
from tests.contracts.ledger.state import NOBODY, Job, Kind
from tests.contracts.ledger.world import MAX_UINT, Refused, World

from gridstead.domain.billing import SECONDS_PER_MINUTE, paid_seconds_ceil
from gridstead.domain.billing import settle as divide
from gridstead.domain.lifecycle import JobState

GRID = "MetaScheduler"
NO_EVIDENCE = bytes(32)


@dataclass(frozen=True, slots=True)
class Report:
    """What a provider says of a job that ended."""

    seconds: int
    exit_code: int
    error: str
    evidence: bytes = NO_EVIDENCE


def claim(world: World, job: Job) -> None:
    """Give a matched job to its provider, and tell how long it may run."""
    records.move(world, job, JobState.SCHEDULED, claimed_at=world.now)
    told = told_minutes_floor(job.lock, job.price)
    world.emit(GRID, "ClaimJobEvent", job.customer, job.provider, job.id, told, job.definition)
    world.emit(GRID, "JobClaimed", job.id, job.provider)


def unmatch(world: World, job: Job) -> None:
    """Take a job that does not run from its provider."""
    if job.state not in (JobState.META_SCHEDULED, JobState.SCHEDULED):
        raise Refused("MetaScheduledScheduledStatusOnly", int(job.state))
    records.unmatch(world, job)
    world.emit(GRID, "JobRefusedEvent", job.id, job.provider, job.customer)
    world.emit(GRID, "JobUnmatched", job.id, job.provider)


def start(world: World, job: Job, started_at: int) -> None:
    """Let a job run since a time between its claim and now."""
    since = max(job.claimed_at, min(started_at, world.now))
    records.move(world, job, JobState.RUNNING, started_at=since)
    providers.count_start(world, job.provider)
    world.emit(GRID, "JobStarted", job.id, job.provider, since)


def settle(world: World, job: Job, to: JobState, report: Report) -> None:
    """End a job: pay for what ran, refund the rest, keep the fee. A panic is the provider's fault and costs nothing."""
    seconds = 0
    if job.state is JobState.RUNNING and to is not JobState.PANICKED:
        seconds = min(report.seconds, world.now - job.started_at)
        if seconds < report.seconds:
            minutes = -(-report.seconds // SECONDS_PER_MINUTE)
            world.emit(GRID, "BilledTooMuchEvent", job.id, job.provider, minutes)
    cut = world.state.constants["deepsquareCut"]
    bill = divide(lock=job.lock, seconds=seconds, price_per_min=job.price, fee_percent=cut)
    records.end(world, job, to, cost=bill.cost, exit_code=report.exit_code, error=report.error)
    world.state.fees += bill.fee
    told = (job.provider, to, bill.cost, bill.fee, seconds, report.evidence)
    world.emit(GRID, "JobSettled", job.id, *told)
    pay(world, job.provider, bill.provider)
    pay(world, job.customer, bill.refund)


def end_unpaid(world: World, job: Job, to: JobState, error: str = "") -> None:
    """End a job with a full refund, and tell its provider unless a request to cancel told it already."""
    records.end(world, job, to, error=error)
    world.emit(GRID, "JobRefunded", job.id, job.customer, job.provider, to, job.lock)
    if job.provider != NOBODY and not job.cancel_requested:
        records.push(world, Kind.CANCELLING, job)
    pay(world, job.customer, job.lock)


def toppable(job: Job) -> Job:
    """Return the job, if it takes top-ups: it is claimed or runs."""
    if job.state not in (JobState.SCHEDULED, JobState.RUNNING):
        raise Refused("RunningScheduledStatusOnly", int(job.state))
    return job


def top_up(world: World, job: Job, payer: str, amount: int) -> None:
    """Lock more for a job; nothing more is as good as no call."""
    if not amount:
        return
    records.top_up(world, job, amount)
    world.emit(GRID, "JobToppedUp", job.id, job.provider, amount)
    pull(world, payer, amount)


def tell_cancellation(world: World, job: Job) -> None:
    """Tell a provider that a job is to end."""
    world.emit(GRID, "ClaimNextCancellingJobEvent", job.customer, world.sender, job.id)


def tell_top_up(world: World, job: Job) -> None:
    """Tell a provider how many minutes more the whole lock buys than what it was told of."""
    untold = told_minutes_floor(job.lock, job.price) - told_minutes_floor(job.lock - job.pending_top_up, job.price)
    records.change(world, job, pending_top_up=0)
    world.emit(GRID, "ClaimNextTopUpJobEvent", job.id, world.sender, untold)


def expire(world: World, job: Job) -> None:
    """End what was left lying beyond its time; an unclaimed match waits for another provider."""
    last = expiry(world, job)
    by_block = job.state is JobState.META_SCHEDULED
    if (world.block if by_block else world.now) <= last:
        raise Refused("NotExpired", int(job.state), last)
    if by_block:
        unmatch(world, job)
    else:
        end_unpaid(world, job, JobState.PANICKED, "expired")


def expiry(world: World, job: Job) -> int:
    """Return the last block (of a match) or second in which a hot job does not expire yet."""
    constants = world.state.constants
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
    """Return when a run must be over: its lock is used up, or its customer asked to cancel it before that."""
    paid = job.started_at + paid_seconds_ceil(job.lock, job.price)
    return min(paid, job.cancel_requested_at) if job.cancel_requested else paid


def remaining_minutes(world: World, job: Job) -> int:
    """Return the whole minutes that are paid and not yet run; 0 for a job that is overdue."""
    run = (world.now - job.started_at) // SECONDS_PER_MINUTE if job.state is JobState.RUNNING else 0
    return max(0, told_minutes_floor(job.lock, job.price) - run)


def pull(world: World, source: str, amount: int) -> None:
    """Take credits into the escrow."""
    credit.spend(world, world.grid, source, world.grid, amount)


def pay(world: World, to: str, amount: int) -> None:
    """Send credits out of the escrow, unless there are none to send."""
    if amount:
        credit.move(world, world.grid, to, amount)
