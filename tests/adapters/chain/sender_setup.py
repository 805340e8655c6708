# SPDX-License-Identifier: Apache-2.0
"""Test jobs on a real chain, and a wallet's outbox and sender that can crash and restart."""

from __future__ import annotations

from contextlib import contextmanager

from tests.adapters.chain.grids import NO_EVIDENCE
from tests.fakes.crash import Crash
from tests.fakes.store import FakeClock

from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.store.database import Database
from gridstead.adapters.store.outbox import SqlOutbox
from gridstead.adapters.transactions.account import ChainAccount
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import Match, SetRunning, Settle
from gridstead.domain.transactions.plan import DispatchPolicy
from gridstead.services.transactions.sender import Sender, SenderPorts

# The points between two steps of the sender at which a test can crash the sender.
BOUNDARIES = ("transaction_stored", "transaction_sent", "receipt_seen", "outcome_stored")


class WalletSender:
    """The sender of a wallet, and its outbox in a file. The sender can crash and restart."""

    def __init__(self, chain, wallet, directory, **policy):
        self.chain, self.wallet = chain, wallet
        self.url = f"sqlite:///{directory}/{wallet.address}.db"
        self.clock = FakeClock()
        policy.setdefault("confirmations", 2)
        self.policy = DispatchPolicy(**policy)
        self.ledger = ChainLedger(chain.node, chain.contracts)
        self.crash_at = ""
        # Called with each call that the contracts skipped. A test can replace it.
        self.on_skipped = lambda _: None
        self._open()

    def _open(self):
        self.database = Database(self.url)
        self.outbox = SqlOutbox(self.database, self.clock)
        account = ChainAccount(self.chain.node, self.chain.contracts, self.wallet)
        ports = SenderPorts(
            clock=self.clock,
            ledger=self.ledger,
            account=account,
            transactions=self.outbox,
        )
        self.sender = Sender(
            ports,
            self.policy,
            failpoint=self._failpoint,
            on_skipped=self._report_skipped,
        )

    def _report_skipped(self, skipped_call):
        self.on_skipped(skipped_call)

    def _failpoint(self, boundary):
        if boundary == self.crash_at:
            self.crash_at = ""
            raise Crash(boundary)

    def restart(self):
        """Create the sender again with the stored outbox, as a new process would do."""
        self.database.close()
        self._open()

    def tick(self):
        """Run one tick of the sender. If the sender crashes, restart it."""
        try:
            self.sender.tick()
        except Crash:
            self.restart()

    def tick_and_mine(self, times=1):
        """Run a tick, mine a block and advance the clock by a second."""
        for _ in range(times):
            self.tick()
            self.chain.anvil.mine()
            self.clock.advance(1)

    def finish(self, max_ticks=30):
        """Tick and mine until no entry of the outbox is open; fail after ``max_ticks``."""
        for _ in range(max_ticks):
            if not self.outbox.open_entries():
                return
            self.tick_and_mine()
        raise AssertionError(self.outbox.open_entries())

    def put_running(self, grid, *numbers):
        """For each job, put a call into the outbox. The call reports that the job starts now."""
        now = grid.ledger.head().timestamp
        for number in numbers:
            call = SetRunning(job_key=grid.job(number).job_key, started_at=now)
            self.outbox.put(f"run:{number}", call)

    def put_match(self, grid, *numbers):
        """For each job, put a call into the outbox. The call matches the job to the provider."""
        for number in numbers:
            call = Match(job_key=grid.job(number).job_key, provider=grid.provider)
            self.outbox.put(f"match:{number}", call)

    def put_settlement(self, grid, *numbers):
        """Put a settlement into the outbox for each job."""
        for number in numbers:
            self.outbox.put(f"end:{number}", settlement(grid.job(number)))

    def states(self):
        """Return the states of all outbox entries, in order."""
        return [entry.state for entry in self.outbox.entries()]

    def reasons(self):
        """Return the rejection reason of each outbox entry, which is empty without a rejection."""
        return [entry.reason for entry in self.outbox.entries()]

    def hashes(self):
        """Return the hashes of all stored transactions, in order."""
        with self.database.begin() as connection:
            rows = connection.exec_driver_sql("SELECT hash FROM transactions ORDER BY id")
            return [row.hash for row in rows]

    def close(self):
        self.database.close()


@contextmanager
def automining(anvil):
    """Mine each transaction at once until the ``with`` statement ends, then only on request."""
    anvil.rpc("evm_setAutomine", True)
    yield
    anvil.rpc("evm_setAutomine", False)


def request_jobs(grid, count, script="script"):
    """Request jobs, and return their numbers."""
    with automining(grid.devnet.anvil):
        return [grid.request(f"{script}-{index}") for index in range(count)]


def claim_jobs(grid, count, script="script"):
    """Request, match and claim jobs, and return their numbers."""
    numbers = request_jobs(grid, count, script)
    with automining(grid.devnet.anvil):
        for number in numbers:
            grid.match(number)
        grid.claim()
    return numbers


def job_states(grid, numbers):
    """Return the set of the states of the jobs that exist."""
    return {job.state for job in grid.jobs(*numbers).values()}


def settlement(job, state=JobState.FINISHED, **fields):
    """Return the call that settles a job; by default as finished after 0 seconds."""
    values = {"seconds": 0, "exit_code": 0, "error": "", "evidence": NO_EVIDENCE} | fields
    return Settle(job_key=job.job_key, state=state, **values)
