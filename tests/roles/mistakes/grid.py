# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the settings of the grid: its endpoints, prices and a local chain."""

from __future__ import annotations

from tests.roles.inventories import Inventory
from tests.roles.mistakes.table import Mistakes, caused_by_earlier_entry


def add_local_chain(inventory: Inventory) -> None:
    """Run a chain and the grid's services on host control."""
    inventory.set_group("devnet", "control")
    inventory.set_group("grid", "control")
    inventory.set_grid(rpc_url="http://127.0.0.1:8545")
    inventory.set_variables(devnet_anvil=__file__)


GRID_SETTINGS: Mistakes = {
    "grid-scheme": (
        lambda inventory: inventory.set_grid(rpc_url="ws://rpc.grid.test/v3/3f9c0ffee"),
        ("gridstead_grid.rpc_url", "found ws://rpc.grid.test/...", "grid's operator"),
    ),
    "grid-chain-id": (
        lambda inventory: inventory.set_grid(chain_id="main"),
        ("gridstead_grid.chain_id", "'main'", "integer", "grid's operator"),
    ),
    "grid-contract": (
        lambda inventory: inventory.set_grid(contract="0x123"),
        ("gridstead_grid.contract", "'0x123'", "40 hexadecimal digits"),
    ),
    "grid-endpoint": (
        lambda inventory: inventory.set_grid(logger="https://logger.grid.test:8445"),
        ("gridstead_grid.logger", "https://logger", "without a scheme"),
    ),
    "grid-endpoint-missing": (
        lambda inventory: inventory.set_grid(job_definitions=None),
        ("gridstead_grid.job_definitions: missing",),
    ),
    "grid-key": (
        lambda inventory: inventory.set_grid(first_blok=5),
        ("gridstead_grid.first_blok", "did you mean first_block?"),
    ),
    "price-missing": (
        lambda inventory: inventory.set_variables(
            gridstead_prices_per_minute={"gpu_credits": "-1", "memory_mb_credits": "1"}
        ),
        ("gridstead_prices_per_minute.cpu_credits: missing", "supervisor"),
    ),
    "price-negative": (
        caused_by_earlier_entry,
        ("gridstead_prices_per_minute.gpu_credits", "equal to 0", "'-1'"),
    ),
    "reserved-label": (
        lambda inventory: inventory.set_variables(gridstead_labels={"Policy": "soonest"}),
        ("gridstead_labels", "must not have the key 'Policy'"),
    ),
    "report-without-https": (
        lambda inventory: inventory.set_variables(
            gridstead_benchmark_report_url="http://provider.example.org/report.json"
        ),
        ("gridstead_benchmark_report_url", "must be a URL that starts with https://"),
    ),
    "transport": (
        lambda inventory: inventory.set_variables(gridstead_slurm_transport="smoke"),
        ("gridstead_slurm_transport", "'agent' or 'ssh'", "'smoke'"),
    ),
}

LOCAL_CHAIN: Mistakes = {
    "grid-on-another-host": (
        lambda inventory: (
            add_local_chain(inventory),
            inventory.set_group("grid", "control", "infra"),
        ),
        ("host infra", "answers only on host control"),
    ),
    "two-chains": (
        lambda inventory: (
            inventory.set_grid(rpc_url="https://rpc.grid.test/v3/3f9c0ffee"),
            inventory.set_variables(devnet_port=8445),
        ),
        ("gridstead_grid.rpc_url: https://rpc.grid.test/..., ", "devnet", "http://127.0.0.1:8445"),
    ),
    "port-twice": (
        caused_by_earlier_entry,
        ("host control, port 8445/tcp", "devnet (devnet_port) and by logger (listen)"),
    ),
}

CONTRACT_CHECKSUM: Mistakes = {
    "grid-checksum": (
        lambda inventory: inventory.set_grid(contract="0x5AAeb6053f3E94C9b9A09f33669435E7Ef1BeAed"),
        ("gridstead_grid.contract", "is probably mistyped", "checksum"),
    ),
}

CHAIN_WITHOUT_GRID: Mistakes = {
    "devnet-without-grid": (
        lambda inventory: (add_local_chain(inventory), inventory.set_group("grid")),
        ("host control: in group devnet but not in group grid",),
    ),
}

MISSING_GRID: Mistakes = {
    "grid-missing": (
        lambda inventory: inventory.remove_variable("gridstead_grid"),
        ("gridstead_grid: missing", "rpc_url"),
    ),
}
