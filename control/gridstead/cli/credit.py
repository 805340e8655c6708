# SPDX-License-Identifier: Apache-2.0
"""`gridstead credit`: the credits of a wallet, and its allowance for the grid."""

from __future__ import annotations

from typing import Annotated

import typer

from gridstead.cli.client import open_client
from gridstead.cli.options import Config, Json
from gridstead.cli.output import credits_text, emit_done, emit_json, emit_record, parse_credits
from gridstead.domain.jobs.ids import parse_address

app = typer.Typer(no_args_is_help=True)


@app.command()
def balance(
    address: Annotated[
        str | None, typer.Argument(metavar="[ADDRESS]", help="A wallet; default is your wallet.")
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Print the credits of a wallet; for your own wallet also its allowance and its coins."""
    requested = parse_address(address) if address else None
    client = open_client(config)
    wallet = requested or client.customer.address
    record: dict[str, object] = {"address": wallet, "balance_wei": client.customer.balance(wallet)}
    if wallet == client.customer.address:
        record |= {
            "allowance_wei": client.customer.allowance(),
            "coins_wei": client.customer.coins(),
        }
    if as_json:
        emit_json(record)
        return
    shown: dict[str, object] = {}
    for key, value in record.items():
        if key.endswith("_wei"):
            shown[key.removesuffix("_wei")] = credits_text(int(str(value)))
        else:
            shown[key] = value
    emit_record(shown)


@app.command()
def allow(
    credits_: Annotated[
        str, typer.Argument(metavar="CREDITS", help="The new allowance; 0 revokes it.")
    ],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Set your allowance: how many of your credits the grid may hold in escrow.

    `gridstead submit` raises the allowance itself if necessary.
    """
    amount = parse_credits(credits_)
    client = open_client(config)
    client.customer.allow(amount)
    record = {"address": client.customer.address, "allowance_wei": amount}
    sentence = f"the grid may hold {credits_text(amount)} credits in escrow"
    emit_done(record, sentence, as_json=as_json)


@app.command()
def transfer(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="The recipient's wallet.")],
    credits_: Annotated[str, typer.Argument(metavar="CREDITS", help="Number of credits.")],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Transfer some of your credits to another wallet."""
    recipient, amount = parse_address(address), parse_credits(credits_)
    client = open_client(config)
    client.customer.transfer(recipient, amount)
    record = {"address": recipient, "amount_wei": amount}
    sentence = f"transferred {credits_text(amount)} credits to {recipient}"
    emit_done(record, sentence, as_json=as_json)
