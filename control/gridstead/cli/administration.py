# SPDX-License-Identifier: Apache-2.0
"""`gridstead contracts`: what an administrator changes in a set of contracts. Each wish may be
repeated at any time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridstead.cli.contracts import parse_recipient
from gridstead.cli.contracts_options import GridOptions, SenderOptions
from gridstead.cli.contracts_output import constant_text
from gridstead.cli.option_groups import expanded
from gridstead.cli.output import parse_credits
from gridstead.domain import administration as plans
from gridstead.domain.administration import CONSTANTS, Constant
from gridstead.domain.deployment import Role, parse_role
from gridstead.domain.ids import parse_address
from gridstead.errors import InvalidInput

app = typer.Typer()

Account = Annotated[
    str, typer.Argument(metavar="ADDRESS", help="Wallet; capitals, if any, are checked (EIP-55).")
]
Successor = Annotated[
    Path, typer.Option("--admin-keystore", help="The new administrator's wallet.")
]

_CONSTANTS = "\n".join(
    f"  {one.name}: {one.meaning}; {constant_text(one, one.least)} to {constant_text(one, one.most)}"
    for one in CONSTANTS
)


@app.command()
@expanded()
def grant(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="admin or matcher.")],
    address: Account,
    grid: GridOptions,
    sender: SenderOptions,
) -> None:
    """Give a wallet a role in every contract that knows it; nothing is sent where it has it.

    A matcher matches jobs and approves providers: the wallet of the meta-scheduler service. An
    admin gives roles, closes the set and withdraws fees; to replace the administrator use hand-over
    instead.
    """
    wanted, account = parse_role(role), parse_recipient(address)
    sender.carry_out(grid, lambda s, me: plans.grant(s, me, wanted, account), accounts=(account,))


@app.command()
@expanded()
def revoke(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="admin, matcher or contract.")],
    address: Account,
    grid: GridOptions,
    sender: SenderOptions,
) -> None:
    """Take a role from a wallet in every contract; with the admin's role also what was offered to
    it.

    The last admin of a contract cannot lose the role. "contract" is what MetaScheduler itself is in
    the contracts behind it: status says if anybody else has it.
    """
    wanted, account = parse_role(role, Role), parse_address(address)
    sender.carry_out(grid, lambda s, me: plans.revoke(s, me, wanted, account), accounts=(account,))


@app.command(
    "set-constant",
    help=f"Set a number of the grid and show the old and the new one.\n\n\b\n{_CONSTANTS}",
)
@expanded(without={"first_block"})
def set_constant(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of the above.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="In the unit that is given there.")],
    grid: GridOptions,
    sender: SenderOptions,
) -> None:
    """Set a number of the grid."""
    constant = plans.find_constant(name)
    number = _parse_value(constant, value)
    sender.carry_out(
        grid, lambda s, me: plans.set_constant(s, me, constant, number), constant=constant
    )


@app.command("open")
@expanded(without={"first_block"})
def open_(grid: GridOptions, sender: SenderOptions) -> None:
    """Let a closed set take new jobs again."""
    sender.carry_out(grid, lambda s, me: plans.set_open(s, me, is_open=True))


@app.command()
@expanded(without={"first_block"})
def close(grid: GridOptions, sender: SenderOptions) -> None:
    """Let a set take no new jobs; those it has go on to their end."""
    sender.carry_out(grid, lambda s, me: plans.set_open(s, me, is_open=False))


@app.command()
@expanded()
def seal(grid: GridOptions, sender: SenderOptions) -> None:
    """Leave JobRepository without an admin, for good: nobody can name a second writer and reach the
    escrow.

    MetaScheduler stays its writer; all else goes on, hand-over and take-over too. There is no way
    back.
    """
    sender.carry_out(grid, plans.seal)


@app.command("hand-over")
@expanded()
def hand_over(address: Account, grid: GridOptions, sender: SenderOptions) -> None:
    """Step one of two: make another wallet admin beside yours and offer it what yours owns. Yours
    loses nothing yet.
    """
    new_owner = parse_recipient(address)
    sender.carry_out(grid, lambda s, me: plans.hand_over(s, me, new_owner), accounts=(new_owner,))


@app.command("take-over")
@expanded(instead={"admin_keystore": Successor})
def take_over(grid: GridOptions, sender: SenderOptions) -> None:
    """Step two of two, as the new administrator: accept what is offered, then end the old one's
    role.
    """
    sender.carry_out(grid, plans.take_over)


def _parse_value(constant: Constant, text: str) -> int:
    if constant.unit == "wei":
        return parse_credits(text)
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(2**256)):
        allowed = f"from {constant_text(constant, constant.least)} to {constant_text(constant, constant.most)}"
        hint = f"Give a whole number {allowed}, without the unit."
        raise InvalidInput(f"invalid {constant.name} {text[:80]!r}", hint=hint)
    return int(text)
