# SPDX-License-Identifier: Apache-2.0
"""`gridstead contracts`: put a grid's contracts on a chain, look at them; administration.py changes
them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridstead.cli.client import Json
from gridstead.cli.contracts_options import AdminPassword, ChainId, DryRun, GridOptions, RpcUrl
from gridstead.cli.contracts_output import emit_plan, emit_status
from gridstead.cli.option_groups import expanded
from gridstead.cli.output import parse_credits, tell
from gridstead.domain.contract_checks import check_contracts
from gridstead.domain.diagnostic import exit_code

app = typer.Typer(help="Contracts of a grid, for its administrators.", no_args_is_help=True)
app.callback()(lambda: None)

AdminKeystore = Annotated[
    Path, typer.Option("--admin-keystore", help="Wallet that will own the contracts.")
]
DeploymentFile = Annotated[
    Path,
    typer.Option(
        "--deployment", help="Where each step is written; with it a broken-off run goes on."
    ),
]


@app.command()
def deploy(
    rpc_url: RpcUrl,
    admin_keystore: AdminKeystore,
    admin_password_file: AdminPassword,
    deployment: DeploymentFile,
    meta_scheduler: Annotated[
        str, typer.Option("--meta-scheduler", help="Wallet that will match jobs.")
    ],
    supply: Annotated[
        str,
        typer.Option(
            "--supply", help="Credits that the administrator gets when Credit is created."
        ),
    ] = "1000000",
    chain_id: ChainId = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Deploy and wire what is missing, and verify all of it on the chain; running it again changes
    nothing.

    The last step cannot be undone: JobRepository is sealed, so that nobody can name a second writer
    and reach the escrow. It is left out if events tell of somebody else who ever had a role there,
    or are not to be had.
    """
    operator, amount = parse_recipient(meta_scheduler), parse_credits(supply)
    from gridstead.wiring import deployment as wiring  # noqa: PLC0415 - takes a second to import
    from gridstead.wiring.administration import ContractsLocation, find_set  # noqa: PLC0415

    admin = (admin_keystore, admin_password_file)
    order = wiring.DeploymentRequest(admin=admin, path=deployment, operator=operator, supply=amount)
    node = wiring.check_chain(rpc_url, chain_id)
    if dry_run:
        emit_plan(wiring.plan_deployment(node, order), as_json=as_json)
        return
    made = wiring.deploy(node, order, tell=tell)
    grid = find_set(ContractsLocation(rpc_url=rpc_url, deployment=deployment))
    state = grid.inspect(count_escrow=False, tell=tell)
    diagnostics = check_contracts(state, expected=made.contracts)
    extra = {"changed": bool(made.steps), "sent": len(made.steps)}
    emit_status(state, diagnostics, extra=extra, as_json=as_json)
    raise typer.Exit(exit_code(diagnostics))


@app.command()
@expanded()
def status(
    options: GridOptions,
    skip_escrow: Annotated[
        bool,
        typer.Option(
            "--skip-escrow", help="Do not add up the locks of all jobs, which takes a while."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show a set of contracts: addresses, code, roles, owners, constants, money, and what is not
    right with it.

    The exit code is of the gravest finding: 70 the escrow does not add up, 77 somebody has power
    that nobody should have, 76 a contract has other code than this release's, 78 something is not
    wired; 0 if there are only notes.
    """
    grid = options.find()
    state = grid.inspect(count_escrow=not skip_escrow, tell=tell)
    diagnostics = check_contracts(state, expected=grid.expected)
    emit_status(state, diagnostics, extra={}, as_json=as_json)
    raise typer.Exit(exit_code(diagnostics))


def parse_recipient(text: str) -> str:
    """Return an address that will be given power, in lower case; its capitals, if any, must fit
    (EIP-55).
    """
    from gridstead.wiring.administration import parse_recipient as parse  # noqa: PLC0415 - takes a second to import

    return parse(text)
