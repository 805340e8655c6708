# SPDX-License-Identifier: Apache-2.0
"""Checks whether a set of contracts is set up correctly.

Sources: docs/howto/contracts.md, and the section on roles and trust in contracts/README.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from gridstead.domain.contracts.deployment import (
    GRANTABLE,
    NOBODY,
    ROLE_NAMES,
    SEALABLE,
    Code,
    DeployedContract,
    GridState,
    Ownership,
    Role,
)
from gridstead.domain.contracts.releases import EARLIER_RELEASES, THIS_RELEASE
from gridstead.domain.diagnostic import Diagnostic, Severity, most_serious_first

_diagnostic = partial(Diagnostic, who="administrator")
_note = partial(Diagnostic, who="administrator", severity=Severity.NOTE)


def check_contracts(
    state: GridState, *, expected: Mapping[str, str] | None = None
) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of a set of contracts, the most serious first.

    Args:
        state: The state of the set.
        expected: The addresses in the deployment file, by contract name.
    """
    diagnostics = [
        *_check_code(state),
        *_check_addresses(state, expected or {}),
        *_check_roles(state),
        *_check_owners(state),
        *_check_open(state),
        *_check_escrow(state),
    ]
    return most_serious_first(diagnostics)


def _check_code(state: GridState) -> Iterator[Diagnostic]:
    for deployed in state.contracts:
        yield from _check_code_of(deployed, state)
    if not state.version:
        text = "this is plain DeepSquare 1.2: no batches, no seconds, no code to compare"
        yield _note(where=("MetaScheduler",), what=text)
    elif state.version in EARLIER_RELEASES:
        text = f"these contracts are of version {state.version}, an earlier release"
        hint = f"They still work. Only a new set has the fixes of version {THIS_RELEASE}."
        yield _note(where=("MetaScheduler",), what=text, hint=hint)


def _check_code_of(deployed: DeployedContract, state: GridState) -> Iterator[Diagnostic]:
    where = (deployed.contract,)
    name = f"{deployed.contract} at {deployed.address}"
    if deployed.code is Code.MISSING:
        hint = "Run `gridstead contracts deploy` again, with the same deployment file."
        yield _diagnostic(where=where, what=f"there is no contract {name}", hint=hint)
    elif deployed.code is Code.UNKNOWN:
        yield _note(where=where, what=f"the code of {name} could not be compared")
    elif deployed.code is Code.FOREIGN and state.version:
        release = (
            f"version {state.version}" if state.version in EARLIER_RELEASES else "this release"
        )
        text = f"{name} does not have the code of {release}"
        hint = "Use the release that deployed it, or deploy a new set."
        yield _diagnostic(where=where, what=text, hint=hint, severity=Severity.CODE)


def _check_addresses(state: GridState, expected: Mapping[str, str]) -> Iterator[Diagnostic]:
    for contract, address in state.addresses.items():
        expected_address = expected.get(contract, address)
        if expected_address != address:
            text = (
                f"MetaScheduler uses {contract} {address}, "
                f"the deployment file names {expected_address}"
            )
            hint = "Use the deployment file of this set."
            yield _diagnostic(where=(contract,), what=text, hint=hint)
    repository = state.addresses["JobRepository"]
    if state.queues_jobs not in {None, repository}:
        text = (
            f"ProviderJobQueues reads JobRepository {state.queues_jobs}, "
            f"MetaScheduler uses {repository}"
        )
        yield _diagnostic(where=("ProviderJobQueues",), what=text, hint="Deploy a new set.")


def _check_roles(state: GridState) -> Iterator[Diagnostic]:
    for contract, role in ROLE_NAMES:
        if role is Role.CONTRACT:
            yield from _check_writers(state, contract)
        else:
            yield from _check_role_is_held(state, contract, role)
    yield from _check_searched(state)
    yield from _check_sealed(state)
    for role in GRANTABLE:
        yield from _check_same_holders(state, role)


def _check_writers(state: GridState, contract: str) -> Iterator[Diagnostic]:
    """Check that MetaScheduler, and no other account, may write to a contract."""
    meta_scheduler = state.addresses["MetaScheduler"]
    writers = state.accounts(contract, Role.CONTRACT)
    if meta_scheduler not in writers:
        text = f"MetaScheduler does not have its role in {contract}"
        hint = "Run `gridstead contracts deploy` again."
        yield _diagnostic(where=(contract,), what=text, hint=hint)
    for account in writers:
        if account == meta_scheduler:
            continue
        text = f"{account} may write to {contract} as if it were MetaScheduler"
        hint = f"Run `gridstead contracts revoke contract {account}` at once."
        if contract not in state.governed:  # Without an admin the role cannot be revoked.
            hint = (
                "Close the set at once, deploy a new one, and find out how the account got its "
                "role."
            )
        yield _diagnostic(where=(contract,), what=text, hint=hint, severity=Severity.POWER)


