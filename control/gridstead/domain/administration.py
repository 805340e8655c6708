# SPDX-License-Identifier: Apache-2.0
"""What an administrator's wish changes in a set of contracts: the transactions that are still
missing, in their order.

Rule 1: what is already so is not sent again, so every plan can be made anew after a break and is
then the rest.
Rule 2: each contract has an admin after every single step, but for a JobRepository that is sealed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from gridstead.domain.deployment import (
    HANDED_OVER,
    NOBODY,
    SEALABLE,
    SEALED,
    SEATS,
    GridState,
    Role,
)
from gridstead.errors import InvalidInput, NotAllowed

MINUTES = 5_256_000  # in ten years
DAY = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A number that the owner of Constants may set; both bounds are allowed.

    Source: contracts/src/Constants.sol, compared by tests/adapters/chain/test_administration.py.
    """

    name: str
    unit: str
    least: int
    most: int
    meaning: str


CONSTANTS = (
    Constant(
        name="minimumAmount",
        unit="wei",
        least=1,
        most=2**128 - 1,
        meaning="least lock of a new job",
    ),
    Constant(
        name="deepsquareCut",
        unit="percent",
        least=0,
        most=100,
        meaning="the grid's fee, of a job's cost",
    ),
    Constant(
        name="claimJobTimeout",
        unit="blocks",
        least=1,
        most=10**6,
        meaning="a match unclaimed so long expires",
    ),
    Constant(
        name="startTimeout",
        unit="s",
        least=4 * DAY,
        most=90 * DAY,
        meaning="a claimed job unstarted so long expires",
    ),
    Constant(
        name="settleGrace",
        unit="s",
        least=4 * DAY,
        most=30 * DAY,
        meaning="a job unsettled so long after its paid time or cancellation expires",
    ),
    Constant(
        name="topUpSliceDurationMin",
        unit="min",
        least=1,
        most=MINUTES,
        meaning="what a delegated top-up buys",
    ),
    Constant(
        name="billDurationDeltaMinute",
        unit="min",
        least=0,
        most=MINUTES,
        meaning="kept for old readers, unused",
    ),
    Constant(
        name="cancellationFeeMinute",
        unit="min",
        least=0,
        most=MINUTES,
        meaning="kept for old readers, unused",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A transaction of an administrator.

    Attributes:
        contract: Name of the contract that is called.
        function: Its function.
        arguments: In order; a role is its name in the contract, as METASCHEDULER_ROLE.
        title: What is true afterwards.
    """

    contract: str
    function: str
    arguments: tuple[str | int, ...]
    title: str


def find_constant(text: str) -> Constant:
    """Return a constant by name; case and dashes do not matter.

    Raises:
        InvalidInput: There is none of that name.
    """
    known = {one.name.lower(): one for one in CONSTANTS}
    wanted = text.strip().replace("-", "").replace("_", "").lower()
    if wanted in known:
        return known[wanted]
    close = difflib.get_close_matches(wanted, known, n=1)
    guess = f"Did you mean {known[close[0]].name}? " if close else ""
    names = ", ".join(one.name for one in CONSTANTS)
    raise InvalidInput(f"invalid constant {text[:80]!r}", hint=f"{guess}Give one of: {names}.")


def set_constant(
    state: GridState, sender: str, constant: Constant, value: int
) -> tuple[Change, ...]:
    """Return what gives a constant a value.

    Raises:
        InvalidInput: The value is out of bounds, or these contracts have no such constant.
        NotAllowed: The sender does not own Constants.
    """
    if not constant.least <= value <= constant.most:
        hint = f"Give a value from {constant.least} to {constant.most} {constant.unit}."
        raise InvalidInput(
            f"invalid {constant.name} {value}", detail="it is out of bounds", hint=hint
        )
    old = state.constants.get(constant.name)
    if old is None:
        raise InvalidInput(
            f"these contracts have no {constant.name}",
            detail=f"they have {', '.join(state.constants)}",
        )
    if old == value:
        return ()
    owner = state.ownership("Constants").owner
    if sender != owner:
        raise NotAllowed(
            f"{sender} may not set constants", detail=f"the owner of Constants is {owner}"
        )
    setter = f"set{constant.name[0].upper()}{constant.name[1:]}"
    title = f"{constant.name} is {value} {constant.unit} instead of {old}"
    return (Change(contract="Constants", function=setter, arguments=(value,), title=title),)


def grant(state: GridState, sender: str, role: Role, account: str) -> tuple[Change, ...]:
    """Return what gives an account a role in every contract that knows it.

    Raises:
        NotAllowed: The sender is not admin of a contract that would have to be changed.
    """
    changes = tuple(_grant(state, role, account))
    _check_admin(state, sender, changes)
    return changes


def revoke(state: GridState, sender: str, role: Role, account: str) -> tuple[Change, ...]:
    """Return what takes a role from an account in every contract that knows it, and an offer with
    the admin's role.

    Raises:
        NotAllowed: The sender is not admin; or it is the last admin's role, or MetaScheduler's own.
    """
    if role is Role.CONTRACT and account == state.addresses["MetaScheduler"]:
        raise NotAllowed(
            "cannot take its role from MetaScheduler", detail="nothing would work any more"
        )
    changes = tuple(_revoke(state, role, account))
    _check_admin(state, sender, changes)
    if role is Role.ADMIN:
        for change in changes:
            _check_not_last(state, change.contract, account)
        withdrawn = [
            o.contract for o in state.owners if o.offered_to == account and o.owner == sender
        ]
        changes += tuple(
            Change(
                contract=contract,
                function="offerOwnership",
                arguments=(NOBODY,),
                title=f"{contract} is offered to {account} no more",
            )
            for contract in withdrawn
        )
    return changes


def set_open(state: GridState, sender: str, *, is_open: bool) -> tuple[Change, ...]:
    """Return what lets new jobs in or keeps them out; those that are there go on either way.

    Raises:
        NotAllowed: The sender is not admin of MetaScheduler.
    """
    if state.accepts_jobs is is_open:
        return ()
    title = f"new jobs are {'taken' if is_open else 'refused'}"
    change = Change(
        contract="MetaScheduler",
        function="setEnableRequestNewJob",
        arguments=(is_open,),
        title=title,
    )
    _check_admin(state, sender, (change,))
    return (change,)


def hand_over(state: GridState, sender: str, new_owner: str) -> tuple[Change, ...]:
    """Return what the present admin must do so that another one can take over; both can act until
    it does.

    Raises:
        InvalidInput: The heir is the sender or one of the contracts.
        NotAllowed: The sender is not admin of a contract, owns none, or the contracts cannot be
            offered.
    """
    if new_owner == sender:
        raise InvalidInput(
            f"{new_owner} is the wallet that hands over",
            hint="Give the address of the new administrator.",
        )
    if new_owner in state.addresses.values() or new_owner == NOBODY:
        raise InvalidInput(f"cannot hand over to {new_owner}", detail="it can never take over")
    changes = list(_grant(state, Role.ADMIN, new_owner))
    for contract in HANDED_OVER:
        ownership = state.ownership(contract)
        if ownership.owner != sender or ownership.offered_to == new_owner:
            continue
        if ownership.offered_to is None:
            raise NotAllowed(
                f"cannot offer {contract}",
                detail="these contracts change hands by transferOwnership only",
            )
        title = f"{contract} is offered to {new_owner}"
        changes.append(
            Change(
                contract=contract, function="offerOwnership", arguments=(new_owner,), title=title
            )
        )
    _check_admin(state, sender, changes)
    return tuple(changes)


def seal(state: GridState, sender: str) -> tuple[Change, ...]:
    """Return what leaves JobRepository without an admin for good, so that MetaScheduler stays its
    only writer.

    Raises:
        NotAllowed: The sender is not its admin, or the writers are not as they must stay, or not
            known.
    """
    _check_known(state, f"cannot seal {SEALABLE} while its writers are not known")
    writers, grid = state.accounts(SEALABLE, Role.CONTRACT), state.addresses["MetaScheduler"]
    if state.is_sealed:
        return ()
    if writers != (grid,):
        detail = f"its writers are {', '.join(writers) or 'nobody'}, and that would be for good"
        hint = "Run `gridstead contracts status`: it says what to do first."
        raise NotAllowed(f"cannot seal {SEALABLE}", detail=detail, hint=hint)
    others = [one for one in state.accounts(SEALABLE, Role.ADMIN) if one != sender]
    changes = [
        one
        for other in others
        for one in _revoke(state, Role.ADMIN, other)
        if one.contract == SEALABLE
    ]
    role = SEATS[SEALABLE, Role.ADMIN]
    changes.append(
        Change(contract=SEALABLE, function="renounceRole", arguments=(role, sender), title=SEALED)
    )
    _check_admin(state, sender, changes)
    return tuple(changes)


def take_over(state: GridState, new_owner: str) -> tuple[Change, ...]:
    """Return what the new admin must do: accept what is offered, then take the old one's role.

    The old admin is, contract by contract, who gave the heir its role. Admins whom the heir made
    since stay; with any other one the contracts are not taken over, and when nothing is left to
    send that is said.

    Raises:
        NotAllowed: The present admin has not handed over everything yet, or it is not known who
            that is, nothing is to be sent then; or somebody else is still admin.
    """
    hint = "The present administrator runs `gridstead contracts hand-over` again."
    _check_known(state, "cannot take over from an administrator who is not known")
    for contract in state.governed:
        if not state.holds(contract, Role.ADMIN, new_owner):
            raise NotAllowed(
                f"{new_owner} is not admin of {contract}",
                detail="it was not handed over",
                hint=hint,
            )
    givers = {c: _giver(state, c, new_owner) for c in state.governed}
    changes = []
    for contract in HANDED_OVER:
        ownership = state.ownership(contract)
        if ownership.offered_to == new_owner:
            title = f"{contract} belongs to {new_owner}"
            changes.append(
                Change(contract=contract, function="acceptOwnership", arguments=(), title=title)
            )
        elif ownership.owner in givers.values():
            detail = f"{contract} belongs to {ownership.owner} and is not offered"
            raise NotAllowed(f"{new_owner} cannot take over yet", detail=detail, hint=hint)
    for contract, old in givers.items():
        changes += [one for one in _revoke(state, Role.ADMIN, old) if one.contract == contract]
    if not changes:
        _check_alone(state, new_owner)
    return tuple(changes)


def _giver(state: GridState, contract: str, new_owner: str) -> str:
    """Return who made the heir admin and is one still, empty if nobody."""
    giver = next(
        h.given_by
        for h in state.holders
        if (h.contract, h.role, h.account) == (contract, Role.ADMIN, new_owner)
    )
    return "" if giver in _appointed(state, contract, new_owner) else giver


def _appointed(state: GridState, contract: str, new_owner: str) -> set[str]:
    """Return the heir and the admins who have their role from it: given by it, or by one of those,
    since it has it.
    """
    admins = [one for one in state.holders if (one.contract, one.role) == (contract, Role.ADMIN)]
    appointed: set[str] = set()
    for one in admins:
        if one.account == new_owner or one.given_by in appointed:
            appointed.add(one.account)
    return appointed


def _check_known(state: GridState, refusal: str) -> None:
    if state.first_block is None:
        detail = "the events of these contracts could not be searched from their beginning"
        hint = "Give --first-block, the block of their deployment or one before it, or ask a node that keeps events."
        raise NotAllowed(refusal, detail=detail, hint=hint)


def _check_alone(state: GridState, new_owner: str) -> None:
    for contract in state.governed:
        for other in state.accounts(contract, Role.ADMIN):
            if other not in _appointed(state, contract, new_owner):
                hint = f"Run `gridstead contracts revoke admin {other}`, if it is not to stay admin beside you."
                raise NotAllowed(f"{other} is still admin of {contract}", hint=hint)


def _grant(state: GridState, role: Role, account: str) -> Iterator[Change]:
    for (contract, seat), name in SEATS.items():
        is_over = role is Role.ADMIN and contract not in state.governed
        if seat is role and not is_over and not state.holds(contract, role, account):
            title = f"{account} is {role.value} of {contract}"
            yield Change(
                contract=contract, function="grantRole", arguments=(name, account), title=title
            )


def _revoke(state: GridState, role: Role, account: str) -> Iterator[Change]:
    for (contract, seat), name in SEATS.items():
        if seat is role and state.holds(contract, role, account):
            title = f"{account} is {role.value} of {contract} no more"
            yield Change(
                contract=contract, function="revokeRole", arguments=(name, account), title=title
            )


def _check_admin(state: GridState, sender: str, changes: tuple[Change, ...] | list[Change]) -> None:
    for change in changes:
        if change.function != "offerOwnership" and not state.holds(
            change.contract, Role.ADMIN, sender
        ):
            if change.contract == SEALABLE:
                _check_known(
                    state,
                    f"{sender} is not admin of {SEALABLE}, and whether that is sealed is not known",
                )
            admins = (
                ", ".join(state.accounts(change.contract, Role.ADMIN))
                or "nobody that events tell of"
            )
            raise NotAllowed(
                f"{sender} is not admin of {change.contract}", detail=f"its admin is {admins}"
            )


def _check_not_last(state: GridState, contract: str, account: str) -> None:
    if set(state.accounts(contract, Role.ADMIN)) <= {account}:
        hint = "Grant the role to another wallet first, or hand over."
        raise NotAllowed(f"{account} is the last admin of {contract}", hint=hint)
