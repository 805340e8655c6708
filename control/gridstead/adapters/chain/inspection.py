# SPDX-License-Identifier: Apache-2.0
"""Reads everything that an administrator wants to know of a set of contracts, at one block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from eth_utils.crypto import keccak

from gridstead.adapters.chain.blueprint import code_of_release
from gridstead.adapters.chain.contracts import Contract, Contracts
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.chain.node import Node, RpcError
from gridstead.adapters.chain.role_history import RoleGrant, search
from gridstead.adapters.chain.steps import role_id
from gridstead.domain.administration import CONSTANTS
from gridstead.domain.deployment import (
    NOBODY,
    OWNED_CONTRACTS,
    ROLE_NAMES,
    Code,
    DeployedContract,
    Escrow,
    GridState,
    Holder,
    Ownership,
)
from gridstead.domain.job import Block
from gridstead.domain.lifecycle import COLD
from gridstead.errors import ChainUnavailable

JOBS_AT_ONCE = 1000


class Inspector:
    """Looks at one set of contracts.

    Args:
        node: The chain.
        contracts: The set.
        tell: Called with a line now and then while many jobs are read.
    """

    def __init__(self, node: Node, contracts: Contracts, *, tell: Callable[[str], None]) -> None:
        self._node = node
        self._contracts = contracts
        self._ledger = ChainLedger(node, contracts)
        self._tell = tell
        set_ = (contracts.meta_scheduler, contracts.jobs, contracts.providers)
        self._all = {
            one.name: one
            for one in (*set_, contracts.queues, contracts.constants, contracts.credit)
        }

    def inspect(
        self,
        *,
        accounts: Iterable[str] = (),
        first_block: int | None = None,
        count_escrow: bool = False,
    ) -> GridState:
        """Return the set as the newest block has it.

        Args:
            accounts: Those whose roles matter, whatever events tell.
            first_block: Where the set begins; None to let the node search all blocks.
            count_escrow: Add up the locks of all jobs, which takes a second per some thousand of
                them.

        Raises:
            ChainUnavailable: The node did not answer.
        """
        head = self._ledger.head()
        history = search(self._node, self._all.values(), head=head, first=first_block)
        grid = self._contracts.meta_scheduler.address
        balance, fees, accepts, queues_jobs = self._values(
            [
                (self._contracts.credit, "balanceOf", (grid,)),
                (self._contracts.meta_scheduler, "accruedFees", ()),
                (self._contracts.meta_scheduler, "enableRequestNewJob", ()),
                (self._contracts.queues, "jobs", ()),
            ],
            head,
        )
        grants, owners = (history.grants if history else ()), self._owners(head)
        matter = {*accounts, *(one.given_by for one in grants), *(one.owner for one in owners)}
        return GridState(
            chain_id=self._contracts.chain_id,
            block=head.number,
            version=self._contracts.version,
            first_block=history.first_block if history and history.is_whole else None,
            contracts=tuple(self._deployed(name, head) for name in self._all),
            holders=self._holders(grants, sorted(matter), head),
            owners=owners,
            constants=self._constants(head),
            accepts_jobs=bool(accepts),
            fees=fees,
            queues_jobs=str(queues_jobs).lower() if queues_jobs else None,
            escrow=self._escrow(int(balance or 0), fees or 0, head) if count_escrow else None,
        )

    def _deployed(self, name: str, head: Block) -> DeployedContract:
        contract, addresses = self._all[name], {one.name: one.address for one in self._all.values()}
        pin = {"blockHash": head.hash, "requireCanonical": True}
        code = str(self._node.ask("eth_getCode", contract.address, pin))
        if len(code) <= len("0x"):
            return DeployedContract(contract=name, address=contract.address, code=Code.MISSING)
        expected = code_of_release(self._node, name, addresses, at_block=head)
        if expected is None:
            return DeployedContract(
                contract=name, address=contract.address, code=Code.UNKNOWN, code_hash=_hash(code)
            )
        return DeployedContract(
            contract=name,
            address=contract.address,
            code=Code.OURS if code == expected else Code.FOREIGN,
            code_hash=_hash(code),
            expected_hash=_hash(expected),
        )

    def _holders(
        self, grants: Iterable[RoleGrant], accounts: Iterable[str], head: Block
    ) -> tuple[Holder, ...]:
        """Return who holds a role now: of those who were ever given it, and of the accounts that
        matter.
        """
        givers: dict[Any, str] = {}
        for grant in grants:
            key = (grant.contract, grant.role, grant.account)
            givers.pop(key, None)  # the newest last
            givers[key] = grant.given_by
        for contract, role in ROLE_NAMES:
            for account in (*accounts, self._contracts.meta_scheduler.address):
                givers.setdefault((contract, role, account), "")
        asked = [
            (self._all[contract], "hasRole", (role_id(ROLE_NAMES[contract, role]), account))
            for contract, role, account in givers
        ]
        return tuple(
            Holder(contract=contract, role=role, account=account, given_by=giver)
            for ((contract, role, account), giver), holds in zip(
                givers.items(), self._values(asked, head), strict=True
            )
            if holds
        )

    def _owners(self, head: Block) -> tuple[Ownership, ...]:
        asked = [
            (self._all[name], function, ())
            for name in OWNED_CONTRACTS
            for function in ("owner", "pendingOwner")
        ]
        answers = self._values(asked, head)
        return tuple(
            Ownership(
                contract=name,
                owner=str(owner or NOBODY).lower(),
                offered_to=None if offered is None else str(offered).lower().replace(NOBODY, ""),
            )
            for name, owner, offered in zip(
                OWNED_CONTRACTS, answers[::2], answers[1::2], strict=True
            )
        )

    def _constants(self, head: Block) -> Mapping[str, int]:
        values = self._values(
            [(self._contracts.constants, one.name, ()) for one in CONSTANTS], head
        )
        return {
            one.name: int(value)
            for one, value in zip(CONSTANTS, values, strict=True)
            if value is not None
        }

    def _escrow(self, balance: int, fees: int, head: Block) -> Escrow:
        (count,) = self._values([(self._contracts.jobs, "jobIdCounter", ())], head)
        total, escrowed, hot = int(count or 0), 0, 0
        for start in range(1, total + 1, JOBS_AT_ONCE):
            numbers = range(start, min(start + JOBS_AT_ONCE, total + 1))
            alive = [
                job
                for job in self._ledger.jobs(numbers, at_block=head).values()
                if job.state not in COLD
            ]
            escrowed += sum(job.escrow for job in alive)
            hot += len(alive)
            if numbers[-1] % (10 * JOBS_AT_ONCE) == 0:
                self._tell(f"{numbers[-1]} of {total} jobs counted")
        return Escrow(balance=balance, escrowed=escrowed, fees=fees, jobs=total, hot_jobs=hot)

    def _values(
        self, asked: Iterable[tuple[Contract, str, tuple[Any, ...]]], head: Block
    ) -> list[Any]:
        """Return what views answer; None where a contract does not have the view, as one of another
        generation.
        """
        views = list(asked)
        reads = [contract.read(name, *arguments) for contract, name, arguments in views]
        values: list[Any] = []
        for (contract, name, _), answer in zip(
            views, self._node.read(reads, at_block=head), strict=True
        ):
            if isinstance(answer, RpcError):
                values.append(None)
                continue
            try:
                values.append(contract.decode(name, answer))
            except ChainUnavailable:  # nothing is there; `_placed` says so
                values.append(None)
        return values


def _hash(code: str) -> str:
    return "0x" + keccak(bytes.fromhex(code[2:])).hex()


def has_code(node: Node, address: str) -> bool:
    """Return whether there is a contract at an address now."""
    return len(node.ask("eth_getCode", address, "latest")) > len("0x")
