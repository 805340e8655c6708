# SPDX-License-Identifier: Apache-2.0
"""Decides which transactions set up a new set of contracts, after the contracts are created.

The constructors name the owner, the admin and the receiver of the supply. These transactions name
what the constructors cannot: MetaScheduler as owner of ProviderJobQueues and as writer, the account
that matches jobs, and the claim timeout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gridstead.domain.contracts.administration import Change, grant, set_constant
from gridstead.domain.contracts.constants import find_constant
from gridstead.domain.contracts.deployment import (
    OWNED_CONTRACTS,
    ROLE_CONTRACTS,
    ROLE_NAMES,
    SEALABLE,
    SEALED,
    Code,
    DeployedContract,
    GridState,
    Holder,
    Ownership,
    Role,
)
from gridstead.domain.contracts.releases import THIS_RELEASE

CLAIM_TIMEOUT = find_constant("claimJobTimeout")
# The value with which the contract Constants is created, in blocks.
INITIAL_CLAIM_BLOCKS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentOptions:
    """The options of a deployment.

    Attributes:
        operator: The wallet of the meta-scheduler service, which may match jobs and approve
            providers.
        supply: The credits that the admin receives when Credit is created, wei.
        salt: A text. With another salt, the same admin gets another set.
        deployer: The address of the factory. None for the standard one, or one that is created.
        claim_timeout_s: The claim timeout of a new set. None for the contracts' initial value.
    """

    operator: str
    supply: int
    salt: str = ""
    deployer: str | None = None
    claim_timeout_s: int | None = None


def set_up(
    state: GridState, admin: str, operator: str, *, claim_blocks: int | None
) -> tuple[Change, ...]:
    """Return the changes that a set still needs. The last change may be the irreversible seal.

    The claim timeout is set only while it has its initial value, because an administrator may have
    set it since.

    Args:
        state: The state of the set.
        admin: The wallet that sends the transactions.
        operator: The wallet of the meta-scheduler service.
        claim_blocks: The claim timeout in blocks. None does not set it.

    Raises:
        InvalidInput: If the claim timeout is out of bounds.
        NotAllowed: If the wallet is not admin of a contract that must be changed.
    """
    meta_scheduler = state.addresses["MetaScheduler"]
    changes: list[Change] = []
    if state.ownership("ProviderJobQueues").owner != meta_scheduler:
        transfer = Change(
            contract="ProviderJobQueues",
            function="transferOwnership",
            arguments=(meta_scheduler,),
            title=f"ProviderJobQueues belongs to {meta_scheduler}",
        )
        changes.append(transfer)
    changes += grant(state, admin, Role.CONTRACT, meta_scheduler)
    changes += grant(state, admin, Role.MATCHER, operator)
    is_initial = state.constants.get(CLAIM_TIMEOUT.name) == INITIAL_CLAIM_BLOCKS
    if claim_blocks is not None and is_initial:
        changes += set_constant(state, admin, CLAIM_TIMEOUT, claim_blocks)
    if _may_seal(state, admin):
        name = ROLE_NAMES[SEALABLE, Role.ADMIN]
        seal = Change(
            contract=SEALABLE, function="renounceRole", arguments=(name, admin), title=SEALED
        )
        changes.append(seal)
    return tuple(changes)


def _may_seal(state: GridState, admin: str) -> bool:
    """Return whether the admin may renounce its role in JobRepository, which seals it.

    If any account except the admin and MetaScheduler was ever granted a role, JobRepository is not
    sealed: another writer would keep its access, or may have written a record, and another admin
    could still grant roles.
    """
    if state.first_block is None or not state.holds(SEALABLE, Role.ADMIN, admin):
        return False
    return state.repository_accounts <= {admin, state.addresses["MetaScheduler"]}


def new_set(chain_id: int, block: int, addresses: Mapping[str, str], admin: str) -> GridState:
    """Return the state of a set after the creation of its contracts, to plan its set-up.

    Args:
        chain_id: EIP-155 chain id.
        block: The height of the newest block.
        addresses: The addresses of the contracts, by name.
        admin: The account that the constructors name.
    """
    contracts = tuple(
        DeployedContract(contract=name, address=address, code=Code.MISSING)
        for name, address in addresses.items()
    )
    holders = tuple(
        Holder(contract=name, role=Role.ADMIN, account=admin, given_by=admin)
        for name in ROLE_CONTRACTS
    )
    owners = tuple(Ownership(contract=name, owner=admin, offered_to="") for name in OWNED_CONTRACTS)
    return GridState(
        chain_id=chain_id,
        block=block,
        version=THIS_RELEASE,
        first_block=block,
        contracts=contracts,
        holders=holders,
        owners=owners,
        constants={CLAIM_TIMEOUT.name: INITIAL_CLAIM_BLOCKS},
        accepts_jobs=True,
        fees=0,
        queues_jobs=addresses["JobRepository"],
        escrow=None,
        repository_accounts=frozenset([admin]),
    )
