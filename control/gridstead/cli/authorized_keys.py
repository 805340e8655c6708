# SPDX-License-Identifier: Apache-2.0
"""`gridstead authorized-keys`: fetches the supervisor's public SSH keys for a login host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridstead.cli.output import print_line
from gridstead.wiring.users.authorized_keys import fetch as fetch_keys

app = typer.Typer(no_args_is_help=True)
app.callback()(lambda: None)  # Without a callback, Typer drops the name of the only command.


@app.command()
def fetch(
    endpoint: Annotated[
        str, typer.Option("--endpoint", help="Address of the supervisor's SshAPI, as host:port.")
    ],
    ca: Annotated[
        Path,
        typer.Option("--ca", help="PEM file of the CA that signed the supervisor's certificate."),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", help="File to write. It is not changed if the keys cannot be fetched."
        ),
    ],
) -> None:
    """Fetch the public keys that let the supervisor log in as the user of a wallet."""
    is_changed = fetch_keys(endpoint, ca, output)
    state = "changed" if is_changed else "unchanged"
    print_line(f"{output}: {state}")
