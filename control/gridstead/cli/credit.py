# SPDX-License-Identifier: Apache-2.0
"""`gridstead credit`: credits of a wallet, and how many of them the grid may lock."""

from __future__ import annotations

from typing import Annotated

import typer

from gridstead.cli.client import Config, Json, open_client
from gridstead.cli.output import credits_text, emit_done, emit_json, emit_record, parse_credits
from gridstead.domain.ids import parse_address

app = typer.Typer(help="Credits: what you have, what the grid may lock.", no_args_is_help=True)


@app.command()
def balance(
    address: Annotated[
        str | None, typer.Argument(metavar="[ADDRESS]", help="Wallet; yours if not given.")
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show a wallet's credits, and for your own what the grid may lock."""
    asked = parse_address(address) if address else None
    client = open_client(config)
    wallet = asked or client.customer.address
    record: dict[str, object] = {"address": wallet, "balance_wei": client.customer.balance(wallet)}
    if wallet == client.customer.address:
        record |= {
            "allowance_wei": client.customer.allowance(),
            "coins_wei": client.customer.coins(),
        }
    if as_json:
        emit_json(record)
        return
    shown = {
        key.removesuffix("_wei"): credits_text(int(str(v))) if key.endswith("_wei") else v
        for key, v in record.items()
    }
    emit_record(shown)


@app.command()
def allow(
    credits_: Annotated[
        str, typer.Argument(metavar="CREDITS", help="From now on; 0 allows nothing.")
    ],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Set how many of your credits the grid may lock; `gridstead submit` does it by itself when it
    must.
    """
    amount = parse_credits(credits_)
    client = open_client(config)
    client.customer.allow(amount)
    record = {"address": client.customer.address, "allowance_wei": amount}
    emit_done(record, f"the grid may lock {credits_text(amount)} credits", as_json=as_json)


@app.command()
def transfer(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Who gets them.")],
    credits_: Annotated[str, typer.Argument(metavar="CREDITS", help="How many.")],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Give a wallet some of your credits."""
    receiver, amount = parse_address(address), parse_credits(credits_)
    client = open_client(config)
    client.customer.transfer(receiver, amount)
    record = {"address": receiver, "amount_wei": amount}
    emit_done(record, f"{credits_text(amount)} credits went to {receiver}", as_json=as_json)
