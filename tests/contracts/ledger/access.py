# SPDX-License-Identifier: Apache-2.0
"""Who is allowed: roles as in OpenZeppelin 4's AccessControl, owners as in its Ownable."""

from __future__ import annotations

from eth_utils.crypto import keccak
from tests.contracts.ledger.state import NOBODY
from tests.contracts.ledger.world import Refused, World, demand

ADMIN_ROLE = bytes(32)
META_SCHEDULER_ROLE = keccak(text="METASCHEDULER_ROLE")
CONTRACT_ROLE = keccak(text="METASCHEDULER_CONTRACT_ROLE")


def has_role(world: World, contract: str, role: bytes) -> bool:
    """Return whether the caller has a role."""
    return (contract, role, world.sender) in world.state.members


def require_role(world: World, contract: str, role: bytes) -> None:
    """Refuse a caller without the role."""
    if not has_role(world, contract, role):
        words = f"AccessControl: account {world.sender} is missing role 0x{role.hex()}"
        raise Refused("Error", words)


def require_owner(world: World, contract: str) -> None:
    """Refuse a caller that does not own the contract."""
    demand(world.sender == world.state.owners[contract], "Ownable: caller is not the owner")


def grant_role(world: World, role: bytes, account: str, *, contract: str) -> None:
    """Give a role; once is as good as twice."""
    require_role(world, contract, ADMIN_ROLE)
    if (contract, role, account) not in world.state.members:
        world.state.members |= {(contract, role, account)}
        world.emit(contract, "RoleGranted", role, account, world.sender)


def revoke_role(world: World, role: bytes, account: str, *, contract: str) -> None:
    """Take a role."""
    require_role(world, contract, ADMIN_ROLE)
    _take(world, contract, role, account)


def renounce_role(world: World, role: bytes, account: str, *, contract: str) -> None:
    """Give up the caller's own role."""
    demand(account == world.sender, "AccessControl: can only renounce roles for self")
    _take(world, contract, role, account)


def _take(world: World, contract: str, role: bytes, account: str) -> None:
    if (contract, role, account) in world.state.members:
        world.state.members -= {(contract, role, account)}
        world.emit(contract, "RoleRevoked", role, account, world.sender)


def offer_ownership(world: World, account: str, *, contract: str) -> None:
    """Offer the contract, in place of an earlier offer."""
    require_owner(world, contract)
    world.state.offers[contract] = account
    world.emit(contract, "OwnershipOffered", world.sender, account)


def accept_ownership(world: World, *, contract: str) -> None:
    """Take a contract that was offered."""
    offered = world.state.offers.get(contract, NOBODY)
    demand(world.sender == offered, "Ownable2Step: caller is not the new owner")
    _own(world, contract, world.sender)


def transfer_ownership(world: World, account: str, *, contract: str) -> None:
    """Give the contract away at once."""
    require_owner(world, contract)
    demand(account != NOBODY, "Ownable: new owner is the zero address")
    _own(world, contract, account)


def renounce_ownership(world: World, *, contract: str) -> None:
    """Leave the contract without an owner."""
    require_owner(world, contract)
    _own(world, contract, NOBODY)


def _own(world: World, contract: str, account: str) -> None:
    world.emit(contract, "OwnershipTransferred", world.state.owners[contract], account)
    world.state.owners[contract] = account
    world.state.offers.pop(contract, None)


def refuse_strangers(world: World, *_: object, contract: str, role: bytes) -> None:
    """Refuse everybody: only another contract of the grid has the role, and it never calls from outside."""
    require_role(world, contract, role)
    raise AssertionError(f"{world.sender} has a role in {contract} that no account may have")


def refuse_non_owners(world: World, *_: object, contract: str) -> None:
    """Refuse everybody: another contract of the grid is the owner."""
    require_owner(world, contract)
    raise AssertionError(f"{world.sender} owns {contract}, which no account may")
