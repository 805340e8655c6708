# SPDX-License-Identifier: Apache-2.0
"""The grid's contracts in memory: port Ledger, and everything that happens on a chain, without a chain.

Each act mines one block of its own while ``automine`` is True. ``reorg(n)`` takes the last n blocks back. Put ``down =
True`` to make the endpoint go away. ``deliver(outbox, wallet)`` does for a service test what the sender does for real;
tests of the sender itself use ``account.FakeAccount``, whose transactions wait in ``pool``. ``mistaken`` holds the
calls that were mined for a job that their proof does not mean.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tests.fakes.store import FakeClock, MemoryOutbox

from gridstead.domain.billing import Prices, Resources, price_per_minute, settle
from gridstead.domain.calls import (
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
from gridstead.domain.events import Event, EventKind
from gridstead.domain.expiry import Timeouts, expiry
from gridstead.domain.ids import JobId
from gridstead.domain.job import Block, Hardware, Job, Provider, QueueSizes
from gridstead.domain.lifecycle import COLD, JobState, is_legal
from gridstead.domain.sending import EntryChange, Receipt, SendState, Transaction
from gridstead.errors import ChainUnavailable, TransactionReverted

CHAIN_ID = 179188
CONTRACT = "0x" + "5c" * 20
ESCROW = "escrow"
FEES = "fees"
FEE_PERCENT = 20
CREDIT = 10**18
NOBODY = "0x" + "00" * 20

SMALL = Resources(gpus=0, tasks=1, cpus_per_task=1, memory_per_cpu_mb=100)
HARDWARE = Hardware(gpus_per_node=(0, 0), cpus_per_node=(64, 64), memory_per_node_mb=(4000, 4000))
TIMEOUTS = Timeouts(claim_blocks=10, start_s=7 * 86_400, settle_grace_s=7 * 86_400)
PRICES = Prices(gpu_per_min=10**18, cpu_per_min=10**17, memory_mb_per_min=10**14)


@dataclass
class _State:
    """What a block leaves behind; copied with every block."""

    jobs: dict[int, Job] = field(default_factory=dict)
    claimed_at: dict[int, int] = field(default_factory=dict)
    providers: dict[str, Provider] = field(default_factory=dict)
    waiting: dict[str, Provider] = field(default_factory=dict)
    claimable: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    cancelling: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    top_up: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    balances: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    nonces: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    receipts: dict[str, Receipt] = field(default_factory=dict)


class FakeLedger:
    """A chain with the grid's contracts."""

    def __init__(self, clock: FakeClock | None = None, *, chain_id: int = CHAIN_ID, contract: str = CONTRACT) -> None:
        self.clock = clock or FakeClock()
        self.chain_id = chain_id
        self.contract = contract
        self.down = False
        self.automine = True
        self.constants = TIMEOUTS
        self.pool: dict[tuple[str, int], tuple[Transaction, tuple[Call, ...]]] = {}
        self.mistaken: list[Call] = []
        self._forks = 0
        self._events: list[Event] = []
        self._state = _State()
        self._history: list[tuple[Block, _State, tuple[Event, ...]]] = []
        self.mine()

    # The port.

    def head(self) -> Block:
        self._answer()
        return self._history[-1][0]

    def block(self, number: int) -> Block | None:
        self._answer()
        return self._history[number][0] if 0 <= number < len(self._history) else None

    def jobs(self, numbers: Iterable[int], *, at: Block) -> dict[int, Job]:
        jobs = self._at(at).jobs
        return {number: jobs[number] for number in numbers if number in jobs}

    def events(self, *, first: int, end: Block) -> tuple[Event, ...]:
        self._at(end)
        return tuple(event for _, _, events in self._history[first : end.number + 1] for event in events)

    def queue_sizes(self, provider: str, *, at: Block) -> QueueSizes:
        state = self._at(at)
        return QueueSizes(
            claimable=len(state.claimable.get(provider, ())),
            cancelling=len(state.cancelling.get(provider, ())),
            top_up=len(state.top_up.get(provider, ())),
        )

    def providers(self, addresses: Iterable[str], *, at: Block) -> dict[str, Provider]:
        state = self._at(at)
        found = {}
        for address in addresses:
            record = state.providers.get(address) or state.waiting.get(address)
            if record is not None:
                found[address] = replace(record, waiting=address in state.waiting)
        return found

    def waiting_provider(self, address: str, *, at: Block) -> Provider | None:
        return self._at(at).waiting.get(address)

    def timeouts(self, *, at: Block) -> Timeouts:
        self._at(at)
        return self.constants

    # The chain.

    def mine(self, count: int = 1) -> Block:
        for _ in range(count):
            self._include()
            number = len(self._history)
            last = self._history[-1][0].timestamp if self._history else 0
            timestamp = max(last + 1, self.clock.now())
            block = Block(number=number, hash=f"0x{self._forks:032x}{number:032x}", timestamp=timestamp)
            self._history.append((block, copy.deepcopy(self._state), tuple(self._events)))
            self._events.clear()
        return self._history[-1][0]

    def _include(self) -> None:
        """Apply the transactions of the pool whose turn it is."""
        for wallet, nonce in sorted(self.pool):
            if nonce != self._state.nonces[wallet]:
                continue
            transaction, calls = self.pool.pop((wallet, nonce))
            self._state.nonces[wallet] += 1
            skipped, succeeded = {}, True
            for call in calls:
                proof = getattr(call, "proof", None)
                if proof and proof.job_id.number in self._state.jobs and self.job(proof.job_id.number).proof != proof:
                    self.mistaken.append(call)
                try:
                    self.apply(wallet, call)
                except TransactionReverted as error:
                    succeeded = succeeded and proof is not None
                    skipped |= {proof.job_id.number: str(error.detail)} if proof else {}
            receipt = Receipt(block=len(self._history), succeeded=succeeded, skipped=skipped)
            self._state.receipts[transaction.hash] = receipt

    def reorg(self, depth: int, *, length: int | None = None) -> None:
        """Take the last blocks back and put empty ones in their place."""
        assert 0 < depth < len(self._history)
        del self._history[-depth:]
        self._state = copy.deepcopy(self._history[-1][1])
        self._forks += 1
        self.mine(depth if length is None else length)

    # What people do.

    def mint(self, address: str, amount: int) -> None:
        self._state.balances[address] += amount

    def balance(self, address: str) -> int:
        return self._state.balances[address]

    def add_provider(self, address: str, hardware: Hardware = HARDWARE, prices: Prices = PRICES, labels=()) -> Provider:
        self.act(address, Register(hardware=hardware, prices=prices, labels=tuple(labels)))
        self.approve(address)
        return self._state.providers[address]

    def approve(self, address: str) -> None:
        self._state.providers[address] = replace(self._state.waiting.pop(address), joined=True)
        self._emit(EventKind.PROVIDER_CHANGED, provider=address)
        self._done()

    def ban(self, address: str) -> None:
        record = self._state.providers[address]
        self._state.providers[address] = replace(record, joined=False, banned=True)
        self._emit(EventKind.PROVIDER_CHANGED, provider=address)
        self._done()

    def request(
        self, customer: str, *, lock: int = 100 * CREDIT, script: str = "", resources: Resources = SMALL, **fields
    ) -> Job:
        """Ask for a job; the customer gets the credits for it."""
        number = len(self._state.jobs) + 1
        self.mint(customer, lock)
        self._move(customer, ESCROW, lock)
        job = Job(
            id=JobId(chain_id=self.chain_id, contract=self.contract, number=number),
            state=JobState.PENDING,
            customer=customer,
            provider="",
            resources=resources,
            batch_location_hash=script or f"script-{self._forks}-{number}",
            lock=lock,
            submitted_at=self._next_time(),
            state_block=len(self._history),
            **fields,
        )
        self._state.jobs[number] = job
        self._emit(EventKind.JOB_REQUESTED, job)
        self._done()
        return job

    def match(self, number: int, provider: str) -> Job:
        self.act(NOBODY, Match(proof=self.job(number).proof, provider=provider))
        return self.job(number)

    def claim(self, provider: str, limit: int = 50) -> None:
        self.act(provider, ClaimJobs(limit=limit))

    def run(self, number: int, started_at: int | None = None) -> Job:
        job = self.job(number)
        at = self._next_time() if started_at is None else started_at
        self.act(job.provider, SetRunning(proof=job.proof, started_at=at))
        return self.job(number)

    def settle(self, number: int, state: JobState = JobState.FINISHED, *, seconds: int = 60, exit_code: int = 0) -> Job:
        job = self.job(number)
        evidence = "0x" + "00" * 32
        call = Settle(proof=job.proof, state=state, seconds=seconds, exit_code=exit_code, error="", evidence=evidence)
        self.act(job.provider, call)
        return self.job(number)

    def refuse(self, number: int) -> Job:
        job = self.job(number)
        self.act(job.provider, Refuse(proof=job.proof))
        return self.job(number)

    def cancel(self, number: int) -> Job:
        job = self.job(number)
        if job.state in COLD:
            raise self._revert("cancelJob", "JobHotStatusOnly")
        asked_at = job.cancel_requested_at or self._next_time()
        self._state.jobs[number] = replace(job, cancel_requested=True, cancel_requested_at=asked_at)
        if job.provider and not job.cancel_requested:
            self._state.cancelling[job.provider].append(number)
        if job.state is not JobState.RUNNING:
            self._end(number, JobState.CANCELLED, 0)
        self._done()
        return self.job(number)

    def top_up(self, number: int, amount: int) -> Job:
        job = self.job(number)
        self.mint(job.customer, amount)
        self._move(job.customer, ESCROW, amount)
        self._state.jobs[number] = replace(job, lock=job.lock + amount)
        self._state.top_up[job.provider].append(number)
        self._done()
        return self.job(number)

    def _done(self) -> None:
        if self.automine:
            self.mine()

    def job(self, number: int) -> Job:
        """Return a job as of now."""
        return self._state.jobs[number]

    def act(self, wallet: str, call: Call) -> None:
        """Make a call in a block of its own.

        Raises:
            TransactionReverted: Nothing changed.
        """
        self.apply(wallet, call)
        self._done()

    def deliver(self, outbox: MemoryOutbox, wallet: str) -> None:
        """Make every open call of an outbox, in one block; each is FINAL or REJECTED afterwards."""
        for entry in outbox.open_entries():
            change = EntryChange(entry_id=entry.id, state=SendState.FINAL)
            try:
                self.apply(wallet, entry.call)
            except TransactionReverted as error:
                change = replace(change, state=SendState.REJECTED, reason=str(error))
            outbox.record("", changes=[change], withdrawn=(), closed=())
        self.mine()

    def apply(self, wallet: str, call: Call) -> None:
        """Make a call in the block that is mined next."""
        match call:
            case Register():
                self._register(wallet, call)
            case ClaimJobs(limit=limit):
                self._claim(wallet, limit)
            case ClaimCancelling():
                self._state.cancelling[wallet].clear()
            case ClaimTopUp():
                self._state.top_up[wallet].clear()
            case Match(proof=proof, provider=provider, max_price_per_min=limit):
                self._match(proof.job_id.number, provider, limit)
            case Refuse(proof=proof):
                self._refuse(wallet, proof.job_id.number)
            case SetRunning(proof=proof, started_at=started_at):
                self._run(wallet, proof.job_id.number, started_at)
            case Settle():
                self._settle(wallet, call)
            case Expire(proof=proof):
                self._expire(proof.job_id.number)

    # The contracts.

    def _register(self, wallet: str, call: Register) -> None:
        labels = tuple(sorted(call.labels, key=lambda label: label.key))
        self._state.waiting[wallet] = Provider(
            address=wallet, hardware=call.hardware, prices=call.prices, labels=labels, joined=False, waiting=True
        )
        self._emit(EventKind.PROVIDER_CHANGED, provider=wallet)

    def _match(self, number: int, provider: str, limit: int) -> None:
        record = self._state.providers.get(provider)
        if record is None or not record.joined:
            raise self._revert("metaSchedule", "ProviderNotJoined")
        job = self._to(number, JobState.META_SCHEDULED)
        price = price_per_minute(job.resources, record.prices)
        if price > limit:
            raise self._revert("metaSchedule", "PriceAboveLimit", str(price), str(limit))
        if price > job.lock:
            raise self._revert("metaSchedule", "InsufficientFunds", str(job.lock), str(price))
        self._state.jobs[number] = replace(job, provider=provider, price_per_min=price)
        self._state.claimable[provider].append(number)

    def _claim(self, wallet: str, limit: int) -> None:
        record = self._state.providers.get(wallet)
        if record is None or not record.joined:
            raise self._revert("claimJobs", "ProviderNotJoined")
        queue, claimed = self._state.claimable[wallet], 0
        while queue and claimed < limit:
            number = queue.pop(0)
            job = self.job(number)
            if job.state is not JobState.META_SCHEDULED or job.provider != wallet:
                continue
            self._state.jobs[number] = self._to(number, JobState.SCHEDULED)
            self._state.claimed_at[number] = self._next_time()
            self._emit(EventKind.JOB_CLAIMED, self.job(number))
            claimed += 1

    def _refuse(self, wallet: str, number: int) -> None:
        job = self._of(wallet, number, "refuseJob")
        if job.state not in {JobState.META_SCHEDULED, JobState.SCHEDULED}:
            raise self._revert("refuseJob", "MetaScheduledScheduledStatusOnly")
        self._unmatch(job)

    def _unmatch(self, job: Job) -> None:
        number = job.id.number
        self._emit(EventKind.JOB_REFUSED, job)
        self._state.jobs[number] = replace(self._to(number, JobState.PENDING), provider="", price_per_min=0)

    def _expire(self, number: int) -> None:
        job = self.job(number)
        end = expiry(job, self.constants, claimed_at=self._state.claimed_at.get(number))
        is_match = job.state is JobState.META_SCHEDULED
        if end is None or (len(self._history) if is_match else self._next_time()) <= end:
            raise self._revert("expireJob", "NotExpired", str(int(job.state)), str(end))
        if is_match:
            self._unmatch(job)
            return
        self._state.cancelling[job.provider].append(number)
        self._end(number, JobState.PANICKED, 0, error="expired")

    def _run(self, wallet: str, number: int, started_at: int) -> None:
        self._of(wallet, number, "setJobRunning")
        job = self._to(number, JobState.RUNNING)
        start = max(min(started_at, self._next_time()), self._state.claimed_at[number])
        self._state.jobs[number] = replace(job, started_at=start)

    def _settle(self, wallet: str, call: Settle) -> None:
        number = call.proof.job_id.number
        job = self._of(wallet, number, "settleJob")
        if call.state not in COLD:
            raise self._revert("settleJob", "RunningColdStatusOnly")
        billed = job.state is JobState.RUNNING and call.state is not JobState.PANICKED
        seconds = min(call.seconds, self._next_time() - job.started_at) if billed else 0
        self._end(number, call.state, seconds, exit_code=call.exit_code, error=call.error)

    def _end(self, number: int, state: JobState, seconds: int, *, exit_code: int = 0, error: str = "") -> None:
        job = self._to(number, state)
        price = job.price_per_min
        bill = settle(lock=job.lock, seconds=seconds, price_per_min=price, fee_percent=FEE_PERCENT)
        if job.provider:
            self._move(ESCROW, job.provider, bill.provider)
        self._move(ESCROW, FEES, bill.fee)
        self._move(ESCROW, job.customer, bill.refund)
        self._state.jobs[number] = replace(
            job, ended_at=self._next_time(), final_cost=bill.cost, exit_code=exit_code, last_error=error
        )

    def _to(self, number: int, state: JobState) -> Job:
        job = self._state.jobs.get(number)
        if job is None:
            raise self._revert("job", "InvalidJob")
        if not is_legal(job.state, state):
            raise self._revert("job", "InvalidTransition", job.state.name, state.name)
        moved = replace(job, state=state, state_block=len(self._history))
        self._emit(EventKind.JOB_TRANSITION, moved)
        return moved

    def _of(self, wallet: str, number: int, call: str) -> Job:
        job = self._state.jobs.get(number)
        if job is None:
            raise self._revert(call, "InvalidJob")
        if job.provider != wallet:
            raise self._revert(call, "JobProviderOnly", wallet, job.provider)
        return job

    def _move(self, payer: str, payee: str, amount: int) -> None:
        assert self._state.balances[payer] >= amount
        self._state.balances[payer] -= amount
        self._state.balances[payee] += amount

    def _emit(self, kind: EventKind, job: Job | None = None, *, provider: str = "") -> None:
        told = {}
        if job is not None:
            told = {"job_number": job.id.number, "customer": job.customer, "provider": job.provider}
            silent = {
                EventKind.JOB_REQUESTED: {"provider"},
                EventKind.JOB_TRANSITION: {"customer", "provider"},
            }
            told = {name: "" if name in silent.get(kind, ()) else value for name, value in told.items()}
        fields = {"provider": provider} | told
        self._events.append(Event(kind=kind, block=len(self._history), index=len(self._events), **fields))

    def _next_time(self) -> int:
        last = self._history[-1][0].timestamp if self._history else 0
        return max(last + 1, self.clock.now())

    def _revert(self, call: str, name: str, *arguments: str) -> TransactionReverted:
        return TransactionReverted(call, name, arguments)

    def _at(self, block: Block) -> _State:
        self._answer()
        if block.number >= len(self._history) or self._history[block.number][0].hash != block.hash:
            raise ChainUnavailable(f"could not read block {block.number}", detail="it is not in the chain any more")
        return self._history[block.number][1]

    def _answer(self) -> None:
        if self.down:
            raise ChainUnavailable("could not reach the chain", detail="connection refused")
