# SPDX-License-Identifier: Apache-2.0
"""Providers with simulated clusters on the lab's chain, and the second provider of the tests.

A supervisor runs as a process on the machine of the lab, and its cluster in the process of the
tests. The cluster knows the accounts of the customers, so no LDAP connector is needed.
"""

from __future__ import annotations

import json

import lab_users
from tests.bench.simulated_provider import GridAccess, Offer, SimulatedProvider, equal_nodes

CPUS_PER_NODE = 15
LABELS = {"os": "linux", "zone": "simulated"}
# Its CPUs and memory are cheaper than those of the lab. It has no GPUs.
OFFER = Offer(
    name="second-provider",
    hardware=equal_nodes(8, cpus=CPUS_PER_NODE, memory_mb=2000),
    prices={"gpu_credits": "8.5", "cpu_credits": "0.85", "memory_mb_credits": "0.00004"},
    labels=LABELS,
)


def add_provider(grid, admin, folder, offer, customers, **options):
    """Return a provider that can join the lab's grid. It does not run yet.

    Args:
        grid: The grid of the lab.
        admin: The connection of the administrator (``GridConnection``).
        folder: An existing folder for certificates, settings and the database.
        offer: What the provider offers. Its name is also the name of its wallet in the lab, which
            later runs on the same lab use again.
        customers: The addresses of the customers that have an account on the cluster.
        options: Options of ``SimulatedProvider``.
    """
    wallet = grid.customer(offer.name, credits_=0)  # only coins for gas
    state = json.loads((grid.lab.folder / "state.json").read_text())
    access = GridAccess(
        address=wallet.address,
        settings=_settings(grid.lab_grid, wallet),
        customers=customers,
        admin=admin.customer,
        ledger=admin.ledger,
        environment={"GRIDSTEAD_LAB": state["prefix"]},  # `lab.py down` ends the process
    )
    return SimulatedProvider(folder, offer, access, **options)


def _settings(lab_grid, wallet):
    """Return the settings with which a supervisor on this machine reaches the lab's grid."""
    return {
        "chain": {
            "rpc_url": lab_grid.rpc_url,
            "chain_id": lab_users.CHAIN_ID,
            "contract": lab_grid.contract,
            "confirmations": lab_users.CONFIRMATIONS,
        },
        "wallet": {"keystore_file": wallet.keystore, "password_file": wallet.password},
        "job_definitions": {"endpoint": f"{lab_grid.control}:8444", "ca_file": lab_grid.ca},
    }
