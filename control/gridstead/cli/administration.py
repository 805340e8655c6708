# SPDX-License-Identifier: Apache-2.0
"""`gridstead contracts`: commands that change a set of contracts. All commands are idempotent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridstead.cli.contracts import parse_recipient
from gridstead.cli.contracts_options import GridOptions, SenderOptions
from gridstead.cli.contracts_output import constant_text
from gridstead.cli.option_groups import expanded
from gridstead.cli.output import parse_credits
from gridstead.domain.contracts import administration as plans
from gridstead.domain.contracts.administration import CONSTANTS, Constant
from gridstead.domain.contracts.deployment import Role, parse_role
from gridstead.domain.jobs.ids import parse_address
from gridstead.errors import InvalidInput

app = typer.Typer()

Account = Annotated[
    str,
    typer.Argument(metavar="ADDRESS", help="A wallet; a mixed-case address is checked (EIP-55)."),
]
Successor = Annotated[
    Path, typer.Option("--admin-keystore", help="The new administrator's wallet.")
]


def _range_text(constant: Constant) -> str:
    minimum = constant_text(constant, constant.minimum)
    maximum = constant_text(constant, constant.maximum)
    return f"{minimum} to {maximum}"


_CONSTANTS = "\n".join(
    f"  {constant.name}: {constant.meaning}; {_range_text(constant)}" for constant in CONSTANTS
)


@app.command()
@expanded()
def grant(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="admin or matcher.")],
    address: Account,
    grid: GridOptions,
    sender: SenderOptions,
) -> None:
    """Grant a role to a wallet in every contract that has the role.

    The role matcher is for the wallet of the meta-scheduler service: it matches jobs and approves
    providers. The role admin grants roles, closes the set and withdraws fees. To replace the
    administrator, use hand-over instead. A contract in which the wallet already has the role is
    left unchanged.
    """
    granted, account = parse_role(role), parse_recipient(address)
    sender.carry_out(
        grid, lambda state, me: plans.grant(state, me, granted, account), accounts=(account,)
    )


@app.command()
@expanded()
def revoke(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="admin, matcher or contract.")],
    address: Account,
    grid: GridOptions,
    sender: SenderOptions,
) -> None:
    """Revoke a role of a wallet in every contract.

    With the role admin, contracts that are offered to the wallet are no longer offered. The last
    admin of a contract cannot lose the role. The role contract is that of MetaScheduler in the
    other contracts; status reports if another account has it.
    """
    revoked, account = parse_role(role, Role), parse_address(address)
    sender.carry_out(
        grid, lambda state, me: plans.revoke(state, me, revoked, account), accounts=(account,)
    )


@app.command(
    "set-constant",
    help=f"Set a constant of the grid and print its old and new value.\n\n\b\n{_CONSTANTS}",
)
@expanded(without={"first_block"})
def set_constant(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of the names above.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="A number, in the unit above.")],
    grid: GridOptions,
    sender: SenderOptions,
) -> None:
    """Set a constant of the grid."""
    constant = plans.find_constant(name)
    number = _parse_value(constant, value)
    sender.carry_out(
        grid,
        lambda state, me: plans.set_constant(state, me, constant, number),
        constant=constant,
    )


@app.command("open")
@expanded(without={"first_block"})
def open_(grid: GridOptions, sender: SenderOptions) -> None:
    """Open a closed set, so that it accepts new jobs again."""
    sender.carry_out(grid, lambda state, me: plans.set_open(state, me, is_open=True))


@app.command()
@expanded(without={"first_block"})
def close(grid: GridOptions, sender: SenderOptions) -> None:
    """Close a set, so that it accepts no new jobs. The jobs that it has continue."""
    sender.carry_out(grid, lambda state, me: plans.set_open(state, me, is_open=False))


@app.command()
@expanded()
def seal(grid: GridOptions, sender: SenderOptions) -> None:
    """Remove the admin of JobRepository permanently. This is irreversible.

    Afterwards nobody can grant a second contract the right to write job records, which would give
    it access to the escrow. MetaScheduler continues to write them. All other commands continue to
    work, including hand-over and take-over.
    """
    sender.carry_out(grid, plans.seal)


@app.command("hand-over")
@expanded()
def hand_over(address: Account, grid: GridOptions, sender: SenderOptions) -> None:
    """Step 1 of 2 to replace the administrator: grant the new wallet your rights.

    The new wallet becomes an admin, and the contracts that your wallet owns are offered to it. Your
    wallet keeps its rights until step 2, take-over.
    """
    new_owner = parse_recipient(address)
    sender.carry_out(
        grid, lambda state, me: plans.hand_over(state, me, new_owner), accounts=(new_owner,)
    )


@app.command("take-over")
@expanded(instead={"admin_keystore": Successor})
def take_over(grid: GridOptions, sender: SenderOptions) -> None:
    """Step 2 of 2 to replace the administrator, as the new administrator.

    The new wallet accepts the contracts that are offered to it, and revokes the role of the old
    administrator.
    """
    sender.carry_out(grid, plans.take_over)


def _parse_value(constant: Constant, text: str) -> int:
    if constant.unit == "wei":
        return parse_credits(text)
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(2**256)):
        hint = f"Give a whole number from {_range_text(constant)}, without the unit."
        raise InvalidInput(f"invalid {constant.name} {text[:80]!r}", hint=hint)
    return int(text)
