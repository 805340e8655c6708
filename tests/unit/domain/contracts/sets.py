# SPDX-License-Identifier: Apache-2.0
"""Sets of contracts as values, and a simulation of the changes that their functions make.

A set consists of all contracts of one grid, with their roles, owners and constants. The sets of
this module are correct unless a test changes them.
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
from gridstead.domain.contracts.releases import THIS_RELEASE

OLD_ADMIN, NEW_ADMIN = "0x" + "a" * 40, "0x" + "b" * 40
MATCHER, OUTSIDER = "0x" + "c" * 40, "0x" + "d" * 40
ADDRESSES = {
    "MetaScheduler": f"0x{1:040x}",
    "JobRepository": f"0x{2:040x}",
    "ProviderManager": f"0x{3:040x}",
    "ProviderJobQueues": f"0x{4:040x}",
    "Constants": f"0x{5:040x}",
    "Credit": f"0x{6:040x}",
}
META_SCHEDULER = ADDRESSES["MetaScheduler"]
ACCOUNT_OF = {Role.ADMIN: OLD_ADMIN, Role.MATCHER: MATCHER, Role.CONTRACT: META_SCHEDULER}
HOLDERS = tuple(
    Holder(contract=contract, role=role, account=ACCOUNT_OF[role], given_by=OLD_ADMIN)
    for contract, role in ROLE_NAMES
)
SEALED_ROLE = (SEALABLE, Role.ADMIN)  # Sealing removes all holders of this role.
ROLE_OF = {(contract, name): role for (contract, role), name in ROLE_NAMES.items()}


def sealed_holders():
    """Return the holders of roles in a sealed set: JobRepository has no admin."""
    return tuple(holder for holder in HOLDERS if (holder.contract, holder.role) != SEALED_ROLE)


def state(**changes):
    """Return a correct set that is sealed, as after a deployment."""
    values = {
        "chain_id": 1,
        "block": 10,
        "version": THIS_RELEASE,
        "first_block": 1,
        "contracts": tuple(
            DeployedContract(contract=name, address=address, code=Code.OURS)
            for name, address in ADDRESSES.items()
        ),
        "holders": sealed_holders(),
        "owners": (
            Ownership(contract="Constants", owner=OLD_ADMIN, offered_to=""),
            Ownership(contract="Credit", owner=OLD_ADMIN, offered_to=""),
            Ownership(contract="ProviderJobQueues", owner=META_SCHEDULER, offered_to=""),
        ),
        "constants": {"minimumAmount": 100, "deepsquareCut": 20},
        "accepts_jobs": True,
        "fees": 5,
        "queues_jobs": ADDRESSES["JobRepository"],
        "escrow": Escrow(balance=105, escrowed=100, fees=5, jobs=3, hot_jobs=1),
    }
    return GridState(**(values | changes))


def unsealed(**changes):
    """Return a correct set whose JobRepository still has an admin."""
    return state(holders=HOLDERS, **changes)


def with_ownership(grid, contract, **changes):
    """Return the set with another owner or another offer of a contract."""
    owners = {ownership.contract: ownership for ownership in grid.owners}
    owners[contract] = replace(owners[contract], **changes)
    return replace(grid, owners=tuple(owners.values()))


def without_role(grid, contract, role, account):
    """Return the set in which an account does not hold a role."""

    def remains(holder):
        return (holder.contract, holder.role, holder.account) != (contract, role, account)

    return replace(grid, holders=tuple(filter(remains, grid.holders)))


def with_role(grid, contract, role, account, by=OLD_ADMIN):
    """Return the set in which an account holds a role."""
    others = without_role(grid, contract, role, account).holders
    holder = Holder(contract=contract, role=role, account=account, given_by=by)
    return replace(grid, holders=(*others, holder))


def apply(grid, change, sender):
    """Return the set after a change. Assert that the contracts let the sender make the change."""
    if change.function in {"grantRole", "revokeRole", "renounceRole"}:
        return _apply_role_change(grid, change, sender)
    if change.function == "offerOwnership":
        assert grid.ownership(change.contract).owner == sender
        new_owner = change.arguments[0]
        is_withdrawal = int(new_owner, 16) == 0
        offered_to = "" if is_withdrawal else new_owner
        return with_ownership(grid, change.contract, offered_to=offered_to)
    if change.function == "acceptOwnership":
        assert grid.ownership(change.contract).offered_to == sender
        return with_ownership(grid, change.contract, owner=sender, offered_to="")
    assert change.function == "setEnableRequestNewJob"
    assert grid.holds(change.contract, Role.ADMIN, sender)
    return replace(grid, accepts_jobs=change.arguments[0])


def _apply_role_change(grid, change, sender):
    name, account = change.arguments
    role = ROLE_OF[change.contract, name]
    assert grid.holds(change.contract, Role.ADMIN, sender)
    if change.function == "grantRole":
        return with_role(grid, change.contract, role, account, by=sender)
    if change.function == "renounceRole":
        assert account == sender
    return without_role(grid, change.contract, role, account)


def apply_all(grid, changes, sender):
    """Return the set after several changes.

    Assert after each change that every governed contract has an admin. Only renouncing a role may
    leave a contract without an admin.
    """
    governed = grid.governed
    for change in changes:
        grid = apply(grid, change, sender)
        if change.function != "renounceRole":
            for contract in governed:
                assert grid.accounts(contract, Role.ADMIN)
    return grid
