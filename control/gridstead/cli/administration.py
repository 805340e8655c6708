# SPDX-License-Identifier: Apache-2.0
"""`gridstead contracts`: the commands that change deployed contracts. They are idempotent."""

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
from gridstead.domain.contracts.constants import CONSTANTS, Constant, find_constant
from gridstead.domain.contracts.deployment import Role, parse_role
from gridstead.errors import InvalidInput

app = typer.Typer()

AccountAddress = Annotated[
    str,
    typer.Argument(
        metavar="ADDRESS",
        help="Address of a wallet. The checksum of a mixed-case address is checked (EIP-55).",
    ),
]
NewAdminKeystore = Annotated[
    Path, typer.Option("--admin-keystore", help="Key file of the new administrator's wallet.")
]


def _range_text(constant: Constant) -> str:
    minimum = constant_text(constant, constant.minimum)
    maximum = constant_text(constant, constant.maximum)
    return f"{minimum} to {maximum}"


def _constant_line(constant: Constant) -> str:
    return f"  {constant.name}: {constant.meaning}; {_range_text(constant)}"


_CONSTANTS_HELP = "\n".join(map(_constant_line, CONSTANTS))
_MAX_DIGITS = len(str(2**256 - 1))  # of the largest number that a contract can store


@app.command()
@expanded()
def grant(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="admin or matcher.")],
    address: AccountAddress,
    grid: GridOptions,
    sender: SenderOptions,
) -> None:
    """Grant a role to a wallet in every contract that defines the role.

    The role `matcher` allows a wallet to match jobs and approve providers. It is for the wallet of
    the meta-scheduler service. The role `admin` allows a wallet to grant roles, open and close the
    grid, and withdraw fees. To replace the administrator, use hand-over instead. If the wallet
    already has the role in a contract, this contract is not changed.
    """
    granted_role = parse_role(role)
    account = parse_recipient(address)
    sender.carry_out(
        grid,
        lambda state, admin: plans.grant(state, admin, granted_role, account),
        accounts=(account,),
    )


@app.command()
@expanded()
def revoke(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="admin, matcher or contract.")],
    address: AccountAddress,
    grid: GridOptions,
    sender: SenderOptions,
) -> None:
    """Revoke a role of a wallet in every contract.

    If the role is `admin`, the command also withdraws pending offers that would make the wallet the
    owner of a contract. The last admin of a contract cannot lose the role.

    Only the contract MetaScheduler may have the role `contract`, with which it changes the other
    contracts. `status` reports any other account that has this role. Use this command to revoke the
    role of such an account.
    """
    revoked_role = parse_role(role, Role)
    account = parse_recipient(address)
    sender.carry_out(
        grid,
        lambda state, admin: plans.revoke(state, admin, revoked_role, account),
        accounts=(account,),
    )


@app.command(
    "set-constant",
    help=f"Set a constant of the grid and print its old and new value.\n\n\b\n{_CONSTANTS_HELP}",
)
@expanded(without={"first_block"})
def set_constant(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the constant: one of the names above.")
    ],
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="New value: a number in the unit above.")
    ],
    grid: GridOptions,
    sender: SenderOptions,
) -> None:
    """Set a constant of the grid."""
    constant = find_constant(name)
    number = _parse_value(constant, value)
    sender.carry_out(
        grid,
        lambda state, admin: plans.set_constant(state, admin, constant, number),
        constant=constant,
    )


@app.command("open")
@expanded(without={"first_block"})
def open_(grid: GridOptions, sender: SenderOptions) -> None:
    """Open a closed grid: it accepts new jobs again."""
    sender.carry_out(grid, lambda state, admin: plans.set_open(state, admin, is_open=True))


@app.command()
@expanded(without={"first_block"})
def close(grid: GridOptions, sender: SenderOptions) -> None:
    """Close a grid: it accepts no new jobs. Its existing jobs continue."""
    sender.carry_out(grid, lambda state, admin: plans.set_open(state, admin, is_open=False))


@app.command()
@expanded()
def seal(grid: GridOptions, sender: SenderOptions) -> None:
    """Remove the admin of JobRepository permanently. This is irreversible.

    Afterwards no contract except MetaScheduler can have the right to write job records. A contract
    with this right could take the escrow. All other commands continue to work, including hand-over
    and take-over.
    """
    sender.carry_out(grid, plans.seal)


@app.command("hand-over")
@expanded()
def hand_over(address: AccountAddress, grid: GridOptions, sender: SenderOptions) -> None:
    """Replace the administrator, step 1 of 2: grant your rights to the new wallet.

    The new wallet becomes an admin. The contracts that your wallet owns are offered to the new
    wallet. Your wallet keeps its rights until step 2, take-over.
    """
    new_owner = parse_recipient(address)
    sender.carry_out(
        grid, lambda state, admin: plans.hand_over(state, admin, new_owner), accounts=(new_owner,)
    )


@app.command("take-over")
@expanded(instead={"admin_keystore": NewAdminKeystore})
def take_over(grid: GridOptions, sender: SenderOptions) -> None:
    """Replace the administrator, step 2 of 2: run it with the wallet of the new administrator.

    The new wallet accepts the contracts that are offered to it, and revokes the role of the old
    administrator.
    """
    sender.carry_out(grid, plans.take_over)


def _parse_value(constant: Constant, text: str) -> int:
    """Return the new value of a constant. Amounts are converted from credits to wei."""
    if constant.unit == "wei":
        return parse_credits(text)
    is_number = text.isascii() and text.isdecimal()
    if not is_number or len(text) > _MAX_DIGITS:
        hint = f"Give a whole number from {_range_text(constant)}, without the unit."
        raise InvalidInput(f"invalid {constant.name} {text[:80]!r}", hint=hint)
    return int(text)
