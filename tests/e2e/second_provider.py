# SPDX-License-Identifier: Apache-2.0
"""A second provider on the lab's chain, with a simulated cluster.

Its supervisor runs as a process on the machine of the lab, and its cluster in the process of the
tests. The cluster knows the accounts of the customers, so no LDAP connector is needed.
"""

from __future__ import annotations

import json

import lab_users
from tests.bench.simulated_cluster import SimulatedCluster
from tests.e2e import many_customers
from tests.e2e.conftest import wait_until
from tests.fakes.service_process import ServiceProcess

from gridstead.domain.jobs.job import Hardware
from gridstead.domain.supervisor.submission import GridUser

NAME = "second-provider"  # of its wallet, which later runs on the same lab use again
FIRST_UID, GID = 200_001, 100_000
NODES, CPUS_PER_NODE, MEMORY_PER_NODE_MB = 8, 15, 2000
LABELS = {"os": "linux", "zone": "simulated"}
# Its CPUs and memory are cheaper than those of the lab. It has no GPUs.
PRICES = {"gpu_credits": "8.5", "cpu_credits": "0.85", "memory_mb_credits": "0.00004"}


class SecondProvider:
    """The provider. ``join`` starts it.

    Args:
        grid: The grid of the lab.
        folder: An existing folder for certificates, settings and the database.
        customers: The addresses of the customers that have an account on the cluster.

    Attributes:
        address: The address of its wallet.
        slurm: The Slurm of its cluster.
    """

    def __init__(self, grid, folder, customers):
        self._wallet = grid.customer(NAME, credits_=0)  # only coins for gas
        self.address = self._wallet.address
        self._admin = many_customers.connect(grid.admin)
        users = []
        for uid, address in enumerate(customers, start=FIRST_UID):
            users.append(GridUser(address=address, uid=uid, gid=GID))
        hardware = Hardware(
            gpus_per_node=(0,) * NODES,
            cpus_per_node=(CPUS_PER_NODE,) * NODES,
            memory_per_node_mb=(MEMORY_PER_NODE_MB,) * NODES,
        )
        self._cluster = SimulatedCluster(folder, hardware, users)
        self.slurm = self._cluster.slurm
        state = json.loads((grid.lab.folder / "state.json").read_text())
        self._supervisor = ServiceProcess(
            "supervisor",
            folder,
            self._settings(grid.lab_grid, folder),
            environment={"GRIDSTEAD_LAB": state["prefix"]},  # `lab.py down` ends the process
        )

    def _settings(self, lab_grid, folder):
        return {
            "": {"state_url": f"sqlite:///{folder}/state.db", "max_attempts": 1},
            "chain": {
                "rpc_url": lab_grid.rpc_url,
                "chain_id": lab_users.CHAIN_ID,
                "contract": lab_grid.contract,
                "confirmations": lab_users.CONFIRMATIONS,
            },
            "wallet": {
                "keystore_file": self._wallet.keystore,
                "password_file": self._wallet.password,
            },
            "job_definitions": {"endpoint": f"{lab_grid.control}:8444", "ca_file": lab_grid.ca},
            "slurm.agent": self._cluster.agent_settings(),
            "prices_per_minute": PRICES,
            "labels": LABELS,
        }

    def join(self):
        """Start the cluster and the supervisor, and approve the provider when it has registered."""
        self._cluster.start()
        self._supervisor.start()
        try:
            record = wait_until(self._registered_record, timeout=30)
        except AssertionError as error:
            error.add_note(self._supervisor.output.read_text())
            raise
        if record.is_waiting:
            self._admin.customer.approve_provider(self.address)

    def leave(self):
        """Stop the supervisor, which would register again, and remove the provider from the grid.

        All jobs of the provider must have ended.
        """
        self._supervisor.kill()
        record = self._record()
        if record is not None and record.is_joined:
            self._admin.customer.remove_provider(self.address)

    def close(self):
        """Leave the grid, and stop the cluster."""
        try:
            self.leave()
        finally:
            self._cluster.stop()
            self._admin.close()

    def _registered_record(self):
        """Return the record of the provider if it has joined or waits for approval."""
        record = self._record()
        if record is not None and (record.is_joined or record.is_waiting):
            return record
        return None

    def _record(self):
        """Return the record of the provider on the chain, or None."""
        ledger = self._admin.ledger
        return ledger.providers([self.address], at_block=ledger.head()).get(self.address)
