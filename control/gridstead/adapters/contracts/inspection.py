# SPDX-License-Identifier: Apache-2.0
"""Reads the state of a set of contracts at one block, for its administrators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from eth_utils.crypto import keccak

from gridstead.adapters.chain.contract import Contract
from gridstead.adapters.chain.contracts import Contracts
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.chain.node import Node, RpcError
from gridstead.adapters.contracts.blueprint import code_of_release
from gridstead.adapters.contracts.role_history import RoleGrant, search
from gridstead.adapters.contracts.steps import role_id
from gridstead.domain.contracts.constants import CONSTANTS
from gridstead.domain.contracts.deployment import (
    NOBODY,
    OWNED_CONTRACTS,
    ROLE_NAMES,
    Code,
    DeployedContract,
    Escrow,
    GridState,
    Holder,
    Ownership,
    Role,
)
from gridstead.domain.contracts.releases import EARLIER_RELEASES
from gridstead.domain.jobs.job import Block
from gridstead.domain.jobs.lifecycle import COLD
from gridstead.errors import ChainUnavailable

JOBS_AT_ONCE = 1000
JOBS_PER_REPORT = 10 * JOBS_AT_ONCE

ViewArguments = tuple[Contract, str, tuple[Any, ...]]  # contract, name of the view, its arguments


class Inspector:
    """Reads one set of contracts.

    Args:
        node: A node of the chain.
        contracts: The contracts to read.
        report: A function that is called with a line of progress while many jobs are read.
    """

    def __init__(self, node: Node, contracts: Contracts, *, report: Callable[[str], None]) -> None:
        self._node = node
        self._contracts = contracts
        self._ledger = ChainLedger(node, contracts)
        self._report = report
        contracts_in_order: tuple[Contract, ...] = (
            contracts.meta_scheduler,
            contracts.jobs,
            contracts.providers,
            contracts.queues,
            contracts.constants,
            contracts.credit,
        )
        self._contracts_by_name = {contract.name: contract for contract in contracts_in_order}

    def inspect(
        self,
        *,
        accounts: Iterable[str] = (),
        first_block: int | None = None,
        count_escrow: bool = False,
    ) -> GridState:
        """Return the state of the set at the newest block.

        Args:
            accounts: Accounts whose roles are read even if no event names them.
            first_block: The first block of the set; None to let the node search all blocks.
            count_escrow: Whether to add up the escrow of all jobs, which takes about a second for a
                few thousand jobs.

        Raises:
            ChainUnavailable: If the node does not answer.
        """
        head = self._ledger.head()
        history = search(self._node, self._contracts_by_name.values(), head=head, first=first_block)
        grid = self._contracts.meta_scheduler.address
        balance, fees, accepts_jobs, queues_jobs = self._values(
            [
                (self._contracts.credit, "balanceOf", (grid,)),
                (self._contracts.meta_scheduler, "accruedFees", ()),
                (self._contracts.meta_scheduler, "enableRequestNewJob", ()),
                (self._contracts.queues, "jobs", ()),
            ],
            head,
        )
        grants = history.grants if history else ()
        set_first_block = history.first_block if history and history.is_whole else None
        owners = self._owners(head)
        givers = {grant.given_by for grant in grants}
        candidates = givers.union(accounts, [ownership.owner for ownership in owners])
        return GridState(
            chain_id=self._contracts.chain_id,
            block=head.number,
            version=self._contracts.version,
            first_block=set_first_block,
            contracts=tuple(self._deployed(name, head) for name in self._contracts_by_name),
            holders=self._holders(grants, sorted(candidates), head),
            owners=owners,
            constants=self._constants(head),
            accepts_jobs=bool(accepts_jobs),
            fees=fees,
            queues_jobs=str(queues_jobs).lower() if queues_jobs else None,
            escrow=self._escrow(int(balance or 0), fees or 0, head) if count_escrow else None,
        )

    def _deployed(self, name: str, head: Block) -> DeployedContract:
        """Return a contract of the set, with a comparison of its code with a release's code."""
        address = self._contracts_by_name[name].address
        addresses = {other: contract.address for other, contract in self._contracts_by_name.items()}
        pin = {"blockHash": head.hash, "requireCanonical": True}
        code = str(self._node.ask("eth_getCode", address, pin))
        if len(code) <= len("0x"):
            return DeployedContract(contract=name, address=address, code=Code.MISSING)
        version = self._contracts.version
        earlier_release = version if version in EARLIER_RELEASES else ""
        expected_code = code_of_release(
            self._node, name, addresses, at_block=head, earlier_release=earlier_release
        )
        if expected_code is None:
            return DeployedContract(
                contract=name, address=address, code=Code.UNKNOWN, code_hash=_hash(code)
            )
        match = Code.EARLIER if earlier_release else Code.OURS
        return DeployedContract(
            contract=name,
            address=address,
            code=match if code == expected_code else Code.FOREIGN,
            code_hash=_hash(code),
            expected_hash=_hash(expected_code),
        )

    def _holders(
        self, grants: Iterable[RoleGrant], accounts: Iterable[str], head: Block
    ) -> tuple[Holder, ...]:
        """Return the accounts that have a role now.

        The method checks ``accounts``, MetaScheduler, and each account that was ever granted a
        role.
        """
        givers: dict[tuple[str, Role, str], str] = {}
        for grant in grants:
            key = (grant.contract, grant.role, grant.account)
            givers.pop(key, None)  # so that the newest grant is last
            givers[key] = grant.given_by
        for contract, role in ROLE_NAMES:
            for account in (*accounts, self._contracts.meta_scheduler.address):
                # If no event shows the grant, it is unknown who gave the role to this account.
                givers.setdefault((contract, role, account), "")
        calls: list[ViewArguments] = []
        for contract, role, account in givers:
            arguments = (role_id(ROLE_NAMES[contract, role]), account)
            calls.append((self._contracts_by_name[contract], "hasRole", arguments))
        holders = []
        for (key, giver), has_role in zip(givers.items(), self._values(calls, head), strict=True):
            if has_role:
                contract, role, account = key
                holder = Holder(contract=contract, role=role, account=account, given_by=giver)
                holders.append(holder)
        return tuple(holders)

    def _owners(self, head: Block) -> tuple[Ownership, ...]:
        return tuple(self._ownership(name, head) for name in OWNED_CONTRACTS)

    def _ownership(self, name: str, head: Block) -> Ownership:
        contract = self._contracts_by_name[name]
        calls = [(contract, "owner", ()), (contract, "pendingOwner", ())]
        owner, pending_owner = self._values(calls, head)
        offered_to: str | None = None
        if pending_owner is not None:
            # The zero address means that there is no offer.
            offered_to = str(pending_owner).lower().replace(NOBODY, "")
        return Ownership(
            contract=name,
            owner=str(owner or NOBODY).lower(),
            offered_to=offered_to,
        )

    def _constants(self, head: Block) -> Mapping[str, int]:
        names = [constant.name for constant in CONSTANTS]
        values = self._values([(self._contracts.constants, name, ()) for name in names], head)
        constants: dict[str, int] = {}
        for name, value in zip(names, values, strict=True):
            if value is not None:
                constants[name] = int(value)
        return constants

    def _escrow(self, balance: int, fees: int, head: Block) -> Escrow:
        (count,) = self._values([(self._contracts.jobs, "jobIdCounter", ())], head)
        total = int(count or 0)
        escrowed = hot_jobs = 0
        for start in range(1, total + 1, JOBS_AT_ONCE):
            numbers = range(start, min(start + JOBS_AT_ONCE, total + 1))
            job_ids = map(self._contracts.job_id, numbers)
            for job in self._ledger.jobs(job_ids, at_block=head).values():
                if job.state not in COLD:
                    escrowed += job.escrow
                    hot_jobs += 1
            counted_jobs = numbers[-1]
            if counted_jobs % JOBS_PER_REPORT == 0:
                self._report(f"{counted_jobs} of {total} jobs counted")
        return Escrow(balance=balance, escrowed=escrowed, fees=fees, jobs=total, hot_jobs=hot_jobs)

    def _values(self, calls: Iterable[ViewArguments], head: Block) -> list[Any]:
        """Return the results of views; None for a view that a contract does not have.

        For example, the contracts of DeepSquare 1.2 lack some views of Gridstead's contracts.
        """
        views = list(calls)
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
            except ChainUnavailable:  # there is no contract; `_deployed` reports it
                values.append(None)
        return values


def _hash(code: str) -> str:
    return "0x" + keccak(bytes.fromhex(code[2:])).hex()


def has_code(node: Node, address: str) -> bool:
    """Return whether an address has code at the newest block."""
    return len(node.ask("eth_getCode", address, "latest")) > len("0x")
