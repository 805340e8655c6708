# SPDX-License-Identifier: Apache-2.0
"""`gridstead contracts`: what an administrator changes in a set of contracts. Each wish may be repeated at any time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridstead.cli.client import Json
from gridstead.cli.contracts import (
    AdminPassword,
    ChainId,
    Contract,
    Deployment,
    DryRun,
    FirstBlock,
    RpcUrl,
    find,
    parse_recipient,
)
from gridstead.cli.contracts_output import constant_text, emit_outcome
from gridstead.cli.output import parse_credits, tell
from gridstead.domain import administration as plans
from gridstead.domain.administration import CONSTANTS, Change, Constant
from gridstead.domain.deployment import GridState, Role, parse_role
from gridstead.domain.ids import parse_address
from gridstead.errors import InvalidInput

if TYPE_CHECKING:  # the chain's library takes a second to import
    from gridstead.wiring.administration import GridContracts

app = typer.Typer()

Sender = Annotated[Path, typer.Option("--admin-keystore", help="Wallet that sends.")]
Account = Annotated[str, typer.Argument(metavar="ADDRESS", help="Wallet; capitals, if any, are checked (EIP-55).")]

_CONSTANTS = "\n".join(
    f"  {one.name}: {one.meaning}; {constant_text(one, one.least)} to {constant_text(one, one.most)}"
    for one in CONSTANTS
)


@app.command()
def grant(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="admin or matcher.")],
    address: Account,
    rpc_url: RpcUrl,
    admin_keystore: Sender,
    admin_password_file: AdminPassword,
    contract: Contract = None,
    deployment: Deployment = None,
    chain_id: ChainId = None,
    first_block: FirstBlock = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Give a wallet a role in every contract that knows it; nothing is sent where it has it.

    A matcher matches jobs and approves providers: the wallet of the meta-scheduler service. An admin gives roles,
    closes the set and withdraws fees; to replace the administrator use hand-over instead.
    """
    wanted, account = parse_role(role), parse_recipient(address)
    sender = _Sender(admin_keystore, admin_password_file, dry_run, as_json)
    grid = find(rpc_url, chain_id, contract, deployment, first_block)
    sender.carry_out(grid, lambda s, me: plans.grant(s, me, wanted, account), accounts=(account,))


@app.command()
def revoke(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="admin, matcher or contract.")],
    address: Account,
    rpc_url: RpcUrl,
    admin_keystore: Sender,
    admin_password_file: AdminPassword,
    contract: Contract = None,
    deployment: Deployment = None,
    chain_id: ChainId = None,
    first_block: FirstBlock = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Take a role from a wallet in every contract; with the admin's role also what was offered to it.

    The last admin of a contract cannot lose the role. "contract" is what MetaScheduler itself is in the contracts
    behind it: status says if anybody else has it.
    """
    wanted, account = parse_role(role, Role), parse_address(address)
    sender = _Sender(admin_keystore, admin_password_file, dry_run, as_json)
    grid = find(rpc_url, chain_id, contract, deployment, first_block)
    sender.carry_out(grid, lambda s, me: plans.revoke(s, me, wanted, account), accounts=(account,))


@app.command("set-constant", help=f"Set a number of the grid and show the old and the new one.\n\n\b\n{_CONSTANTS}")
def set_constant(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of the above.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="In the unit that is given there.")],
    rpc_url: RpcUrl,
    admin_keystore: Sender,
    admin_password_file: AdminPassword,
    contract: Contract = None,
    deployment: Deployment = None,
    chain_id: ChainId = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Set a number of the grid."""
    constant = plans.find_constant(name)
    number = _parse_value(constant, value)
    sender = _Sender(admin_keystore, admin_password_file, dry_run, as_json)
    grid = find(rpc_url, chain_id, contract, deployment, None)
    sender.carry_out(grid, lambda s, me: plans.set_constant(s, me, constant, number), constant=constant)


