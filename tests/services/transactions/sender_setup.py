# SPDX-License-Identifier: Apache-2.0
"""A wallet's outbox and sender on fakes."""

from __future__ import annotations

import copy

from tests.fakes.account import FakeAccount
from tests.fakes.ledger import FakeLedger
from tests.fakes.store import FakeClock, MemoryOutbox

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import ClaimJobs, SetRunning, Settle
from gridstead.domain.transactions.dispatch import DispatchPolicy
from gridstead.errors import TransactionReverted
from gridstead.services.transactions.sender import Sender, SenderPorts

PROVIDER = "0x" + "a1" * 20
CUSTOMER = "0x" + "c1" * 20


class RevertingAccount(FakeAccount):
    """An account whose claims revert in simulation while ``reverts_claims`` is set."""

    reverts_claims = False

    def gas(self, batches, *, room):
        reverted = TransactionReverted("ClaimJobs", "ProviderNotJoined")
        limits = list(super().gas(batches, room=room))
        for index, calls in enumerate(batches):
            if self.reverts_claims and calls and isinstance(calls[0], ClaimJobs):
                limits[index] = reverted
        return tuple(limits)


def settlement(job):
    evidence = "0x" + "00" * 32
    fields = {
        "state": JobState.FINISHED,
        "seconds": 1,
        "exit_code": 0,
        "error": "",
        "evidence": evidence,
    }
    return Settle(job_key=job.job_key, **fields)


class HastyLedger(FakeLedger):
    """A chain that, while ``hasty``, answers for its newest block as if the next were mined."""

    hasty = False

    def _at(self, block):
        state = super()._at(block)
        if not self.hasty or block != self._history[-1][0]:
            return state
        kept = self._state, self.pool, self._events
        self._state, self.pool, self._events = copy.deepcopy(self._state), dict(self.pool), []
        self._include()
        state = self._state
        self._state, self.pool, self._events = kept
        return state


class WalletSender:
    def __init__(self):
        self.clock = FakeClock()
        self.ledger = HastyLedger(self.clock)
        self.ledger.add_provider(PROVIDER)
        self.outbox = MemoryOutbox(clock=self.clock)
        self.account = RevertingAccount(self.ledger, PROVIDER)
        self.policy()

    def policy(self, **changes):
        """Start the sender again with another policy."""
        ports = SenderPorts(
            clock=self.clock,
            ledger=self.ledger,
            account=self.account,
            outbox=self.outbox,
            transactions=self.outbox,
        )
        self.sender = Sender(
            ports, DispatchPolicy(**({"confirmations": 1, "replace_after_s": 30} | changes))
        )

    def claimed_job(self):
        job = self.ledger.request(CUSTOMER)
        self.ledger.match(job.id.number, PROVIDER)
        self.ledger.claim(PROVIDER)
        return self.ledger.job(job.id.number)

    def put_running(self):
        job = self.claimed_job()
        self.outbox.put(f"run:{job.id.number}", SetRunning(job_key=job.job_key, started_at=1))

    def tick_and_mine(self, times=1):
        for _ in range(times):
            self.sender.tick()
            self.ledger.mine()

    def mine_nothing(self):
        """Mine a block without the waiting transactions."""
        pool, self.ledger.pool = self.ledger.pool, {}
        self.ledger.mine()
        self.ledger.pool = pool

    def signed(self, *, closed=False):
        """Return the stored transactions of open nonces, or of all nonces."""
        transactions = []
        for account, transaction in self.outbox.signed:
            if closed or (account, transaction.nonce) not in self.outbox.closed:
                transactions.append(transaction)
        return transactions

    def sent_hashes(self):
        return {transaction.hash for transaction in self.account.sent}

    def max_fees(self):
        return {transaction.fees.max_fee for transaction in self.signed()}

    def states(self):
        return [entry.state for entry in self.outbox.entries()]
