# SPDX-License-Identifier: Apache-2.0
"""Transactions of a person at a terminal: sent at once and waited for. Services use an outbox and
its sender.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gridstead.adapters.chain.account import estimate, send_raw, to_fields
from gridstead.adapters.chain.encode import Payload
from gridstead.adapters.chain.node import Node, RpcError
from gridstead.adapters.chain.wallet import Wallet
from gridstead.domain.sending import Fees, Taken
from gridstead.errors import ChainUnavailable, TransactionReverted

POLL_S = 0.1
LEAST_TIP = 1_000_000_000
PATIENCE = 5  # looks for a receipt after its nonce was used up


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A signed transaction that is not sent yet: nonce, gas limit, fees, hash and bytes."""

    nonce: int
    gas: int
    fees: Fees
    hash: str
    raw: str


class DirectSender:
    """Sends one transaction after the other.

    Args:
        node: The chain.
        wallet: Who sends.
        timeout_s: How long a transaction may take to be mined.
    """

    def __init__(self, node: Node, wallet: Wallet, *, timeout_s: float = 120.0) -> None:
        self._node = node
        self._wallet = wallet
        self._timeout_s = timeout_s
        self._chain_id: int | None = None

    @property
    def address(self) -> str:
        """The sender, lower case."""
        return self._wallet.address

    def transact(self, to: str, data: str, *, name: str) -> dict[str, Any]:
        """Send a transaction and return its receipt; an empty ``to`` creates a contract.

        Raises:
            TransactionReverted: The contract refused; nothing changed.
            ChainUnavailable: It is not known whether it was or will be mined.
            ConfigError: The wallet cannot pay for it.
        """
        (receipt,) = self.transact_all(to, [data], name=name)
        return receipt

    def transact_all(self, to: str, data: Sequence[str], *, name: str) -> list[dict[str, Any]]:
        """Send transactions to one contract, all before the first is waited for, and return their
        receipts in order.

        Raises:
            TransactionReverted: The contract refused one; those beside it may have been mined.
            ChainUnavailable: Of one it is not known whether it was or will be mined.
            ConfigError: The wallet cannot pay for one.
        """
        return self._send([Payload(to=to, data=one, gas=None) for one in data], name)

    def transfer(self, to: str, value: int) -> None:
        """Give a wallet some of our coins, wei."""
        self._send([Payload(to=to, data="0x", gas=None, value=value)], "transfer of coins")

    def draft(
        self, payload: Payload, *, nonce: int, name: str, earlier: tuple[int, Fees] | None = None
    ) -> Draft:
        """Return a signed transaction that may be sent later, or never.

        Args:
            payload: What it does; its gas is asked of the node.
            nonce: Its place.
            name: Of what it does, for errors.
            earlier: Gas limit and fees of an earlier one of this nonce. This one is then the same,
                if that still does, or offers so much more that nodes take it in the other's place.
                The contract may refuse it now because the earlier one waits in the pool or was just
                mined, so its gas limit is kept then.

        Raises:
            TransactionReverted: The contract would refuse it as the chain stands, and there is no
                earlier one.
        """
        try:
            gas = estimate(self._node, self.address, payload, name)
        except TransactionReverted:
            if earlier is None:
                raise
            gas = earlier[0]
        if earlier is None:
            return self._sign(payload, gas, self.fees(), nonce)
        least, offered = earlier
        return self._sign(payload, max(gas, least), _replacing(offered, self.fees()), nonce)

    def give(self, draft: Draft) -> Taken:
        """Give a signed transaction to the node, which may have it already.

        Raises:
            ConfigError: The wallet cannot pay for it.
            ChainUnavailable: There was no answer; it may have been taken.
        """
        return send_raw(self._node, draft.raw, self.address)

    def wait(self, hashes: Iterable[str], nonce: int, *, name: str) -> dict[str, Any] | None:
        """Return the receipt of the one of these transactions that was mined; all have this nonce.

        Returns:
            None if the nonce is used up and the node knows no receipt: another transaction has used
            it, or the node keeps no receipts for so long.

        Raises:
            TransactionReverted: It was mined and the contract refused it.
            ChainUnavailable: None is mined yet.
        """
        known, used_up, end = list(hashes), 0, time.monotonic() + self._timeout_s
        while time.monotonic() < end:
            *answers, used = self._node.batch(
                [
                    *(("eth_getTransactionReceipt", [one]) for one in known),
                    ("eth_getTransactionCount", [self.address, "latest"]),
                ]
            )
            for answer, one in zip(answers, known, strict=True):
                if isinstance(answer, dict) and answer.get("blockNumber"):
                    if int(answer["status"], 16) != 1:
                        raise TransactionReverted(name, "unknown", (f"transaction {one}",))
                    return answer
                if isinstance(answer, RpcError) and answer.is_revert:
                    raise TransactionReverted(name, "unknown", (answer.message,))
            if isinstance(used, str) and int(used, 16) > nonce:
                used_up += 1
                if used_up > PATIENCE:
                    return None
            time.sleep(POLL_S)
        detail = f"transaction {known[-1]} is in no block after {self._timeout_s:g} s"
        raise ChainUnavailable(f"could not see the end of {name}", detail=detail)

    def wait_for_own(self) -> None:
        """Return when nothing of this wallet waits to be mined, so that what the chain says is what
        was last asked.

        Raises:
            ChainUnavailable: Something still waits.
        """
        end = time.monotonic() + self._timeout_s
        while self.next_nonce() > self.used_nonces():
            if time.monotonic() > end:
                detail = (
                    f"transactions of {self.address} are in no block after {self._timeout_s:g} s"
                )
                raise ChainUnavailable("could not begin", detail=detail)
            time.sleep(POLL_S)

    def next_nonce(self) -> int:
        """Return the nonce after all transactions that the node knows of, mined or not."""
        return int(self._node.ask("eth_getTransactionCount", self.address, "pending"), 16)

    def used_nonces(self) -> int:
        """Return how many nonces mined transactions have used up."""
        return int(self._node.ask("eth_getTransactionCount", self.address, "latest"), 16)

    def fees(self) -> Fees:
        """Return what a transaction should offer now."""
        block = self._node.ask("eth_getBlockByNumber", "latest", False)
        base = int(block.get("baseFeePerGas", "0x0"), 16)
        return Fees(max_fee=2 * base + LEAST_TIP, tip=LEAST_TIP)

    def _send(self, payloads: Sequence[Payload], name: str) -> list[dict[str, Any]]:
        gas = [estimate(self._node, self.address, payload, name) for payload in payloads]
        fees, nonce = self.fees(), self.next_nonce()
        sent = []
        for payload, limit in zip(payloads, gas, strict=True):
            draft = self._send_one(payload, limit, fees, nonce, name)
            sent.append(draft)
            nonce = draft.nonce + 1
        return [self._receipt(draft, name) for draft in sent]

    def _send_one(self, payload: Payload, gas: int, fees: Fees, nonce: int, name: str) -> Draft:
        """Send a transaction, under another nonce if this one is taken."""
        for _ in range(3):
            draft = self._sign(payload, gas, fees, nonce)
            if self.give(draft) is Taken.TAKEN:
                return draft
            nonce = self.next_nonce()
        raise ChainUnavailable(
            f"could not send {name}", detail="another program uses the same wallet"
        )

    def _sign(self, payload: Payload, gas: int, fees: Fees, nonce: int) -> Draft:
        fields = to_fields(payload, chain_id=self._chain(), nonce=nonce, gas=gas, fees=fees)
        signed = self._wallet.sign_transaction(fields)
        return Draft(nonce=nonce, gas=gas, fees=fees, hash=signed.hash, raw=signed.raw)

    def _receipt(self, draft: Draft, name: str) -> dict[str, Any]:
        receipt = self.wait([draft.hash], draft.nonce, name=name)
        if receipt is None:
            detail = f"transaction {draft.hash} was replaced by another one of the same wallet"
            raise ChainUnavailable(f"could not see the end of {name}", detail=detail)
        return receipt

    def _chain(self) -> int:
        if self._chain_id is None:
            self._chain_id = int(self._node.ask("eth_chainId"), 16)
        return self._chain_id


def _replacing(old: Fees, now: Fees) -> Fees:
    """Return the old fees while they do, else fees that nodes take in their place: an eighth more
    of both.

    What is offered now is twice the base fee and the tip, so the mean of both is what a block asks
    for at least.
    """
    if (now.max_fee + now.tip) // 2 <= old.max_fee:
        return old
    return Fees(
        max_fee=max(now.max_fee, old.max_fee * 9 // 8 + 1), tip=max(now.tip, old.tip * 9 // 8 + 1)
    )
