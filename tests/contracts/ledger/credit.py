# SPDX-License-Identifier: Apache-2.0
"""Credit: balances and allowances with the errors of OpenZeppelin 4, and permits (ERC-2612)."""

from __future__ import annotations

from typing import Any

from tests.contracts.ledger import permit
from tests.contracts.ledger.access import require_owner
from tests.contracts.ledger.model import MAX_UINT, ContractModel, checked, demand
from tests.contracts.ledger.state import NOBODY

CREDIT = "Credit"


def transfer(model: ContractModel, to: str, amount: int) -> None:
    """Transfer credits of the caller."""
    move(model, model.sender, to, amount)


def transfer_from(model: ContractModel, source: str, to: str, amount: int) -> None:
    """Transfer credits of another account from the caller's allowance."""
    spend(model, model.sender, source, to, amount)


def approve(model: ContractModel, spender: str, amount: int) -> None:
    """Set an allowance for the caller's credits."""
    _allow(model, model.sender, spender, amount)


def increase_allowance(model: ContractModel, spender: str, amount: int) -> None:
    """Increase an allowance."""
    _allow(model, model.sender, spender, checked(allowance(model, model.sender, spender) + amount))


def decrease_allowance(model: ContractModel, spender: str, amount: int) -> None:
    """Decrease an allowance."""
    allowed = allowance(model, model.sender, spender)
    demand(allowed >= amount, "ERC20: decreased allowance below zero")
    _allow(model, model.sender, spender, allowed - amount)


def mint(model: ContractModel, account: str, amount: int) -> None:
    """Mint credits."""
    require_owner(model, CREDIT)
    demand(account != NOBODY, "ERC20: mint to the zero address")
    checked(sum(model.state.balances.values()) + amount)
    model.state.balances[account] = balance(model, account) + amount
    model.emit(CREDIT, "Transfer", NOBODY, account, amount)


def use_permit(model: ContractModel, owner: str, spender: str, value: int, *signed: Any) -> None:
    """Set the allowance that the owner signed; ``signed`` is deadline, v, r and s."""
    deadline, v, r, s = signed
    demand(model.now <= deadline, "ERC20Permit: expired deadline")
    demand(int.from_bytes(s) <= permit.HALF_ORDER, "ECDSA: invalid signature 's' value")
    used = model.state.permits_used.get(owner, 0)
    digest = permit.digest(
        model.addresses[CREDIT], model.chain_id, (owner, spender, value, used, deadline)
    )
    demand(permit.signer(digest, v, r, s) == owner, "ERC20Permit: invalid signature")
    model.state.permits_used[owner] = used + 1
    _allow(model, owner, spender, value)


def spend(model: ContractModel, spender: str, source: str, to: str, amount: int) -> None:
    """Transfer credits from an allowance; an unlimited allowance is not reduced."""
    allowed = allowance(model, source, spender)
    if allowed != MAX_UINT:
        demand(allowed >= amount, "ERC20: insufficient allowance")
        _allow(model, source, spender, allowed - amount)
    move(model, source, to, amount)


def move(model: ContractModel, source: str, to: str, amount: int) -> None:
    """Transfer credits."""
    demand(source != NOBODY, "ERC20: transfer from the zero address")
    demand(to != NOBODY, "ERC20: transfer to the zero address")
    demand(balance(model, source) >= amount, "ERC20: transfer amount exceeds balance")
    model.state.balances[source] = balance(model, source) - amount
    model.state.balances[to] = balance(model, to) + amount
    model.emit(CREDIT, "Transfer", source, to, amount)


def balance(model: ContractModel, account: str) -> int:
    """Return the credits of an account, wei."""
    return model.state.balances.get(account, 0)


def allowance(model: ContractModel, owner: str, spender: str) -> int:
    """Return the spender's allowance for the owner's credits, wei."""
    return model.state.allowances.get((owner, spender), 0)


def _allow(model: ContractModel, owner: str, spender: str, amount: int) -> None:
    demand(owner != NOBODY, "ERC20: approve from the zero address")
    demand(spender != NOBODY, "ERC20: approve to the zero address")
    model.state.allowances[owner, spender] = amount
    model.emit(CREDIT, "Approval", owner, spender, amount)
