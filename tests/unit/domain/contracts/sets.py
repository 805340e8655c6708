# SPDX-License-Identifier: Apache-2.0
"""Sets of contracts as values, and a simulation of the changes that their functions make.

A set is correct unless a test changes it.
"""

from dataclasses import replace

from gridstead.domain.contracts.deployment import (
    ROLE_NAMES,
    SEALABLE,
    Code,
    DeployedContract,
    Escrow,
    GridState,
    Holder,
    Ownership,
    Role,
)

OLD, NEW, MATCHER, OUTSIDER = ("0x" + digit * 40 for digit in "abcd")
ADDRESSES = {
    "MetaScheduler": f"0x{1:040x}",
    "JobRepository": f"0x{2:040x}",
    "ProviderManager": f"0x{3:040x}",
    "ProviderJobQueues": f"0x{4:040x}",
    "Constants": f"0x{5:040x}",
    "Credit": f"0x{6:040x}",
}
GRID = ADDRESSES["MetaScheduler"]
ACCOUNT_OF = {Role.ADMIN: OLD, Role.MATCHER: MATCHER, Role.CONTRACT: GRID}
HOLDERS = tuple(
    Holder(contract=contract, role=role, account=ACCOUNT_OF[role], given_by=OLD)
    for contract, role in ROLE_NAMES
)
SEALED_ROLE = (SEALABLE, Role.ADMIN)
ROLE_OF = {(contract, name): role for (contract, role), name in ROLE_NAMES.items()}


def state(**changed):
    """Return a correct set that is sealed, as a deployment leaves it."""
    values = {
        "chain_id": 1,
        "block": 10,
        "version": "2.0.0",
        "first_block": 1,
        "contracts": tuple(
            DeployedContract(contract=name, address=address, code=Code.OURS)
            for name, address in ADDRESSES.items()
        ),
        "holders": tuple(h for h in HOLDERS if (h.contract, h.role) != SEALED_ROLE),
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
    """Return a correct set whose JobRepository still has an admin."""
    return state(holders=HOLDERS, **changed)


def with_ownership(grid, contract, **changed):
    """Return the set with another owner or another offer of a contract."""
    owners = []
    for ownership in grid.owners:
        is_changed = ownership.contract == contract
        owners.append(replace(ownership, **changed) if is_changed else ownership)
    return replace(grid, owners=tuple(owners))


def without_role(grid, contract, role, account):
    """Return the set in which an account does not hold a role."""
    removed = (contract, role, account)
    holders = [h for h in grid.holders if (h.contract, h.role, h.account) != removed]
    return replace(grid, holders=tuple(holders))


def with_role(grid, contract, role, account, by=OLD):
    """Return the set in which an account holds a role."""
    others = without_role(grid, contract, role, account).holders
    holder = Holder(contract=contract, role=role, account=account, given_by=by)
    return replace(grid, holders=(*others, holder))


def apply(grid, change, sender):
    """Return the set after a change, if the contracts allow the change to its sender."""
    if change.function in {"grantRole", "revokeRole", "renounceRole"}:
        return _apply_role_change(grid, change, sender)
    if change.function == "offerOwnership":
        assert grid.ownership(change.contract).owner == sender
        offered = change.arguments[0]
        offered_to = "" if int(offered, 16) == 0 else offered
        return with_ownership(grid, change.contract, offered_to=offered_to)
    if change.function == "acceptOwnership":
        assert grid.ownership(change.contract).offered_to == sender
        return with_ownership(grid, change.contract, owner=sender, offered_to="")
    assert change.function == "setEnableRequestNewJob"
    return replace(grid, accepts_jobs=change.arguments[0])


def _apply_role_change(grid, change, sender):
    name, account = change.arguments
    role = ROLE_OF[change.contract, name]
    assert grid.holds(change.contract, Role.ADMIN, sender)
    if change.function == "grantRole":
        return with_role(grid, change.contract, role, account, by=sender)
    assert change.function == "revokeRole" or account == sender
    return without_role(grid, change.contract, role, account)


def apply_all(grid, changes, sender):
    """Return the set after several changes. After each one every governed contract has an admin."""
    governed = grid.governed
    for change in changes:
        grid = apply(grid, change, sender)
        if change.function != "renounceRole":
            assert all(grid.accounts(contract, Role.ADMIN) for contract in governed)
    return grid
