# SPDX-License-Identifier: Apache-2.0
"""The grid in memory and on a real chain. Both classes have the same methods."""

from __future__ import annotations

from tests.adapters.chain.generations import OURS, by_version
from tests.devnet import COIN
from tests.fakes.ledger import HARDWARE, PRICES, SMALL, FakeLedger

from gridstead.adapters.chain.customer import Customer, JobRequest
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.transactions.encode import encode
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import (
    ClaimCancelling,
    ClaimJobs,
    ClaimTopUp,
    Match,
    Refuse,
    Register,
    SetRunning,
    Settle,
)

NO_EVIDENCE = "0x" + "00" * 32


class FakeGrid:
    """The grid in memory, with the same methods as ``RealGrid``."""

    expected = OURS

    def __init__(self):
        self.ledger = FakeLedger()
        self.provider, self.customer = "0x" + "a1" * 20, "0x" + "c1" * 20

    def ledger_with_transfers(self):
        """Return a ledger whose events include the transfers of credits."""
        self.ledger.with_transfers = True
        return self.ledger

    def job_id(self, number):
        return self.ledger.job_id(number)

    def jobs(self, *numbers):
        """Return the jobs of these numbers that exist at the newest block."""
        return self.ledger.jobs(map(self.job_id, numbers), at_block=self.ledger.head())

    def job(self, number):
        return self.jobs(number)[self.job_id(number)]

    def register(self, labels=(), prices=PRICES):
        self.ledger.act(
            self.provider, Register(hardware=HARDWARE, prices=prices, labels=tuple(labels))
        )

    def approve(self):
        self.ledger.approve(self.provider)

    def request(self, script, *, escrow=200 * COIN, resources=SMALL, **fields):
        return self.ledger.request(
            self.customer, script=script, escrow=escrow, resources=resources, **fields
        ).id.number

    def match(self, number):
        self.ledger.match(number, self.provider)

    def claim(self):
        self.ledger.claim(self.provider)

    def run(self, number, started_at):
        """Report that a job has been running since the Unix time ``started_at``."""
        self.ledger.run(number, started_at)

    def settle(self, number, state=JobState.FINISHED, *, seconds=60, exit_code=0):
        self.ledger.settle(number, state, seconds=seconds, exit_code=exit_code)

    def refuse(self, number):
        self.ledger.refuse(number)

    def top_up(self, number, amount):
        self.ledger.top_up(number, amount)

    def claim_top_up(self):
        self.ledger.act(self.provider, ClaimTopUp())

    def claim_cancelling(self):
        self.ledger.act(self.provider, ClaimCancelling())

    def cancel(self, number):
        self.ledger.cancel(number)

    def pass_time(self, seconds):
        """Advance the time of the next block."""
        self.ledger.clock.advance(seconds)

    def mine(self, count=1):
        self.ledger.mine(count)

    def reorg(self, depth):
        self.ledger.reorg(depth)

    def balances(self):
        """Return the credits of the customer and of the provider."""
        return self.ledger.balance(self.customer), self.ledger.balance(self.provider)


class RealGrid:
    """The grid on anvil; each method sends one transaction or reads the newest block."""

    def __init__(self, devnet):
        self.devnet = devnet
        self.expected = by_version(devnet.contracts.version)
        self.ledger = ChainLedger(devnet.node, devnet.contracts)
        self.provider, self.customer = devnet.provider.address, devnet.customer.address

    def _act(self, wallet, call):
        """Send a contract call in a transaction of the wallet, without an outbox."""
        sender = Customer(self.devnet.node, self.devnet.contracts, wallet)
        payload = encode([call], self.devnet.contracts)
        sender._direct.transact(payload.to, payload.data, name=type(call).__name__)

    def ledger_with_transfers(self):
        """Return a ledger whose events include the transfers of credits."""
        return ChainLedger(self.devnet.node, self.devnet.contracts, with_transfers=True)

    def job_id(self, number):
        return self.devnet.contracts.job_id(number)

    def jobs(self, *numbers):
        """Return the jobs of these numbers that exist at the newest block."""
        return self.ledger.jobs(map(self.job_id, numbers), at_block=self.ledger.head())

    def job(self, number):
        return self.jobs(number)[self.job_id(number)]

    def _job_key(self, number):
        return self.job(number).job_key

    def register(self, labels=(), prices=PRICES):
        self._act(
            self.devnet.provider, Register(hardware=HARDWARE, prices=prices, labels=tuple(labels))
        )

    def approve(self):
        self.devnet.as_admin.approve_provider(self.provider)

    def request(self, script, *, escrow=200 * COIN, resources=SMALL, **fields):
        request = JobRequest(
            resources=resources, batch_location_hash=script, escrow=escrow, **fields
        )
        return self.devnet.as_customer.request_job(request)

    def match(self, number):
        self._act(
            self.devnet.operator, Match(job_key=self._job_key(number), provider=self.provider)
        )

    def claim(self):
        self._act(self.devnet.provider, ClaimJobs(limit=50))

    def run(self, number, started_at):
        """Report that a job has been running since the Unix time ``started_at``."""
        self._act(
            self.devnet.provider, SetRunning(job_key=self._job_key(number), started_at=started_at)
        )

    def settle(self, number, state=JobState.FINISHED, *, seconds=60, exit_code=0):
        call = Settle(
            job_key=self._job_key(number),
            state=state,
            seconds=seconds,
            exit_code=exit_code,
            error="",
            evidence=NO_EVIDENCE,
        )
        self._act(self.devnet.provider, call)

    def refuse(self, number):
        self._act(self.devnet.provider, Refuse(job_key=self._job_key(number)))

    def top_up(self, number, amount):
        self.devnet.as_customer.top_up(number, amount)

    def claim_top_up(self):
        self._act(self.devnet.provider, ClaimTopUp())

    def claim_cancelling(self):
        self._act(self.devnet.provider, ClaimCancelling())

    def cancel(self, number):
        self.devnet.as_customer.cancel_job(number)

    def pass_time(self, seconds):
        """Advance the time of the next block."""
        self.devnet.anvil.rpc("evm_increaseTime", seconds)

    def mine(self, count=1):
        self.devnet.anvil.mine(count)

    def reorg(self, depth):
        self.devnet.anvil.reorg(depth)

    def balances(self):
        """Return the credits of the customer and of the provider."""
        balance = self.devnet.as_customer.balance
        return balance(self.customer), balance(self.provider)


def join_real_grid(chain):
    """Return the grid on a real chain, after its provider has registered and is approved."""
    grid = RealGrid(chain)
    grid.register()
    grid.approve()
    return grid


def queue_sizes(grid):
    """Return the sizes of the provider's queues at the newest block."""
    return grid.ledger.queue_sizes(grid.provider, at_block=grid.ledger.head())
