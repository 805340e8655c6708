# SPDX-License-Identifier: Apache-2.0
"""A grid of real service processes for campaigns, on one machine and without root.

The chain is anvil with one block per second. The meta-scheduler, the Job Definition service and the
supervisor of each provider run as on a real site, each with its wallet and its SQLite database.
Each supervisor connects to the agent of a simulated cluster. The accounts of the customers exist on
all clusters, so no LDAP connector is needed.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass

from tests.bench.service_faults import AgentFault, ChainFault
from tests.bench.simulated_cluster import SimulatedCluster
from tests.devnet import CHAIN_ID, COIN, Devnet, wallet
from tests.fakes.definitions_process import DefinitionsProcess
from tests.fakes.service_process import ServiceProcess

from gridstead.adapters.chain.contract import Payload
from gridstead.adapters.chain.customer import Customer
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.chain.node import Node
from gridstead.adapters.chain.wallet import create_wallet
from gridstead.domain.jobs.billing import Prices
from gridstead.domain.jobs.job import Hardware
from gridstead.domain.supervisor.submission import GridUser

BLOCK_GAS = 30_000_000
BLOCK_S = 1
CONFIRMATIONS = 6
CLAIM_TIMEOUT_BLOCKS = 120  # a deployment on a real chain sets the blocks of 120 s
QUEUE_ALLOWANCE = 20
CREDITS_EACH = 10**6
SETUP_TIME_S = 600  # the chain starts with this age, because its deployment mines fast
REGISTRATION_TIMEOUT_S = 180
OPERATOR, FIRST_PROVIDER, FIRST_CUSTOMER = 2, 100, 200  # numbers of wallets
FIRST_UID, GID = 200_001, 100_000
NODES, CPUS_PER_NODE, MEMORY_PER_NODE_MB = 4, 16, 64_000
# Credits per minute of a CPU, for each provider. A job of one CPU with the smallest escrow, which
# is 100 credits, is paid for at least 4 minutes.
CPU_PRICES = ("20", "22", "25")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedProvider:
    """A provider: its address, its prices and its cluster."""

    address: str
    prices: Prices
    cluster: SimulatedCluster


class ProcessGrid:
    """A grid of processes with several providers and customers.

    Args:
        folder: An existing folder for databases, settings and outputs.
        customer_count: The number of customers. Each gets credits and an allowance.
        report_progress: A function that prints a line of progress.

    Attributes:
        providers: The providers.
        customers: The customers, each with a connection of its own to the chain.
        services: The processes by name, such as ``supervisor-1``.
        faults: What a campaign may stop and start: the services, the agents and the chain.
    """

    def __init__(self, folder, customer_count, report_progress):
        self._folder = folder
        self._report_progress = report_progress
        self._stack = contextlib.ExitStack()
        self.providers = []
        self.services = {}
        self.faults = {}
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            report_progress("starting a chain with the grid's contracts")
            self.devnet = self._start_chain()
            self.ledger = ChainLedger(self.devnet.node, self.devnet.contracts)
            self.customers = [self._add_customer(number) for number in range(customer_count)]
            self._add_services()
            for number in range(len(CPU_PRICES)):
                self._add_provider(number)
            self.faults |= self.services
            self.faults["chain"] = ChainFault(self.devnet.anvil)
            stack.pop_all()

    def start(self):
        """Start all processes, and wait until the providers have joined the grid."""
        self.devnet.anvil.rpc("evm_setTime", int(time.time()))
        self.devnet.anvil.rpc("evm_setIntervalMining", BLOCK_S)
        self._report_progress(f"starting {len(self.services)} services")
        for service in self.services.values():
            self._stack.callback(service.kill)
            service.start()
        self.definitions.wait()
        deadline = time.monotonic() + REGISTRATION_TIMEOUT_S
        for provider in self.providers:
            while not self._is_registered(provider):
                assert time.monotonic() < deadline, f"{provider.address} does not register"
                time.sleep(0.2)
            self.devnet.as_admin.approve_provider(provider.address)

    def close(self):
        """Kill all processes and stop the clusters and the chain."""
        self._stack.close()

    def _start_chain(self):
        """Return a chain whose blocks are mined at once, until ``start`` is called."""
        start_at = int(time.time()) - SETUP_TIME_S
        devnet = Devnet(self._folder, "--gas-limit", str(BLOCK_GAS), "--timestamp", str(start_at))
        self._stack.callback(devnet.close)
        constants = devnet.contracts.constants
        data = constants.data("setClaimJobTimeout", CLAIM_TIMEOUT_BLOCKS)
        payload = Payload(to=constants.address, data=data, gas=None)
        devnet.as_admin._transact("setClaimJobTimeout", payload)
        return devnet

    def _add_customer(self, number):
        devnet, customer_wallet = self.devnet, wallet(FIRST_CUSTOMER + number)
        devnet.anvil.fund(customer_wallet.address)
        devnet.as_admin.transfer(customer_wallet.address, CREDITS_EACH * COIN)
        node = Node(devnet.anvil.url)
        self._stack.callback(node.close)
        customer = Customer(node, devnet.contracts, customer_wallet)
        customer.allow(CREDITS_EACH * COIN)
        return customer

    def _add_services(self):
        """Add the Job Definition service and the meta-scheduler."""
        folder = self._new_folder("job-definitions")
        self.definitions = DefinitionsProcess(folder, self.devnet)
        self.services["job-definitions"] = self.definitions
        folder = self._new_folder("meta-scheduler")
        settings = {
            "": {"state_url": f"sqlite:///{folder}/state.db"},
            "chain": self._chain_settings(),
            "wallet": _wallet_settings(folder, OPERATOR),
            "matching": {"queue_allowance": QUEUE_ALLOWANCE},
        }
        self.services["meta-scheduler"] = ServiceProcess("meta-scheduler", folder, settings)

    def _add_provider(self, number):
        """Add a provider with its supervisor and cluster, and start the cluster."""
        provider_wallet = wallet(FIRST_PROVIDER + number)
        self.devnet.anvil.fund(provider_wallet.address)
        folder = self._new_folder(f"supervisor-{number + 1}")
        cluster = SimulatedCluster(folder, _hardware(), self._users())
        self._stack.callback(cluster.stop)
        cluster.start()
        price = CPU_PRICES[number]
        settings = {
            "": {"state_url": f"sqlite:///{folder}/state.db"},
            "chain": self._chain_settings(),
            "wallet": _wallet_settings(folder, FIRST_PROVIDER + number),
            "job_definitions": {
                "endpoint": self.definitions.peer.address,
                "ca_file": self.definitions.peer.ca,
            },
            "slurm.agent": cluster.agent_settings(),
            "prices_per_minute": {
                "gpu_credits": "0",
                "cpu_credits": price,
                "memory_mb_credits": "0",
            },
        }
        self.services[folder.name] = ServiceProcess("supervisor", folder, settings)
        prices = Prices(gpu_per_min=0, cpu_per_min=int(price) * COIN, memory_mb_per_min=0)
        provider = SimulatedProvider(
            address=provider_wallet.address, prices=prices, cluster=cluster
        )
        self.providers.append(provider)
        self.faults[f"agent-{number + 1}"] = AgentFault(cluster)

    def _new_folder(self, name):
        folder = self._folder / name
        folder.mkdir()
        return folder

    def _chain_settings(self):
        return {
            "rpc_url": self.devnet.anvil.url,
            "chain_id": CHAIN_ID,
            "contract": self.devnet.addresses["MetaScheduler"],
            "confirmations": CONFIRMATIONS,
        }

    def _users(self):
        users = []
        for number, customer in enumerate(self.customers):
            users.append(GridUser(address=customer.address, uid=FIRST_UID + number, gid=GID))
        return users

    def _is_registered(self, provider):
        head = self.ledger.head()
        return self.ledger.waiting_provider(provider.address, at_block=head) is not None


def _wallet_settings(folder, wallet_number):
    """Write the key file of a test wallet, and return the settings of the wallet."""
    password_file, keystore = folder / "password", folder / "wallet.json"
    password_file.write_text("a password of the tests\n")
    create_wallet(keystore, password_file, key=wallet_number.to_bytes(32), iterations=2)
    return {"keystore_file": keystore, "password_file": password_file}


def _hardware():
    return Hardware(
        gpus_per_node=(0,) * NODES,
        cpus_per_node=(CPUS_PER_NODE,) * NODES,
        memory_per_node_mb=(MEMORY_PER_NODE_MB,) * NODES,
    )
