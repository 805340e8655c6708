# SPDX-License-Identifier: Apache-2.0
"""A wallet's outbox and sender on fakes, and what they are tried with."""

from __future__ import annotations

import copy

from tests.fakes.account import FakeAccount
from tests.fakes.ledger import FakeLedger
from tests.fakes.store import FakeClock, MemoryOutbox

from gridstead.domain.calls import ClaimJobs, SetRunning, Settle
from gridstead.domain.dispatch import DispatchPolicy
from gridstead.domain.lifecycle import JobState
from gridstead.errors import TransactionReverted
from gridstead.services.sender import Sender, SenderPorts

PROVIDER = "0x" + "a1" * 20
CUSTOMER = "0x" + "c1" * 20


class PickyAccount(FakeAccount):
    """An account whose node refuses claims in simulation while ``refuses`` is set."""

    refuses = False

    def gas(self, batches, *, room):
        claims = (self.refuses and calls and isinstance(calls[0], ClaimJobs) for calls in batches)
        refusal = TransactionReverted("ClaimJobs", "ProviderNotJoined")
        limits = super().gas(batches, room=room)
        return tuple(
            refusal if refused else gas for refused, gas in zip(claims, limits, strict=True)
        )


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
    """A chain that, while ``hasty``, answers for its newest block as if the next were mined
    already.
    """

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
        self.account = PickyAccount(self.ledger, PROVIDER)
        self.policy()

    def policy(self, **changed):
        """Begin anew with another policy."""
        ports = SenderPorts(
            clock=self.clock,
            ledger=self.ledger,
            account=self.account,
            outbox=self.outbox,
            transactions=self.outbox,
        )
        self.sender = Sender(
            ports, DispatchPolicy(**({"confirmations": 1, "replace_after_s": 30} | changed))
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
        """Have a block that takes nothing of what waits."""
        pool, self.ledger.pool = self.ledger.pool, {}
        self.ledger.mine()
        self.ledger.pool = pool

    def signed(self, *, closed=False):
        """Return the stored transactions, those of closed nonces only if asked for."""
        return [
            one
            for account, one in self.outbox.signed
            if closed or (account, one.nonce) not in self.outbox.closed
        ]

    def states(self):
        return [entry.state for entry in self.outbox.entries()]
