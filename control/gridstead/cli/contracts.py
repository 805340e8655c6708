# SPDX-License-Identifier: Apache-2.0
"""`gridstead contracts deploy|status`: deploys and checks the contracts of a grid.

The commands that change deployed contracts are in administration.py.
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
from gridstead.domain.contracts.setup import DeploymentOptions
from gridstead.domain.diagnostic import exit_code

app = typer.Typer(no_args_is_help=True)

AdminKeystore = Annotated[
    Path, typer.Option("--admin-keystore", help="Key file of the wallet that owns the contracts.")
]
DeploymentFile = Annotated[
    Path,
    typer.Option(
        "--deployment",
        help=("File to which the addresses of the contracts are written."),
    ),
]


@app.command()
def deploy(
    rpc_url: RpcUrl,
    admin_keystore: AdminKeystore,
    admin_password_file: AdminPassword,
    deployment: DeploymentFile,
    meta_scheduler: Annotated[
        str,
        typer.Option(
            "--meta-scheduler", help="Address of the meta-scheduler's wallet, which matches jobs."
        ),
    ],
    supply: Annotated[
        str,
        typer.Option(
            "--supply",
            help=(
                "Credits that the administrator receives when the Credit contract is created. The"
                " addresses depend on this number."
            ),
        ),
    ] = "1000000",
    salt: Annotated[
        str,
        typer.Option(
            "--salt", help="Any text. With another text, the contracts get other addresses."
        ),
    ] = "",
    deployer: Annotated[
        str | None,
        typer.Option(
            "--deployer",
            help=(
                "Address of the contract that creates the contracts (a copy of the deterministic"
                " deployment proxy). Required only if the chain refuses the standard one."
            ),
        ),
    ] = None,
    claim_timeout_s: Annotated[
        int,
        typer.Option(
            "--claim-timeout-s",
            min=1,
            help=(
                "Time within which a provider must claim a matched job. The command measures the"
                " block time of the chain, and sets claimJobTimeout to the number of blocks."
            ),
        ),
    ] = 120,
    chain_id: ChainId = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Deploy the contracts of a grid, grant the roles, and check the result on the chain.

    The addresses of the contracts follow from their code, the administrator, the supply and the
    salt. The command is idempotent: it creates only missing contracts, and sends only missing
    changes. If it was interrupted, run it again with the same options.

    The last step is irreversible: it seals JobRepository. Afterwards no contract except
    MetaScheduler can have the right to write job records. A contract with this right could take the
    escrow. The step is skipped if another account ever had a role in JobRepository, or if the node
    cannot search the events that would show such a role.
    """
    operator = parse_recipient(meta_scheduler)
    amount = parse_credits(supply)
    factory = parse_recipient(deployer) if deployer is not None else None
    from gridstead.wiring.contracts import deployment as wiring  # noqa: PLC0415 - slow import

    options = DeploymentOptions(
        operator=operator,
        supply=amount,
        salt=salt,
        deployer=factory,
        claim_timeout_s=claim_timeout_s,
    )
    arguments = ((admin_keystore, admin_password_file), deployment, options)
    node = wiring.check_chain(rpc_url, chain_id)
    if dry_run:
        emit_plan(wiring.plan_deployment(node, *arguments, report=print_note), as_json=as_json)
        return
    result = wiring.deploy(node, *arguments, report=print_note)
    diagnostics = check_contracts(result.state, expected=result.contracts)
    extra_fields = {"changed": result.sent > 0, "sent": result.sent}
    emit_status(result.state, diagnostics, extra=extra_fields, as_json=as_json)
    raise typer.Exit(exit_code(diagnostics))


@app.command()
@expanded()
def status(
    options: GridOptions,
    skip_escrow: Annotated[
        bool,
        typer.Option(
            "--skip-escrow", help="Do not add up the escrow of all jobs. This sum is slow."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check the contracts of a grid, and print their addresses, code, roles, owners and constants.

    The most serious finding determines the exit code. In the order of their seriousness: 70 if the
    credits do not cover the escrow, 77 if an account has a right that it must not have, 76 if the
    code of a contract differs from this release, 78 if a role or an owner is missing. The exit code
    is 0 if there are only notes.
    """
    grid = options.find()
    state = grid.inspect(count_escrow=not skip_escrow, report=print_note)
    diagnostics = check_contracts(state, expected=grid.expected)
    emit_status(state, diagnostics, extra={}, as_json=as_json)
    raise typer.Exit(exit_code(diagnostics))


def parse_recipient(text: str) -> str:
    """Return the address of an account that will receive a right, in lower case.

    Raises:
        InvalidInput: If the address is mixed-case and its checksum is wrong (EIP-55).
    """
    # The import takes a second.
    from gridstead.wiring.contracts.administration import parse_recipient as parse  # noqa: PLC0415

    return parse(text)
