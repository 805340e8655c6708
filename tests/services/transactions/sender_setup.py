# SPDX-License-Identifier: Apache-2.0
"""Test bench for a wallet's sender: the sender and its outbox, with a fake chain and clock."""

from __future__ import annotations

from tests.fakes.account import FakeAccount
from tests.fakes.ledger import FakeLedger
from tests.fakes.store import FakeClock, MemoryOutbox

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import ClaimJobs, SetRunning, Settle
from gridstead.domain.transactions.plan import DispatchPolicy
from gridstead.errors import TransactionReverted
from gridstead.services.transactions.sender import Sender, SenderPorts

PROVIDER = "0x" + "a1" * 20
CUSTOMER = "0x" + "c1" * 20


class RevertingAccount(FakeAccount):
    """An account whose claims revert in simulation while ``reverts_claims`` is set."""

    reverts_claims = False

    def gas(self, batches, *, available_gas):
        # The result of a batch is its gas limit, or the error of its simulation.
        error = TransactionReverted("ClaimJobs", "ProviderNotJoined")
        results = list(super().gas(batches, available_gas=available_gas))
        for index, calls in enumerate(batches):
            if self.reverts_claims and calls and isinstance(calls[0], ClaimJobs):
                results[index] = error
        return tuple(results)


def settlement(job, state=JobState.FINISHED):
    """Return the call that settles a job in a final state, with one billed second."""
    return Settle(
        job_key=job.job_key,
        state=state,
        seconds=1,
        exit_code=0,
        error="",
        evidence="0x" + "00" * 32,
    )


class HastyLedger(FakeLedger):
    """A chain whose node can answer a read at the newest block with the state of the next block.

    Attributes:
        is_hasty: Whether the node answers in this way.
    """

    is_hasty = False

    def _state_at(self, block):
        state = super()._state_at(block)
        newest_block = self._history[-1][0]
        if not self.is_hasty or block != newest_block:
            return state
        return self._next_state()

    def _next_state(self):
        """Return the state of the next block without mining the block."""
        saved_fields = self._state, self.pool, self._events
        self._state = self._state.copy()
        self.pool = dict(self.pool)
        self._events = []
        self._include()
        state = self._state
        self._state, self.pool, self._events = saved_fields
        return state


class WalletSender:
    """A provider's outbox and sender on a fake chain."""

    def __init__(self):
        self.clock = FakeClock()
        self.ledger = HastyLedger(self.clock)
        self.ledger.add_provider(PROVIDER)
        self.outbox = MemoryOutbox(clock=self.clock)
        self.account = RevertingAccount(self.ledger, PROVIDER)
        self.restart()

    def restart(self, **policy):
        """Create the sender again, with these fields of its policy."""
        fields = {"confirmations": 1, "replace_after_s": 30} | policy
        ports = SenderPorts(
            clock=self.clock,
            ledger=self.ledger,
            account=self.account,
            transactions=self.outbox,
        )
        self.sender = Sender(ports, DispatchPolicy(**fields))

    def claim_job(self):
        """Request, match and claim a job, and return it."""
        job = self.ledger.request(CUSTOMER)
        self.ledger.match(job.id.number, PROVIDER)
        self.ledger.claim(PROVIDER)
        return self.ledger.job(job.id.number)

    def run_job(self):
        """Request, match, claim and start a job, and return it."""
        job = self.claim_job()
        return self.ledger.run(job.id.number)

    def put_running(self):
        """Claim a job, and put the call that reports the start of this job into the outbox."""
        job = self.claim_job()
        self.outbox.put(f"run:{job.id.number}", SetRunning(job_key=job.job_key, started_at=1))

    def tick_and_mine(self, times=1):
        for _ in range(times):
            self.sender.tick()
            self.ledger.mine()

    def mine_empty_block(self):
        """Mine a block without the pending transactions."""
        pool, self.ledger.pool = self.ledger.pool, {}
        self.ledger.mine()
        self.ledger.pool = pool

    def stored_transactions(self):
        """Return the transactions of all nonces."""
        return [transaction for _, transaction in self.outbox.signed]

    def open_transactions(self):
        """Return the transactions whose nonces are not closed.

        The sender closes a nonce when a transaction with the nonce is final.
        """
        transactions = []
        for account, transaction in self.outbox.signed:
            if (account, transaction.nonce) not in self.outbox.closed:
                transactions.append(transaction)
        return transactions

    def sent_hashes(self):
        return {transaction.hash for transaction in self.account.sent}

    def max_fees(self):
        return {transaction.fees.max_fee for transaction in self.open_transactions()}

    def states(self):
        return [entry.state for entry in self.outbox.entries()]
