# SPDX-License-Identifier: Apache-2.0
"""Decides which transactions an administrator must send to change a set of contracts.

Rule 1: a change that is already in effect is not sent again. So the user can repeat an interrupted
command, which then sends the remaining transactions.

Rule 2: after every transaction each contract has an admin, except a sealed JobRepository.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from gridstead.domain.contracts.constants import Constant
from gridstead.domain.contracts.deployment import (
    NOBODY,
    ROLE_NAMES,
    SEALABLE,
    SEALED,
    TRANSFERABLE_CONTRACTS,
    GridState,
    Role,
)
from gridstead.errors import InvalidInput, NotAllowed

_REPEAT_HAND_OVER = "The current administrator must run `gridstead contracts hand-over` again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A transaction of an administrator.

    Attributes:
        contract: Name of the contract that is called.
        function: Name of the function.
        arguments: The arguments in order. A role is its name in the contract, for example
            METASCHEDULER_ROLE.
        title: What is true after the transaction.
    """

    contract: str
    function: str
    arguments: tuple[str | int, ...]
    title: str


def set_constant(
    state: GridState, sender: str, constant: Constant, value: int
) -> tuple[Change, ...]:
    """Return the changes that set a constant to a value.

    Raises:
        InvalidInput: If the value is out of bounds, or if these contracts have no such constant.
        NotAllowed: If the sender does not own Constants.
    """
    check_bounds(constant, value)
    old_value = state.constants.get(constant.name)
    if old_value is None:
        raise InvalidInput(
            f"these contracts have no {constant.name}",
            detail=f"they have {', '.join(state.constants)}",
        )
    if old_value == value:
        return ()
    owner = state.ownership("Constants").owner
    if sender != owner:
        raise NotAllowed(
            f"{sender} may not set constants", detail=f"the owner of Constants is {owner}"
        )
    setter = f"set{constant.name[0].upper()}{constant.name[1:]}"
    title = f"{constant.name} is {value} {constant.unit} instead of {old_value}"
    return (Change(contract="Constants", function=setter, arguments=(value,), title=title),)


def check_bounds(constant: Constant, value: int) -> None:
    """Check the value of a constant.

    Raises:
        InvalidInput: If the contract would refuse the value.
    """
    if not constant.minimum <= value <= constant.maximum:
        hint = f"Specify a value from {constant.minimum} to {constant.maximum} {constant.unit}."
        raise InvalidInput(
            f"invalid {constant.name} {value}", detail="it is out of bounds", hint=hint
        )


def grant(state: GridState, sender: str, role: Role, account: str) -> tuple[Change, ...]:
    """Return the changes that grant a role to an account, in every contract with that role.

    Raises:
        NotAllowed: If the sender is not admin of a contract that must be changed.
    """
    changes = tuple(_grant(state, role, account))
    _check_admin(state, sender, changes)
    return changes


def revoke(state: GridState, sender: str, role: Role, account: str) -> tuple[Change, ...]:
    """Return the changes that revoke a role of an account, in every contract with that role.

    For role ``ADMIN``, the changes also withdraw offers to make the account a contract's owner.

    Raises:
        NotAllowed: If the sender is not admin, if the account is the last admin, or if
            MetaScheduler would lose the role ``CONTRACT``.
    """
    if role is Role.CONTRACT and account == state.addresses["MetaScheduler"]:
        raise NotAllowed(
            "cannot revoke MetaScheduler's own role", detail="the contracts would stop working"
        )
    changes = tuple(_revoke(state, role, account))
    _check_admin(state, sender, changes)
    if role is Role.ADMIN:
        for change in changes:
            _check_not_last_admin(state, change.contract, account)
        changes += tuple(_withdraw_offers(state, sender, account))
    return changes


def set_open(state: GridState, sender: str, *, is_open: bool) -> tuple[Change, ...]:
    """Return the changes that open or close a set of contracts for new jobs.

    Existing jobs continue.

    Raises:
        NotAllowed: If the sender is not admin of MetaScheduler.
    """
    if state.accepts_jobs is is_open:
        return ()
    change = Change(
        contract="MetaScheduler",
        function="setEnableRequestNewJob",
        arguments=(is_open,),
        title=f"new jobs are {'accepted' if is_open else 'refused'}",
    )
    _check_admin(state, sender, (change,))
    return (change,)


