# SPDX-License-Identifier: Apache-2.0
"""`gridstead provider`: who offers machines, on which terms; and one's own site (site.py)."""

from __future__ import annotations

from typing import Annotated

import typer

from gridstead.cli import site
from gridstead.cli.client import Config, GridClient, Json, open_client
from gridstead.cli.output import credits_text, emit_done, emit_json, emit_record, emit_table
from gridstead.domain.ids import parse_address
from gridstead.domain.job import Provider
from gridstead.errors import InvalidInput

app = typer.Typer(
    help="Providers of the grid, and your own site: apply, verify, plan.", no_args_is_help=True
)
app.add_typer(site.app)

Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="Wallet of the provider.")]


def _state(provider: Provider) -> str:
    if provider.banned:
        return "banned"
    if provider.joined:
        return "joined, change waits" if provider.waiting else "joined"
    return "waits for approval" if provider.waiting else "not joined"


def _to_json(provider: Provider) -> dict[str, object]:
    hardware, prices = provider.hardware, provider.prices
    return {
        "address": provider.address,
        "state": _state(provider),
        "nodes": hardware.nodes,
        "cpus": sum(hardware.cpus_per_node),
        "memory_mb": sum(hardware.memory_per_node_mb),
        "gpus": sum(hardware.gpus_per_node),
        "gpu_price_per_min_wei": prices.gpu_per_min,
        "cpu_price_per_min_wei": prices.cpu_per_min,
        "memory_mb_price_per_min_wei": prices.memory_mb_per_min,
        "labels": {label.key: label.value for label in provider.labels},
    }


def _providers(client: GridClient) -> list[Provider]:
    addresses = client.customer.provider_addresses()
    return list(client.ledger.providers(addresses, at_block=client.ledger.head()).values())


@app.command("list")
def list_(config: Config = None, as_json: Json = False) -> None:
    """List everybody who ever asked to be a provider."""
    records = [_to_json(provider) for provider in _providers(open_client(config))]
    if as_json:
        emit_json(records)
        return
    rows = [
        (r["address"], r["state"], r["nodes"], r["cpus"], r["memory_mb"], r["gpus"])
        for r in records
    ]
    emit_table(("ADDRESS", "STATE", "NODES", "CPUS", "MEMORY MB", "GPUS"), rows)


@app.command()
def status(address: Address, config: Config = None, as_json: Json = False) -> None:
    """Show one provider: hardware, prices, labels."""
    wanted = parse_address(address)
    client = open_client(config)
    found = client.ledger.providers([wanted], at_block=client.ledger.head()).get(wanted)
    if found is None:
        raise InvalidInput(
            f"{wanted} never asked to be a provider",
            hint="`gridstead provider list` shows who did.",
        )
    record = _to_json(found)
    if as_json:
        emit_json(record)
        return
    shown = {
        k.replace("_wei", " (credits)"): credits_text(int(str(v))) if k.endswith("_wei") else v
        for k, v in record.items()
    }
    emit_record(shown)


@app.command()
def approve(address: Address, config: Config = None, as_json: Json = False) -> None:
    """Let a provider that waits take part; for administrators of the grid."""
    wanted = parse_address(address)
    client = open_client(config)
    client.customer.approve_provider(wanted)
    emit_done({"address": wanted, "state": "joined"}, f"{wanted} may take jobs", as_json=as_json)


@app.command()
def remove(address: Address, config: Config = None, as_json: Json = False) -> None:
    """Take a provider out of the grid: it gets no new jobs and may end those it has; for
    administrators of the grid.
    """
    wanted = parse_address(address)
    client = open_client(config)
    client.customer.remove_provider(wanted)
    emit_done(
        {"address": wanted, "state": "not joined"}, f"{wanted} gets no more jobs", as_json=as_json
    )
