# SPDX-License-Identifier: Apache-2.0
"""Who was ever given a role in a set of contracts, and where the set begins, from the events of its
contracts.

A node may refuse to search many blocks at once, and may have thrown away old states. Then the range
is halved, and the beginning is looked for in the code at earlier blocks; what still cannot be had
is said to be unknown, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gridstead.adapters.chain.abi import artifact
from gridstead.adapters.chain.contracts import Contract
from gridstead.adapters.chain.node import Node, RpcError
from gridstead.adapters.chain.records import to_address
from gridstead.adapters.chain.steps import role_id
from gridstead.domain.deployment import ROLE_CONTRACTS, ROLE_NAMES, Role
from gridstead.domain.job import Block

SMALLEST_RANGE = 256  # a node that will not search so few blocks has no events for us

_ROLES = artifact("MetaScheduler").events
_OWNED = artifact("Credit").events


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleGrant:
    """An account was given a role in a contract, once; it may have lost it since."""

    contract: str
    role: Role
    account: str
    given_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleHistory:
    """What events tell: every gift, the latest of the same last, and the first block of the set."""

    grants: tuple[RoleGrant, ...]
    first_block: int

    @property
    def is_whole(self) -> bool:
        """Whether it goes back to the creation of each contract with roles, where its creator
        becomes admin.
        """
        return all(map(self.is_whole_of, ROLE_CONTRACTS))

    def is_whole_of(self, contract: str) -> bool:
        """Whether it goes back to the creation of a contract with roles."""
        first = next(
            (one for one in self.grants if (one.contract, one.role) == (contract, Role.ADMIN)), None
        )
        return first is not None and first.account == first.given_by


def search(
    node: Node, contracts: Iterable[Contract], *, head: Block, first: int | None
) -> RoleHistory | None:
    """Return what the events of a set tell, None if the node will not search them.

    Args:
        node: The chain.
        contracts: All of the set.
        head: The newest block to look at.
        first: A block before which there was nothing of the set; None if that is not known.
    """
    named = {one.address: one.name for one in contracts}
    topics = sorted(_ROLES[name].topic for name in ("RoleGranted", "RoleRevoked"))
    wanted = {"address": sorted(named), "topics": [[*topics, _OWNED["OwnershipTransferred"].topic]]}
    logs = _logs(node, wanted, first or 0, head.number)
    if logs is None and first is None:
        begin = _first_code(node, next(iter(named)), head)
        logs = (
            None
            if begin is None
            else _logs(node, wanted, max(0, begin - SMALLEST_RANGE), head.number)
        )
    if not logs:
        return None
    grants = tuple(grant for log in logs for grant in _grant(log, named[log["address"].lower()]))
    return RoleHistory(grants=grants, first_block=min(int(log["blockNumber"], 16) for log in logs))


def _grant(log: dict[str, Any], contract: str) -> Iterator[RoleGrant]:
    event = _ROLES["RoleGranted"]
    if log["topics"][0] != event.topic:
        return
    fields = event.decode(log)
    for (where, role), name in ROLE_NAMES.items():
        if where == contract and role_id(name) == fields["role"]:
            account, sender = to_address(fields["account"]), to_address(fields["sender"])
            yield RoleGrant(contract=contract, role=role, account=account, given_by=sender)


def _logs(node: Node, wanted: dict[str, Any], first: int, last: int) -> list[dict[str, Any]] | None:
    asked = wanted | {"fromBlock": hex(first), "toBlock": hex(last)}
    (answer,) = node.batch([("eth_getLogs", [asked])])
    if not isinstance(answer, RpcError):
        return list(answer)
    if last - first < SMALLEST_RANGE:
        return None
    middle = (first + last) // 2
    left = _logs(node, wanted, first, middle)
    right = None if left is None else _logs(node, wanted, middle + 1, last)
    return None if left is None or right is None else left + right


def _first_code(node: Node, address: str, head: Block) -> int | None:
    """Return the first block at whose end the contract was there, None if the node has thrown away
    such states.
    """
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
