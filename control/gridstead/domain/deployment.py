# SPDX-License-Identifier: Apache-2.0
"""A set of contracts as its administrators see it: who holds which role, what the constants are, and what is wrong.

A role's holders are known from events and asked of the contract; an owner is one address. ``judge`` compares what was
found with how a set must be wired: docs/howto/contracts.md, contracts/README.md (roles and trust).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from gridstead.errors import InvalidInput

NOBODY = "0x" + "00" * 20
ROLE_CONTRACTS = ("MetaScheduler", "JobRepository", "ProviderManager")
OWNED_CONTRACTS = ("Constants", "Credit", "ProviderJobQueues")
SEALABLE = "JobRepository"  # works without an admin, who could name a second writer and so reach the escrow
HANDED_OVER = ("Constants", "Credit")  # the queues belong to MetaScheduler for good


class Role(Enum):
    """What an account may be in a set of contracts."""

    ADMIN = "admin"  # gives roles, closes the set for new jobs, withdraws fees
    MATCHER = "matcher"  # the wallet of the meta-scheduler service
    CONTRACT = "contract"  # what MetaScheduler itself is in the contracts behind it


GRANTABLE = (Role.ADMIN, Role.MATCHER)

# Where a role is held, and the contract's own name for it there.
SEATS: dict[tuple[str, Role], str] = {
    ("MetaScheduler", Role.ADMIN): "DEFAULT_ADMIN_ROLE",
    ("JobRepository", Role.ADMIN): "DEFAULT_ADMIN_ROLE",
    ("ProviderManager", Role.ADMIN): "DEFAULT_ADMIN_ROLE",
    ("MetaScheduler", Role.MATCHER): "METASCHEDULER_ROLE",
    ("ProviderManager", Role.MATCHER): "METASCHEDULER_ROLE",
    ("JobRepository", Role.CONTRACT): "METASCHEDULER_ROLE",
    ("ProviderManager", Role.CONTRACT): "METASCHEDULER_CONTRACT_ROLE",
}


class Code(Enum):
    """How a contract's code compares with this release's."""

    OURS = "ours"
    FOREIGN = "foreign"  # another release's, or somebody else's
    MISSING = "missing"  # there is no contract
    UNKNOWN = "unknown"  # the node would not compute what to compare with


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A contract of the set at its address; hashes are Keccak-256 of the code, None where there is none to tell."""

    contract: str
    address: str
    code: Code
    code_hash: str | None = None
    expected_hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """An account that holds a role, verified on the contract, and who gave it (empty if no event tells)."""

    contract: str
    role: Role
    account: str
    given_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Who owns a contract and to whom it is offered (nobody: empty); offer None: its generation knows no offers."""

    contract: str
    owner: str
    offered_to: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Escrow:
    """What MetaScheduler holds and owes. Units: wei.

    Attributes:
        balance: Credits it holds.
        locked: The locks of jobs that are not settled.
        fees: Accrued and not withdrawn.
        jobs: How many jobs there are.
        hot_jobs: How many of them are not settled.
    """

    balance: int
    locked: int
    fees: int
    jobs: int
    hot_jobs: int

    @property
    def surplus(self) -> int:
        """What it holds beyond what it owes; negative: it cannot pay everybody."""
        return self.balance - self.locked - self.fees


@dataclass(frozen=True, slots=True, kw_only=True)
class GridState:
    """A set of contracts at one block.

    Attributes:
        chain_id: EIP-155 chain id.
        block: Height of the block.
        version: Of our generation; empty for plain DeepSquare 1.2.
        first_block: Where the set begins; None if its events could not be searched from there on.
        placed: The contracts, MetaScheduler first.
        holders: Who holds roles, whose gift is newer last; complete only if events could be searched.
        owners: Of the contracts with one owner.
        constants: Values by name, those that this generation has.
        accepts_jobs: Whether new jobs may be requested.
        fees: Accrued fees, wei; None where the generation does not count them.
        queues_jobs: The JobRepository that ProviderJobQueues reads; None where it reads none.
        escrow: None if it was not asked for.
    """

    chain_id: int
    block: int
    version: str
    first_block: int | None
    placed: tuple[Placed, ...]
    holders: tuple[Holder, ...]
    owners: tuple[Ownership, ...]
    constants: Mapping[str, int]
    accepts_jobs: bool
    fees: int | None
    queues_jobs: str | None
    escrow: Escrow | None

    @property
    def addresses(self) -> dict[str, str]:
        """The contracts' addresses by name."""
        return {one.contract: one.address for one in self.placed}

    @property
    def is_sealed(self) -> bool:
        """Whether nobody can name a writer to JobRepository any more: its last admin resigned."""
        return self.first_block is not None and not self.accounts(SEALABLE, Role.ADMIN)

    @property
    def governed(self) -> tuple[str, ...]:
        """The contracts with roles that have an admin: all of them, without JobRepository once that is sealed."""
        return tuple(one for one in ROLE_CONTRACTS if one != SEALABLE or not self.is_sealed)

    def accounts(self, contract: str, role: Role) -> tuple[str, ...]:
        """Return who holds a role in a contract."""
        return tuple(one.account for one in self.holders if (one.contract, one.role) == (contract, role))

    def holds(self, contract: str, role: Role, account: str) -> bool:
        """Return whether an account holds a role in a contract."""
        return account in self.accounts(contract, role)

    def ownership(self, contract: str) -> Ownership:
        """Return who owns a contract."""
        return next(one for one in self.owners if one.contract == contract)


