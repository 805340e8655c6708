# SPDX-License-Identifier: Apache-2.0
"""A whole grid around a real chain: every service that speaks to it is real, Slurm and the
directory are fakes.
"""

from __future__ import annotations

from tests.adapters.chain.conftest import RealGrid
from tests.adapters.chain.sender_setup import WalletSender
from tests.fakes.ledger import PRICES, SMALL
from tests.fakes.scheduler import FakeReports, FakeScheduler
from tests.fakes.store import FakeClock, MemoryCursor, MemoryJournal
from tests.services.supervisor_setup import FakeScripts, Killed
from tests.services.test_grid_services import FakeDirectory

from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.domain.lifecycle import COLD
from gridstead.domain.offers import Terms
from gridstead.domain.snapshot import Rules
from gridstead.services.follower import Follower
from gridstead.services.ldap_connector import LdapConnector
from gridstead.services.meta_scheduler import MetaScheduler
from gridstead.services.registration import Registration
from gridstead.services.supervisor import Supervisor, SupervisorPorts

CONFIRMATIONS = 2


class GridServices:
    """Chain, services, and a clock that goes as the chain's blocks do."""

    def __init__(self, devnet, directory, *, batch):
        self.grid = RealGrid(devnet)
        self.ledger, self.clock = self.grid.ledger, FakeClock()
        devnet.anvil.rpc("evm_setAutomine", False)
        self.anvil = devnet.anvil
        self.sync()
        self.provider = self._office(devnet, devnet.provider, directory, batch)
        self.operator = self._office(devnet, devnet.operator, directory, batch)
        self.slurm, self.journal, self.cursor = (
            FakeScheduler(self.clock),
            MemoryJournal(),
            MemoryCursor(),
        )
        self.users, self.failpoint = FakeDirectory(), None
        self.rules = Rules(
            chain_id=devnet.contracts.chain_id,
            contract=devnet.contracts.meta_scheduler.address,
            provider=self.grid.provider,
            confirmations=CONFIRMATIONS,
            plain_slack_min=self._slack(devnet),
        )
        terms = Terms(prices=PRICES, labels={"os": "linux"})
        self.registration = Registration(
            self.ledger, self.provider.outbox, self.slurm, provider=self.grid.provider, terms=terms
        )
        follower = Follower(self.ledger, MemoryCursor())
        self.matching = MetaScheduler(
            self.ledger, follower, self.operator.outbox, confirmations=CONFIRMATIONS
        )
        self.connector = LdapConnector(
            self.ledger, Follower(self.ledger, MemoryCursor()), self.users
        )
        self.start()

    def _office(self, devnet, who, directory, batch):
        wallet_sender = WalletSender(
            devnet, who, directory, batch=batch, confirmations=CONFIRMATIONS
        )
        wallet_sender.clock = self.clock
        wallet_sender.restart()
        return wallet_sender

    def _slack(self, devnet):
        constants = devnet.contracts.constants
        return (
            None
            if devnet.contracts.has_batches
            else devnet.as_admin._value(constants.slack_minutes())
        )

    def start(self):
        """Start the supervisor, as a new process over the same disk."""
        devnet = self.grid.devnet
        claims = ChainLedger(devnet.node, devnet.contracts, claims_of=self.grid.provider)
        peers = SupervisorPorts(
            clock=self.clock,
            ledger=self.ledger,
            follower=Follower(claims, self.cursor),
            journal=self.journal,
            outbox=self.provider.outbox,
            scheduler=self.slurm,
            reports=FakeReports(),
            scripts=FakeScripts(),
        )
        self.supervisor = Supervisor(peers, self.rules, failpoint=self._failpoint)

    def _failpoint(self, name):
        if name == self.failpoint:
            self.failpoint = None
            raise Killed(name)

    def step(self, seconds=2):
        """Let every service tick once, and mine a block."""
        self.registration.tick()
        self.connector.tick()
        self.matching.tick()
        try:
            self.supervisor.tick()
        except Killed:
            self.start()
        self.provider.tick()
        self.operator.tick()
        self.pass_time(seconds)

    def pass_time(self, seconds):
        """Mine a block so much later."""
        self.anvil.rpc("evm_increaseTime", seconds)
        self.anvil.mine()
        self.sync()

    def sync(self):
        self.clock.seconds = self.ledger.head().timestamp

    def until(self, is_so, most=60):
        """Step until something is so."""
        for _ in range(most):
            if is_so():
                return
            self.step()
        raise AssertionError([str(entry) for entry in self.provider.outbox.entries()])

    def join(self):
        """Have the provider register itself and be approved."""
        self.until(
            lambda: (
                self.ledger.waiting_provider(self.grid.provider, at_block=self.ledger.head())
                is not None
            )
        )
        self.by_hand(self.grid.approve)

    def by_hand(self, act, *arguments, **fields):
        """Do what a person does: sent and mined at once."""
        self.anvil.rpc("evm_setAutomine", True)
        try:
            return act(*arguments, **fields)
        finally:
            self.anvil.rpc("evm_setAutomine", False)
            self.sync()

    def request(self, script="script-1", **fields):
        """Ask for a job and return its number."""
        return self.by_hand(self.grid.request, script, resources=SMALL, **fields)

    def job(self, number):
        return self.ledger.jobs([number], at_block=self.ledger.head())[number]

    def attempt(self, number):
        """Return the newest Slurm job of a job of the grid."""
        return self.slurm.attempts(where=lambda one: one.job_key == self.job(number).job_key)[-1]

    def submitted(self, number):
        """Step until a job is in Slurm and return its id there."""
        self.until(
            lambda: self.slurm.attempts(where=lambda one: one.job_key == self.job(number).job_key)
        )
        return self.attempt(number).slurm_job_id

    def running(self, number, state):
        """Step until a job runs in Slurm and the chain knows, and return its id there."""
        slurm_job_id = self.submitted(number)
        self.slurm.start(slurm_job_id)
        self.until(lambda: self.job(number).state is state)
        return slurm_job_id

    def settled(self, number):
        """Step until a job is settled and everything that was sent is final."""
        self.until(
            lambda: self.job(number).state in COLD and not self.provider.outbox.open_entries()
        )
        return self.job(number)

    def close(self):
        self.provider.close()
        self.operator.close()
