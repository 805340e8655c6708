# SPDX-License-Identifier: Apache-2.0
"""The model of contract MetaScheduler.

The functions of this module check the caller. The functions of module steps change the jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from tests.contracts.ledger import credit, providers, records, steps
from tests.contracts.ledger.access import ADMIN_ROLE, META_SCHEDULER_ROLE, has_role, require_role
from tests.contracts.ledger.model import MAX_UINT, ContractModel, Refused
from tests.contracts.ledger.state import Job, QueueKind
from tests.contracts.ledger.steps import GRID

from gridstead.domain.jobs.billing import SECONDS_PER_MINUTE, Prices, price_per_minute
from gridstead.domain.jobs.lifecycle import COLD, JobState

# Functions for customers.


def request(
    model: ContractModel,
    definition: tuple,
    escrow: int,
    name: bytes,
    delegates: bool,  # noqa: FBT001 - the order of the ABI
) -> None:
    """Request a job and hold credits of the caller in escrow."""
    if not model.state.is_open:
        raise Refused("NewJobRequestDisabled")
    minimum = model.state.constants["minimumAmount"]
    if escrow < minimum:
        raise Refused("InsufficientFunds", escrow, minimum)
    if not records.is_valid(definition):
        raise Refused("InvalidJobDefinition")
    job = records.create(model, definition, escrow, name, delegates=delegates)
    model.emit(GRID, "NewJobRequestEvent", job.id, model.sender)
    model.emit(GRID, "JobRequested", job.id, model.sender, escrow)
    steps.pay_into_escrow(model, model.sender, escrow)


def request_with_permit(model: ContractModel, *arguments: object) -> None:
    """Use a permit for exactly the escrow and request a job. A failed permit is ignored."""
    request_arguments, permit_values = arguments[:4], arguments[4:]
    escrow = request_arguments[1]
    model.attempt(
        lambda: credit.use_permit(model, model.sender, model.grid, escrow, *permit_values)
    )
    request(model, *request_arguments)


def cancel(model: ContractModel, job_id: bytes) -> None:
    """Cancel a job that is not claimed, or request its provider to cancel a later one."""
    job = _own_job(model, job_id)
    _require_hot(job)
    if job.cancel_requested:
        return
    records.change(
        model,
        job,
        cancel_requested=True,
        cancel_requested_at=model.now,
        requested_unstarted=job.state is not JobState.RUNNING,
    )
    model.emit(GRID, "JobCancelRequested", job.id, job.provider)
    if job.state in (JobState.SCHEDULED, JobState.RUNNING):
        records.push(model, QueueKind.CANCELLING, job)
    else:
        steps.end_unpaid(model, job, JobState.CANCELLED)


def top_up(model: ContractModel, job_id: bytes, amount: int) -> None:
    """Add credits of the caller to the escrow of a job."""
    job = steps.require_top_up_allowed(records.find(model, job_id))
    steps.top_up(model, job, model.sender, amount)


def top_up_delegate(model: ContractModel, job_id: bytes) -> None:
    """Add the price of a slice to the escrow, from the customer's credits.

    The call is refused if the paid time that remains exceeds a slice.
    """
    job = records.find(model, job_id)
    is_customer_or_provider = model.sender in (job.customer, job.provider)
    if not is_customer_or_provider and not has_role(model, GRID, META_SCHEDULER_ROLE):
        raise Refused("CustomerMetaSchedulerProviderOnly")
    if not may_spend(job):
        raise Refused("NoSpendingAuthority")
    steps.require_top_up_allowed(job)
    slice_min = model.state.constants["topUpSliceDurationMin"]
    remaining_minutes = steps.remaining_minutes(model, job)
    if remaining_minutes > slice_min:
        raise Refused("RemainingTimeAboveLimit", remaining_minutes, slice_min)
    steps.top_up(model, job, job.customer, slice_min * job.price)


def set_delegation(model: ContractModel, job_id: bytes, delegates: bool) -> None:  # noqa: FBT001
    """Set whether other accounts may top up a job. The call is also valid after the job ended."""
    records.change(model, _own_job(model, job_id), delegates=delegates)


# Functions for the matching service.


def match(model: ContractModel, job_id: bytes, provider: str) -> None:
    """Match a job at the lowest recent prices, because the caller gives no limit."""
    _match(model, job_id, provider, providers.recent_prices(model, provider), MAX_UINT)


def match_at_most(model: ContractModel, job_id: bytes, provider: str, limit: int) -> None:
    """Match a job and fix its price per minute. A price above the limit is refused."""
    prices = providers.standing(model, provider).prices
    _match(model, job_id, provider, prices, limit)


def _match(model: ContractModel, job_id: bytes, provider: str, prices: Prices, limit: int) -> None:
    require_role(model, GRID, META_SCHEDULER_ROLE)
    if not providers.is_valid_for_scheduling(model, provider):
        raise Refused("ProviderNotJoined")
    job = records.find(model, job_id)
    price = price_per_minute(job.resources, prices)
    if price > limit:
        raise Refused("PriceAboveLimit", price, limit)
    if not pays_a_minute(job, price):
        raise Refused("InsufficientFunds", job.escrow, price)
    records.transition(model, job, JobState.META_SCHEDULED, provider=provider, price=price)
    model.emit(GRID, "JobMatched", job_id, provider, price)
    records.push(model, QueueKind.CLAIMABLE, replace(job, provider=provider))


def time_out(model: ContractModel, job_id: bytes) -> None:
    """Unmatch a job that has not started. The state of the job becomes PENDING again."""
    require_role(model, GRID, META_SCHEDULER_ROLE)
    steps.unmatch(model, records.find(model, job_id))


def panic(model: ContractModel, job_id: bytes, error: str) -> None:
    """End a job in a hot state, with a full refund."""
    require_role(model, GRID, META_SCHEDULER_ROLE)
    job = records.find(model, job_id)
    _require_hot(job)
    steps.end_unpaid(model, job, JobState.PANICKED, error)


# Functions for providers.


def claim_next(model: ContractModel) -> None:
    """Claim the oldest job of the caller."""
    _require_joined(model)
    _claim_one(model, QueueKind.CLAIMABLE, steps.claim)


def claim_many(model: ContractModel, limit: int) -> None:
    """Claim at most ``limit`` jobs."""
    _require_joined(model)
    _claim_many(model, QueueKind.CLAIMABLE, steps.claim, limit)


def claim_next_cancellation(model: ContractModel) -> None:
    """Claim the oldest cancellation of the caller."""
    _claim_one(model, QueueKind.CANCELLING, steps.emit_cancellation)


def claim_cancellations(model: ContractModel, limit: int) -> None:
    """Claim at most ``limit`` cancellations."""
    _claim_many(model, QueueKind.CANCELLING, steps.emit_cancellation, limit)


def claim_next_top_up(model: ContractModel) -> None:
    """Claim the oldest top-up of the caller."""
    _claim_one(model, QueueKind.TOP_UP, steps.emit_top_up)


def claim_top_ups(model: ContractModel, limit: int) -> None:
    """Claim at most ``limit`` top-ups."""
    _claim_many(model, QueueKind.TOP_UP, steps.emit_top_up, limit)


def refuse(model: ContractModel, job_id: bytes) -> None:
    """Refuse a job that has not started."""
    steps.unmatch(model, _assigned_job(model, job_id))


def start(model: ContractModel, job_id: bytes, started_at: int) -> None:
    """Report the start time of a job."""
    steps.start(model, _assigned_job(model, job_id), started_at)


def settle(model: ContractModel, job_id: bytes, status: int, *report: Any) -> None:
    """Settle a job, with a bill in seconds."""
    job = _assigned_job(model, job_id)
    new_state = _to_state(status)
    if new_state not in COLD:
        raise Refused("RunningColdStatusOnly", status)
    steps.settle(model, job, new_state, steps.Report(*report))


def set_status(
    model: ContractModel, job_id: bytes, status: int, minutes: int, error: str, exit_code: int
) -> None:
    """Start a job now, or settle it with a bill in minutes (function of DeepSquare 1.2)."""
    job = _assigned_job(model, job_id)
    new_state = _to_state(status)
    if new_state is JobState.RUNNING:
        steps.start(model, job, model.now)
        records.report(model, job, exit_code, error)
    elif new_state in COLD:
        steps.settle(
            model, job, new_state, steps.Report(minutes * SECONDS_PER_MINUTE, exit_code, error)
        )
    else:
        raise Refused("RunningColdStatusOnly", status)


# Functions for any account, and for the admin.


def expire(model: ContractModel, job_id: bytes) -> None:
    """Expire a job after the timeout of its current state."""
    job = records.find(model, job_id)
    _require_hot(job)
    steps.expire(model, job)


def set_open(model: ContractModel, is_open: bool) -> None:  # noqa: FBT001
    """Open or close the grid for new jobs."""
    require_role(model, GRID, ADMIN_ROLE)
    model.state.is_open = is_open


def withdraw(model: ContractModel, amount: int) -> None:
    """Transfer accrued fees to the caller."""
    require_role(model, GRID, ADMIN_ROLE)
    if amount > model.state.fees:
        raise Refused("InsufficientFunds", model.state.fees, amount)
    model.state.fees -= amount
    model.emit(GRID, "FeesWithdrawn", model.sender, amount)
    steps.pay_from_escrow(model, model.sender, amount)


def for_each(
    model: ContractModel, elements: Iterable[tuple], *, action: Callable[..., None]
) -> None:
    """Run an action for each element. The first value of an element is a job id.

    A refused element changes no state, and an event with the reason is emitted.
    """
    for element in elements:
        refused = model.attempt(lambda element=element: action(model, *element))
        if refused is not None:
            model.emit(GRID, "BatchElementSkipped", element[0], refused.reason)


def refuse_many(model: ContractModel, job_ids: Iterable[bytes]) -> None:
    """Refuse several jobs."""
    for_each(model, [(job_id,) for job_id in job_ids], action=refuse)


def may_spend(job: Job) -> bool:
    """Return whether a delegated top-up is allowed: the customer agreed and has not cancelled."""
    return job.delegates and not job.cancel_requested


def pays_a_minute(job: Job, price: int) -> bool:
    """Return whether the escrow of a job pays for at least a minute at this price per minute."""
    return price <= job.escrow


def _own_job(model: ContractModel, job_id: bytes) -> Job:
    job = records.find(model, job_id)
    if model.sender != job.customer:
        raise Refused("CustomerOnly", model.sender, job.customer)
    return job


def _assigned_job(model: ContractModel, job_id: bytes) -> Job:
    job = records.find(model, job_id)
    if model.sender != job.provider:
        raise Refused("JobProviderOnly", model.sender, job.provider)
    return job


def _require_hot(job: Job) -> None:
    if job.state in COLD:
        raise Refused("JobHotStatusOnly", int(job.state))


def _require_joined(model: ContractModel) -> None:
    if not providers.is_joined(model, model.sender):
        raise Refused("ProviderNotJoined")


def _to_state(status: int) -> JobState:
    if status not in list(JobState):
        raise Refused("Panic", "0x21")  # Solidity's panic for an invalid enum value.
    return JobState(status)


def _claim_one(
    model: ContractModel, kind: QueueKind, emit: Callable[[ContractModel, Job], None]
) -> None:
    """Claim the oldest live entry of a queue. Refuse the call if no entry is left.

    A call that removes stale entries but does not reach a live entry succeeds without an event.
    """
    job, is_empty = records.pop(model, kind)
    if job is not None:
        emit(model, job)
    elif is_empty:
        _require_joined(model)
        raise Refused("NoJob")


def _claim_many(
    model: ContractModel, kind: QueueKind, emit: Callable[[ContractModel, Job], None], limit: int
) -> None:
    for _ in range(min(limit, 10**6)):  # No queue has a million entries.
        job, _ = records.pop(model, kind)
        if job is None:
            return
        emit(model, job)
