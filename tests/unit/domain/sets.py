# SPDX-License-Identifier: Apache-2.0
"""A set of contracts as values, whole unless a test says otherwise, and a chain that carries
changes out on it.
"""

from dataclasses import replace

from gridstead.domain.deployment import (
    SEALABLE,
    SEATS,
    Code,
    Escrow,
    GridState,
    Holder,
    Ownership,
    Placed,
    Role,
)

OLD, NEW, MATCHER, IMPOSTOR = ("0x" + digit * 40 for digit in "abcd")
ADDRESSES = {
    name: f"0x{number:040x}"
    for number, name in enumerate(
        (
            "MetaScheduler",
            "JobRepository",
            "ProviderManager",
            "ProviderJobQueues",
            "Constants",
            "Credit",
        ),
        1,
    )
}
GRID = ADDRESSES["MetaScheduler"]
OF_ROLE = {Role.ADMIN: OLD, Role.MATCHER: MATCHER, Role.CONTRACT: GRID}
HOLDERS = tuple(
    Holder(contract=contract, role=role, account=OF_ROLE[role], given_by=OLD)
    for contract, role in SEATS
)
SEALED_SEAT = (SEALABLE, Role.ADMIN)
ROLE_OF = {(contract, name): role for (contract, role), name in SEATS.items()}


def state(**changed):
    """Return a set that is whole, and sealed as a deployment leaves it."""
    values = {
        "chain_id": 1,
        "block": 10,
        "version": "2.0.0",
        "first_block": 1,
        "placed": tuple(
            Placed(contract=name, address=where, code=Code.OURS)
            for name, where in ADDRESSES.items()
        ),
        "holders": tuple(one for one in HOLDERS if (one.contract, one.role) != SEALED_SEAT),
        "owners": (
            Ownership(contract="Constants", owner=OLD, offered_to=""),
            Ownership(contract="Credit", owner=OLD, offered_to=""),
            Ownership(contract="ProviderJobQueues", owner=GRID, offered_to=""),
        ),
        "constants": {"minimumAmount": 100, "deepsquareCut": 20},
        "accepts_jobs": True,
        "fees": 5,
        "queues_jobs": ADDRESSES["JobRepository"],
        "escrow": Escrow(balance=105, escrowed=100, fees=5, jobs=3, hot_jobs=1),
    }
    return GridState(**(values | changed))


def unsealed(**changed):
    """Return a set that is whole but for an admin of JobRepository, who has not resigned."""
    return state(holders=HOLDERS, **changed)


def owned(found, contract, **changed):
    """Return the set with another ownership."""
    owners = tuple(
        replace(one, **changed) if one.contract == contract else one for one in found.owners
    )
    return replace(found, owners=owners)


def without(found, contract, role, account):
    """Return the set where an account does not hold a role."""
    gone = (contract, role, account)
    return replace(
        found, holders=tuple(h for h in found.holders if (h.contract, h.role, h.account) != gone)
    )


def given(found, contract, role, account, by=OLD):
    """Return the set where an account holds a role."""
    rest = without(found, contract, role, account).holders
    return replace(
        found, holders=(*rest, Holder(contract=contract, role=role, account=account, given_by=by))
    )


def apply(found, change, sender):
    """Return the set after a change, if the contracts let its sender make it."""
    if change.function in {"grantRole", "revokeRole", "renounceRole"}:
        name, account = change.arguments
        role = ROLE_OF[change.contract, name]
        assert found.holds(change.contract, Role.ADMIN, sender)
        if change.function == "grantRole":
            return given(found, change.contract, role, account, by=sender)
        assert change.function == "revokeRole" or account == sender
        return without(found, change.contract, role, account)
    before = found.ownership(change.contract) if change.contract != "MetaScheduler" else None
    if change.function == "offerOwnership":
        assert before.owner == sender
        offered = change.arguments[0]
        return owned(found, change.contract, offered_to="" if int(offered, 16) == 0 else offered)
    if change.function == "acceptOwnership":
        assert before.offered_to == sender
        return owned(found, change.contract, owner=sender, offered_to="")
    assert change.function == "setEnableRequestNewJob"
    return replace(found, accepts_jobs=change.arguments[0])
