# SPDX-License-Identifier: Apache-2.0
"""The `gridstead` command: runs a subcommand, and converts errors to messages and exit codes."""

from __future__ import annotations

import io
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Never

import typer

from gridstead.cli.commands import GridsteadGroup
from gridstead.cli.output import emit_error, print_line
from gridstead.errors import ConfigError, GridsteadError

HELP = """Run jobs on a decentralised HPC grid, or operate a provider of such a grid.

To run a first job, describe the grid and your wallet in ~/.config/gridstead/client.toml, then:

\b
  gridstead workflow init
  gridstead submit workflow.yaml --credits 100 --watch

Every command has --help. All commands except those of the services have --json. An error message
on stderr says what failed, why, and what to do. Exit codes: 2 wrong usage, 65 invalid input,
69 request refused, 75 try again later, 76 unexpected answer of another program, 78 wrong settings
or keys, 130 interrupted. `gridstead contracts status` also uses 70 and 77.
"""

app = typer.Typer(
    name="gridstead",
    cls=GridsteadGroup,
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)


def _print_version(is_requested: bool) -> None:  # noqa: FBT001 - typer passes it by position
    if is_requested:
        try:
            print_line(f"gridstead {version('gridstead')}")
        except PackageNotFoundError:
            print_line("gridstead (version unknown: not installed)")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Define the options of the `gridstead` command itself."""


def main() -> None:
    """Run the command line.

    An expected error is printed without a traceback, and determines the exit code.
    """
    for stream in (sys.stdout, sys.stderr):
        # Names that other users have chosen may contain characters that the terminal's encoding
        # lacks. Such characters are printed as escape sequences.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except GridsteadError as error:
        _exit(error)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package.startswith("gridstead"):
            raise  # A module of this project is missing: a bug.
        _exit(_not_installed(package))


def _exit(error: GridsteadError) -> Never:
    emit_error(error, as_json="--json" in sys.argv[1:])
    sys.exit(error.exit_code)


def _not_installed(package: str) -> ConfigError:
    """Return the error of a command that needs a package of the extra ``site``."""
    return ConfigError(
        "this command needs gridstead[site]",
        detail=f"the Python package {package!r} is not installed",
        hint="Install the wheel of gridstead with its extra: pip install 'WHEEL[site]'.",
    )