@app.command("open")
def open_(
    rpc_url: RpcUrl,
    admin_keystore: Sender,
    admin_password_file: AdminPassword,
    contract: Contract = None,
    deployment: Deployment = None,
    chain_id: ChainId = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Let a closed set take new jobs again."""
    sender = _Sender(admin_keystore, admin_password_file, dry_run, as_json)
    grid = find(rpc_url, chain_id, contract, deployment, None)
    sender.carry_out(grid, lambda s, me: plans.set_open(s, me, is_open=True))


@app.command()
def close(
    rpc_url: RpcUrl,
    admin_keystore: Sender,
    admin_password_file: AdminPassword,
    contract: Contract = None,
    deployment: Deployment = None,
    chain_id: ChainId = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Let a set take no new jobs; those it has go on to their end."""
    sender = _Sender(admin_keystore, admin_password_file, dry_run, as_json)
    grid = find(rpc_url, chain_id, contract, deployment, None)
    sender.carry_out(grid, lambda s, me: plans.set_open(s, me, is_open=False))


@app.command()
def seal(
    rpc_url: RpcUrl,
    admin_keystore: Sender,
    admin_password_file: AdminPassword,
    contract: Contract = None,
    deployment: Deployment = None,
    chain_id: ChainId = None,
    first_block: FirstBlock = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Leave JobRepository without an admin, for good: nobody can name a second writer and reach the escrow.

    MetaScheduler stays its writer; all else goes on, hand-over and take-over too. There is no way back.
    """
    sender = _Sender(admin_keystore, admin_password_file, dry_run, as_json)
    grid = find(rpc_url, chain_id, contract, deployment, first_block)
    sender.carry_out(grid, plans.seal)


@app.command("hand-over")
def hand_over(
    address: Account,
    rpc_url: RpcUrl,
    admin_keystore: Sender,
    admin_password_file: AdminPassword,
    contract: Contract = None,
    deployment: Deployment = None,
    chain_id: ChainId = None,
    first_block: FirstBlock = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Step one of two: make another wallet admin beside yours and offer it what yours owns. Yours loses nothing yet."""
    heir = parse_recipient(address)
    sender = _Sender(admin_keystore, admin_password_file, dry_run, as_json)
    grid = find(rpc_url, chain_id, contract, deployment, first_block)
    sender.carry_out(grid, lambda s, me: plans.hand_over(s, me, heir), accounts=(heir,))


@app.command("take-over")
def take_over(
    rpc_url: RpcUrl,
    admin_keystore: Annotated[Path, typer.Option("--admin-keystore", help="The new administrator's wallet.")],
    admin_password_file: AdminPassword,
    contract: Contract = None,
    deployment: Deployment = None,
    chain_id: ChainId = None,
    first_block: FirstBlock = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Step two of two, as the new administrator: accept what is offered, then end the old one's role."""
    sender = _Sender(admin_keystore, admin_password_file, dry_run, as_json)
    grid = find(rpc_url, chain_id, contract, deployment, first_block)
    sender.carry_out(grid, plans.take_over)


class _Sender:
    """The wallet of a command, and how it is to send and to tell."""

    def __init__(self, keystore: Path, password_file: Path, dry_run: bool, as_json: bool) -> None:  # noqa: FBT001
        from gridstead.adapters.chain.wallet import keystore_address  # noqa: PLC0415 - takes a second to import

        self._files = (keystore, password_file)
        self._address = keystore_address(keystore)
        self._dry_run, self._as_json = dry_run, as_json

    def carry_out(
        self,
        grid: GridContracts,
        plan: Callable[[GridState, str], tuple[Change, ...]],
        *,
        accounts: tuple[str, ...] = (),
        constant: Constant | None = None,
    ) -> None:
        outcome = grid.carry_out(
            lambda state: plan(state, self._address), self._files, accounts=accounts, dry_run=self._dry_run, tell=tell
        )
        emit_outcome(outcome, dry_run=self._dry_run, constant=constant, as_json=self._as_json)


def _parse_value(constant: Constant, text: str) -> int:
    if constant.unit == "wei":
        return parse_credits(text)
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(2**256)):
        allowed = f"from {constant_text(constant, constant.least)} to {constant_text(constant, constant.most)}"
        hint = f"Give a whole number {allowed}, without the unit."
        raise InvalidInput(f"invalid {constant.name} {text[:80]!r}", hint=hint)
    return int(text)
