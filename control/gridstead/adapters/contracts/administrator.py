# SPDX-License-Identifier: Apache-2.0
"""Inspects a set of contracts, sends the changes that a plan requires, and inspects it again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from gridstead.adapters.chain.contract import Payload
from gridstead.adapters.chain.node import Node
from gridstead.adapters.chain.wallet import Wallet
from gridstead.adapters.contracts.inspection import Inspector
from gridstead.adapters.contracts.steps import TransactionStep, to_steps
from gridstead.adapters.transactions.account import estimate
from gridstead.adapters.transactions.direct import POLL_S, DirectSender
from gridstead.domain.contracts.administration import Change
from gridstead.domain.contracts.deployment import GridState
from gridstead.errors import ChainUnavailable, NotAllowed, TransactionReverted

PlanChanges = Callable[[GridState], tuple[Change, ...]]
CONFIRMATION_TIMEOUT_S = 60.0

# Explanations of revert messages for an administrator, by the start of the revert message.
_MEANINGS = {
    "Ownable: caller is not the owner": "the wallet is not the contract's owner",
    "Ownable2Step: caller is not the new owner": "the contract is not offered to the wallet",
    "AccessControl: account": "the wallet does not have the role that this call requires",
    "Constants: value out of bounds": "the bounds of these contracts differ from this release's",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SentStep:
    """A step of a plan, after the transaction of the step was mined.

    Attributes:
        step: The planned transaction.
        hash: The hash of the transaction.
        block: The height of the block that contains the transaction.
        gas: The gas that the transaction used.
    """

    step: TransactionStep
    hash: str
    block: int
    gas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AdministrationResult:
    """The steps that were planned, the steps that were mined, and the set before and after."""

    steps: tuple[TransactionStep, ...]
    sent_steps: tuple[SentStep, ...]
    before: GridState
    after: GridState


class Administrator:
    """A wallet that administers a set of contracts.

    Args:
        node: A node of the chain.
        inspector: Reads the state of the set.
        wallet: Sends the transactions.
        report: Called with a line of text before and after each transaction.
        first_block: The block in which the deployment of the set began. None if it is unknown.
    """

    def __init__(
        self,
        node: Node,
        inspector: Inspector,
        wallet: Wallet,
        *,
        report: Callable[[str], None],
        first_block: int | None = None,
    ) -> None:
        self._node = node
        self._inspector = inspector
        self._wallet = wallet
        self._direct = DirectSender(node, wallet, timeout_s=300.0)
        self._report = report
        self._first_block = first_block

    def carry_out(
        self, plan: PlanChanges, *, accounts: tuple[str, ...] = (), dry_run: bool = False
    ) -> AdministrationResult:
        """Send the planned changes, and check that no change remains.

        Args:
            plan: Returns the changes that a set still needs. Called again after the last change.
            accounts: The accounts whose roles the plan reads.
            dry_run: Whether to plan the changes without sending transactions.

        Raises:
            NotAllowed: If a contract refuses a change. Changes that were sent before remain in
                effect.
            ConfigError: If the wallet cannot pay.
            ChainUnavailable: If the node does not answer, a transaction is not mined in time, or
                changes remain at the end. The next run sends the remaining transactions.
        """
        if not dry_run:
            self._direct.wait_for_pending()
        before = self._inspect(accounts)
        nonce = self._direct.next_nonce()
        steps_without_gas = to_steps(plan(before), before.addresses, nonce=nonce)
        steps = tuple(map(self._with_gas, steps_without_gas))
        if dry_run or not steps:
            return AdministrationResult(steps=steps, sent_steps=(), before=before, after=before)
        self._wallet.open()
        sent_steps: list[SentStep] = []
        for position, step in enumerate(steps, 1):
            sent_steps.append(self._send(step, f"[{position}/{len(steps)}]"))
        after = self._check_result(plan, accounts, sent_steps[-1].block)
        return AdministrationResult(
            steps=steps, sent_steps=tuple(sent_steps), before=before, after=after
        )

    def _inspect(self, accounts: tuple[str, ...]) -> GridState:
        return self._inspector.inspect(
            accounts=(self._wallet.address, *accounts), first_block=self._first_block
        )

    def _with_gas(self, step: TransactionStep) -> TransactionStep:
        payload = Payload(to=step.to, data=step.data, gas=None)
        try:
            gas = estimate(self._node, self._wallet.address, payload, step.title)
        except TransactionReverted as err:
            raise _refusal(step, err) from err
        return replace(step, gas=gas)

    def _send(self, step: TransactionStep, progress: str) -> SentStep:
        self._report(f"{progress} sending: {step.title}")
        try:
            receipt = self._direct.transact(step.to, step.data, name=step.title)
        except TransactionReverted as err:
            raise _refusal(step, err) from err
        block, gas = int(receipt["blockNumber"], 16), int(receipt["gasUsed"], 16)
        self._report(f"{step.title}: done in block {block}")
        return SentStep(step=step, hash=str(receipt["transactionHash"]), block=block, gas=gas)

    def _check_result(self, plan: PlanChanges, accounts: tuple[str, ...], block: int) -> GridState:
        """Check that the plan has no more changes, and return the state of the set.

        The state is read at ``block`` or later. This method waits until the endpoint reports such a
        block, because an endpoint may have several nodes, and some of the nodes may lag.
        """
        deadline = time.monotonic() + CONFIRMATION_TIMEOUT_S
        while time.monotonic() < deadline:
            after = self._inspect(accounts)
            if after.block < block:
                time.sleep(POLL_S)
                continue
            remaining_changes = plan(after)
            if remaining_changes:
                raise ChainUnavailable(
                    f"could not confirm that {remaining_changes[0].title}",
                    detail="another account reverted it, or the node did not report all events",
                )
            return after
        detail = f"the node has not reached block {block}"
        raise ChainUnavailable("could not confirm the changes", detail=detail)


def _refusal(step: TransactionStep, error: TransactionReverted) -> NotAllowed:
    message = ", ".join(error.arguments)
    hint = None
    for start, meaning in _MEANINGS.items():
        if message.startswith(start):
            hint = f"This error means that {meaning}."
    call = f"{step.function}({', '.join(step.arguments)})"
    return NotAllowed(
        f"{step.contract} refuses {call}", detail=f'{error.error_name}: "{message}"', hint=hint
    )
