# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the settings of the grid: its endpoints, prices and a local chain."""

from __future__ import annotations

from tests.roles.inventories import Inventory
from tests.roles.mistakes.table import Mistakes


def add_local_chain(inventory: Inventory) -> None:
    """Run a chain and the grid's services on host control."""
    inventory.set_group("devnet", "control")
    inventory.set_group("grid", "control")
    inventory.set_grid(rpc_url="http://127.0.0.1:8545")
    inventory.set_variables(devnet_anvil=__file__)


GRID_SETTINGS: Mistakes = {
    "grid-scheme": (
        lambda i: i.set_grid(rpc_url="ws://rpc.grid.test/v3/3f9c0ffee"),
        ("gridstead_grid.rpc_url", "found ws://rpc.grid.test/...", "grid's operator"),
    ),
    "grid-chain-id": (
        lambda i: i.set_grid(chain_id="main"),
        ("gridstead_grid.chain_id", "'main'", "integer", "grid's operator"),
    ),
    "grid-contract": (
        lambda i: i.set_grid(contract="0x123"),
        ("gridstead_grid.contract", "'0x123'", "40 hexadecimal digits"),
    ),
    "grid-endpoint": (
        lambda i: i.set_grid(logger="https://logger.grid.test:8445"),
        ("gridstead_grid.logger", "https://logger", "without a scheme"),
    ),
    "grid-endpoint-missing": (
        lambda i: i.set_grid(job_definitions=None),
        ("gridstead_grid.job_definitions: missing",),
    ),
    "grid-key": (
        lambda i: i.set_grid(first_blok=5),
        ("gridstead_grid.first_blok", "did you mean first_block?"),
    ),
    "price-missing": (
        lambda i: i.set_variables(
            gridstead_prices_per_minute={"gpu_credits": "-1", "memory_mb_credits": "1"}
        ),
        ("gridstead_prices_per_minute.cpu_credits: missing", "supervisor"),
    ),
    "price-negative": (
        lambda i: None,
        ("gridstead_prices_per_minute.gpu_credits", "equal to 0", "'-1'"),
    ),
    "transport": (
        lambda i: i.set_variables(gridstead_slurm_transport="smoke"),
        ("gridstead_slurm_transport", "'agent' or 'ssh'", "'smoke'"),
    ),
}

LOCAL_CHAIN: Mistakes = {
    "grid-on-another-host": (
        lambda i: (add_local_chain(i), i.set_group("grid", "control", "infra")),
        ("host infra", "answers only on host control"),
    ),
    "two-chains": (
        lambda i: (
            i.set_grid(rpc_url="https://rpc.grid.test/v3/3f9c0ffee"),
            i.set_variables(devnet_port=8445),
        ),
        ("gridstead_grid.rpc_url: https://rpc.grid.test/..., ", "devnet", "http://127.0.0.1:8445"),
    ),
    "port-twice": (
        lambda i: None,
        ("host control, port 8445/tcp", "devnet (devnet_port) and by logger (listen)"),
    ),
}

CONTRACT_CHECKSUM: Mistakes = {
    "grid-checksum": (
        lambda i: i.set_grid(contract="0x5AAeb6053f3E94C9b9A09f33669435E7Ef1BeAed"),
        ("gridstead_grid.contract", "is probably mistyped", "checksum"),
    ),
}

CHAIN_WITHOUT_GRID: Mistakes = {
    "devnet-without-grid": (
        lambda i: (add_local_chain(i), i.set_group("grid")),
        ("host control: in group devnet but not in group grid",),
    ),
}

MISSING_GRID: Mistakes = {
    "grid-missing": (
        lambda i: i.remove_variable("gridstead_grid"),
        ("gridstead_grid: missing", "rpc_url"),
    ),
}
