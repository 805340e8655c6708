# SPDX-License-Identifier: Apache-2.0
"""`gridstead provider list|status|approve|remove`: shows and administers the providers of a grid.

The commands that run Ansible on your own site are in site.py. Those about benchmarks are in
benchmark.py.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Annotated, Any

import typer

from gridstead.cli import benchmark, site
from gridstead.cli.client import GridClient, open_client
from gridstead.cli.options import Config, Json
from gridstead.cli.output import credits_text, emit_json, emit_record, emit_result, emit_table
from gridstead.cli.provider_labels import (
    AllowPrivate,
    Verification,
    Verify,
    judge_all,
    labels_to_json,
    print_labels,
    summary,
)
from gridstead.domain.jobs.ids import parse_address
from gridstead.domain.jobs.job import Provider
from gridstead.errors import InvalidInput

app = typer.Typer(no_args_is_help=True)
app.add_typer(site.app)
app.add_typer(benchmark.app, name="benchmark", help="Measure your own site, and show the results.")

Address = Annotated[
    str, typer.Argument(metavar="ADDRESS", help="Address of the provider's wallet.")
]


def _state(provider: Provider) -> str:
    """Return the state of a provider's registration in words."""
    if provider.is_banned:
        return "banned"
    if provider.is_joined:
        return "joined, change waits" if provider.is_waiting else "joined"
    return "waits for approval" if provider.is_waiting else "not joined"


def _to_json(provider: Provider) -> dict[str, Any]:
    hardware = provider.hardware
    prices = provider.prices
    return {
        "address": provider.address,
        "state": _state(provider),
        "nodes": hardware.node_count,
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
    providers = client.ledger.providers(addresses, at_block=client.ledger.head())
    return list(providers.values())


@app.command("list")
def list_(
    verify: Verify = False,
    allow_private: AllowPrivate = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """List all providers that have ever registered.

    With --verify, the column SELF-MEASURED says how many of the values with a fixed meaning are in
    a signed report of the provider.
    """
    client = open_client(config)
    providers = _providers(client)
    verification = Verification(is_wanted=verify, allow_private=allow_private)
    judgements = judge_all(client, providers, verification)
    records = []
    for provider in providers:
        details = labels_to_json(provider, judgements[provider.address])
        records.append({**_to_json(provider), "label_details": details})
    if as_json:
        emit_json(records)
        return
    to_row = itemgetter("address", "state", "nodes", "cpus", "memory_mb", "gpus")
    columns = ["ADDRESS", "STATE", "NODES", "CPUS", "MEMORY MB", "GPUS"]
    rows = list(map(to_row, records))
    if verify:
        columns.append("SELF-MEASURED")
        rows = [(*row, summary(judgements[row[0]])) for row in rows]
    emit_table(columns, rows)


@app.command()
def status(
    address: Address,
    verify: Verify = False,
    allow_private: AllowPrivate = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show the hardware, prices and labels of a provider.

    A value with a fixed meaning is self-measured if a report that the provider signed contains it,
    and the report is at most 90 days old. Otherwise it is claimed. Without the label
    benchmark.suite, the units of numbers are unknown.
    """
    wallet = parse_address(address)
    client = open_client(config)
    providers = client.ledger.providers([wallet], at_block=client.ledger.head())
    provider = providers.get(wallet)
    if provider is None:
        raise InvalidInput(
            f"{wallet} is not registered as a provider",
            hint="Run `gridstead provider list` to list the providers.",
        )
    verification = Verification(is_wanted=verify, allow_private=allow_private)
    judgement = judge_all(client, [provider], verification)[wallet]
    record = _to_json(provider)
    if as_json:
        emit_json({**record, "label_details": labels_to_json(provider, judgement)})
        return
    del record["labels"]
    fields: dict[str, object] = {}
    for key, value in record.items():
        if key.endswith("_wei"):
            fields[key.replace("_wei", " (credits)")] = credits_text(value)
        else:
            fields[key] = value
    emit_record(fields)
    print_labels(provider, judgement)


@app.command()
def approve(address: Address, config: Config = None, as_json: Json = False) -> None:
    """Approve a provider that waits for approval. Only for administrators of the grid."""
    wallet = parse_address(address)
    client = open_client(config)
    client.customer.approve_provider(wallet)
    record = {"address": wallet, "state": "joined"}
    emit_result(record, f"provider {wallet} is approved", as_json=as_json)


@app.command()
def remove(address: Address, config: Config = None, as_json: Json = False) -> None:
    """Remove a provider from the grid. Only for administrators of the grid.

    The provider gets no new jobs. It can still finish its existing jobs.
    """
    wallet = parse_address(address)
    client = open_client(config)
    client.customer.remove_provider(wallet)
    record = {"address": wallet, "state": "not joined"}
    emit_result(record, f"provider {wallet} is removed", as_json=as_json)