def _check_role_is_held(state: GridState, contract: str, role: Role) -> Iterator[Diagnostic]:
    """Check that an account holds a role in a contract. A sealed JobRepository needs no admin."""
    may_be_empty = (contract, role) == (SEALABLE, Role.ADMIN)
    if may_be_empty or state.first_block is None or state.accounts(contract, role):
        return
    hint = ""
    if role is Role.MATCHER:
        hint = f"Run `gridstead contracts grant {role.value} ADDRESS`."
    text = f"no account is {role.value} of {contract}"
    yield _diagnostic(where=(contract,), what=text, hint=hint)


def _check_searched(state: GridState) -> Iterator[Diagnostic]:
    if state.first_block is None:
        text = "events could not be searched: more accounts may hold roles than are shown"
        hint = "Specify --first-block, or use a node that retains the events."
        yield _note(where=("MetaScheduler",), what=text, hint=hint)


def _check_sealed(state: GridState) -> Iterator[Diagnostic]:
    admins = state.accounts(SEALABLE, Role.ADMIN)
    if admins:
        accounts = ", ".join(admins)
        text = f"{accounts} can add a second writer to {SEALABLE}, which could spend the escrow"
        yield _note(where=(SEALABLE,), what=text, hint="Run `gridstead contracts seal`.")


def _check_same_holders(state: GridState, role: Role) -> Iterator[Diagnostic]:
    """Check that the contracts agree on who holds a role.

    A sealed JobRepository, which has no admin, is not compared with the other contracts.
    """
    holders = set()
    for contract, contract_role in ROLE_NAMES:
        accounts = frozenset(state.accounts(contract, role))
        may_be_empty = (contract, role) == (SEALABLE, Role.ADMIN)
        if contract_role is role and (accounts or not may_be_empty):
            holders.add(accounts)
    if len(holders) > 1:
        text = f"the contracts differ in who is {role.value}"
        hint = "Repeat the interrupted command: grant, revoke, hand-over or take-over."
        yield _note(where=("MetaScheduler",), what=text, hint=hint)


def _check_owners(state: GridState) -> Iterator[Diagnostic]:
    for ownership in state.owners:
        if ownership.contract == "ProviderJobQueues":
            yield from _check_owner_of_queues(state, ownership)
        else:
            yield from _check_owner(state, ownership)
        if ownership.offered_to:
            text = f"{ownership.contract} is offered to {ownership.offered_to}"
            hint = "The new owner must run `gridstead contracts take-over`."
            yield _note(where=(ownership.contract,), what=text, hint=hint)


def _check_owner_of_queues(state: GridState, ownership: Ownership) -> Iterator[Diagnostic]:
    if ownership.owner == state.addresses["MetaScheduler"]:
        return
    is_admin = state.holds("MetaScheduler", Role.ADMIN, ownership.owner)
    yield _diagnostic(
        where=(ownership.contract,),
        what=f"ProviderJobQueues belongs to {ownership.owner} instead of MetaScheduler",
        hint="Run `gridstead contracts deploy` again, as its owner.",
        severity=Severity.WIRING if is_admin else Severity.POWER,
    )


def _check_owner(state: GridState, ownership: Ownership) -> Iterator[Diagnostic]:
    contract, owner = ownership.contract, ownership.owner
    if owner == NOBODY:
        text = f"{contract} has no owner: no account can call its owner functions"
        yield _note(where=(contract,), what=text)
    elif not state.holds("MetaScheduler", Role.ADMIN, owner):
        yield _note(where=(contract,), what=f"{contract} belongs to {owner}, who is not admin")


def _check_open(state: GridState) -> Iterator[Diagnostic]:
    if not state.accepts_jobs:
        text = "the set is closed: it refuses new jobs and continues the existing ones"
        yield _note(where=("MetaScheduler",), what=text)


def _check_escrow(state: GridState) -> Iterator[Diagnostic]:
    if state.escrow is None:
        return
    surplus = state.escrow.surplus
    if surplus < 0:
        text = f"MetaScheduler holds {-surplus} wei of credits less than it owes"
        hint = "Close the set for new jobs and find the cause."
        yield _diagnostic(where=("MetaScheduler",), what=text, hint=hint, severity=Severity.ESCROW)
    elif surplus > 0:
        text = f"MetaScheduler holds {surplus} wei of credits more than it owes"
        yield _note(where=("MetaScheduler",), what=text)
