# SPDX-License-Identifier: Apache-2.0
"""Fixtures: chains on anvil, and the grid on such a chain or in memory.

There are two generations of contracts. "1.2" are the contracts of DeepSquare 1.2 ("plain
DeepSquare"). "ours" are Gridstead's contracts, which are derived from those. The contracts of one
deployment are a set. A set is sealed if JobRepository has no admin. Nobody can then change the
roles in JobRepository.
"""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from tests.adapters.chain.contracts_command import ContractsCli
from tests.adapters.chain.deploying import ADMIN, DeploymentSite, UnsealedDevnet
from tests.adapters.chain.generations import GENERATIONS, OURS
from tests.devnet import COIN, Devnet
from tests.fakes.ledger import HARDWARE, PRICES, SMALL, FakeLedger
from tests.generation1 import PlainDevnet

from gridstead.adapters.chain.customer import Customer, JobRequest
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.chain.node import Node
from gridstead.adapters.transactions.account import ChainAccount
from gridstead.adapters.transactions.encode import encode
from gridstead.domain.jobs.billing import Resources
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

# The chains by name: our sealed contracts, our unsealed contracts, and DeepSquare 1.2.
DEVNETS = {"ours": Devnet, "unsealed": UnsealedDevnet, "1.2": PlainDevnet}
NO_EVIDENCE = "0x" + "00" * 32


@pytest.fixture(scope="session")
def devnets(tmp_path_factory):
    """Return a function that returns a chain of ``DEVNETS``, and starts it at its first use."""
    started_devnets = {}

    def get_devnet(name):
        if name not in started_devnets:
            started_devnets[name] = DEVNETS[name](tmp_path_factory.mktemp("devnet"))
        return started_devnets[name]

    yield get_devnet
    for devnet in started_devnets.values():
        devnet.close()


@pytest.fixture(scope="session")
def devnet(devnets):
    """A chain with our contracts for the whole session."""
    return devnets("ours")


@contextmanager
def restored_afterwards(devnet):
    """Yield the chain. Undo all changes of the chain when the ``with`` statement ends."""
    snapshot = devnet.anvil.rpc("evm_snapshot")
    yield devnet
    # If anvil reverts while it mines a block, that block remains although its parent is removed.
    # Therefore anvil must not be mining: evm_mine returns after the block that is being mined.
    devnet.anvil.rpc("anvil_dropAllTransactions")
    devnet.anvil.rpc("evm_mine")
    devnet.anvil.rpc("evm_revert", snapshot)
    devnet.anvil.rpc("evm_setAutomine", True)
    devnet.anvil.rpc("anvil_setNextBlockBaseFeePerGas", hex(10**9))


@pytest.fixture
def generation(request):
    """The name of a chain in ``DEVNETS``; by default the one with our sealed contracts."""
    return getattr(request, "param", "ours")


@pytest.fixture
def expected(generation):
    """The ``Generation`` that describes how the contracts of the test should behave."""
    return GENERATIONS[generation]


@pytest.fixture
def chain(devnets, generation):
    """The chain in its state after the deployment of the contracts."""
    with restored_afterwards(devnets(generation)) as devnet:
        yield devnet


@pytest.fixture
def site(chain, tmp_path, monkeypatch):
    """A chain on which ADMIN has coins but no contracts, and the path of a new deployment file."""
    monkeypatch.setattr("gridstead.adapters.transactions.direct.POLL_S", 0.01)
    chain.anvil.fund(ADMIN.address)
    deployment_site = DeploymentSite(chain, tmp_path / "deployment.json")
    yield deployment_site
    for node in deployment_site.nodes:
        node.close()


@pytest.fixture
def contracts_cli(chain, tmp_path, monkeypatch, capsys):
    """Runs `gridstead contracts` for several wallets, as at a terminal."""
    monkeypatch.setattr("gridstead.adapters.transactions.direct.POLL_S", 0.01)
    opened_nodes = []

    def open_node(url):
        opened_nodes.append(Node(url))
        return opened_nodes[-1]

    # The command leaves its node open, because its process normally exits. The fixture closes it.
    monkeypatch.setattr("gridstead.wiring.contracts.deployment.Node", open_node)
    yield ContractsCli(chain, tmp_path, monkeypatch, capsys)
    for node in opened_nodes:
        node.close()


class FakeGrid:
    """The grid in memory, with the same methods as ``RealGrid``."""

    expected = OURS

    def __init__(self):
        self.ledger = FakeLedger()
        self.provider, self.customer = "0x" + "a1" * 20, "0x" + "c1" * 20

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
        """Report that a job runs since a Unix time."""
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
        self.expected = OURS if devnet.contracts.version else GENERATIONS["1.2"]
        self.ledger = ChainLedger(devnet.node, devnet.contracts)
        self.provider, self.customer = devnet.provider.address, devnet.customer.address

    def _act(self, wallet, call):
        """Send a contract call in a transaction of the wallet, without an outbox."""
        sender = Customer(self.devnet.node, self.devnet.contracts, wallet)
        payload = encode([call], self.devnet.contracts)
        sender._direct.transact(payload.to, payload.data, name=type(call).__name__)

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
        """Report that a job runs since a Unix time."""
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


@pytest.fixture(params=["fake", *GENERATIONS])
def grid(request, devnets):
    """The grid in memory, or on a real chain of either generation."""
    if request.param == "fake":
        fake = FakeGrid()
        fake.ledger.mint(fake.customer, 10**6 * COIN)
        yield fake
        return
    with restored_afterwards(devnets(request.param)) as devnet:
        yield RealGrid(devnet)


@pytest.fixture
def provider_account(chain):
    """The provider's account on the chain."""
    return ChainAccount(chain.node, chain.contracts, chain.provider)


@pytest.fixture
def large_resources():
    """The resources of a job that is larger than ``SMALL``."""
    return Resources(gpus=1, tasks=2, cpus_per_task=3, memory_per_cpu_mb=500)
