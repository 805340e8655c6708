# SPDX-License-Identifier: Apache-2.0
"""`gridstead authorized-keys`: the supervisor's SSH keys on login hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridstead.cli.output import console
from gridstead.wiring.users.authorized_keys import fetch as fetch_keys

app = typer.Typer(no_args_is_help=True)
app.callback()(lambda: None)


@app.command()
def fetch(
    endpoint: Annotated[
        str, typer.Option("--endpoint", help="The supervisor's SshAPI, as host:port.")
    ],
    ca: Annotated[
        Path, typer.Option("--ca", help="PEM file of the CA of the supervisor's certificate.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", help="File to write the keys to; unchanged if they cannot be fetched."
        ),
    ],
) -> None:
    """Fetch the public keys with which the supervisor logs in as a wallet's user."""
    changed = fetch_keys(endpoint, ca, output)
    console.print(f"{output}: {'changed' if changed else 'unchanged'}")
