# SPDX-License-Identifier: Apache-2.0
"""Reads all role grants in a set of contracts, and the first block of the set, from events.

If a node refuses to search many blocks at once, the range is halved. If the node also refuses small
ranges, a binary search finds the first block, which is the block at which the contract's code
appears. If the node has pruned the old states that the binary search needs, the history is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from gridstead.adapters.chain.abi import artifact
from gridstead.adapters.chain.contract import Contract
from gridstead.adapters.chain.node import Node, RpcError
from gridstead.adapters.chain.records import to_address
from gridstead.adapters.contracts.factory import FACTORY_CODE
from gridstead.adapters.contracts.steps import role_id
from gridstead.domain.contracts.deployment import ROLE_CONTRACTS, ROLE_NAMES, Role
from gridstead.domain.jobs.job import Block

MIN_RANGE = 256  # blocks; a smaller range is not halved

_ROLE_EVENTS = artifact("MetaScheduler").events
_OWNER_EVENTS = artifact("Credit").events


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleGrant:
    """A grant of a role to an account; the role may have been revoked since.

    ``given_by`` is the account itself if the contract was created with this grant.
    """

    contract: str
    role: Role
    account: str
    given_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleHistory:
    """All role grants in order, and the first block of the set."""

    grants: tuple[RoleGrant, ...]
    first_block: int

    @property
    def is_whole(self) -> bool:
        """Whether the history starts at the creation of each contract that has roles."""
        return all(map(self.is_whole_of, ROLE_CONTRACTS))

    def is_whole_of(self, contract: str) -> bool:
        """Return whether the history starts at the creation of a contract that has roles.

        Each contract is created with an admin. In a whole history, the first grant of the admin
        role is therefore one that an account made to itself.
        """
        for grant in self.grants:
            if (grant.contract, grant.role) == (contract, Role.ADMIN):
                return grant.account == grant.given_by
        return False


def search(
    node: Node, contracts: Iterable[Contract], *, head: Block, first: int | None
) -> RoleHistory | None:
    """Return the role history of a set, or None if the node refuses the search or finds no event.

    Args:
        node: A node of the chain.
        contracts: All contracts of the set.
        head: The newest block to search.
        first: The first block to search; None if the first block of the set is unknown.
    """
    names = {contract.address: contract.name for contract in contracts}
    topics = sorted((_ROLE_EVENTS["RoleGranted"].topic, _ROLE_EVENTS["RoleRevoked"].topic))
    topics.append(_OWNER_EVENTS["OwnershipTransferred"].topic)
    log_filter = {"address": sorted(names), "topics": [topics]}
    logs = _logs(node, log_filter, first or 0, head.number)
    if logs is None and first is None:
        creation_block = _find_creation_block(node, next(iter(names)), head)
        if creation_block is not None:
            logs = _logs(node, log_filter, max(0, creation_block - MIN_RANGE), head.number)
    if not logs:
        return None
    grants: list[RoleGrant] = []
    for log in logs:
        grants += _grants(log, names[log["address"].lower()])
    factories = _find_factories(node, {grant.given_by for grant in grants})
    for index, grant in enumerate(grants):
        if grant.given_by in factories:
            grants[index] = replace(grant, given_by=grant.account)
    first_block = min(int(log["blockNumber"], 16) for log in logs)
    return RoleHistory(grants=tuple(grants), first_block=first_block)


def _find_factories(node: Node, accounts: Iterable[str]) -> set[str]:
    """Return the accounts that are factories.

    A factory only creates contracts. So it made its grants in constructors, which name the account.
    """
    addresses = sorted(accounts)
    answers = node.batch([("eth_getCode", [address, "latest"]) for address in addresses])
    codes = zip(addresses, answers, strict=True)
    return {address for address, answer in codes if answer == FACTORY_CODE}


def _grants(log: dict[str, Any], contract: str) -> Iterator[RoleGrant]:
    event = _ROLE_EVENTS["RoleGranted"]
    if log["topics"][0] != event.topic:
        return
    fields = event.decode(log)
    for (role_contract, role), name in ROLE_NAMES.items():
        if role_contract == contract and role_id(name) == fields["role"]:
            account, sender = to_address(fields["account"]), to_address(fields["sender"])
            yield RoleGrant(contract=contract, role=role, account=account, given_by=sender)


def _logs(
    node: Node, log_filter: dict[str, Any], first: int, last: int
) -> list[dict[str, Any]] | None:
    """Return the log entries of a range of blocks, or None if the node refuses the search."""
    request = log_filter | {"fromBlock": hex(first), "toBlock": hex(last)}
    (answer,) = node.batch([("eth_getLogs", [request])])
    if not isinstance(answer, RpcError):
        return list(answer)
    if last - first < MIN_RANGE:
        return None
    middle = (first + last) // 2
    lower = _logs(node, log_filter, first, middle)
    if lower is None:
        return None
    upper = _logs(node, log_filter, middle + 1, last)
    return None if upper is None else lower + upper


def _find_creation_block(node: Node, address: str, head: Block) -> int | None:
    """Return the block that created a contract, or None if the node has pruned the old states."""
    low, high = 0, head.number
    while low < high:
        middle = (low + high) // 2
        (answer,) = node.batch([("eth_getCode", [address, hex(middle)])])
        if isinstance(answer, RpcError):
            return None
        if len(answer) > len("0x"):
            high = middle
        else:
            low = middle + 1
    return low
