# SPDX-License-Identifier: Apache-2.0
"""`gridstead wallet`: key files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridstead.cli.client import Json
from gridstead.cli.output import emit_done

app = typer.Typer(help="Wallets: the key that pays or is paid.", no_args_is_help=True)

Keystore = Annotated[Path, typer.Option("--keystore", help="V3 key file.")]


@app.command()
def new(
    keystore: Keystore,
    password_file: Annotated[
        Path, typer.Option("--password-file", help="File with the password, on one line.")
    ],
    as_json: Json = False,
) -> None:
    """Make a new key and write its key file, which must not exist yet."""
    from gridstead.adapters.chain.wallet import create_wallet  # noqa: PLC0415 - takes a second to import

    wallet = create_wallet(keystore, password_file)
    emit_done(
        {"address": wallet.address, "keystore": str(keystore)}, wallet.address, as_json=as_json
    )


@app.command()
def address(keystore: Keystore, as_json: Json = False) -> None:
    """Print the address of a key file; needs no password."""
    from gridstead.adapters.chain.wallet import keystore_address  # noqa: PLC0415 - takes a second to import

    found = keystore_address(keystore)
    emit_done({"address": found, "keystore": str(keystore)}, found, as_json=as_json)
