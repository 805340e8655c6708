# SPDX-License-Identifier: Apache-2.0
"""`gridstead contracts`: commands that deploy and inspect a grid's contracts.

The commands that change a set are in administration.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridstead.cli.contracts_options import AdminPassword, ChainId, DryRun, GridOptions, RpcUrl
from gridstead.cli.contracts_output import emit_plan, emit_status
from gridstead.cli.option_groups import expanded
from gridstead.cli.options import Json
from gridstead.cli.output import parse_credits, print_note
from gridstead.domain.contracts.checks import check_contracts
from gridstead.domain.diagnostic import exit_code

app = typer.Typer(no_args_is_help=True)
app.callback()(lambda: None)

AdminKeystore = Annotated[
    Path, typer.Option("--admin-keystore", help="Key file of the wallet that owns the contracts.")
]
DeploymentFile = Annotated[
    Path,
    typer.Option(
        "--deployment", help="File that records each step; an interrupted run continues from it."
    ),
]


@app.command()
def deploy(
    rpc_url: RpcUrl,
    admin_keystore: AdminKeystore,
    admin_password_file: AdminPassword,
    deployment: DeploymentFile,
    meta_scheduler: Annotated[
        str, typer.Option("--meta-scheduler", help="Address of the wallet that matches jobs.")
    ],
    supply: Annotated[
        str,
        typer.Option(
            "--supply", help="Credits that the administrator receives when Credit is created."
        ),
    ] = "1000000",
    chain_id: ChainId = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Deploy a grid's contracts, grant the roles, and verify the set on the chain.

    The command is idempotent: only the missing steps are sent. The last step is irreversible: it
    seals JobRepository, so that nobody can grant a second contract the right to write job records
    and so reach the escrow. This step is skipped if another account ever had a role there, or if
    the node does not have the events that show it.
    """
    operator, amount = parse_recipient(meta_scheduler), parse_credits(supply)
    from gridstead.wiring.contracts import deployment as wiring  # noqa: PLC0415 - takes a second to import
    from gridstead.wiring.contracts.administration import ContractsLocation, find_set  # noqa: PLC0415

    admin = (admin_keystore, admin_password_file)
    order = wiring.DeploymentRequest(admin=admin, path=deployment, operator=operator, supply=amount)
    node = wiring.check_chain(rpc_url, chain_id)
    if dry_run:
        emit_plan(wiring.plan_deployment(node, order), as_json=as_json)
        return
    deployed = wiring.deploy(node, order, tell=print_note)
    grid = find_set(ContractsLocation(rpc_url=rpc_url, deployment=deployment))
    state = grid.inspect(count_escrow=False, tell=print_note)
    diagnostics = check_contracts(state, expected=deployed.contracts)
    extra = {"changed": bool(deployed.steps), "sent": len(deployed.steps)}
    emit_status(state, diagnostics, extra=extra, as_json=as_json)
    raise typer.Exit(exit_code(diagnostics))


@app.command()
@expanded()
def status(
    options: GridOptions,
    skip_escrow: Annotated[
        bool,
        typer.Option("--skip-escrow", help="Do not add up the escrow of all jobs, which is slow."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check a set of contracts and print its addresses, code, roles, owners and constants.

    The exit code is that of the most serious finding: 70 if the credits do not cover the escrow, 77
    if an account has a right that it must not have, 76 if the code of a contract is not this
    release's, 78 if a role or an owner is missing, 0 if there are only notes.
    """
    grid = options.find()
    state = grid.inspect(count_escrow=not skip_escrow, tell=print_note)
    diagnostics = check_contracts(state, expected=grid.expected)
    emit_status(state, diagnostics, extra={}, as_json=as_json)
    raise typer.Exit(exit_code(diagnostics))


def parse_recipient(text: str) -> str:
    """Return the address of an account that receives a right, lower case.

    Raises:
        InvalidInput: If the address is mixed-case and its checksum is wrong (EIP-55).
    """
    # Takes a second to import.
    from gridstead.wiring.contracts.administration import parse_recipient as parse  # noqa: PLC0415

    return parse(text)
