# SPDX-License-Identifier: Apache-2.0
"""`gridstead credit`: shows and transfers credits, and sets the allowance of the grid."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gridstead.cli.client import open_client
from gridstead.cli.options import Config, Json
from gridstead.cli.output import credits_text, emit_json, emit_record, emit_result, parse_credits
from gridstead.domain.jobs.ids import parse_address

app = typer.Typer(no_args_is_help=True)


@app.command()
def balance(
    address: Annotated[
        str | None,
        typer.Argument(metavar="[ADDRESS]", help="Address of a wallet. Default: your wallet."),
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Print the credits of a wallet.

    For your own wallet, also print the allowance of the grid, and the coins that pay for gas.
    """
    requested_address = parse_address(address) if address else None
    client = open_client(config)
    wallet = requested_address or client.customer.address
    record: dict[str, Any] = {"address": wallet, "balance_wei": client.customer.balance(wallet)}
    if wallet == client.customer.address:
        record |= {
            "allowance_wei": client.customer.allowance(),
            "coins_wei": client.customer.coins(),
        }
    if as_json:
        emit_json(record)
        return
    fields: dict[str, object] = {}
    for key, value in record.items():
        if key.endswith("_wei"):
            fields[key.removesuffix("_wei")] = credits_text(value)
        else:
            fields[key] = value
    emit_record(fields)


@app.command()
def allow(
    credits_: Annotated[
        str, typer.Argument(metavar="CREDITS", help="The new allowance, in credits. 0 revokes it.")
    ],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Set the allowance: how many of your credits the grid may take into escrow.

    You rarely need this command: `gridstead submit` raises the allowance if necessary.
    """
    amount = parse_credits(credits_)
    client = open_client(config)
    client.customer.allow(amount)
    record = {"address": client.customer.address, "allowance_wei": amount}
    sentence = f"the grid may hold {credits_text(amount)} credits in escrow"
    emit_result(record, sentence, as_json=as_json)


@app.command()
def transfer(
    address: Annotated[
        str,
        typer.Argument(metavar="ADDRESS", help="Address of the wallet that receives the credits."),
    ],
    credits_: Annotated[
        str, typer.Argument(metavar="CREDITS", help="Number of credits, for example 12.5.")
    ],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Transfer some of your credits to another wallet."""
    recipient = parse_address(address)
    amount = parse_credits(credits_)
    client = open_client(config)
    client.customer.transfer(recipient, amount)
    record = {"address": recipient, "amount_wei": amount}
    sentence = f"transferred {credits_text(amount)} credits to {recipient}"
    emit_result(record, sentence, as_json=as_json)
