# SPDX-License-Identifier: Apache-2.0
"""The `gridstead` command: one sub-command group per module, and one place where errors become exit
codes.
"""

from __future__ import annotations

import io
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from gridstead.cli import (
    administration,
    authorized_keys,
    contracts,
    credit,
    cvmfs,
    devnet,
    job,
    provider,
    service,
    submit,
    wallet,
    workflow,
)
from gridstead.cli.output import emit_error, say
from gridstead.errors import GridsteadError

HELP = """Run jobs on a decentralised HPC grid, or run a provider of one.

A first job, once ~/.config/gridstead/client.toml names the grid and your wallet:

\b
  gridstead workflow init
  gridstead submit workflow.yaml --credits 100 --watch

Every command takes --help, and all but the services' take --json. An error says what, why and what to do on stderr;
the exit code tells its kind: 2 wrong usage, 65 your input, 69 refused, 75 try again later, 76 a peer broke its
format, 78 settings or keys, 130 interrupted; `gridstead contracts status` has 70 and 77 of its own.
"""

app = typer.Typer(
    name="gridstead",
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)
app.add_typer(workflow.app, name="workflow")
app.command("submit")(submit.submit)
app.add_typer(job.app, name="job")
app.add_typer(credit.app, name="credit")
app.add_typer(provider.app, name="provider")
contracts.app.add_typer(administration.app)
app.add_typer(contracts.app, name="contracts")
app.add_typer(wallet.app, name="wallet")
app.add_typer(devnet.app, name="devnet")
app.add_typer(authorized_keys.app, name="authorized-keys")
app.command("check-config")(service.check_config)
service.add_to(app, {"cvmfs": cvmfs.app})


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        try:
            say(f"gridstead {version('gridstead')}")
        except PackageNotFoundError:
            say("gridstead of a checkout")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    """Take the options that stand before any command."""


def main() -> None:
    """Run the command line; an expected failure is three lines and an exit code of its kind, never
    a traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, io.TextIOWrapper
        ):  # names from strangers may hold what the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except GridsteadError as error:
        emit_error(error, as_json="--json" in sys.argv[1:])
        sys.exit(error.exit_code)