def hand_over(state: GridState, sender: str, new_owner: str) -> tuple[Change, ...]:
    """Return the changes that let a new admin take over from the current admin.

    The current admin can still act until the new admin takes over.

    Raises:
        InvalidInput: If the new owner is the sender, one of the contracts or the zero address.
        NotAllowed: If the sender is not admin of a contract, or if a contract cannot be offered.
    """
    if new_owner == sender:
        raise InvalidInput(
            f"{new_owner} is the wallet that hands over",
            hint="Specify the address of the new administrator.",
        )
    if new_owner in state.addresses.values() or new_owner == NOBODY:
        raise InvalidInput(f"cannot hand over to {new_owner}", detail="it can never take over")
    changes = [*_grant(state, Role.ADMIN, new_owner), *_offer(state, sender, new_owner)]
    _check_admin(state, sender, changes)
    return tuple(changes)


def seal(state: GridState, sender: str) -> tuple[Change, ...]:
    """Return the changes that remove the last admin of JobRepository permanently.

    Afterwards only MetaScheduler can ever write to JobRepository.

    Raises:
        NotAllowed: If the sender is not admin of JobRepository, if an account other than
            MetaScheduler may write to it, or if the accounts that may write to it are not known.
    """
    _check_searched(state, f"cannot seal {SEALABLE} while its writers are not known")
    if state.is_sealed:
        return ()
    writers = state.accounts(SEALABLE, Role.CONTRACT)
    if writers != (state.addresses["MetaScheduler"],):
        accounts = ", ".join(writers) or "no account"
        detail = f"its writers are {accounts}, and sealing would make this permanent"
        hint = "Run `gridstead contracts status`: it reports what to do first."
        raise NotAllowed(f"cannot seal {SEALABLE}", detail=detail, hint=hint)
    changes: list[Change] = []
    for admin in state.accounts(SEALABLE, Role.ADMIN):
        if admin != sender:
            changes += _revoke_in(state, SEALABLE, admin)
    role = ROLE_NAMES[SEALABLE, Role.ADMIN]
    changes.append(
        Change(contract=SEALABLE, function="renounceRole", arguments=(role, sender), title=SEALED)
    )
    _check_admin(state, sender, changes)
    return tuple(changes)


def take_over(state: GridState, new_owner: str) -> tuple[Change, ...]:
    """Return the changes by which a new admin takes over from the old one.

    The new admin accepts the offered contracts and then revokes the role of the old admin. In each
    contract the old admin is the account that granted the admin role to the new admin. Admins that
    the new admin has appointed remain.

    Raises:
        NotAllowed: If the old admin has not handed over all contracts, if the old admin is not
            known, or if no change remains and a third account is still admin.
    """
    _check_searched(state, "cannot take over from an administrator who is not known")
    for contract in state.governed:
        if not state.holds(contract, Role.ADMIN, new_owner):
            raise NotAllowed(
                f"{new_owner} is not admin of {contract}",
                detail="it was not handed over",
                hint=_REPEAT_HAND_OVER,
            )
    old_admins = {contract: _old_admin(state, contract, new_owner) for contract in state.governed}
    changes = list(_accept_offers(state, new_owner, old_admins.values()))
    for contract, old_admin in old_admins.items():
        changes += _revoke_in(state, contract, old_admin)
    if not changes:
        _check_only_admin(state, new_owner)
    return tuple(changes)


# The changes that the functions above combine


def _grant(state: GridState, role: Role, account: str) -> Iterator[Change]:
    for (contract, contract_role), name in ROLE_NAMES.items():
        is_sealed = role is Role.ADMIN and contract not in state.governed
        if contract_role is not role or is_sealed or state.holds(contract, role, account):
            continue
        title = f"{account} is {role.value} of {contract}"
        yield Change(
            contract=contract, function="grantRole", arguments=(name, account), title=title
        )


def _revoke(state: GridState, role: Role, account: str) -> Iterator[Change]:
    for (contract, contract_role), name in ROLE_NAMES.items():
        if contract_role is role and state.holds(contract, role, account):
            title = f"{account} is no longer {role.value} of {contract}"
            yield Change(
                contract=contract, function="revokeRole", arguments=(name, account), title=title
            )


def _revoke_in(state: GridState, contract: str, admin: str) -> list[Change]:
    """Return the change that revokes an account's admin role in one contract."""
    return [change for change in _revoke(state, Role.ADMIN, admin) if change.contract == contract]


