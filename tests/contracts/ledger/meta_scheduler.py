# SPDX-License-Identifier: Apache-2.0
"""MetaScheduler: who may ask what of it; what a step then does to jobs and credits is told in steps.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from tests.contracts.ledger import credit, providers, records, steps
from tests.contracts.ledger.access import ADMIN_ROLE, META_SCHEDULER_ROLE, has_role, require_role
from tests.contracts.ledger.state import Job, Kind
from tests.contracts.ledger.steps import GRID
from tests.contracts.ledger.world import MAX_UINT, Refused, World

from gridstead.domain.billing import SECONDS_PER_MINUTE, price_per_minute
from gridstead.domain.lifecycle import COLD, JobState

# For customers.


def request(world: World, definition: tuple, lock: int, name: bytes, delegates: bool) -> None:  # noqa: FBT001
    """Lock credits of the caller and ask for a job."""
    if not world.state.takes_jobs:
        raise Refused("NewJobRequestDisabled")
    least = world.state.constants["minimumAmount"]
    if lock < least:
        raise Refused("InsufficientFunds", lock, least)
    if not records.is_valid(definition):
        raise Refused("InvalidJobDefinition")
    job = records.create(world, definition, lock, name, delegates=delegates)
    world.emit(GRID, "NewJobRequestEvent", job.id, world.sender)
    world.emit(GRID, "JobRequested", job.id, world.sender, lock)
    steps.pull(world, world.sender, lock)


def request_with_permit(world: World, *arguments: object) -> None:
    """Do as ``request``, after a permit for exactly the lock; one that fails does not matter by itself."""
    asked, (deadline, v, r, s) = arguments[:4], arguments[4:]
    lock = asked[1]
    world.attempt(lambda: credit.use_permit(world, world.sender, world.grid, lock, deadline, v, r, s))
    request(world, *asked)


def cancel(world: World, job_id: bytes) -> None:
    """End a job that does not run; ask the provider to end one that does."""
    job = _own(world, job_id)
    _require_hot(job)
    if job.cancel_requested:
        return
    records.change(world, job, cancel_requested=True, cancel_requested_at=world.now)
    world.emit(GRID, "JobCancelRequested", job.id, job.provider)
    if job.state is JobState.RUNNING:
        records.push(world, Kind.CANCELLING, job)
    else:
        steps.end_unpaid(world, job, JobState.CANCELLED)


def top_up(world: World, job_id: bytes, amount: int) -> None:
    """Lock more credits of the caller for a job."""
    steps.top_up(world, steps.toppable(records.find(world, job_id)), world.sender, amount)


def top_up_delegate(world: World, job_id: bytes) -> None:
    """Lock another slice's price of the customer's credits, if less than a slice of time remains."""
    job = records.find(world, job_id)
    if world.sender not in (job.customer, job.provider) and not has_role(world, GRID, META_SCHEDULER_ROLE):
        raise Refused("CustomerMetaSchedulerProviderOnly")
    if not may_spend(job):
        raise Refused("NoSpendingAuthority")
    steps.toppable(job)
    slice_min = world.state.constants["topUpSliceDurationMin"]
    remaining = steps.remaining_minutes(world, job)
    if remaining > slice_min:
        raise Refused("RemainingTimeAboveLimit", remaining, slice_min)
    steps.top_up(world, job, job.customer, slice_min * job.price)


def set_delegates(world: World, job_id: bytes, delegates: bool) -> None:  # noqa: FBT001
    """Say whether others may top a job up; also of one that has ended."""
    records.change(world, _own(world, job_id), delegates=delegates)


# For the matching service.


def match(world: World, job_id: bytes, provider: str, limit: int = MAX_UINT) -> None:
    """Give a job to a provider and fix its price, if a minute of the whole job costs no more than the limit."""
    require_role(world, GRID, META_SCHEDULER_ROLE)
    if not providers.is_valid_for_scheduling(world, provider):
        raise Refused("ProviderNotJoined")
    job = records.find(world, job_id)
    price = price_per_minute(job.resources, providers.standing(world, provider).prices)
    if price > limit:
        raise Refused("PriceAboveLimit", price, limit)
    if not pays_a_minute(job, price):
        raise Refused("InsufficientFunds", job.lock, price)
    records.move(world, job, JobState.META_SCHEDULED, provider=provider, price=price)
    world.emit(GRID, "JobMatched", job_id, provider, price)
    records.push(world, Kind.CLAIMABLE, replace(job, provider=provider))


def time_out(world: World, job_id: bytes) -> None:
    """Take a job that does not run from its provider."""
    require_role(world, GRID, META_SCHEDULER_ROLE)
    steps.unmatch(world, records.find(world, job_id))


def panic(world: World, job_id: bytes, error: str) -> None:
    """End any hot job with a full refund."""
    require_role(world, GRID, META_SCHEDULER_ROLE)
    job = records.find(world, job_id)
    _require_hot(job)
    steps.end_unpaid(world, job, JobState.PANICKED, error)


# For providers.


def claim_next(world: World) -> None:
    """Claim the oldest job of the caller."""
    _require_joined(world)
    _take_one(world, Kind.CLAIMABLE, steps.claim)


def claim_many(world: World, most: int) -> None:
    """Claim up to so many jobs."""
    _require_joined(world)
    _take_many(world, Kind.CLAIMABLE, steps.claim, most)


def claim_next_cancellation(world: World) -> None:
    """Take the oldest cancellation of the caller."""
    _take_one(world, Kind.CANCELLING, steps.tell_cancellation)


def claim_cancellations(world: World, most: int) -> None:
    """Take up to so many cancellations."""
    _take_many(world, Kind.CANCELLING, steps.tell_cancellation, most)


def claim_next_top_up(world: World) -> None:
    """Take the oldest top-up of the caller."""
    _take_one(world, Kind.TOP_UP, steps.tell_top_up)


def claim_top_ups(world: World, most: int) -> None:
    """Take up to so many top-ups."""
    _take_many(world, Kind.TOP_UP, steps.tell_top_up, most)


def refuse(world: World, job_id: bytes) -> None:
    """Give a job back that does not run yet."""
    steps.unmatch(world, _assigned(world, job_id))


def start(world: World, job_id: bytes, started_at: int) -> None:
    """Say that a job runs, and since when."""
    steps.start(world, _assigned(world, job_id), started_at)


def settle(world: World, job_id: bytes, status: int, *report: Any) -> None:
    """End a job and pay, by the second."""
    job = _assigned(world, job_id)
    to = _to_state(status)
    if to not in COLD:
        raise Refused("RunningColdStatusOnly", status)
    steps.settle(world, job, to, steps.Report(*report))


def set_status(world: World, job_id: bytes, status: int, minutes: int, error: str, exit_code: int) -> None:
    """Start a job now, or end it and pay by whole minutes: the call of the published ABI."""
    job = _assigned(world, job_id)
    to = _to_state(status)
    if to is JobState.RUNNING:
        steps.start(world, job, world.now)
        records.report(world, job, exit_code, error)
    elif to in COLD:
        steps.settle(world, job, to, steps.Report(minutes * SECONDS_PER_MINUTE, exit_code, error))
    else:
        raise Refused("RunningColdStatusOnly", status)


# For anyone, and for the admin.


def expire(world: World, job_id: bytes) -> None:
    """End what a provider left lying."""
    job = records.find(world, job_id)
    _require_hot(job)
    steps.expire(world, job)


def open_or_close(world: World, takes_jobs: bool) -> None:  # noqa: FBT001
    """Open or close the set for new jobs."""
    require_role(world, GRID, ADMIN_ROLE)
    world.state.takes_jobs = takes_jobs


def withdraw(world: World, amount: int) -> None:
    """Send accrued fees to the caller."""
    require_role(world, GRID, ADMIN_ROLE)
    if amount > world.state.fees:
        raise Refused("InsufficientFunds", world.state.fees, amount)
    world.state.fees -= amount
    world.emit(GRID, "FeesWithdrawn", world.sender, amount)
    steps.pay(world, world.sender, amount)


def each(world: World, elements: Iterable[tuple], *, act: Callable[..., None]) -> None:
    """Act for each element (a job's id first); one that is refused is told, with the reason, and changes nothing."""
    for element in elements:
        refused = world.attempt(lambda element=element: act(world, *element))
        if refused is not None:
            world.emit(GRID, "BatchElementSkipped", element[0], refused.reason)


def refuse_many(world: World, job_ids: Iterable[bytes]) -> None:
    """Do ``refuse`` for each."""
    each(world, [(job_id,) for job_id in job_ids], act=refuse)


def may_spend(job: Job) -> bool:
    """Return whether its customer's credits may prolong a job: he said so, and has not asked to cancel it since."""
    return job.delegates and not job.cancel_requested


def pays_a_minute(job: Job, price: int) -> bool:
    """Return whether the lock of a job pays a minute at a price, without which it is not matched."""
    return price <= job.lock


def _own(world: World, job_id: bytes) -> Job:
    job = records.find(world, job_id)
    if world.sender != job.customer:
        raise Refused("CustomerOnly", world.sender, job.customer)
    return job


def _assigned(world: World, job_id: bytes) -> Job:
    job = records.find(world, job_id)
    if world.sender != job.provider:
        raise Refused("JobProviderOnly", world.sender, job.provider)
    return job


def _require_hot(job: Job) -> None:
    if job.state in COLD:
        raise Refused("JobHotStatusOnly", int(job.state))


def _require_joined(world: World) -> None:
    if not providers.is_joined(world, world.sender):
        raise Refused("ProviderNotJoined")


def _to_state(status: int) -> JobState:
    if status not in list(JobState):
        raise Refused("Panic", "0x21")
    return JobState(status)


def _take_one(world: World, kind: Kind, tell: Callable[[World, Job], None]) -> None:
    job, is_empty = records.pop(world, kind)
    if job is not None:
        tell(world, job)
    elif is_empty:
        _require_joined(world)
        raise Refused("NoJob")


def _take_many(world: World, kind: Kind, tell: Callable[[World, Job], None], most: int) -> None:
    for _ in range(min(most, 10**6)):
        job, _ = records.pop(world, kind)
        if job is None:
            return
        tell(world, job)
