# SPDX-License-Identifier: Apache-2.0
"""Credit: balances and allowances, in the wording of OpenZeppelin 4; allowances by signature as in ERC-2612."""

from __future__ import annotations

from typing import Any

from tests.contracts.ledger import permit
from tests.contracts.ledger.access import require_owner
from tests.contracts.ledger.state import NOBODY
from tests.contracts.ledger.world import MAX_UINT, World, checked, demand

CREDIT = "Credit"


def transfer(world: World, to: str, amount: int) -> None:
    """Send credits of the caller."""
    move(world, world.sender, to, amount)


def transfer_from(world: World, source: str, to: str, amount: int) -> None:
    """Send credits of another that he allowed the caller."""
    spend(world, world.sender, source, to, amount)


def approve(world: World, spender: str, amount: int) -> None:
    """Allow credits of the caller."""
    _allow(world, world.sender, spender, amount)


def increase_allowance(world: World, spender: str, amount: int) -> None:
    """Allow more."""
    _allow(world, world.sender, spender, checked(allowance(world, world.sender, spender) + amount))


def decrease_allowance(world: World, spender: str, amount: int) -> None:
    """Allow less."""
    allowed = allowance(world, world.sender, spender)
    demand(allowed >= amount, "ERC20: decreased allowance below zero")
    _allow(world, world.sender, spender, allowed - amount)


def mint(world: World, account: str, amount: int) -> None:
    """Make credits."""
    require_owner(world, CREDIT)
    demand(account != NOBODY, "ERC20: mint to the zero address")
    checked(sum(world.state.balances.values()) + amount)
    world.state.balances[account] = balance(world, account) + amount
    world.emit(CREDIT, "Transfer", NOBODY, account, amount)


def use_permit(world: World, owner: str, spender: str, value: int, *signed: Any) -> None:
    """Allow what the owner signed: with the deadline, and v, r and s."""
    deadline, v, r, s = signed
    demand(world.now <= deadline, "ERC20Permit: expired deadline")
    demand(int.from_bytes(s) <= permit.HALF_ORDER, "ECDSA: invalid signature 's' value")
    used = world.state.permits_used.get(owner, 0)
    digest = permit.digest(world.addresses[CREDIT], world.chain_id, (owner, spender, value, used, deadline))
    demand(permit.signer(digest, v, r, s) == owner, "ERC20Permit: invalid signature")
    world.state.permits_used[owner] = used + 1
    _allow(world, owner, spender, value)


def spend(world: World, spender: str, source: str, to: str, amount: int) -> None:
    """Send credits within an allowance; one without end is not used up."""
    allowed = allowance(world, source, spender)
    if allowed != MAX_UINT:
        demand(allowed >= amount, "ERC20: insufficient allowance")
        _allow(world, source, spender, allowed - amount)
    move(world, source, to, amount)


def move(world: World, source: str, to: str, amount: int) -> None:
    """Send credits."""
    demand(source != NOBODY, "ERC20: transfer from the zero address")
    demand(to != NOBODY, "ERC20: transfer to the zero address")
    demand(balance(world, source) >= amount, "ERC20: transfer amount exceeds balance")
    world.state.balances[source] = balance(world, source) - amount
    world.state.balances[to] = balance(world, to) + amount
    world.emit(CREDIT, "Transfer", source, to, amount)


def balance(world: World, account: str) -> int:
    """Return the credits of an account, wei."""
    return world.state.balances.get(account, 0)


def allowance(world: World, owner: str, spender: str) -> int:
    """Return what the spender may send of the owner's credits, wei."""
    return world.state.allowances.get((owner, spender), 0)


def _allow(world: World, owner: str, spender: str, amount: int) -> None:
    demand(owner != NOBODY, "ERC20: approve from the zero address")
    demand(spender != NOBODY, "ERC20: approve to the zero address")
    world.state.allowances[owner, spender] = amount
    world.emit(CREDIT, "Approval", owner, spender, amount)
