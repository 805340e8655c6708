# SPDX-License-Identifier: Apache-2.0
"""A set of contracts as its administrators see it: who holds which role, and what the constants
are.

A role's holders are known from events and asked of the contract; an owner is one address. How a set
must be wired: docs/howto/contracts.md, contracts/README.md (roles and trust); verdict.py compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from gridstead.errors import InvalidInput

NOBODY = "0x" + "00" * 20
ROLE_CONTRACTS = ("MetaScheduler", "JobRepository", "ProviderManager")
OWNED_CONTRACTS = ("Constants", "Credit", "ProviderJobQueues")
SEALABLE = "JobRepository"  # works without an admin, who could name a second writer and so reach the escrow
SEALED = f"nobody can name a writer to {SEALABLE} any more"
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
    """A contract of the set at its address; hashes are Keccak-256 of the code, None where there is
    none to tell.
    """

    contract: str
    address: str
    code: Code
    code_hash: str | None = None
    expected_hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """An account that holds a role, verified on the contract, and who gave it (empty if no event
    tells).
    """

    contract: str
    role: Role
    account: str
    given_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Who owns a contract and to whom it is offered (nobody: empty); offer None: its generation
    knows no offers.
    """

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
    escrowed: int
    fees: int
    jobs: int
    hot_jobs: int

    @property
    def surplus(self) -> int:
        """What it holds beyond what it owes; negative: it cannot pay everybody."""
        return self.balance - self.escrowed - self.fees


@dataclass(frozen=True, slots=True, kw_only=True)
class GridState:
    """A set of contracts at one block.

    Attributes:
        chain_id: EIP-155 chain id.
        block: Height of the block.
        version: Of our generation; empty for plain DeepSquare 1.2.
        first_block: Where the set begins; None if its events could not be searched from there on.
        placed: The contracts, MetaScheduler first.
        holders: Who holds roles, whose gift is newer last; complete only if events could be
            searched.
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
        """The contracts with roles that have an admin: all of them, without JobRepository once that
        is sealed.
        """
        return tuple(one for one in ROLE_CONTRACTS if one != SEALABLE or not self.is_sealed)

    def accounts(self, contract: str, role: Role) -> tuple[str, ...]:
        """Return who holds a role in a contract."""
        return tuple(
            one.account for one in self.holders if (one.contract, one.role) == (contract, role)
        )

    def holds(self, contract: str, role: Role, account: str) -> bool:
        """Return whether an account holds a role in a contract."""
        return account in self.accounts(contract, role)

    def ownership(self, contract: str) -> Ownership:
        """Return who owns a contract."""
        return next(one for one in self.owners if one.contract == contract)


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
