# SPDX-License-Identifier: Apache-2.0
"""Deploys the contracts of a new grid.

The addresses of a set follow from the code, the admin, the supply and the salt, because a factory
creates the contracts (CREATE2). Code at an address is therefore a finished step, and a deployment
may be interrupted anywhere and started again. When all contracts exist, the admin sends the
transactions that set them up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from gridstead.adapters.chain.contracts import find_contracts
from gridstead.adapters.chain.node import Node, to_block
from gridstead.adapters.chain.wallet import Wallet
from gridstead.adapters.contracts.administrator import AdministrationResult, Administrator
from gridstead.adapters.contracts.blueprint import ORDER
from gridstead.adapters.contracts.creations import plan_creations
from gridstead.adapters.contracts.deployment_file import Record, read, write
from gridstead.adapters.contracts.factory import (
    STANDARD_FACTORY,
    create_own_factory,
    create_standard_factory,
    find_factory,
    has_factory,
)
from gridstead.adapters.contracts.inspection import Inspector, has_code, read_block_time
from gridstead.adapters.contracts.steps import TransactionStep, to_steps
from gridstead.adapters.transactions.direct import POLL_S, DirectSender
from gridstead.domain.contracts.administration import Change, check_bounds
from gridstead.domain.contracts.deployment import GridState
from gridstead.domain.contracts.setup import (
    CLAIM_TIMEOUT,
    INITIAL_CLAIM_BLOCKS,
    DeploymentOptions,
    new_set,
    set_up,
)
from gridstead.domain.jobs.job import Block
from gridstead.errors import ChainUnavailable, ConfigError, TransactionReverted

TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentResult:
    """The addresses by contract name, how many transactions were sent, and the state of the set."""

    contracts: dict[str, str]
    sent: int
    state: GridState


class Deployment:
    """The deployment of one grid's contracts.

    Args:
        node: A node of the chain.
        admin: The wallet that pays, and that owns the contracts afterwards.
        path: The deployment file.
        options: The options of the deployment.
        report: Called with a line when a transaction is sent and when it is mined.
        renew: What to do if the file is of another chain, admin or set. If false, fail. If true,
            replace the file, as needed on a development chain.

    Raises:
        ConfigError: If the file cannot be read, or if it is of another chain, admin or set and
            ``renew`` is false.
    """

    def __init__(
        self,
        node: Node,
        admin: Wallet,
        path: Path,
        options: DeploymentOptions,
        *,
        report: Callable[[str], None],
        renew: bool = False,
    ) -> None:
        self._node = node
        self._direct = DirectSender(node, admin, timeout_s=TIMEOUT_S)
        self._admin = admin
        self._path = path
        self._options = options
        self._report = report
        self._record = self._load(renew=renew)

    def plan_steps(self) -> tuple[TransactionStep, ...]:
        """Return the remaining transactions. This method writes and sends nothing.

        Raises:
            ConfigError: If contracts are missing that this release cannot create, or if there is no
                deployer at the chosen address.
        """
        if self._exists():
            return self._set_up(dry_run=True).steps
        factory = self._find_factory()
        if factory is None:
            self._report("the chain has no deployer yet: a run of this command creates it first")
        head = self._head()
        record, creations = self._plan_creations(factory or STANDARD_FACTORY, head)
        state = new_set(record.chain_id, head.number, record.contracts, record.admin)
        changes = self._changes(state, self._claim_blocks(head))
        steps = [*creations, *to_steps(changes, record.contracts, nonce=0)]
        nonce = self._direct.next_nonce()
        return tuple(replace(step, nonce=nonce + offset) for offset, step in enumerate(steps))

    def run(self) -> DeploymentResult:
        """Send the remaining transactions one by one.

        Raises:
            ChainUnavailable: If a transaction was not mined in time. The next run continues.
            NotAllowed: If a contract refuses a transaction.
            ConfigError: As in ``plan_steps``, or if the wallet cannot pay for a transaction.
            InvalidInput: If the claim timeout is out of bounds on this chain. Nothing is sent.
        """
        claim_blocks = self._claim_blocks(self._head())
        if claim_blocks is not None:
            check_bounds(CLAIM_TIMEOUT, claim_blocks)
        self._direct.wait_for_pending()
        sent = 0 if self._exists() else self._create()
        result = self._set_up(dry_run=False)
        self._save(replace(self._record, first_block=result.after.first_block))
        return DeploymentResult(
            contracts=self._record.contracts,
            sent=sent + len(result.sent_steps),
            state=result.after,
        )

    def _load(self, *, renew: bool) -> Record:
        new_record = Record(
            chain_id=int(self._node.ask("eth_chainId"), 16),
            genesis=to_block(self._node.ask("eth_getBlockByNumber", "0x0", False)).hash,
            admin=self._admin.address,
            supply_wei=self._options.supply,
            salt=self._options.salt,
        )
        record = read(self._path)
        if record is None:
            return new_record
        differences = record.differences(new_record)
        if not differences:
            return record
        if renew:
            return new_record
        hint = (
            "Use the chain, the wallet and the options that the deployment was started with,"
            " or another file to deploy a new set."
        )
        raise ConfigError(
            f"the deployment {self._path} is of another chain, wallet or set",
            detail=", ".join(differences),
            hint=hint,
        )

    def _save(self, record: Record) -> None:
        if record.first_block is None:
            record = replace(record, first_block=self._record.first_block)
        if record != read(self._path):
            write(self._path, record)
        self._record = record

    def _head(self) -> Block:
        return to_block(self._node.ask("eth_getBlockByNumber", "latest", False))

    def _exists(self) -> bool:
        """Return whether all contracts of the deployment file exist."""
        contracts = self._record.contracts
        return all(name in contracts and has_code(self._node, contracts[name]) for name in ORDER)

    def _find_factory(self) -> str | None:
        return find_factory(
            self._node, chosen=self._options.deployer, recorded=self._record.deployer
        )

    def _plan_creations(
        self, factory: str, head: Block
    ) -> tuple[Record, tuple[TransactionStep, ...]]:
        return plan_creations(self._node, self._record, self._options, factory, head)

    def _create(self) -> int:
        """Create the missing contracts, and return how many transactions were sent for them."""
        factory = self._find_factory()
        if factory is None:
            self._admin.open()
            self._save(self._record)  # fails before anything is sent if the file is not writable
            factory = self._create_factory()
        record, steps = self._plan_creations(factory, self._head())
        if steps:
            self._admin.open()
        self._save(record)
        for position, step in enumerate(steps, 1):
            self._report(f"[{position}/{len(steps)}] sending: {step.title}")
            self._send(step)
        self._wait_until(self._exists, "the contracts")
        return len(steps)

    def _create_factory(self) -> str:
        self._report("sending: creation of the deployer")
        factory = STANDARD_FACTORY
        if not create_standard_factory(self._node, self._direct):
            factory = create_own_factory(self._direct)
            self._report(
                f"the chain refuses the standard deployer, so {self._admin.address} has created its"
                f" own deployer at {factory}: to get the same addresses again, use"
                f" --deployer {factory}"
            )
            self._save(replace(self._record, deployer=factory))
        self._wait_until(lambda: has_factory(self._node, factory), "the deployer")
        return factory

    def _send(self, step: TransactionStep) -> None:
        """Create a contract. Another run may have created it in the meantime."""
        try:
            receipt = self._direct.transact(step.to, step.data, name=step.title)
        except TransactionReverted:
            if not has_code(self._node, step.creates):
                raise
            self._report(f"{step.title}: done by another transaction, at {step.creates}")
            return
        block = int(receipt["blockNumber"], 16)
        self._report(f"{step.title}: done in block {block}, at {step.creates}")

    def _wait_until(self, exists: Callable[[], bool], what: str) -> None:
        """Wait until the endpoint reports new contracts. Some of its nodes may lag."""
        deadline = time.monotonic() + TIMEOUT_S
        while not exists():
            if time.monotonic() > deadline:
                detail = f"the node does not report a contract after {TIMEOUT_S:g} s"
                raise ChainUnavailable(f"could not confirm {what}", detail=detail)
            time.sleep(POLL_S)

    def _set_up(self, *, dry_run: bool) -> AdministrationResult:
        """Send the transactions that set up the contracts."""
        contracts = find_contracts(self._node, self._record.contracts["MetaScheduler"])
        inspector = Inspector(self._node, contracts, report=self._report)
        administrator = Administrator(
            self._node,
            inspector,
            self._admin,
            report=self._report,
            first_block=self._record.first_block,
        )
        claim_blocks = self._claim_blocks(self._head())
        result = administrator.carry_out(
            lambda state: self._changes(state, claim_blocks),
            accounts=(self._options.operator,),
            dry_run=dry_run,
        )
        blocks = result.after.constants.get(CLAIM_TIMEOUT.name)
        is_unset = self._options.claim_timeout_s is not None and claim_blocks is None
        if is_unset and blocks == INITIAL_CLAIM_BLOCKS:
            self._report(
                f"the chain is too young to measure its block time: the claim timeout is {blocks}"
                " blocks until you run this command again, or set claimJobTimeout"
            )
        return result

    def _changes(self, state: GridState, claim_blocks: int | None) -> tuple[Change, ...]:
        operator = self._options.operator
        return set_up(state, self._admin.address, operator, claim_blocks=claim_blocks)

    def _claim_blocks(self, head: Block) -> int | None:
        """Return how many blocks the claim timeout has; None to leave its initial value."""
        timeout_s = self._options.claim_timeout_s
        block_time = read_block_time(self._node, head) if timeout_s is not None else None
        return block_time.blocks_ceil(timeout_s) if block_time and timeout_s else None
