# SPDX-License-Identifier: Apache-2.0
"""The `gridstead` command: one sub-command group per module, and one place where errors become exit codes."""

from __future__ import annotations

import sys

import typer

from gridstead.cli import authorized_keys, contracts, credit, devnet, job, provider, service, submit, wallet, workflow
from gridstead.cli.output import emit_error, errors
from gridstead.errors import GridsteadError

INTERRUPTED = 130

app = typer.Typer(
    name="gridstead",
    help="Run jobs on a decentralised HPC grid, or run a provider of one.",
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
app.add_typer(contracts.app, name="contracts")
app.add_typer(wallet.app, name="wallet")
app.add_typer(devnet.app, name="devnet")
app.add_typer(authorized_keys.app, name="authorized-keys")
app.command("check-config")(service.check_config)
service.add_to(app)


def main() -> None:
    """Run the command line; an expected failure is three lines and an exit code of its kind, never a traceback."""
    try:
        app()
    except GridsteadError as error:
        emit_error(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        errors.print("interrupted")
        sys.exit(INTERRUPTED)
