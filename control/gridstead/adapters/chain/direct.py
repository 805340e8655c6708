# SPDX-License-Identifier: Apache-2.0
"""Transactions of a person at a terminal: sent at once and waited for. Services use an outbox and its sender."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from gridstead.adapters.chain.account import estimate, send_raw, to_fields
from gridstead.adapters.chain.encode import Payload
from gridstead.adapters.chain.node import Node, RpcError
from gridstead.adapters.chain.wallet import Wallet
from gridstead.domain.sending import Fees, Taken
from gridstead.errors import ChainUnavailable, TransactionReverted

POLL_S = 0.1
LEAST_TIP = 1_000_000_000


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
        """Send transactions to one contract, all before the first is waited for, and return their receipts in order.

        Raises:
            TransactionReverted: The contract refused one; those beside it may have been mined.
            ChainUnavailable: Of one it is not known whether it was or will be mined.
            ConfigError: The wallet cannot pay for one.
        """
        return self._send([Payload(to=to, data=one, gas=None) for one in data], name)

    def transfer(self, to: str, value: int) -> None:
        """Give a wallet some of our coins, wei."""
        self._send([Payload(to=to, data="0x", gas=None, value=value)], "transfer of coins")

    def _send(self, payloads: Sequence[Payload], name: str) -> list[dict[str, Any]]:
        gas = [estimate(self._node, self.address, payload, name) for payload in payloads]
        fees, nonce = self._fees(), self._nonce()
        hashes = []
        for payload, limit in zip(payloads, gas, strict=True):
            sent, nonce = self._send_one(payload, limit, fees, nonce, name)
            hashes.append(sent)
            nonce += 1
        return [self._receipt(sent, name) for sent in hashes]

    def _send_one(self, payload: Payload, gas: int, fees: Fees, nonce: int, name: str) -> tuple[str, int]:
        """Return the hash and the nonce of what was sent; the nonce is another if the first was taken."""
        for _ in range(3):
            fields = to_fields(payload, chain_id=self._chain(), nonce=nonce, gas=gas, fees=fees)
            signed = self._wallet.sign_transaction(fields)
            if send_raw(self._node, signed.raw, self.address) is Taken.TAKEN:
                return signed.hash, nonce
            nonce = self._nonce()
        raise ChainUnavailable(f"could not send {name}", detail="another program uses the same wallet")

    def _nonce(self) -> int:
        return int(self._node.ask("eth_getTransactionCount", self.address, "pending"), 16)

    def _chain(self) -> int:
        if self._chain_id is None:
            self._chain_id = int(self._node.ask("eth_chainId"), 16)
        return self._chain_id

    def _fees(self) -> Fees:
        block = self._node.ask("eth_getBlockByNumber", "latest", False)
        base = int(block.get("baseFeePerGas", "0x0"), 16)
        return Fees(max_fee=2 * base + LEAST_TIP, tip=LEAST_TIP)

    def _receipt(self, transaction_hash: str, name: str) -> dict[str, Any]:
        end = time.monotonic() + self._timeout_s
        while time.monotonic() < end:
            (answer,) = self._node.batch([("eth_getTransactionReceipt", [transaction_hash])])
            if isinstance(answer, dict) and answer.get("blockNumber"):
                if int(answer["status"], 16) != 1:
                    raise TransactionReverted(name, "unknown", (f"transaction {transaction_hash}",))
                return answer
            if isinstance(answer, RpcError) and answer.is_revert:
                raise TransactionReverted(name, "unknown", (answer.message,))
            time.sleep(POLL_S)
        detail = f"transaction {transaction_hash} is in no block after {self._timeout_s:g} s"
        raise ChainUnavailable(f"could not see the end of {name}", detail=detail)
