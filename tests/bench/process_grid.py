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

from tests.bench.service_faults import AgentFault, ChainFault
from tests.bench.simulated_cluster import job_command
from tests.bench.simulated_provider import GridAccess, Offer, SimulatedProvider, equal_nodes
from tests.devnet import CHAIN_ID, COIN, Devnet, wallet
from tests.fakes.definitions_process import DefinitionsProcess
from tests.fakes.service_process import ServiceProcess

from gridstead.adapters.chain.contract import Payload
from gridstead.adapters.chain.customer import Customer
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.chain.node import Node
from gridstead.adapters.chain.wallet import create_wallet
from gridstead.adapters.definitions.job_definitions import submit_workflow

BLOCK_GAS = 30_000_000
BLOCK_S = 1
CONFIRMATIONS = 6
CLAIM_TIMEOUT_BLOCKS = 120  # a deployment on a real chain sets the blocks of 120 s
QUEUE_ALLOWANCE = 20
CREDITS_EACH = 10**6
SETUP_TIME_S = 600  # the chain starts with this age, because its deployment mines fast
OPERATOR, FIRST_PROVIDER, FIRST_CUSTOMER = 2, 100, 200  # numbers of wallets
NODES, CPUS_PER_NODE, MEMORY_PER_NODE_MB = 4, 16, 64_000
# Credits per minute of a CPU, for each provider. A job of one CPU with the smallest escrow, which
# is 100 credits, is paid for at least 4 minutes.
CPU_PRICES = ("20", "22", "25")


class ProcessGrid:
    """A grid of processes with several providers and customers.

    Args:
        folder: An existing folder for databases, settings and outputs.
        customer_count: The number of customers. Each gets credits and an allowance.
        report_progress: A function that prints a line of progress.

    Attributes:
        providers: The providers.
        customers: The customers, each with a connection of its own to the chain.
        node: A node of the chain.
        contracts: The contracts.
        ledger: The ledger.
        faults: What a campaign may stop and start, by name: the services, the agents and the chain.
    """

    def __init__(self, folder, customer_count, report_progress):
        self._folder = folder
        self._report_progress = report_progress
        self._stack = contextlib.ExitStack()
        self.providers = []
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            report_progress("starting a chain with the grid's contracts")
            self.devnet = self._start_chain()
            self.node, self.contracts = self.devnet.node, self.devnet.contracts
            self.ledger = ChainLedger(self.node, self.contracts)
            self.customers = [self._add_customer(number) for number in range(customer_count)]
            self._definitions = self._new_definitions()
            self._meta_scheduler = self._new_meta_scheduler()
            for number in range(len(CPU_PRICES)):
                self._add_provider(number)
            self.faults = self._faults()
            stack.pop_all()

    def start(self):
        """Start all processes, and wait until the providers have joined the grid."""
        self.devnet.anvil.rpc("evm_setTime", int(time.time()))
        self.devnet.anvil.rpc("evm_setIntervalMining", BLOCK_S)
        self._report_progress(f"starting {len(self.providers) + 2} services")
        for service in (self._definitions, self._meta_scheduler):
            self._stack.callback(service.kill)
            service.start()
        for provider in self.providers:
            provider.start()
            self._stack.callback(provider.stop)
        self._definitions.wait()
        for provider in self.providers:
            provider.approve()

    def close(self):
        """Kill all processes and stop the clusters and the chain."""
        self._stack.close()

    def job_command(self, job):
        """Return the command of a job of a campaign (``SoakJob``)."""
        return job_command(job.script_number, run_s=job.run_s, exit_code=job.exit_code)

    def required_labels(self, _job):
        """Return the labels that the provider of a job must have: none."""
        return ()

    def store_script(self, workflow):
        """Store the script of a workflow and return its id."""
        ca = self._definitions.authority.certificate
        return submit_workflow(self._definitions.url, workflow, ca=ca)

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

    def _new_definitions(self):
        """Return the Job Definition service."""
        return DefinitionsProcess(self._new_folder("job-definitions"), self.devnet)

    def _new_meta_scheduler(self):
        """Return the meta-scheduler."""
        folder = self._new_folder("meta-scheduler")
        settings = {
            "": {"state_url": f"sqlite:///{folder}/state.db"},
            "chain": self._chain_settings(),
            "wallet": _wallet_settings(folder, OPERATOR),
            "matching": {"queue_allowance": QUEUE_ALLOWANCE},
        }
        return ServiceProcess("meta-scheduler", folder, settings)

    def _faults(self):
        """Return what a campaign may stop, by name. The order determines what a seed stops."""
        services = {"job-definitions": self._definitions, "meta-scheduler": self._meta_scheduler}
        agents, supervisors = {}, {}
        for number, provider in enumerate(self.providers, start=1):
            agents[f"agent-{number}"] = AgentFault(provider.cluster)
            supervisors[f"supervisor-{number}"] = provider.supervisor
        return agents | services | supervisors | {"chain": ChainFault(self.devnet.anvil)}

    def _add_provider(self, number):
        """Add a provider with its supervisor and cluster."""
        provider_wallet = wallet(FIRST_PROVIDER + number)
        self.devnet.anvil.fund(provider_wallet.address)
        folder = self._new_folder(f"supervisor-{number + 1}")
        prices = {"gpu_credits": "0", "cpu_credits": CPU_PRICES[number], "memory_mb_credits": "0"}
        offer = Offer(
            name=provider_wallet.address,
            hardware=equal_nodes(NODES, cpus=CPUS_PER_NODE, memory_mb=MEMORY_PER_NODE_MB),
            prices=prices,
        )
        access = GridAccess(
            address=provider_wallet.address,
            settings={
                "chain": self._chain_settings(),
                "wallet": _wallet_settings(folder, FIRST_PROVIDER + number),
                "job_definitions": {
                    "endpoint": self._definitions.peer.address,
                    "ca_file": self._definitions.peer.ca,
                },
            },
            customers=[customer.address for customer in self.customers],
            admin=self.devnet.as_admin,
            ledger=self.ledger,
        )
        self.providers.append(SimulatedProvider(folder, offer, access))

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


def _wallet_settings(folder, wallet_number):
    """Write the key file of a test wallet, and return the settings of the wallet."""
    password_file, keystore = folder / "password", folder / "wallet.json"
    password_file.write_text("a password of the tests\n")
    create_wallet(keystore, password_file, key=wallet_number.to_bytes(32), iterations=2)
    return {"keystore_file": keystore, "password_file": password_file}
