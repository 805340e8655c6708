# SPDX-License-Identifier: Apache-2.0
"""Model of the callers' rights: the roles and owners of OpenZeppelin 4's contracts.

These contracts are AccessControl and Ownable.
"""

from __future__ import annotations

from eth_utils.crypto import keccak
from tests.contracts.ledger.model import ContractModel, Refused, require
from tests.contracts.ledger.state import NOBODY

ADMIN_ROLE = bytes(32)
META_SCHEDULER_ROLE = keccak(text="METASCHEDULER_ROLE")
CONTRACT_ROLE = keccak(text="METASCHEDULER_CONTRACT_ROLE")


def has_role(model: ContractModel, contract: str, role: bytes) -> bool:
    """Return whether the caller has a role."""
    return (contract, role, model.sender) in model.state.members


def require_role(model: ContractModel, contract: str, role: bytes) -> None:
    """Refuse a caller without the role."""
    if not has_role(model, contract, role):
        message = f"AccessControl: account {model.sender} is missing role 0x{role.hex()}"
        raise Refused("Error", message)


def require_owner(model: ContractModel, contract: str) -> None:
    """Refuse a caller that is not the owner of the contract."""
    require(model.sender == model.state.owners[contract], "Ownable: caller is not the owner")


def grant_role(model: ContractModel, role: bytes, account: str, *, contract: str) -> None:
    """Grant a role. The grant of a role that the account already has changes nothing."""
    require_role(model, contract, ADMIN_ROLE)
    if (contract, role, account) not in model.state.members:
        model.state.members |= {(contract, role, account)}
        model.emit(contract, "RoleGranted", role, account, model.sender)


def revoke_role(model: ContractModel, role: bytes, account: str, *, contract: str) -> None:
    """Revoke a role."""
    require_role(model, contract, ADMIN_ROLE)
    _revoke(model, contract, role, account)


def renounce_role(model: ContractModel, role: bytes, account: str, *, contract: str) -> None:
    """Renounce a role of the caller."""
    require(account == model.sender, "AccessControl: can only renounce roles for self")
    _revoke(model, contract, role, account)


def _revoke(model: ContractModel, contract: str, role: bytes, account: str) -> None:
    if (contract, role, account) in model.state.members:
        model.state.members -= {(contract, role, account)}
        model.emit(contract, "RoleRevoked", role, account, model.sender)


def offer_ownership(model: ContractModel, account: str, *, contract: str) -> None:
    """Offer the ownership of a contract. A new offer replaces the earlier one."""
    require_owner(model, contract)
    model.state.offers[contract] = account
    model.emit(contract, "OwnershipOffered", model.sender, account)


def accept_ownership(model: ContractModel, *, contract: str) -> None:
    """Accept the ownership of a contract that the owner offered to the caller."""
    new_owner = model.state.offers.get(contract, NOBODY)
    require(model.sender == new_owner, "Ownable2Step: caller is not the new owner")
    _set_owner(model, contract, model.sender)


def transfer_ownership(model: ContractModel, account: str, *, contract: str) -> None:
    """Transfer the ownership of a contract directly. The new owner need not accept it."""
    require_owner(model, contract)
    require(account != NOBODY, "Ownable: new owner is the zero address")
    _set_owner(model, contract, account)


def renounce_ownership(model: ContractModel, *, contract: str) -> None:
    """Renounce the ownership of the contract."""
    require_owner(model, contract)
    _set_owner(model, contract, NOBODY)


def _set_owner(model: ContractModel, contract: str, account: str) -> None:
    model.emit(contract, "OwnershipTransferred", model.state.owners[contract], account)
    model.state.owners[contract] = account
    model.state.offers.pop(contract, None)


def refuse_all_accounts(model: ContractModel, *_: object, contract: str, role: bytes) -> None:
    """Refuse the caller. The one holder of the role is another contract of the grid."""
    require_role(model, contract, role)
    raise AssertionError(f"{model.sender} has a role in {contract} that no account may have")


def refuse_non_owners(model: ContractModel, *_: object, contract: str) -> None:
    """Refuse the caller. The owner is another contract of the grid."""
    require_owner(model, contract)
    raise AssertionError(f"{model.sender} owns {contract}, which no account may own")
