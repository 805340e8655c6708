# SPDX-License-Identifier: Apache-2.0
"""How the commands on a set of contracts name the set, and the administrator that acts on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridstead.cli.client import Json
from gridstead.cli.contracts_output import emit_outcome
from gridstead.cli.output import tell
from gridstead.domain.administration import Change, Constant
from gridstead.domain.deployment import GridState
from gridstead.domain.ids import parse_address

if TYPE_CHECKING:  # the chain's library takes a second to import
    from gridstead.wiring.administration import GridContracts

RpcUrl = Annotated[str, typer.Option("--rpc-url", help="JSON-RPC endpoint.")]
AdminPassword = Annotated[
    Path, typer.Option("--admin-password-file", help="File with its password.")
]
ChainId = Annotated[
    int | None, typer.Option("--chain-id", min=1, help="EIP-155 id that the endpoint must serve.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say exactly what would be sent, and send nothing.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOptions:
    """Which set of contracts."""

    rpc_url: RpcUrl
    contract: Annotated[
        str | None, typer.Option("--contract", help="Address of the MetaScheduler.")
    ] = None
    deployment: Annotated[
        Path | None,
        typer.Option("--deployment", help="The deployment file, instead of --contract."),
    ] = None
    chain_id: ChainId = None
    first_block: Annotated[
        int | None,
        typer.Option(
            "--first-block", min=0, help="Where the set begins, for nodes that search few blocks."
        ),
    ] = None

    def find(self) -> GridContracts:
        """Return the set of contracts that the options name."""
        from gridstead.wiring.administration import ContractsLocation, find_set  # noqa: PLC0415 - takes a second to import

        address = parse_address(self.contract) if self.contract is not None else None
        return find_set(
            ContractsLocation(
                rpc_url=self.rpc_url,
                chain_id=self.chain_id,
                contract=address,
                deployment=self.deployment,
                first_block=self.first_block,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderOptions:
    """The administrator's wallet, and how it is to send and to tell."""

    admin_keystore: Annotated[Path, typer.Option("--admin-keystore", help="Wallet that sends.")]
    admin_password_file: AdminPassword
    dry_run: DryRun = False
    as_json: Json = False

    def carry_out(
        self,
        options: GridOptions,
        plan: Callable[[GridState, str], tuple[Change, ...]],
        *,
        accounts: tuple[str, ...] = (),
        constant: Constant | None = None,
    ) -> None:
        """Make the changes that are planned for this wallet, unless it is a dry run, and print what
        came of it.

        Args:
            options: Which set they are made in.
            plan: Returns the changes from the state of the set and the wallet's address.
            accounts: Wallets whose roles the plan looks at, beside this one.
            constant: The number that is set, if the wish is to set one.
        """
        from gridstead.adapters.chain.wallet import keystore_address  # noqa: PLC0415 - takes a second to import

        address, files = (
            keystore_address(self.admin_keystore),
            (self.admin_keystore, self.admin_password_file),
        )
        outcome = options.find().carry_out(
            lambda state: plan(state, address),
            files,
            accounts=accounts,
            dry_run=self.dry_run,
            tell=tell,
        )
        emit_outcome(outcome, dry_run=self.dry_run, constant=constant, as_json=self.as_json)
