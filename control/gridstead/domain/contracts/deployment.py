# SPDX-License-Identifier: Apache-2.0
"""The state of a set of contracts: its code, roles, owners, constants and escrow.

The holders of a role are found in events and then verified on the contract. An owner is a single
address. docs/howto/contracts.md and contracts/README.md (roles and trust) describe a correct set.
checks.py compares a state with this description.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from gridstead.errors import InvalidInput

NOBODY = "0x" + "00" * 20  # the zero address
ROLE_CONTRACTS = ("MetaScheduler", "JobRepository", "ProviderManager")
OWNED_CONTRACTS = ("Constants", "Credit", "ProviderJobQueues")
# This contract needs no admin. An admin could add a second writer, which could spend the escrow.
SEALABLE = "JobRepository"
# Deployment files store this title of a step. A released title never changes.
SEALED = f"nobody can name a writer to {SEALABLE} any more"
# ProviderJobQueues is not transferable: it always belongs to MetaScheduler.
TRANSFERABLE_CONTRACTS = ("Constants", "Credit")


class Role(Enum):
    """The roles of a set of contracts."""

    ADMIN = "admin"  # grants roles, closes the set for new jobs, withdraws fees
    MATCHER = "matcher"  # the wallet of the meta-scheduler service
    CONTRACT = "contract"  # held by MetaScheduler itself, to write to the other contracts


GRANTABLE = (Role.ADMIN, Role.MATCHER)

# The name of each role in each contract that has the role.
ROLE_NAMES: dict[tuple[str, Role], str] = {
    ("MetaScheduler", Role.ADMIN): "DEFAULT_ADMIN_ROLE",
    ("JobRepository", Role.ADMIN): "DEFAULT_ADMIN_ROLE",
    ("ProviderManager", Role.ADMIN): "DEFAULT_ADMIN_ROLE",
    ("MetaScheduler", Role.MATCHER): "METASCHEDULER_ROLE",
    ("ProviderManager", Role.MATCHER): "METASCHEDULER_ROLE",
    ("JobRepository", Role.CONTRACT): "METASCHEDULER_ROLE",
    ("ProviderManager", Role.CONTRACT): "METASCHEDULER_CONTRACT_ROLE",
}


class Code(Enum):
    """How the code of a contract compares with the code of a release.

    The release is the one whose version MetaScheduler reports. If this release does not contain the
    code of that release, the code is compared with the code of this release.
    """

    OURS = "ours"
    EARLIER = "earlier"  # the code of an earlier release
    FOREIGN = "foreign"  # the code of an unknown release or of another project
    MISSING = "missing"  # there is no contract at the address
    UNKNOWN = "unknown"  # the node did not compute the expected code


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedContract:
    """A contract of the set.

    Attributes:
        contract: Its name.
        address: Its address.
        code: How its code compares with the code of a release.
        code_hash: Keccak-256 hash of its code. None if it has no code.
        expected_hash: Keccak-256 hash of the code of that release. None if this is not known.
    """

    contract: str
    address: str
    code: Code
    code_hash: str | None = None
    expected_hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """An account that holds a role. The contract confirmed that the account holds the role.

    Attributes:
        contract: The name of the contract.
        role: The role.
        account: The address of the account.
        given_by: The address that granted the role. Empty if no event shows it.
    """

    contract: str
    role: Role
    account: str
    given_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """The owner of a contract.

    Attributes:
        contract: The name of the contract.
        owner: The address of the owner.
        offered_to: The address to which the ownership is offered. Empty if there is no offer.
            None if the contract has no such offers, as in DeepSquare 1.2.
    """

    contract: str
    owner: str
    offered_to: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Escrow:
    """The credits that MetaScheduler holds and owes. Units: wei.

    Attributes:
        balance: Credits that MetaScheduler holds.
        escrowed: Credits in escrow for jobs that are not settled.
        fees: Fees that have accrued and are not withdrawn.
        jobs: Number of all jobs.
        hot_jobs: Number of jobs that are not settled.
    """

    balance: int
    escrowed: int
    fees: int
    jobs: int
    hot_jobs: int

    @property
    def surplus(self) -> int:
        """The balance minus the debts. If negative, MetaScheduler cannot pay everyone."""
        return self.balance - self.escrowed - self.fees


@dataclass(frozen=True, slots=True, kw_only=True)
class GridState:
    """A set of contracts at one block.

    Attributes:
        chain_id: EIP-155 chain id.
        block: Height of the block.
        version: Version of Gridstead's contracts. Empty for the contracts of DeepSquare 1.2, from
            which Gridstead's contracts are derived.
        first_block: The block of the set's first event, which a contract emitted when it was
            created. None if the events could not be searched from that block on.
        contracts: The contracts, MetaScheduler first.
        holders: The holders of roles, in the order of the grants. Complete only if the events
            could be searched.
        owners: The owners of the contracts that have one.
        constants: Values by name. Only the constants that this version has.
        accepts_jobs: Whether new jobs may be requested.
        fees: Accrued fees, wei. None if this version of the contracts does not count fees.
        queues_jobs: The JobRepository that ProviderJobQueues reads. None if it reads none.
        escrow: The escrow. None if it was not requested.
    """

    chain_id: int
    block: int
    version: str
    first_block: int | None
    contracts: tuple[DeployedContract, ...]
    holders: tuple[Holder, ...]
    owners: tuple[Ownership, ...]
    constants: Mapping[str, int]
    accepts_jobs: bool
    fees: int | None
    queues_jobs: str | None
    escrow: Escrow | None

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses of the contracts by name."""
        return {deployed.contract: deployed.address for deployed in self.contracts}

    @property
    def is_sealed(self) -> bool:
        """Whether JobRepository has no admin, so that no account can add a writer to it."""
        return self.first_block is not None and not self.accounts(SEALABLE, Role.ADMIN)

    @property
    def governed(self) -> tuple[str, ...]:
        """The contracts with roles that have an admin: all except a sealed JobRepository."""
        if not self.is_sealed:
            return ROLE_CONTRACTS
        return tuple(name for name in ROLE_CONTRACTS if name != SEALABLE)

    def accounts(self, contract: str, role: Role) -> tuple[str, ...]:
        """Return the accounts that hold a role in a contract."""
        key = (contract, role)
        holders = [holder for holder in self.holders if (holder.contract, holder.role) == key]
        return tuple(holder.account for holder in holders)

    def holds(self, contract: str, role: Role, account: str) -> bool:
        """Return whether an account holds a role in a contract."""
        return account in self.accounts(contract, role)

    def ownership(self, contract: str) -> Ownership:
        """Return the ownership of a contract."""
        return next(ownership for ownership in self.owners if ownership.contract == contract)


def parse_role(text: str, allowed: Iterable[Role] = GRANTABLE) -> Role:
    """Return the role with this name.

    Raises:
        InvalidInput: If the name is not the name of an allowed role.
    """
    roles = {role.value: role for role in allowed}
    role = roles.get(text.strip().lower())
    if role is None:
        names = ", ".join(roles)
        hint = f"Specify one of: {names}. Only the owner mints and sets constants: see hand-over."
        raise InvalidInput(f"invalid role {text[:80]!r}", hint=hint)
    return role
