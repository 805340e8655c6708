# SPDX-License-Identifier: Apache-2.0
"""A wallet's outbox and sender on a real chain, which can crash and restart, and jobs for them."""

from __future__ import annotations

from tests.adapters.chain.conftest import NO_EVIDENCE
from tests.fakes.store import FakeClock

from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.store.database import Database
from gridstead.adapters.store.outbox import SqlOutbox
from gridstead.adapters.transactions.account import ChainAccount
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import Settle
from gridstead.domain.transactions.dispatch import DispatchPolicy
from gridstead.services.transactions.sender import Sender, SenderPorts

BOUNDARIES = ("transaction_stored", "transaction_sent", "receipt_seen", "outcome_stored")


class Crash(BaseException):
    """The process dies."""


class WalletSender:
    """A wallet's outbox in a file, and its sender; both can crash and restart."""

    def __init__(self, chain, wallet, directory, **policy):
        self.chain, self.wallet = chain, wallet
        self.url = f"sqlite:///{directory}/{wallet.address}.db"
        self.clock = FakeClock()
        self.policy = DispatchPolicy(**({"confirmations": 2} | policy))
        self.ledger = ChainLedger(chain.node, chain.contracts)
        self.crash_at = ""
        self._open()

    def _open(self):
        self.database = Database(self.url)
        self.outbox = SqlOutbox(self.database, self.clock)
        account = ChainAccount(self.chain.node, self.chain.contracts, self.wallet)
        ports = SenderPorts(
            clock=self.clock,
            ledger=self.ledger,
            account=account,
            outbox=self.outbox,
            transactions=self.outbox,
        )
        self.sender = Sender(ports, self.policy, failpoint=self._failpoint)

    def _failpoint(self, boundary):
        if boundary == self.crash_at:
            self.crash_at = ""
            raise Crash(boundary)

    def restart(self):
        self.database.close()
        self._open()

    def tick(self):
        try:
            self.sender.tick()
        except Crash:
            self.restart()

    def tick_and_mine(self, times=1):
        for _ in range(times):
            self.tick()
            self.chain.anvil.mine()
            self.clock.advance(1)

    def finish(self, most=30):
        for _ in range(most):
            if not self.outbox.open_entries():
                return
            self.tick_and_mine()
        raise AssertionError(self.outbox.open_entries())

    def states(self):
        return [entry.state for entry in self.outbox.entries()]

    def reasons(self):
        return [entry.reason for entry in self.outbox.entries()]

    def hashes(self):
        """Return the hashes of all stored transactions, in order."""
        with self.database.begin() as connection:
            rows = connection.exec_driver_sql("SELECT hash FROM transactions ORDER BY id")
            return [row.hash for row in rows]

    def close(self):
        self.database.close()


def requested(grid, count, script="script"):
    grid.devnet.anvil.rpc("evm_setAutomine", True)
    numbers = [grid.request(f"{script}-{number}") for number in range(count)]
    grid.devnet.anvil.rpc("evm_setAutomine", False)
    return numbers


def claimed(grid, count, script="script"):
    numbers = requested(grid, count, script)
    grid.devnet.anvil.rpc("evm_setAutomine", True)
    for number in numbers:
        grid.match(number)
    if numbers:
        grid.claim()
    grid.devnet.anvil.rpc("evm_setAutomine", False)
    return numbers


def job(grid, number):
    return grid.job(number)


def settlement(ended_job, state=JobState.FINISHED, **fields):
    values = {"seconds": 0, "exit_code": 0, "error": "", "evidence": NO_EVIDENCE} | fields
    return Settle(job_key=ended_job.job_key, state=state, **values)
