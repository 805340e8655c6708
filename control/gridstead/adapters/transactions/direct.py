# SPDX-License-Identifier: Apache-2.0
"""Sends transactions at once and waits for them, for a command line.

Services use an outbox and its sender instead.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gridstead.adapters.chain.node import Node, Request, RpcError
from gridstead.adapters.chain.wallet import Wallet
from gridstead.adapters.transactions.account import estimate, send_raw, to_fields
from gridstead.adapters.transactions.encode import Payload
from gridstead.domain.transactions.outbox import Fees, Taken
from gridstead.errors import ChainUnavailable, TransactionReverted

POLL_S = 0.1
LEAST_TIP = 1_000_000_000  # wei per gas
RECEIPT_ATTEMPTS = 5  # requests for a receipt after its nonce is used


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A signed transaction that has not been sent."""

    nonce: int
    gas: int
    fees: Fees
    hash: str
    raw: str


class DirectSender:
    """Sends one transaction after the other.

    Args:
        node: The chain.
        wallet: The sender.
        timeout_s: How long to wait for a transaction to be mined.
    """

    def __init__(self, node: Node, wallet: Wallet, *, timeout_s: float = 120.0) -> None:
        self._node = node
        self._wallet = wallet
        self._timeout_s = timeout_s
        self._chain_id: int | None = None

    @property
    def address(self) -> str:
        """The sender's address, lower case."""
        return self._wallet.address

    def transact(self, to: str, data: str, *, name: str) -> dict[str, Any]:
        """Send a transaction and return its receipt; an empty ``to`` creates a contract.

        Raises:
            TransactionReverted: If the contract refuses it. Nothing is changed.
            ChainUnavailable: If it is unknown whether it was or will be mined.
            ConfigError: If the wallet cannot pay for it.
        """
        (receipt,) = self.transact_all(to, [data], name=name)
        return receipt

    def transact_all(self, to: str, data: Sequence[str], *, name: str) -> list[dict[str, Any]]:
        """Send transactions to one contract and return their receipts, in order.

        All transactions are sent before the first receipt is requested.

        Raises:
            TransactionReverted: If the contract refuses one. The others may have been mined.
            ChainUnavailable: If it is unknown whether one was or will be mined.
            ConfigError: If the wallet cannot pay for one.
        """
        return self._send([Payload(to=to, data=call_data, gas=None) for call_data in data], name)

    def transfer(self, to: str, value: int) -> None:
        """Transfer coins of the sender to an address, wei."""
        self._send([Payload(to=to, data="0x", gas=None, value=value)], "transfer of coins")

    def draft(
        self, payload: Payload, *, nonce: int, name: str, earlier: tuple[int, Fees] | None = None
    ) -> Draft:
        """Return a signed transaction; it is not sent.

        Args:
            payload: The recipient and the data; the node estimates the gas.
            nonce: Its nonce.
            name: The name of the call, for errors.
            earlier: Gas limit and fees of an earlier transaction with this nonce. If those fees
                still suffice, the same transaction is returned; else one with fees so high that
                nodes replace the earlier one. The contract may refuse the call now because the
                earlier transaction is pending or was just mined; then its gas limit is used.

        Raises:
            TransactionReverted: If the contract would refuse the call at the newest block, and
                there is no earlier transaction.
        """
        try:
            gas = estimate(self._node, self.address, payload, name)
        except TransactionReverted:
            if earlier is None:
                raise
            gas = earlier[0]
        if earlier is None:
            return self._sign(payload, gas, self.fees(), nonce)
        earlier_gas, earlier_fees = earlier
        fees = _replacement_fees(earlier_fees, self.fees())
        return self._sign(payload, max(gas, earlier_gas), fees, nonce)

    def give(self, draft: Draft) -> Taken:
        """Send a signed transaction to the node, which may have it already.

        Raises:
            ConfigError: If the wallet cannot pay for it.
            ChainUnavailable: If the node does not answer. It may have accepted the transaction.
        """
        return send_raw(self._node, draft.raw, self.address)

    def wait(self, hashes: Iterable[str], nonce: int, *, name: str) -> dict[str, Any] | None:
        """Return the receipt of whichever of these transactions is mined; all have this nonce.

        Returns:
            None if the nonce is used and the node has no receipt: another transaction has used the
            nonce, or the node has already deleted the receipt.

        Raises:
            TransactionReverted: If it was mined and the contract refused it.
            ChainUnavailable: If none is mined in time.
        """
        known, end = list(hashes), time.monotonic() + self._timeout_s
        requests: list[Request] = [("eth_getTransactionReceipt", [tx_hash]) for tx_hash in known]
        requests.append(("eth_getTransactionCount", [self.address, "latest"]))
        attempts = 0
        while time.monotonic() < end:
            *answers, used = self._node.batch(requests)
            receipt = _mined_receipt(known, answers, name)
            if receipt is not None:
                return receipt
            if isinstance(used, str) and int(used, 16) > nonce:
                attempts += 1
                if attempts > RECEIPT_ATTEMPTS:
                    return None
            time.sleep(POLL_S)
        detail = f"transaction {known[-1]} is in no block after {self._timeout_s:g} s"
        raise ChainUnavailable(f"could not confirm {name}", detail=detail)

    def wait_for_own(self) -> None:
        """Return when no transaction of this wallet is pending.

        Raises:
            ChainUnavailable: If a transaction is still pending after ``timeout_s``.
        """
        end = time.monotonic() + self._timeout_s
        while self.next_nonce() > self.used_nonces():
            if time.monotonic() > end:
                detail = (
                    f"transactions of {self.address} are in no block after {self._timeout_s:g} s"
                )
                raise ChainUnavailable("could not start", detail=detail)
            time.sleep(POLL_S)

    def next_nonce(self) -> int:
        """Return the nonce after all transactions that the node has, mined or pending."""
        return int(self._node.ask("eth_getTransactionCount", self.address, "pending"), 16)

    def used_nonces(self) -> int:
        """Return how many nonces mined transactions have used."""
        return int(self._node.ask("eth_getTransactionCount", self.address, "latest"), 16)

    def fees(self) -> Fees:
        """Return the fees that a transaction should offer now."""
        block = self._node.ask("eth_getBlockByNumber", "latest", False)
        base_fee = int(block.get("baseFeePerGas", "0x0"), 16)
        return Fees(max_fee=2 * base_fee + LEAST_TIP, tip=LEAST_TIP)

    def _send(self, payloads: Sequence[Payload], name: str) -> list[dict[str, Any]]:
        limits = [estimate(self._node, self.address, payload, name) for payload in payloads]
        fees, nonce = self.fees(), self.next_nonce()
        sent = []
        for payload, gas in zip(payloads, limits, strict=True):
            draft = self._send_one(payload, gas, fees, nonce, name)
            sent.append(draft)
            nonce = draft.nonce + 1
        return [self._receipt(draft, name) for draft in sent]

    def _send_one(self, payload: Payload, gas: int, fees: Fees, nonce: int, name: str) -> Draft:
        """Send a transaction; with another nonce if this one is already used."""
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
            detail = f"another transaction of the wallet replaced transaction {draft.hash}"
            raise ChainUnavailable(f"could not confirm {name}", detail=detail)
        return receipt

    def _chain(self) -> int:
        if self._chain_id is None:
            self._chain_id = int(self._node.ask("eth_chainId"), 16)
        return self._chain_id


def _mined_receipt(
    hashes: Iterable[str], answers: Iterable[Any], name: str
) -> dict[str, Any] | None:
    """Return the receipt of a mined transaction, None if none is mined.

    Raises:
        TransactionReverted: If it was mined and the contract refused it.
    """
    for tx_hash, answer in zip(hashes, answers, strict=True):
        if isinstance(answer, RpcError) and answer.is_revert:
            raise TransactionReverted(name, "unknown", (answer.message,))
        if not isinstance(answer, dict) or not answer.get("blockNumber"):
            continue
        if int(answer["status"], 16) != 1:
            raise TransactionReverted(name, "unknown", (f"transaction {tx_hash}",))
        return answer
    return None


def _replacement_fees(old: Fees, now: Fees) -> Fees:
    """Return the old fees if they still suffice, else fees with which nodes replace a transaction.

    Nodes replace a transaction if max fee and tip are an eighth higher. The current max fee is
    twice the base fee plus the tip, so the mean of max fee and tip is what a block requires.
    """
    if (now.max_fee + now.tip) // 2 <= old.max_fee:
        return old
    return Fees(
        max_fee=max(now.max_fee, old.max_fee * 9 // 8 + 1), tip=max(now.tip, old.tip * 9 // 8 + 1)
    )
