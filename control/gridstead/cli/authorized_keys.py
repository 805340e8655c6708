# SPDX-License-Identifier: Apache-2.0
"""`gridstead authorized-keys`: the supervisor's ssh keys on login hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridstead.cli.output import console
from gridstead.wiring.authorized_keys import fetch as fetch_keys

app = typer.Typer(help="The supervisor's ssh keys, on login hosts.", no_args_is_help=True)
app.callback()(lambda: None)


@app.command()
def fetch(
    endpoint: Annotated[
        str, typer.Option("--endpoint", help="host:port of the supervisor's SshAPI.")
    ],
    ca: Annotated[Path, typer.Option("--ca", help="PEM of the CA that signed its certificate.")],
    output: Annotated[
        Path,
        typer.Option("--output", help="File to keep them in; left alone if none are to be had."),
    ],
) -> None:
    """Fetch the public keys that the supervisor logs in with as wallet users."""
    changed = fetch_keys(endpoint, ca, output)
    console.print(f"{output}: {'changed' if changed else 'unchanged'}")
