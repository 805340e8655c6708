# SPDX-License-Identifier: Apache-2.0
"""The rules of the grid's contracts on a state in memory.

The rules define who may make a call, which credits a call moves, and which events a call emits.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from tests.fakes.chain import State

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.jobs.billing import Prices, divide_escrow, price_per_minute
from gridstead.domain.jobs.job import Job, Provider
from gridstead.domain.jobs.lifecycle import COLD, JobState, is_legal
from gridstead.domain.matching.expiry import Timeouts, expiry
from gridstead.domain.transactions.calls import (
    Call,
    ClaimCancelling,
    ClaimJobs,
    ClaimTopUp,
    Expire,
    Match,
    Refuse,
    Register,
    SetRunning,
    Settle,
)
from gridstead.errors import TransactionReverted

NOBODY = "0x" + "00" * 20
ESCROW = "escrow"
FEES = "fees"
FEE_PERCENT = 20

# The fields that the events of the real contracts do not contain, by kind of event.
_ABSENT_FIELDS = {
    ChainEventKind.JOB_REQUESTED: {"provider"},
    ChainEventKind.JOB_TRANSITION: {"customer", "provider"},
}


@dataclass
class GridState(State):
    """The state of the contracts and of the wallets after a block.

    Attributes:
        claimed_at: The times of the claims (Unix seconds), by job number.
        providers: The approved or banned providers, by address.
        waiting: The registrations that wait for approval, by address.
        claimable: The job numbers in the queue of matched jobs, by provider.
        cancelling: The job numbers in the queue of cancelled jobs, by provider.
        top_up: The job numbers in the queue of jobs with a larger escrow, by provider.
        balances: The credits in wei, by address, including those of ESCROW and FEES.
    """

    jobs: dict[int, Job] = field(default_factory=dict)
    claimed_at: dict[int, int] = field(default_factory=dict)
    providers: dict[str, Provider] = field(default_factory=dict)
    waiting: dict[str, Provider] = field(default_factory=dict)
    claimable: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    cancelling: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    top_up: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    balances: dict[str, int] = field(default_factory=lambda: defaultdict(int))


@dataclass
class Contracts:
    """The fake contracts while they execute the calls of the next block.

    Attributes:
        state: The state of the contracts and wallets. Calls change it.
        events: The events of the block. Calls add events.
        block: The number of the block.
        now: The time of the block (Unix seconds).
        timeouts: The timeouts of the contracts.
    """

    state: GridState
    events: list[ChainEvent]
    block: int
    now: int
    timeouts: Timeouts

    def apply(self, wallet: str, call: Call) -> None:
        """Make a call of a provider or of the meta-scheduler.

        Raises:
            TransactionReverted: If the contracts revert the call.
        """
        match call:
            case Register():
                self._register(wallet, call)
            case ClaimJobs(limit=limit):
                self._claim(wallet, limit)
            case ClaimCancelling():
                self.state.cancelling[wallet].clear()
            case ClaimTopUp():
                self.state.top_up[wallet].clear()
            case Match(job_key=job_key, provider=provider, max_price_per_min=limit):
                self._match(job_key.job_id.number, provider, limit)
            case Refuse(job_key=job_key):
                self._refuse(wallet, job_key.job_id.number)
            case SetRunning(job_key=job_key, started_at=started_at):
                self._run(wallet, job_key.job_id.number, started_at)
            case Settle():
                self._settle(wallet, call)
            case Expire(job_key=job_key):
                self._expire(job_key.job_id.number)

    # Calls of administrators and customers.

    def approve(self, address: str) -> None:
        self.state.providers[address] = replace(self.state.waiting.pop(address), is_joined=True)
        self._emit(ChainEventKind.PROVIDER_APPROVED, provider=address)

    def ban(self, address: str) -> None:
        self.state.providers[address] = replace(
            self.state.providers[address], is_joined=False, is_banned=True
        )
        self._emit(ChainEventKind.PROVIDER_CHANGED, provider=address)

    def remove(self, address: str) -> None:
        del self.state.providers[address]
        self._emit(ChainEventKind.PROVIDER_CHANGED, provider=address)

    def set_prices(self, address: str, prices: Prices) -> None:
        self.state.providers[address] = replace(self.state.providers[address], prices=prices)
        self._emit(ChainEventKind.PROVIDER_CHANGED, provider=address)

    def set_draining(self, address: str, *, draining: bool) -> None:
        record = self.state.providers[address]
        self.state.providers[address] = replace(record, is_joined=not draining)
        self._emit(ChainEventKind.PROVIDER_CHANGED, provider=address)

    def mint(self, address: str, amount: int) -> None:
        self.state.balances[NOBODY] += amount
        self._move(NOBODY, address, amount)

    def request(self, job: Job) -> None:
        self._move(job.customer, ESCROW, job.escrow)
        self.state.jobs[job.id.number] = job
        self._emit(ChainEventKind.JOB_REQUESTED, job)

    def cancel(self, number: int) -> None:
        job = self.state.jobs[number]
        if job.state in COLD:
            raise _revert("cancelJob", "JobHotStatusOnly")
        if job.cancel_requested:
            return
        bill_until = self.now if job.state is JobState.SCHEDULED else None
        self.state.jobs[number] = replace(
            job, cancel_requested=True, cancel_requested_at=self.now, bill_until=bill_until
        )
        self._add_event(ChainEventKind.JOB_CANCEL_REQUESTED, job_id=job.id)
        if job.provider:
            self.state.cancelling[job.provider].append(number)
        if job.state not in {JobState.SCHEDULED, JobState.RUNNING}:
            self._end(number, JobState.CANCELLED, 0)

    def top_up(self, number: int, amount: int) -> None:
        job = self.state.jobs[number]
        self._move(job.customer, ESCROW, amount)
        self.state.jobs[number] = replace(job, escrow=job.escrow + amount)
        self._add_event(ChainEventKind.JOB_TOPPED_UP, job_id=job.id, amount=amount)
        self.state.top_up[job.provider].append(number)

    # Calls of providers and of the meta-scheduler.

    def _register(self, wallet: str, call: Register) -> None:
        labels = tuple(sorted(call.labels, key=lambda label: label.key))
        self.state.waiting[wallet] = Provider(
            address=wallet,
            hardware=call.hardware,
            prices=call.prices,
            labels=labels,
            is_joined=False,
            is_waiting=True,
        )

    def _match(self, number: int, provider: str, limit: int) -> None:
        record = self.state.providers.get(provider)
        if record is None or not record.is_joined:
            raise _revert("metaSchedule", "ProviderNotJoined")
        job = self._transition(number, JobState.META_SCHEDULED)
        price = price_per_minute(job.resources, record.prices)
        if price > limit:
            raise _revert("metaSchedule", "PriceAboveLimit", str(price), str(limit))
        if price > job.escrow:
            raise _revert("metaSchedule", "InsufficientFunds", str(job.escrow), str(price))
        self.state.jobs[number] = replace(job, provider=provider, price_per_min=price)
        self.state.claimable[provider].append(number)

    def _claim(self, wallet: str, limit: int) -> None:
        record = self.state.providers.get(wallet)
        if record is None or not record.is_joined:
            raise _revert("claimJobs", "ProviderNotJoined")
        queue, claimed = self.state.claimable[wallet], 0
        while queue and claimed < limit:
            number = queue.pop(0)
            job = self.state.jobs[number]
            if job.state is not JobState.META_SCHEDULED or job.provider != wallet:
                continue
            self.state.jobs[number] = self._transition(number, JobState.SCHEDULED)
            self.state.claimed_at[number] = self.now
            self._emit(ChainEventKind.JOB_CLAIMED, self.state.jobs[number])
            claimed += 1

    def _refuse(self, wallet: str, number: int) -> None:
        job = self._provider_job(wallet, number, "refuseJob")
        if job.state not in {JobState.META_SCHEDULED, JobState.SCHEDULED}:
            raise _revert("refuseJob", "MetaScheduledScheduledStatusOnly")
        self._return_to_queue(job)

    def _return_to_queue(self, job: Job) -> None:
        """Make a job pending again, or end it if its customer requested to cancel it."""
        number = job.id.number
        if job.cancel_requested:
            self._end(number, JobState.CANCELLED, 0)
            return
        self._emit(ChainEventKind.JOB_REFUSED, job)
        self.state.jobs[number] = replace(
            self._transition(number, JobState.PENDING), provider="", price_per_min=0
        )

    def _expire(self, number: int) -> None:
        job = self.state.jobs[number]
        end = expiry(job, self.timeouts, claimed_at=self.state.claimed_at.get(number))
        is_unclaimed = job.state is JobState.META_SCHEDULED
        # A matched job expires at a block number. A job in a later state expires at a time.
        current = self.block if is_unclaimed else self.now
        if end is None or current <= end:
            raise _revert("expireJob", "NotExpired", str(int(job.state)), str(end))
        if is_unclaimed:
            self._return_to_queue(job)
            return
        if not job.cancel_requested:
            self.state.cancelling[job.provider].append(number)
        is_request = job.state is JobState.SCHEDULED and job.cancel_requested
        end_state = JobState.CANCELLED if is_request else JobState.PANICKED
        self._end(number, end_state, 0, error="expired")

    def _run(self, wallet: str, number: int, started_at: int) -> None:
        self._provider_job(wallet, number, "setJobRunning")
        job = self._transition(number, JobState.RUNNING)
        start = max(min(started_at, self.now), self.state.claimed_at[number])
        self.state.jobs[number] = replace(job, started_at=start)

    def _settle(self, wallet: str, call: Settle) -> None:
        number = call.job_key.job_id.number
        job = self._provider_job(wallet, number, "settleJob")
        if call.state not in COLD:
            raise _revert("settleJob", "RunningColdStatusOnly")
        seconds = 0
        if job.state is JobState.RUNNING and call.state is not JobState.PANICKED:
            until = self.now if job.bill_until is None else job.bill_until
            seconds = min(call.seconds, max(0, until - job.started_at))
        self._end(number, call.state, seconds, exit_code=call.exit_code, error=call.error)

    def _end(
        self, number: int, state: JobState, seconds: int, *, exit_code: int = 0, error: str = ""
    ) -> None:
        """End a job, and divide its escrow. The customer pays for ``seconds`` of run time."""
        job = self._transition(number, state)
        price = job.price_per_min
        bill = divide_escrow(
            escrow=job.escrow, seconds=seconds, price_per_min=price, fee_percent=FEE_PERCENT
        )
        if job.provider:
            self._move(ESCROW, job.provider, bill.provider)
        self._move(ESCROW, FEES, bill.fee)
        self._move(ESCROW, job.customer, bill.refund)
        job = replace(job, ended_at=self.now, final_cost=bill.cost, bill_until=None)
        self.state.jobs[number] = replace(job, exit_code=exit_code, last_error=error)

    def _transition(self, number: int, state: JobState) -> Job:
        """Return a job with a new state, and emit the event. The caller must store the job."""
        job = self.state.jobs.get(number)
        if job is None:
            raise _revert("job", "InvalidJob")
        if not is_legal(job.state, state):
            raise _revert("job", "InvalidTransition", job.state.name, state.name)
        changed_job = replace(job, state=state, state_block=self.block)
        self._emit(ChainEventKind.JOB_TRANSITION, changed_job)
        return changed_job

    def _provider_job(self, wallet: str, number: int, call: str) -> Job:
        """Return a job. Revert the call unless the wallet is the provider of the job."""
        job = self.state.jobs.get(number)
        if job is None:
            raise _revert(call, "InvalidJob")
        if job.provider != wallet:
            raise _revert(call, "JobProviderOnly", wallet, job.provider)
        return job

    def _move(self, payer: str, payee: str, amount: int) -> None:
        assert self.state.balances[payer] >= amount
        self.state.balances[payer] -= amount
        self.state.balances[payee] += amount
        self._add_event(
            ChainEventKind.CREDITS_TRANSFERRED, sender=payer, receiver=payee, amount=amount
        )

    def _emit(self, kind: ChainEventKind, job: Job | None = None, *, provider: str = "") -> None:
        fields = {"provider": provider}
        if job is not None:
            fields = {"customer": job.customer, "provider": job.provider}
            for name in _ABSENT_FIELDS.get(kind, ()):
                fields[name] = ""
            if kind is ChainEventKind.JOB_TRANSITION:
                fields["state"] = job.state
        self._add_event(kind, job_id=job.id if job else None, **fields)

    def _add_event(self, kind: ChainEventKind, **fields) -> None:
        event = ChainEvent(kind=kind, block=self.block, index=len(self.events), **fields)
        self.events.append(event)


def _revert(call: str, name: str, *arguments: str) -> TransactionReverted:
    return TransactionReverted(call, name, arguments)