def _offer(state: GridState, sender: str, new_owner: str) -> Iterator[Change]:
    """Yield the offers of the contracts that the sender owns."""
    for contract in TRANSFERABLE_CONTRACTS:
        ownership = state.ownership(contract)
        if ownership.owner != sender or ownership.offered_to == new_owner:
            continue
        if ownership.offered_to is None:
            raise NotAllowed(
                f"cannot offer {contract}",
                detail="these contracts change their owner only by transferOwnership",
            )
        yield Change(
            contract=contract,
            function="offerOwnership",
            arguments=(new_owner,),
            title=f"{contract} is offered to {new_owner}",
        )


def _withdraw_offers(state: GridState, sender: str, account: str) -> Iterator[Change]:
    """Yield the withdrawals of the offers that the sender made to an account."""
    for ownership in state.owners:
        if ownership.offered_to == account and ownership.owner == sender:
            yield Change(
                contract=ownership.contract,
                function="offerOwnership",
                arguments=(NOBODY,),
                title=f"{ownership.contract} is no longer offered to {account}",
            )


def _accept_offers(
    state: GridState, new_owner: str, old_admins: Collection[str]
) -> Iterator[Change]:
    """Yield the acceptances of the offered contracts.

    Raises:
        NotAllowed: If an old admin still owns a contract and has not offered it.
    """
    for contract in TRANSFERABLE_CONTRACTS:
        ownership = state.ownership(contract)
        if ownership.offered_to == new_owner:
            title = f"{contract} belongs to {new_owner}"
            yield Change(contract=contract, function="acceptOwnership", arguments=(), title=title)
        elif ownership.owner in old_admins:
            detail = f"{contract} belongs to {ownership.owner} and is not offered"
            raise NotAllowed(
                f"{new_owner} cannot take over yet", detail=detail, hint=_REPEAT_HAND_OVER
            )


# Who is admin


def _old_admin(state: GridState, contract: str, new_owner: str) -> str:
    """Return the account that granted the admin role to the new owner.

    Returns an empty text if this account is not known, or if the new owner appointed it.
    """
    grantor = ""
    for holder in state.holders:
        if (holder.contract, holder.role, holder.account) == (contract, Role.ADMIN, new_owner):
            grantor = holder.given_by
    return "" if grantor in _appointed_admins(state, contract, new_owner) else grantor


def _appointed_admins(state: GridState, contract: str, new_owner: str) -> set[str]:
    """Return the new owner and all admins that it appointed, directly or through other admins."""
    appointed_admins: set[str] = set()
    for holder in state.holders:
        if (holder.contract, holder.role) != (contract, Role.ADMIN):
            continue
        if holder.account == new_owner or holder.given_by in appointed_admins:
            appointed_admins.add(holder.account)
    return appointed_admins


def _check_searched(state: GridState, refusal: str) -> None:
    """Raise an error if the role holders are not known, because the events were not searched."""
    if state.first_block is None:
        detail = "the events of these contracts could not be searched from their beginning"
        hint = (
            "Specify --first-block, the block of their deployment or an earlier one, or use a node "
            "that retains the events."
        )
        raise NotAllowed(refusal, detail=detail, hint=hint)


def _check_only_admin(state: GridState, new_owner: str) -> None:
    """Raise an error if a contract has an admin that the new owner did not appoint."""
    for contract in state.governed:
        appointed_admins = _appointed_admins(state, contract, new_owner)
        for admin in state.accounts(contract, Role.ADMIN):
            if admin not in appointed_admins:
                hint = f"Run `gridstead contracts revoke admin {admin}` to remove this admin."
                raise NotAllowed(f"{admin} is still admin of {contract}", hint=hint)


def _check_admin(state: GridState, sender: str, changes: Iterable[Change]) -> None:
    """Raise an error if a change needs an admin of its contract and the sender is not one.

    The owner of a contract may call ``offerOwnership`` without being its admin.
    """
    for change in changes:
        contract = change.contract
        needs_admin = change.function != "offerOwnership"
        if not needs_admin or state.holds(contract, Role.ADMIN, sender):
            continue
        message = f"{sender} is not admin of {contract}"
        if contract == SEALABLE:
            _check_searched(state, f"{message}, and it is not known whether {contract} is sealed")
        admins = ", ".join(state.accounts(contract, Role.ADMIN)) or "not known from events"
        raise NotAllowed(message, detail=f"its admin is {admins}")


def _check_not_last_admin(state: GridState, contract: str, account: str) -> None:
    other_admins = set(state.accounts(contract, Role.ADMIN)) - {account}
    if not other_admins:
        hint = "Grant the role to another wallet first, or hand over."
        raise NotAllowed(f"{account} is the last admin of {contract}", hint=hint)
