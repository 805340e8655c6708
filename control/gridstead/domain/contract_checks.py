# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a set of contracts: what was found, compared with how a set must be wired.

How it must be: docs/howto/contracts.md, contracts/README.md (roles and trust).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from gridstead.domain.deployment import GRANTABLE, NOBODY, SEALABLE, SEATS, Code, GridState, Role


class FindingKind(Enum):
    """What is wrong, the gravest first; the value is the command's exit code."""

    ESCROW = 70  # not everybody can be paid
    POWER = 77  # somebody may do what nobody should
    CODE = 76  # a contract is not what this release would have deployed
    WIRING = 78  # something that the set needs is not set
    NOTE = 0  # works, but an administrator should know


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that an administrator should know of a set, and what to do about it."""

    kind: FindingKind
    text: str
    hint: str = ""


def check_contracts(
    state: GridState, *, expected: Mapping[str, str] | None = None
) -> tuple[Finding, ...]:
    """Return what is not as it must be, the gravest first.

    Args:
        state: What was found.
        expected: Addresses by contract name, as the deployment file has them.
    """
    found = [
        *_code(state),
        *_addresses(state, expected or {}),
        *_roles(state),
        *_owners(state),
        *_use(state),
    ]
    order = list(FindingKind)
    return tuple(sorted(found, key=lambda one: order.index(one.kind)))


def exit_code(findings: tuple[Finding, ...]) -> int:
    """Return the exit code of the gravest finding, 0 if there are only notes."""
    return findings[0].kind.value if findings else 0


def _code(state: GridState) -> Iterator[Finding]:
    for one in state.placed:
        where = f"{one.contract} at {one.address}"
        if one.code is Code.MISSING:
            hint = "Run `gridstead contracts deploy` again, with the same deployment file."
            yield Finding(kind=FindingKind.WIRING, text=f"there is no contract {where}", hint=hint)
        elif one.code is Code.UNKNOWN:
            yield Finding(kind=FindingKind.NOTE, text=f"the code of {where} could not be compared")
        elif one.code is Code.FOREIGN and state.version:
            hint = "Use the release that it was deployed by, or deploy a new set."
            yield Finding(
                kind=FindingKind.CODE, text=f"{where} has not this release's code", hint=hint
            )
    if not state.version:
        yield Finding(
            kind=FindingKind.NOTE,
            text="this is plain DeepSquare 1.2: no batches, no seconds, no code to compare",
        )


def _addresses(state: GridState, expected: Mapping[str, str]) -> Iterator[Finding]:
    for contract, address in state.addresses.items():
        wanted = expected.get(contract, address)
        if wanted != address:
            text = f"MetaScheduler uses {contract} {address}, the deployment file names {wanted}"
            yield Finding(
                kind=FindingKind.WIRING, text=text, hint="Look for the right deployment file."
            )
    jobs = state.addresses["JobRepository"]
    if state.queues_jobs not in {None, jobs}:
        text = (
            f"ProviderJobQueues reads JobRepository {state.queues_jobs}, MetaScheduler uses {jobs}"
        )
        yield Finding(kind=FindingKind.WIRING, text=text, hint="Deploy a new set.")


def _roles(state: GridState) -> Iterator[Finding]:
    grid = state.addresses["MetaScheduler"]
    for contract, role in SEATS:
        accounts = state.accounts(contract, role)
        if role is Role.CONTRACT:
            if grid not in accounts:
                text = f"MetaScheduler has not its role in {contract}"
                yield Finding(
                    kind=FindingKind.WIRING,
                    text=text,
                    hint="Run `gridstead contracts deploy` again.",
                )
            for account in (one for one in accounts if one != grid):
                text = f"{account} may write to {contract} as if it were MetaScheduler"
                hint = f"Run `gridstead contracts revoke contract {account}` at once."
                if contract not in state.governed:  # nobody can revoke any more
                    hint = "Close the set at once, deploy a new one, and find out how the account came to its role."
                yield Finding(kind=FindingKind.POWER, text=text, hint=hint)
        elif (
            not accounts
            and state.first_block is not None
            and (role, contract) != (Role.ADMIN, SEALABLE)
        ):
            hint = (
                f"Run `gridstead contracts grant {role.value} ADDRESS`."
                if role is Role.MATCHER
                else ""
            )
            yield Finding(
                kind=FindingKind.WIRING, text=f"nobody is {role.value} of {contract}", hint=hint
            )
    if state.first_block is None:
        yield Finding(
            kind=FindingKind.NOTE,
            text="events could not be searched: more accounts may hold roles than are shown",
            hint="Give --first-block, or ask a node that keeps them.",
        )
    if admins := state.accounts(SEALABLE, Role.ADMIN):
        text = f"{', '.join(admins)} can name a second writer to {SEALABLE} and so reach the escrow"
        yield Finding(kind=FindingKind.NOTE, text=text, hint="Run `gridstead contracts seal`.")
    for role in GRANTABLE:
        seats = [
            c
            for c, r in SEATS
            if r is role and (state.accounts(c, r) or (r, c) != (Role.ADMIN, SEALABLE))
        ]
        if len({frozenset(state.accounts(c, role)) for c in seats}) > 1:
            hint = "Repeat the command that was cut short: grant, revoke, hand-over or take-over."
            yield Finding(
                kind=FindingKind.NOTE,
                text=f"the contracts differ in who is {role.value}",
                hint=hint,
            )


def _owners(state: GridState) -> Iterator[Finding]:
    grid, admins = state.addresses["MetaScheduler"], state.accounts("MetaScheduler", Role.ADMIN)
    for one in state.owners:
        if one.contract == "ProviderJobQueues":
            if one.owner != grid:
                kind = FindingKind.WIRING if one.owner in admins else FindingKind.POWER
                text = f"ProviderJobQueues belongs to {one.owner} instead of MetaScheduler"
                yield Finding(
                    kind=kind,
                    text=text,
                    hint="Run `gridstead contracts deploy` again, as its owner.",
                )
        elif one.owner == NOBODY:
            yield Finding(
                kind=FindingKind.NOTE,
                text=f"{one.contract} has no owner: what only an owner may do is over",
            )
        elif one.owner not in admins:
            yield Finding(
                kind=FindingKind.NOTE,
                text=f"{one.contract} belongs to {one.owner}, who is not admin",
            )
        if one.offered_to:
            hint = "It runs `gridstead contracts take-over`."
            yield Finding(
                kind=FindingKind.NOTE,
                text=f"{one.contract} is offered to {one.offered_to}",
                hint=hint,
            )


def _use(state: GridState) -> Iterator[Finding]:
    if not state.accepts_jobs:
        yield Finding(
            kind=FindingKind.NOTE, text="the set is closed: no new jobs, those it has go on"
        )
    if state.escrow is None:
        return
    surplus = state.escrow.surplus
    if surplus < 0:
        text = f"MetaScheduler holds {-surplus} wei of credits less than it owes"
        yield Finding(
            kind=FindingKind.ESCROW,
            text=text,
            hint="Close the set for new jobs and look for the cause.",
        )
    elif surplus > 0:
        yield Finding(
            kind=FindingKind.NOTE,
            text=f"MetaScheduler holds {surplus} wei of credits that nobody is owed",
        )
