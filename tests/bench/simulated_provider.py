# SPDX-License-Identifier: Apache-2.0
"""A provider with a simulated cluster. Its supervisor is a real process on this machine."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from decimal import Decimal

from tests.bench.simulated_cluster import SimulatedCluster
from tests.devnet import COIN
from tests.fakes.service_process import ServiceProcess

from gridstead.adapters.chain.customer import Customer
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.domain.jobs.billing import Prices
from gridstead.domain.jobs.job import Hardware
from gridstead.domain.supervisor.submission import GridUser

REGISTRATION_TIMEOUT_S = 180
POLL_S = 0.2
FIRST_UID, GID = 200_001, 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a provider offers to the grid.

    Attributes:
        name: A name for people.
        hardware: The nodes.
        prices: The table ``prices_per_minute`` of the supervisor's settings.
        labels: The labels.
    """

    name: str
    hardware: Hardware
    prices: dict[str, str]
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridAccess:
    """How a provider reaches the grid, and how the administrator approves and removes it.

    Attributes:
        address: The address of the provider's wallet.
        settings: The tables ``chain``, ``wallet`` and ``job_definitions`` of the supervisor's
            settings, by name.
        customers: The addresses of the customers that have an account on the cluster.
        admin: The administrator of the grid (``Customer``).
        ledger: The ledger.
        environment: Variables of the supervisor's process.
    """

    address: str
    settings: dict[str, dict[str, object]]
    customers: list[str]
    admin: Customer
    ledger: ChainLedger
    environment: dict[str, str] = field(default_factory=dict)


class SimulatedProvider:
    """The provider.

    Args:
        folder: An existing folder for certificates, settings and the database.
        offer: What the provider offers.
        access: How the provider reaches the grid.
        max_attempts: The setting of this name.

    Attributes:
        name: The name of the offer.
        address: The address of the wallet.
        prices: The prices.
        cluster: The cluster.
        supervisor: The process of the supervisor.
    """

    def __init__(self, folder, offer, access, *, max_attempts=3):
        self.name = offer.name
        self.address = access.address
        self.prices = prices_of(offer.prices)
        self.cluster = SimulatedCluster(folder, offer.hardware, _users(access.customers))
        settings = {
            "": {"state_url": f"sqlite:///{folder}/state.db", "max_attempts": max_attempts},
            **access.settings,
            "slurm.agent": self.cluster.agent_settings(),
            "prices_per_minute": offer.prices,
            "labels": offer.labels,
        }
        self.supervisor = ServiceProcess(
            "supervisor", folder, settings, environment=access.environment
        )
        self._admin = access.admin
        self._ledger = access.ledger

    def start(self):
        """Start the cluster and the supervisor, which registers the provider."""
        self.cluster.start()
        self.supervisor.start()

    def stop(self):
        """Kill the supervisor and stop the cluster."""
        self.supervisor.kill()
        self.cluster.stop()

    def runs(self):
        """Return what Slurm ran."""
        return self.cluster.slurm.runs()

    def approve(self):
        """Wait until the provider has registered, and approve it.

        Raises:
            AssertionError: If it does not register in time. The message is the supervisor's output.
        """
        deadline = time.monotonic() + REGISTRATION_TIMEOUT_S
        while True:
            record = self._record()
            if record is not None and record.is_waiting:
                self._admin.approve_provider(self.address)
                return
            if record is not None and record.is_joined:
                return  # an earlier campaign could not remove it
            assert time.monotonic() < deadline, self.supervisor.output.read_text()
            time.sleep(POLL_S)

    def leave(self):
        """Kill the supervisor, which would register again, and remove the provider from the grid.

        All jobs of the provider must have ended.
        """
        self.supervisor.kill()
        record = self._record()
        if record is not None and record.is_joined:
            self._admin.remove_provider(self.address)

    def _record(self):
        """Return the record of the provider on the chain, or None."""
        records = self._ledger.providers([self.address], at_block=self._ledger.head())
        return records.get(self.address)


def prices_of(table):
    """Return the prices of a table ``prices_per_minute``."""
    return Prices(
        gpu_per_min=int(Decimal(table["gpu_credits"]) * COIN),
        cpu_per_min=int(Decimal(table["cpu_credits"]) * COIN),
        memory_mb_per_min=int(Decimal(table["memory_mb_credits"]) * COIN),
    )


def equal_nodes(count, *, cpus, memory_mb):
    """Return nodes without GPUs that all have the same size."""
    return Hardware(
        gpus_per_node=(0,) * count,
        cpus_per_node=(cpus,) * count,
        memory_per_node_mb=(memory_mb,) * count,
    )


def _users(addresses):
    users = []
    for uid, address in enumerate(addresses, start=FIRST_UID):
        users.append(GridUser(address=address, uid=uid, gid=GID))
    return users
