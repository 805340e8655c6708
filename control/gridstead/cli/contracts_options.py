# SPDX-License-Identifier: Apache-2.0
"""Options that select the contracts of a grid, and the wallet of the administrator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridstead.adapters.chain.keystore import keystore_address
from gridstead.cli.contracts_output import emit_outcome
from gridstead.cli.options import Json
from gridstead.cli.output import print_note
from gridstead.domain.contracts.administration import Change
from gridstead.domain.contracts.constants import Constant
from gridstead.domain.contracts.deployment import GridState
from gridstead.domain.jobs.ids import parse_address

if TYPE_CHECKING:  # The import takes a second.
    from gridstead.wiring.contracts.administration import GridContracts

RpcUrl = Annotated[str, typer.Option("--rpc-url", help="URL of a chain node's JSON-RPC endpoint.")]
AdminPassword = Annotated[
    Path,
    typer.Option(
        "--admin-password-file", help="File with the password of the administrator's key file."
    ),
]
ChainId = Annotated[
    int | None, typer.Option("--chain-id", min=1, help="Fail if the node has another chain id.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the transactions instead of sending them.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GridOptions:
    """The options that select the contracts of a grid."""

    rpc_url: RpcUrl
    contract: Annotated[
        str | None, typer.Option("--contract", help="Address of the MetaScheduler contract.")
    ] = None
    deployment: Annotated[
        Path | None,
        typer.Option(
            "--deployment", help="File that `contracts deploy` wrote. Can replace --contract."
        ),
    ] = None
    chain_id: ChainId = None
    first_block: Annotated[
        int | None,
        typer.Option(
            "--first-block",
            min=0,
            help=(
                "Block in which the contracts were deployed. Required if the node limits the number"
                " of blocks of an event search."
            ),
        ),
    ] = None

    def find(self) -> GridContracts:
        """Return the contracts that the options select."""
        # The import takes a second.
        from gridstead.wiring.contracts.administration import (  # noqa: PLC0415
            ContractsLocation,
            find_set,
        )

        address = parse_address(self.contract) if self.contract is not None else None
        location = ContractsLocation(
            rpc_url=self.rpc_url,
            chain_id=self.chain_id,
            contract=address,
            deployment=self.deployment,
            first_block=self.first_block,
        )
        return find_set(location)


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderOptions:
    """The administrator's wallet, and the options of a command that sends transactions."""

    admin_keystore: Annotated[
        Path, typer.Option("--admin-keystore", help="Key file of the administrator's wallet.")
    ]
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
        """Plan the changes, send them unless it is a dry run, and print the result.

        Args:
            options: The options that select the contracts.
            plan: Returns the changes for the state of the contracts and the wallet's address.
            accounts: Accounts whose roles the plan reads, in addition to the wallet.
            constant: The constant that the plan sets. None if it sets no constant.
        """
        address = keystore_address(self.admin_keystore)
        outcome = options.find().carry_out(
            lambda state: plan(state, address),
            (self.admin_keystore, self.admin_password_file),
            accounts=accounts,
            dry_run=self.dry_run,
            report=print_note,
        )
        emit_outcome(outcome, dry_run=self.dry_run, constant=constant, as_json=self.as_json)
