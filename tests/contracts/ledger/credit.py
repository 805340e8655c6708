# SPDX-License-Identifier: Apache-2.0
"""The model of contract Credit: balances and allowances (OpenZeppelin 4), permits (ERC-2612)."""

from __future__ import annotations

from typing import Any

from tests.contracts.ledger import permit
from tests.contracts.ledger.access import require_owner
from tests.contracts.ledger.model import MAX_UINT, ContractModel, checked_uint256, require
from tests.contracts.ledger.state import NOBODY

CREDIT = "Credit"


def transfer(model: ContractModel, to: str, amount: int) -> None:
    """Transfer credits of the caller."""
    move(model, model.sender, to, amount)


def transfer_from(model: ContractModel, source: str, to: str, amount: int) -> None:
    """Transfer credits of another account, up to the caller's allowance for this account."""
    spend(model, model.sender, source, to, amount)


def approve(model: ContractModel, spender: str, amount: int) -> None:
    """Set an allowance for the caller's credits."""
    _allow(model, model.sender, spender, amount)


def increase_allowance(model: ContractModel, spender: str, amount: int) -> None:
    """Increase an allowance for the caller's credits."""
    _allow(
        model,
        model.sender,
        spender,
        checked_uint256(allowance(model, model.sender, spender) + amount),
    )


def decrease_allowance(model: ContractModel, spender: str, amount: int) -> None:
    """Decrease an allowance for the caller's credits."""
    allowed_amount = allowance(model, model.sender, spender)
    require(allowed_amount >= amount, "ERC20: decreased allowance below zero")
    _allow(model, model.sender, spender, allowed_amount - amount)


def mint(model: ContractModel, account: str, amount: int) -> None:
    """Create credits for an account. Only the owner of Credit may do so."""
    require_owner(model, CREDIT)
    require(account != NOBODY, "ERC20: mint to the zero address")
    checked_uint256(sum(model.state.balances.values()) + amount)
    model.state.balances[account] = balance(model, account) + amount
    model.emit(CREDIT, "Transfer", NOBODY, account, amount)


def use_permit(
    model: ContractModel, owner: str, spender: str, value: int, *permit_values: Any
) -> None:
    """Set the allowance that the owner signed. ``permit_values``: deadline, v, r, s."""
    deadline, v, r, s = permit_values
    require(model.now <= deadline, "ERC20Permit: expired deadline")
    require(int.from_bytes(s) <= permit.HALF_CURVE_ORDER, "ECDSA: invalid signature 's' value")
    nonce = model.state.permits_used.get(owner, 0)
    digest = permit.digest(
        model.addresses[CREDIT], model.chain_id, (owner, spender, value, nonce, deadline)
    )
    signer = permit.signer(digest, v, r, s)
    require(signer is not None, "ECDSA: invalid signature")
    require(signer == owner, "ERC20Permit: invalid signature")
    model.state.permits_used[owner] = nonce + 1
    _allow(model, owner, spender, value)


def spend(model: ContractModel, spender: str, source: str, to: str, amount: int) -> None:
    """Transfer credits within an allowance. Reduce the allowance, unless it is unlimited."""
    allowed = allowance(model, source, spender)
    if allowed != MAX_UINT:
        require(allowed >= amount, "ERC20: insufficient allowance")
        _allow(model, source, spender, allowed - amount)
    move(model, source, to, amount)


def move(model: ContractModel, source: str, to: str, amount: int) -> None:
    """Transfer credits, without a check of rights."""
    require(source != NOBODY, "ERC20: transfer from the zero address")
    require(to != NOBODY, "ERC20: transfer to the zero address")
    require(balance(model, source) >= amount, "ERC20: transfer amount exceeds balance")
    model.state.balances[source] = balance(model, source) - amount
    model.state.balances[to] = balance(model, to) + amount
    model.emit(CREDIT, "Transfer", source, to, amount)


def balance(model: ContractModel, account: str) -> int:
    """Return the credits of an account, in wei."""
    return model.state.balances.get(account, 0)


def allowance(model: ContractModel, owner: str, spender: str) -> int:
    """Return the spender's allowance for the owner's credits, in wei."""
    return model.state.allowances.get((owner, spender), 0)


def _allow(model: ContractModel, owner: str, spender: str, amount: int) -> None:
    require(owner != NOBODY, "ERC20: approve from the zero address")
    require(spender != NOBODY, "ERC20: approve to the zero address")
    model.state.allowances[owner, spender] = amount
    model.emit(CREDIT, "Approval", owner, spender, amount)
