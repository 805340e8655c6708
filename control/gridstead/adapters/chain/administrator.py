# SPDX-License-Identifier: Apache-2.0
"""Changes a set of contracts as its administrator wishes: look, plan, send what is missing, look
again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from gridstead.adapters.chain.account import estimate
from gridstead.adapters.chain.direct import POLL_S, DirectSender
from gridstead.adapters.chain.encode import Payload
from gridstead.adapters.chain.inspection import Inspector
from gridstead.adapters.chain.node import Node
from gridstead.adapters.chain.steps import TransactionStep, to_steps
from gridstead.adapters.chain.wallet import Wallet
from gridstead.domain.administration import Change
from gridstead.domain.deployment import GridState
from gridstead.errors import ChainUnavailable, NotAllowed, TransactionReverted

Plan = Callable[[GridState], tuple[Change, ...]]
SEEN_WITHIN_S = 60.0

# What the contracts say to an administrator, by the beginning of their words, and what it means.
_WORDS = {
    "Ownable: caller is not the owner": "the wallet is not the contract's owner",
    "Ownable2Step: caller is not the new owner": "the contract is not offered to the wallet",
    "AccessControl: account": "the wallet has not the role that this takes",
    "Constants: value out of bounds": "these contracts allow other bounds than this release knows",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SentStep:
    """A step that is in a block: its transaction, the block's height, and the gas that it took."""

    step: TransactionStep
    hash: str
    block: int
    gas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AdministrationResult:
    """What a wish came to: what was to be sent, what was done of it, and the set before and after."""

    steps: tuple[TransactionStep, ...]
    done: tuple[SentStep, ...]
    before: GridState
    after: GridState


class Administrator:
    """A wallet that administers a set.

    Args:
        node: The chain.
        inspector: Of the set.
        wallet: Sends.
        tell: Called with a line per transaction.
        first_block: Where the set begins, if that is known.
    """

    def __init__(
        self,
        node: Node,
        inspector: Inspector,
        wallet: Wallet,
        *,
        tell: Callable[[str], None],
        first_block: int | None = None,
    ) -> None:
        self._node = node
        self._inspector = inspector
        self._wallet = wallet
        self._direct = DirectSender(node, wallet, timeout_s=300.0)
        self._tell = tell
        self._first_block = first_block

    def carry_out(
        self, plan: Plan, *, accounts: tuple[str, ...] = (), dry_run: bool = False
    ) -> AdministrationResult:
        """Send what a plan says is missing, and see that nothing is missing any more.

        Args:
            plan: Returns what is missing in a set; is asked again afterwards.
            accounts: Whose roles matter to the plan.
            dry_run: Send nothing.

        Raises:
            NotAllowed: A contract refuses; what came before it is done.
            ConfigError: The wallet cannot pay.
            ChainUnavailable: It is not known whether a transaction was mined; doing it again goes
                on from there.
        """
        if not dry_run:
            self._direct.wait_for_own()
        before = self._inspect(accounts)
        nonce = self._direct.next_nonce()
        steps = tuple(map(self._estimated, to_steps(plan(before), before.addresses, nonce=nonce)))
        if dry_run or not steps:
            return AdministrationResult(steps=steps, done=(), before=before, after=before)
        self._wallet.open()
        done = tuple(
            self._send(step, f"[{place}/{len(steps)}]") for place, step in enumerate(steps, 1)
        )
        after = self._see(plan, accounts, done[-1].block)
        return AdministrationResult(steps=steps, done=done, before=before, after=after)

    def _inspect(self, accounts: tuple[str, ...]) -> GridState:
        return self._inspector.inspect(
            accounts=(self._wallet.address, *accounts), first_block=self._first_block
        )

    def _estimated(self, step: TransactionStep) -> TransactionStep:
        try:
            gas = estimate(
                self._node,
                self._wallet.address,
                Payload(to=step.to, data=step.data, gas=None),
                step.title,
            )
        except TransactionReverted as err:
            raise _refused(step, err) from err
        return replace(step, gas=gas)

    def _send(self, step: TransactionStep, place: str) -> SentStep:
        self._tell(f"{place} sending: {step.title}")
        try:
            receipt = self._direct.transact(step.to, step.data, name=step.title)
        except TransactionReverted as err:
            raise _refused(step, err) from err
        block, gas = int(receipt["blockNumber"], 16), int(receipt["gasUsed"], 16)
        self._tell(f"{step.title}: done in block {block}")
        return SentStep(step=step, hash=str(receipt["transactionHash"]), block=block, gas=gas)

    def _see(self, plan: Plan, accounts: tuple[str, ...], block: int) -> GridState:
        """Return the set at that block or later; one node of several behind an endpoint may lag."""
        end = time.monotonic() + SEEN_WITHIN_S
        while time.monotonic() < end:
            after = self._inspect(accounts)
            if after.block >= block:
                left = plan(after)
                if left:
                    raise ChainUnavailable(
                        f"could not see that {left[0].title}", detail="somebody else undid it"
                    )
                return after
            time.sleep(POLL_S)
        raise ChainUnavailable(
            "could not see what was done", detail=f"the node does not reach block {block}"
        )


def _refused(step: TransactionStep, error: TransactionReverted) -> NotAllowed:
    words = ", ".join(error.arguments)
    meaning = next((text for start, text in _WORDS.items() if words.startswith(start)), None)
    call = f"{step.function}({', '.join(step.arguments)})"
    hint = f"It means: {meaning}." if meaning else None
    return NotAllowed(
        f"{step.contract} refuses {call}", detail=f'{error.error_name}: "{words}"', hint=hint
    )