class Kind(Enum):
    """What is wrong, the gravest first; the value is the command's exit code."""

    ESCROW = 70  # not everybody can be paid
    POWER = 77  # somebody may do what nobody should
    CODE = 76  # a contract is not what this release would have deployed
    WIRING = 78  # something that the set needs is not set
    NOTE = 0  # works, but an administrator should know


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that an administrator should know of a set, and what to do about it."""

    kind: Kind
    text: str
    hint: str = ""


def judge(state: GridState, *, expected: Mapping[str, str] | None = None) -> tuple[Finding, ...]:
    """Return what is not as it must be, the gravest first.

    Args:
        state: What was found.
        expected: Addresses by contract name, as the deployment file has them.
    """
    found = [*_code(state), *_addresses(state, expected or {}), *_roles(state), *_owners(state), *_use(state)]
    order = list(Kind)
    return tuple(sorted(found, key=lambda one: order.index(one.kind)))


def exit_code(findings: tuple[Finding, ...]) -> int:
    """Return the exit code of the gravest finding, 0 if there are only notes."""
    return findings[0].kind.value if findings else 0


def parse_role(text: str, allowed: Iterable[Role] = GRANTABLE) -> Role:
    """Return a role by name.

    Raises:
        InvalidInput: It is none of those that are allowed.
    """
    roles = {role.value: role for role in allowed}
    found = roles.get(text.strip().lower())
    if found is None:
        hint = f"Give one of: {', '.join(roles)}. Minting and setting constants is for the owner: see hand-over."
        raise InvalidInput(f"invalid role {text[:80]!r}", hint=hint)
    return found


def _code(state: GridState) -> Iterator[Finding]:
    for one in state.placed:
        where = f"{one.contract} at {one.address}"
        if one.code is Code.MISSING:
            hint = "Run `gridstead contracts deploy` again, with the same deployment file."
            yield Finding(kind=Kind.WIRING, text=f"there is no contract {where}", hint=hint)
        elif one.code is Code.UNKNOWN:
            yield Finding(kind=Kind.NOTE, text=f"the code of {where} could not be compared")
        elif one.code is Code.FOREIGN and state.version:
            hint = "Use the release that it was deployed by, or deploy a new set."
            yield Finding(kind=Kind.CODE, text=f"{where} has not this release's code", hint=hint)
    if not state.version:
        yield Finding(kind=Kind.NOTE, text="this is plain DeepSquare 1.2: no batches, no seconds, no code to compare")


def _addresses(state: GridState, expected: Mapping[str, str]) -> Iterator[Finding]:
    for contract, address in state.addresses.items():
        wanted = expected.get(contract, address)
        if wanted != address:
            text = f"MetaScheduler uses {contract} {address}, the deployment file names {wanted}"
            yield Finding(kind=Kind.WIRING, text=text, hint="Look for the right deployment file.")
    jobs = state.addresses["JobRepository"]
    if state.queues_jobs not in {None, jobs}:
        text = f"ProviderJobQueues reads JobRepository {state.queues_jobs}, MetaScheduler uses {jobs}"
        yield Finding(kind=Kind.WIRING, text=text, hint="Deploy a new set.")


def _roles(state: GridState) -> Iterator[Finding]:
    grid = state.addresses["MetaScheduler"]
    for contract, role in SEATS:
        accounts = state.accounts(contract, role)
        if role is Role.CONTRACT:
            if grid not in accounts:
                text = f"MetaScheduler has not its role in {contract}"
                yield Finding(kind=Kind.WIRING, text=text, hint="Run `gridstead contracts deploy` again.")
            for account in (one for one in accounts if one != grid):
                text = f"{account} may write to {contract} as if it were MetaScheduler"
                hint = f"Run `gridstead contracts revoke contract {account}` at once."
                yield Finding(kind=Kind.POWER, text=text, hint=hint)
        elif not accounts and state.first_block is not None and (role, contract) != (Role.ADMIN, SEALABLE):
            hint = f"Run `gridstead contracts grant {role.value} ADDRESS`." if role is Role.MATCHER else ""
            yield Finding(kind=Kind.WIRING, text=f"nobody is {role.value} of {contract}", hint=hint)
    if state.first_block is None:
        yield Finding(
            kind=Kind.NOTE,
            text="events could not be searched: more accounts may hold roles than are shown",
            hint="Give --first-block, or ask a node that keeps them.",
        )
    for role in GRANTABLE:
        seats = [c for c, r in SEATS if r is role and (role is not Role.ADMIN or c in state.governed)]
        if len({frozenset(state.accounts(c, role)) for c in seats}) > 1:
            hint = "Repeat the command that was cut short: grant, revoke, hand-over or take-over."
            yield Finding(kind=Kind.NOTE, text=f"the contracts differ in who is {role.value}", hint=hint)


def _owners(state: GridState) -> Iterator[Finding]:
    grid, admins = state.addresses["MetaScheduler"], state.accounts("MetaScheduler", Role.ADMIN)
    for one in state.owners:
        if one.contract == "ProviderJobQueues":
            if one.owner != grid:
                kind = Kind.WIRING if one.owner in admins else Kind.POWER
                text = f"ProviderJobQueues belongs to {one.owner} instead of MetaScheduler"
                yield Finding(kind=kind, text=text, hint="Run `gridstead contracts deploy` again, as its owner.")
        elif one.owner == NOBODY:
            yield Finding(kind=Kind.NOTE, text=f"{one.contract} has no owner: what only an owner may do is over")
        elif one.owner not in admins:
            yield Finding(kind=Kind.NOTE, text=f"{one.contract} belongs to {one.owner}, who is not admin")
        if one.offered_to:
            hint = "It runs `gridstead contracts take-over`."
            yield Finding(kind=Kind.NOTE, text=f"{one.contract} is offered to {one.offered_to}", hint=hint)


def _use(state: GridState) -> Iterator[Finding]:
    if not state.accepts_jobs:
        yield Finding(kind=Kind.NOTE, text="the set is closed: no new jobs, those it has go on")
    if state.escrow is None:
        return
    surplus = state.escrow.surplus
    if surplus < 0:
        text = f"MetaScheduler holds {-surplus} wei of credits less than it owes"
        yield Finding(kind=Kind.ESCROW, text=text, hint="Close the set for new jobs and look for the cause.")
    elif surplus > 0:
        yield Finding(kind=Kind.NOTE, text=f"MetaScheduler holds {surplus} wei of credits that nobody is owed")
