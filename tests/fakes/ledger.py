# SPDX-License-Identifier: Apache-2.0
"""The grid's contracts in memory: port Ledger, and the calls of customers and providers.

While ``automine`` is True, each call is mined in a separate block. In the test of a service,
``deliver(outbox, wallet)`` replaces the sender. The tests of the sender use
``account.FakeAccount``, whose transactions are pending in ``pool``. ``mistaken_calls`` lists the
mined calls for which ``is_mistaken`` returns True.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tests.fakes.chain import FakeChain
from tests.fakes.contracts import NOBODY, Contracts, GridState
from tests.fakes.store import FakeClock, MemoryOutbox

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.jobs.billing import Prices, Resources
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Block, Hardware, Job, Provider, QueueSizes
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.expiry import Timeouts
from gridstead.domain.transactions.calls import (
    Call,
    ClaimJobs,
    Match,
    Refuse,
    Register,
    SetRunning,
    Settle,
)
from gridstead.domain.transactions.outbox import EntryChange, SendState
from gridstead.errors import TransactionReverted

CHAIN_ID = 179188
CONTRACT = "0x" + "5c" * 20
CREDIT = 10**18

SMALL = Resources(gpus=0, tasks=1, cpus_per_task=1, memory_per_cpu_mb=100)
HARDWARE = Hardware(gpus_per_node=(0, 0), cpus_per_node=(64, 64), memory_per_node_mb=(4000, 4000))
TIMEOUTS = Timeouts(claim_blocks=10, start_s=7 * 86_400, settle_grace_s=7 * 86_400)
PRICES = Prices(gpu_per_min=10**18, cpu_per_min=10**17, memory_mb_per_min=10**14)


class FakeLedger(FakeChain):
    """A chain with the grid's contracts."""

    def __init__(
        self, clock: FakeClock | None = None, *, chain_id: int = CHAIN_ID, contract: str = CONTRACT
    ) -> None:
        super().__init__(clock or FakeClock(), GridState())
        self.chain_id = chain_id
        self.contract = contract
        self.automine = True
        self.constants = TIMEOUTS
        self.with_transfers = False  # whether ``events`` includes the transfers of credits
        # If it is set to false, ``events`` omits the kinds that DeepSquare 1.2 does not have.
        self.has_all_change_events = True
        self.mine()

    # Port Ledger. FakeChain implements the other methods of port Chain.

    def jobs(self, job_ids: Iterable[JobId], *, at_block: Block) -> dict[JobId, Job]:
        stored_jobs = self._state_at(at_block).jobs
        jobs = {}
        for job_id in sorted(job_ids, key=lambda job_id: job_id.number):
            job = stored_jobs.get(job_id.number)
            if job is not None and job.id == job_id:
                jobs[job_id] = job
        return jobs

    def events(self, *, first: int, end: Block) -> tuple[ChainEvent, ...]:
        omitted_kinds = set() if self.with_transfers else {ChainEventKind.CREDITS_TRANSFERRED}
        if not self.has_all_change_events:
            omitted_kinds |= {ChainEventKind.JOB_TOPPED_UP, ChainEventKind.JOB_CANCEL_REQUESTED}
        events = super().events(first=first, end=end)
        return tuple(event for event in events if event.kind not in omitted_kinds)

    def queue_sizes(self, provider: str, *, at_block: Block) -> QueueSizes:
        state = self._state_at(at_block)
        return QueueSizes(
            claimable=len(state.claimable.get(provider, ())),
            cancelling=len(state.cancelling.get(provider, ())),
            top_up=len(state.top_up.get(provider, ())),
        )

    def claimable_jobs(self, provider: str, *, limit: int, at_block: Block) -> tuple[Job, ...]:
        state = self._state_at(at_block)
        claimable_jobs = []
        for number in state.claimable.get(provider, ()):
            job = state.jobs[number]
            if job.state is JobState.META_SCHEDULED and job.provider == provider:
                claimable_jobs.append(job)
        return tuple(claimable_jobs[:limit])

    def providers(self, addresses: Iterable[str], *, at_block: Block) -> dict[str, Provider]:
        state = self._state_at(at_block)
        records = {}
        for address in addresses:
            record = state.providers.get(address) or state.waiting.get(address)
            if record is not None:
                records[address] = replace(record, is_waiting=address in state.waiting)
        return records

    def approved_providers(
        self, addresses: Iterable[str], *, at_block: Block
    ) -> dict[str, Provider]:
        records = self._state_at(at_block).providers
        providers = {}
        for address in set(addresses) & records.keys():
            providers[address] = replace(records[address], is_waiting=False, is_banned=False)
        return providers

    def waiting_provider(self, address: str, *, at_block: Block) -> Provider | None:
        return self._state_at(at_block).waiting.get(address)

    def timeouts(self, *, at_block: Block) -> Timeouts:
        self._state_at(at_block)
        return self.constants

    # Calls.

    def act(self, wallet: str, call: Call) -> None:
        """Make a call in a separate block.

        Raises:
            TransactionReverted: If the contracts revert the call. The state is then unchanged.
        """
        self.apply(wallet, call)
        self._mine_if_automatic()

    def deliver(self, outbox: MemoryOutbox, wallet: str) -> None:
        """Make all open calls of an outbox in one block and mark each entry FINAL or REJECTED."""
        for entry in outbox.open_entries():
            change = EntryChange(entry_id=entry.id, state=SendState.FINAL)
            try:
                self.apply(wallet, entry.call)
            except TransactionReverted as error:
                change = replace(change, state=SendState.REJECTED, reason=str(error))
            outbox.record("", changes=[change], withdrawn_nonces=(), closed_nonces=())
        self.mine()

    def apply(self, wallet: str, call: Call) -> None:
        """Make a call in the next block."""
        self._contracts().apply(wallet, call)

    def is_mistaken(self, call: Call) -> bool:
        """Return whether the call is about an old job whose number now belongs to another job."""
        job_key = getattr(call, "job_key", None)
        if job_key is None:
            return False
        job = self._state.jobs.get(job_key.job_id.number)
        return job is not None and job.job_key != job_key

    def _contracts(self) -> Contracts:
        """Return the contracts as they execute the calls of the next block."""
        return Contracts(
            state=self._state,
            events=self._events,
            block=len(self._history),
            now=self._next_time(),
            timeouts=self.constants,
        )

    def _mine_if_automatic(self) -> None:
        if self.automine:
            self.mine()

    # Calls of customers, providers and administrators.

    def job_id(self, number: int) -> JobId:
        return JobId(chain_id=self.chain_id, contract=self.contract, number=number)

    def job(self, number: int) -> Job:
        """Return a job in its current state."""
        return self._state.jobs[number]

    def mint(self, address: str, amount: int) -> None:
        self._contracts().mint(address, amount)

    def balance(self, address: str) -> int:
        return self._state.balances[address]

    def add_provider(
        self, address: str, hardware: Hardware = HARDWARE, prices: Prices = PRICES, labels=()
    ) -> Provider:
        """Register and approve a provider."""
        self.act(address, Register(hardware=hardware, prices=prices, labels=tuple(labels)))
        self.approve(address)
        return self._state.providers[address]

    def approve(self, address: str) -> None:
        self._contracts().approve(address)
        self._mine_if_automatic()

    def ban(self, address: str) -> None:
        self._contracts().ban(address)
        self._mine_if_automatic()

    def remove(self, address: str) -> None:
        self._contracts().remove(address)
        self._mine_if_automatic()

    def set_prices(self, address: str, prices: Prices) -> None:
        self._contracts().set_prices(address, prices)
        self._mine_if_automatic()

    def set_draining(self, address: str, *, draining: bool) -> None:
        self._contracts().set_draining(address, draining=draining)
        self._mine_if_automatic()

    def request(
        self,
        customer: str,
        *,
        escrow: int = 100 * CREDIT,
        script: str = "",
        resources: Resources = SMALL,
        **fields,
    ) -> Job:
        """Mint the escrow for the customer and request a job."""
        number = len(self._state.jobs) + 1
        self.mint(customer, escrow)
        job = Job(
            id=self.job_id(number),
            state=JobState.PENDING,
            customer=customer,
            provider="",
            resources=resources,
            batch_location_hash=script or f"script-{self._reorg_count}-{number}",
            escrow=escrow,
            submitted_at=self._next_time(),
            state_block=len(self._history),
            **fields,
        )
        self._contracts().request(job)
        self._mine_if_automatic()
        return job

    def match(self, number: int, provider: str) -> Job:
        self.act(NOBODY, Match(job_key=self.job(number).job_key, provider=provider))
        return self.job(number)

    def claim(self, provider: str, limit: int = 50) -> None:
        self.act(provider, ClaimJobs(limit=limit))

    def run(self, number: int, started_at: int | None = None) -> Job:
        """Report that a job started at a Unix time, by default at the time of the next block."""
        job = self.job(number)
        if started_at is None:
            started_at = self._next_time()
        self.act(job.provider, SetRunning(job_key=job.job_key, started_at=started_at))
        return self.job(number)

    def settle(
        self,
        number: int,
        state: JobState = JobState.FINISHED,
        *,
        seconds: int = 60,
        exit_code: int = 0,
    ) -> Job:
        job = self.job(number)
        evidence = "0x" + "00" * 32
        call = Settle(
            job_key=job.job_key,
            state=state,
            seconds=seconds,
            exit_code=exit_code,
            error="",
            evidence=evidence,
        )
        self.act(job.provider, call)
        return self.job(number)

    def refuse(self, number: int) -> Job:
        job = self.job(number)
        self.act(job.provider, Refuse(job_key=job.job_key))
        return self.job(number)

    def cancel(self, number: int) -> Job:
        self._contracts().cancel(number)
        self._mine_if_automatic()
        return self.job(number)

    def top_up(self, number: int, amount: int) -> Job:
        """Mint credits for the customer and add them to the escrow of a job."""
        self.mint(self.job(number).customer, amount)
        self._contracts().top_up(number, amount)
        self._mine_if_automatic()
        return self.job(number)
