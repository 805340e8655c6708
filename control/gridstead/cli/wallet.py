# SPDX-License-Identifier: Apache-2.0
"""`gridstead wallet`: creates wallets and prints their addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridstead.adapters.chain.keystore import keystore_address
from gridstead.cli.options import Json
from gridstead.cli.output import emit_result

app = typer.Typer(no_args_is_help=True)

Keystore = Annotated[
    Path, typer.Option("--keystore", help="Key file of the wallet (keystore, version 3).")
]


@app.command()
def new(
    keystore: Keystore,
    password_file: Annotated[
        Path,
        typer.Option(
            "--password-file", help="File with the password of the new key file, on one line."
        ),
    ],
    as_json: Json = False,
) -> None:
    """Create a wallet: write a new private key to an encrypted key file, and print its address."""
    # The import takes a second.
    from gridstead.adapters.chain.wallet import create_wallet  # noqa: PLC0415

    wallet = create_wallet(keystore, password_file)
    record = {"address": wallet.address, "keystore": str(keystore)}
    emit_result(record, wallet.address, as_json=as_json)


@app.command()
def address(keystore: Keystore, as_json: Json = False) -> None:
    """Print the address of a wallet. The password of the key file is not needed."""
    wallet = keystore_address(keystore)
    emit_result({"address": wallet, "keystore": str(keystore)}, wallet, as_json=as_json)
