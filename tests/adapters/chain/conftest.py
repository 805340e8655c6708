# SPDX-License-Identifier: Apache-2.0
"""Fixtures: chains on anvil, and the grid on such a chain or in memory.

There are three generations of contracts. "1.2" are the contracts of DeepSquare 1.2 ("plain
DeepSquare"). "2.0.0" and "ours" are Gridstead's contracts, which are derived from those: the ones
of release 2.0.0 and the ones of this release. The contracts of one deployment are a set. A set is
sealed if JobRepository has no admin. Nobody can then change the roles in JobRepository.
"""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from tests.adapters.chain.contracts_command import ContractsCli
from tests.adapters.chain.deploying import ADMIN, DeploymentSite, UnsealedDevnet
from tests.adapters.chain.generations import GENERATIONS
from tests.adapters.chain.grid_setup import GridServices
from tests.adapters.chain.grids import FakeGrid, RealGrid
from tests.adapters.chain.sender_setup import WalletSender
from tests.devnet import COIN, Devnet
from tests.generation1 import PlainDevnet
from tests.generation2 import EarlierDevnet

from gridstead.adapters.chain.node import Node
from gridstead.adapters.transactions.account import ChainAccount
from gridstead.domain.jobs.billing import Resources

MAX_REVERTED_BLOCKS = 5000  # then a chain is replaced; see get_devnet

# The chains by name: our sealed contracts, our unsealed contracts, our contracts of release 2.0.0,
# and DeepSquare 1.2.
DEVNETS = {"ours": Devnet, "unsealed": UnsealedDevnet, "2.0.0": EarlierDevnet, "1.2": PlainDevnet}


@pytest.fixture(scope="session")
def get_devnet(tmp_path_factory):
    """Return a function that returns a chain of ``DEVNETS``, and starts it at its first use.

    Anvil drops the oldest states after 10,000 blocks, and counts blocks that evm_revert removed. So
    a chain on which the tests have mined many blocks is replaced by a new one.
    """
    started_devnets = {}

    def get(name):
        devnet = started_devnets.get(name)
        if devnet is not None and devnet.reverted_blocks > MAX_REVERTED_BLOCKS:
            devnet.close()
            devnet = None
        if devnet is None:
            devnet = DEVNETS[name](tmp_path_factory.mktemp("devnet"))
            devnet.reverted_blocks = 0
        started_devnets[name] = devnet
        return devnet

    yield get
    for devnet in started_devnets.values():
        devnet.close()


@contextmanager
def restored_afterwards(devnet):
    """Yield the chain. Undo all changes of the chain when the ``with`` statement ends."""
    snapshot = devnet.anvil.rpc("evm_snapshot")
    first_height = height(devnet)
    yield devnet
    # A block that anvil mines during evm_revert would remain, although its parent is removed.
    # evm_mine returns after anvil has mined all earlier blocks, so anvil is idle afterwards.
    devnet.anvil.rpc("anvil_dropAllTransactions")
    devnet.anvil.rpc("evm_mine")
    devnet.reverted_blocks += height(devnet) - first_height
    devnet.anvil.rpc("evm_revert", snapshot)
    devnet.anvil.rpc("evm_setAutomine", True)
    devnet.anvil.rpc("anvil_setNextBlockBaseFeePerGas", hex(10**9))


def height(devnet):
    """Return the number of the newest block."""
    return int(devnet.anvil.rpc("eth_blockNumber"), 16)


@pytest.fixture
def generation(request):
    """The name of a chain in ``DEVNETS``; by default the one with our sealed contracts."""
    return getattr(request, "param", "ours")


@pytest.fixture
def expected(generation):
    """The ``Generation`` that describes how the contracts of the test should behave."""
    return GENERATIONS[generation]


@pytest.fixture
def chain(get_devnet, generation):
    """The chain in its state after the deployment of the contracts."""
    with restored_afterwards(get_devnet(generation)) as devnet:
        yield devnet


@pytest.fixture
def paused_chain(chain):
    """Return the chain. It mines a block only when the test requests one."""
    chain.anvil.rpc("evm_setAutomine", False)
    return chain


@pytest.fixture
def open_sender(tmp_path):
    """Return a function that opens a wallet's sender."""
    opened_senders = []

    def create(chain, wallet, **policy):
        opened_senders.append(WalletSender(chain, wallet, tmp_path, **policy))
        return opened_senders[-1]

    yield create
    for sender in opened_senders:
        sender.close()


@pytest.fixture
def wallet_sender(grid, paused_chain, open_sender):
    """Return the sender of the provider's wallet."""
    return open_sender(paused_chain, paused_chain.provider)


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


@pytest.fixture(params=["fake", *GENERATIONS])
def grid(request, get_devnet):
    """The grid in memory, or on a real chain of either generation."""
    if request.param == "fake":
        fake = FakeGrid()
        fake.ledger.mint(fake.customer, 10**6 * COIN)
        yield fake
        return
    with restored_afterwards(get_devnet(request.param)) as devnet:
        yield RealGrid(devnet)


@pytest.fixture
def joined_grid(grid):
    """The grid in memory or on a real chain. The provider has joined the grid."""
    grid.register()
    grid.approve()
    return grid


@pytest.fixture
def claimed_number(joined_grid):
    """The number of a job that the provider has claimed."""
    number = joined_grid.request("script-1")
    joined_grid.match(number)
    joined_grid.claim()
    return number


@pytest.fixture
def grid_services(chain, expected, tmp_path):
    """Yield the services of a grid whose provider has joined."""
    services = GridServices(chain, tmp_path, max_batch=expected.max_calls)
    services.join()
    yield services
    services.close()


@pytest.fixture
def provider_account(chain):
    """The provider's account on the chain."""
    return ChainAccount(chain.node, chain.contracts, chain.provider)


@pytest.fixture
def large_resources():
    """The resources of a job that is larger than ``SMALL``."""
    return Resources(gpus=1, tasks=2, cpus_per_task=3, memory_per_cpu_mb=500)
