# SPDX-License-Identifier: Apache-2.0
"""`gridstead contracts`: put a grid's contracts on a chain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridstead.cli.client import Json
from gridstead.cli.output import emit_json, emit_record, parse_credits, tell
from gridstead.domain.ids import parse_address

app = typer.Typer(help="Contracts of a grid, for its administrators.", no_args_is_help=True)
app.callback()(lambda: None)

RpcUrl = Annotated[str, typer.Option("--rpc-url", help="JSON-RPC endpoint.")]
AdminKeystore = Annotated[Path, typer.Option("--admin-keystore", help="Wallet that will own the contracts.")]
AdminPassword = Annotated[Path, typer.Option("--admin-password-file", help="File with its password.")]
DeploymentFile = Annotated[
    Path, typer.Option("--deployment", help="Where each step is written; with it a broken-off run goes on.")
]


@app.command()
def deploy(
    rpc_url: RpcUrl,
    admin_keystore: AdminKeystore,
    admin_password_file: AdminPassword,
    deployment: DeploymentFile,
    meta_scheduler: Annotated[str, typer.Option("--meta-scheduler", help="Wallet that will match jobs.")],
    supply: Annotated[str, typer.Option("--supply", help="Credits that the administrator gets.")] = "1000000",
    as_json: Json = False,
) -> None:
    """Deploy and wire what is missing; running it again changes nothing."""
    from gridstead.wiring.deployment import deploy as deploy_contracts  # noqa: PLC0415 - takes a second to import

    addresses = deploy_contracts(
        rpc_url,
        (admin_keystore, admin_password_file),
        deployment,
        operator=parse_address(meta_scheduler),
        supply=parse_credits(supply),
        tell=tell,
    )
    if as_json:
        emit_json(addresses)
        return
    emit_record(addresses)
