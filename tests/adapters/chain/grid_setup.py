# SPDX-License-Identifier: Apache-2.0
"""A grid on a real chain, with real services, and fakes for Slurm and the directory."""

from __future__ import annotations

from tests.adapters.chain.grids import RealGrid
from tests.adapters.chain.sender_setup import WalletSender
from tests.fakes.crash import Crash
from tests.fakes.ledger import PRICES, SMALL
from tests.fakes.scheduler import FakeReports, FakeScheduler
from tests.fakes.store import FakeClock, MemoryCursor, MemoryJournal
from tests.fakes.users import FakeDirectory
from tests.services.supervisor.supervisor_setup import FakeScripts

from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.domain.jobs.lifecycle import COLD, JobState
from gridstead.domain.supervisor.offers import Terms
from gridstead.domain.supervisor.snapshot import SupervisorPolicy
from gridstead.services.chain.follower import Follower
from gridstead.services.matching.meta_scheduler import MetaScheduler
from gridstead.services.matching.skipped_matches import SkippedMatches
from gridstead.services.supervisor.registration import Registration
from gridstead.services.supervisor.supervisor import Supervisor, SupervisorPorts
from gridstead.services.users.ldap_connector import LdapConnector

CONFIRMATIONS = 2


class GridServices:
    """The services of a grid on one chain, with a clock that follows the chain's blocks."""

    def __init__(self, devnet, folder, *, max_batch):
        self.grid = RealGrid(devnet)
        self.ledger = self.grid.ledger
        self.clock = FakeClock()
        devnet.anvil.rpc("evm_setAutomine", False)
        self.anvil = devnet.anvil
        self.sync()
        self.provider_sender = self._sender(devnet, devnet.provider, folder, max_batch)
        self.operator_sender = self._sender(devnet, devnet.operator, folder, max_batch)
        self.slurm = FakeScheduler(self.clock)
        self.journal = MemoryJournal()
        self.cursor = MemoryCursor()
        self.users = FakeDirectory()
        self.crash_at = None  # the failpoint at which the supervisor dies next
        self.policy = SupervisorPolicy(
            chain_id=devnet.contracts.chain_id,
            contract=devnet.contracts.meta_scheduler.address,
            provider=self.grid.provider,
            confirmations=CONFIRMATIONS,
            deepsquare_slack_min=self._read_billing_slack_min(devnet),
        )
        terms = Terms(prices=PRICES, labels={"os": "linux"})
        self.registration = Registration(
            self.ledger,
            self.provider_sender.outbox,
            self.slurm,
            provider=self.grid.provider,
            terms=terms,
        )
        follower = Follower(self.ledger, MemoryCursor())
        self.skipped_matches = SkippedMatches(self.clock)
        self.operator_sender.on_skipped = self.skipped_matches.add
        self.matching = MetaScheduler(
            self.ledger,
            follower,
            self.operator_sender.outbox,
            confirmations=CONFIRMATIONS,
            skipped_matches=self.skipped_matches,
        )
        self.connector = LdapConnector(
            self.ledger, Follower(self.ledger, MemoryCursor()), self.users
        )
        self.start_supervisor()

    def _sender(self, devnet, wallet, folder, max_batch):
        wallet_sender = WalletSender(
            devnet, wallet, folder, max_batch_calls=max_batch, confirmations=CONFIRMATIONS
        )
        wallet_sender.clock = self.clock
        wallet_sender.restart()
        return wallet_sender

    def _read_billing_slack_min(self, devnet):
        """Return the minutes that DeepSquare 1.2 may bill beyond the elapsed time.

        Returns None for Gridstead's contracts.
        """
        if devnet.contracts.has_batches:
            return None
        return devnet.as_admin._value(devnet.contracts.constants.slack_minutes())

    def start_supervisor(self):
        """Start a new supervisor with the cursor, journal and outbox of the previous supervisor."""
        devnet = self.grid.devnet
        provider_ledger = ChainLedger(devnet.node, devnet.contracts, claims_of=self.grid.provider)
        ports = SupervisorPorts(
            clock=self.clock,
            ledger=self.ledger,
            follower=Follower(provider_ledger, self.cursor),
            journal=self.journal,
            outbox=self.provider_sender.outbox,
            scheduler=self.slurm,
            accounting=self.slurm,
            reports=FakeReports(),
            scripts=FakeScripts(),
        )
        self.supervisor = Supervisor(ports, self.policy, failpoint=self._crash_if_requested)

    def _crash_if_requested(self, name):
        if name == self.crash_at:
            self.crash_at = None
            raise Crash(name)

    def step(self, seconds=2):
        """Run one tick of every service, and mine a block."""
        self.registration.tick()
        self.connector.tick()
        self.matching.tick()
        try:
            self.supervisor.tick()
        except Crash:
            self.start_supervisor()
        self.provider_sender.tick()
        self.operator_sender.tick()
        self.pass_time(seconds)

    def repeat_steps(self, count):
        for _ in range(count):
            self.step()

    def pass_time(self, seconds):
        """Advance the chain's time, and mine a block."""
        self.anvil.rpc("evm_increaseTime", seconds)
        self.anvil.mine()
        self.sync()

    def sync(self):
        """Set the services' clock to the time of the newest block."""
        self.clock.seconds = self.ledger.head().timestamp

    def until(self, condition, max_steps=60):
        """Call ``step`` until the condition holds. Fail after ``max_steps`` steps."""
        for _ in range(max_steps):
            if condition():
                return
            self.step()
        entries = [str(entry) for entry in self.provider_sender.outbox.entries()]
        raise AssertionError(f"after {max_steps} steps, the provider's outbox contains {entries}")

    def join(self):
        """Call ``step`` until the provider has registered, then approve the provider."""
        self.until(self._is_registered)
        self.call_and_mine(self.grid.approve)

    def _is_registered(self):
        head = self.ledger.head()
        return self.ledger.waiting_provider(self.grid.provider, at_block=head) is not None

    def call_and_mine(self, act, *arguments, **fields):
        """Call ``act`` and return its result. The transactions of ``act`` are mined immediately."""
        self.anvil.rpc("evm_setAutomine", True)
        try:
            return act(*arguments, **fields)
        finally:
            self.anvil.rpc("evm_setAutomine", False)
            self.sync()

    def request(self, script="script-1", **fields):
        """Request a job and return its number."""
        return self.call_and_mine(self.grid.request, script, resources=SMALL, **fields)

    def job(self, number):
        return self.grid.job(number)

    def attempt(self, number):
        """Return the newest attempt of a job."""
        return self._attempts(number)[-1]

    def _attempts(self, number):
        job_key = self.job(number).job_key
        return self.slurm.attempts(where=lambda attempt: attempt.job_key == job_key)

    def submit(self, number):
        """Call ``step`` until a job is in Slurm. Return the Slurm job id."""
        self.until(lambda: self._attempts(number))
        return self.attempt(number).slurm_job_id

    def start_job(self, number):
        """Let a job run in Slurm until its start is on the chain. Return the Slurm job id."""
        slurm_job_id = self.submit(number)
        self.slurm.start(slurm_job_id)
        self.until(lambda: self.job(number).state is JobState.RUNNING)
        return slurm_job_id

    def settle(self, number):
        """Call ``step`` until a job is settled and the provider's calls are final.

        Return the job.
        """
        self.until(lambda: self._is_settled(number))
        return self.job(number)

    def _is_settled(self, number):
        return self.job(number).state in COLD and not self.provider_sender.outbox.open_entries()

    def close(self):
        self.provider_sender.close()
        self.operator_sender.close()
