# SPDX-License-Identifier: Apache-2.0
"""Sends transactions without an outbox and waits until they are mined, for commands.

Services use an outbox and its sender instead.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gridstead.adapters.chain.contract import Payload
from gridstead.adapters.chain.node import Node, Request, RpcError
from gridstead.adapters.chain.wallet import Wallet
from gridstead.adapters.transactions.account import estimate, read_fees, send_raw, to_fields
from gridstead.domain.transactions.fees import replacement_fees, suffices
from gridstead.domain.transactions.outbox import Fees, SendResult
from gridstead.errors import ChainUnavailable, TransactionReverted

POLL_S = 0.1
SEND_ATTEMPTS = 3  # each with another nonce
RECEIPT_ATTEMPTS = 5  # requests for a missing receipt after the nonce is used
LOOKUP_ATTEMPTS = 5  # requests for a transaction that the node did not accept


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A signed transaction that has not been sent."""

    nonce: int
    gas: int
    fees: Fees
    hash: str
    raw: str


class DirectSender:
    """Sends the transactions of one wallet, one after the other.

    Args:
        node: A node of the chain.
        wallet: Signs the transactions and pays for them.
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

        The errors are those of ``transact_all``.
        """
        (receipt,) = self.transact_all([Payload(to=to, data=data, gas=None)], name=name)
        return receipt

    def transact_all(self, payloads: Sequence[Payload], *, name: str) -> list[dict[str, Any]]:
        """Send transactions and return their receipts, in order.

        All transactions are sent before the first receipt is requested. The gas limit of each is
        the node's estimate, or ``min_gas`` of its payload if the estimate is lower.

        Raises:
            TransactionReverted: If the contract refuses a transaction. The other transactions may
                have been mined.
            ChainUnavailable: If it is unknown whether a transaction was or will be mined.
            ConfigError: If the wallet cannot pay for a transaction.
        """
        limits = []
        for payload in payloads:
            estimated_gas = estimate(self._node, self.address, payload, name)
            limits.append(max(estimated_gas, payload.min_gas))
        fees, nonce = self.fees(), self.next_nonce()
        drafts = []
        for payload, gas in zip(payloads, limits, strict=True):
            draft = self._send_one(payload, gas, fees, nonce, name)
            drafts.append(draft)
            nonce = draft.nonce + 1
        return [self._receipt(draft, name) for draft in drafts]

    def transfer(self, to: str, value: int) -> None:
        """Transfer coins from the wallet to an address. Unit: wei."""
        payload = Payload(to=to, data="0x", gas=None, value=value)
        self.transact_all([payload], name="transfer of coins")

    def draft(
        self, payload: Payload, *, nonce: int, name: str, earlier: tuple[int, Fees] | None = None
    ) -> Draft:
        """Return a signed transaction; it is not sent.

        Args:
            payload: The recipient and the data; the node estimates the gas.
            nonce: The nonce of the transaction.
            name: The name of the call, for errors.
            earlier: Gas limit and fees of an earlier transaction with this nonce. If these fees
                still suffice, the fees are unchanged. If not, the fees are raised so that nodes
                replace the earlier transaction. If the contract refuses the call now, the gas limit
                is unchanged, because the earlier transaction may be pending or just mined.

        Raises:
            TransactionReverted: If the contract would refuse the call at the newest block, and
                there is no earlier transaction.
        """
        try:
            gas = estimate(self._node, self.address, payload, name)
        except TransactionReverted:
            if earlier is None:
                raise
            gas, _ = earlier
        fees = self.fees()
        if earlier is not None:
            earlier_gas, earlier_fees = earlier
            gas = max(gas, earlier_gas)
            is_sufficient = suffices(earlier_fees, fees)
            fees = earlier_fees if is_sufficient else replacement_fees([earlier_fees], fees)
        return self._sign(payload, gas, fees, nonce)

    def submit(self, draft: Draft) -> SendResult:
        """Send a signed transaction to the node. The node may already have the transaction.

        Raises:
            ConfigError: If the wallet cannot pay for the transaction.
            ChainUnavailable: If the node does not answer or refuses the transaction. A node that
                does not answer may have accepted the transaction.
        """
        return send_raw(self._node, draft.raw, self.address)

    def wait(self, hashes: Iterable[str], nonce: int, *, name: str) -> dict[str, Any] | None:
        """Wait until one of several transactions with the same nonce is mined.

        Returns:
            The receipt of the mined transaction. None if the nonce is used and the node has no
            receipt: another transaction has used the nonce, or the node has deleted the receipt.

        Raises:
            TransactionReverted: If the contract refused the mined transaction.
            ChainUnavailable: If none of the transactions is mined within ``timeout_s``.
        """
        candidates = list(hashes)
        deadline = time.monotonic() + self._timeout_s
        requests: list[Request] = [
            ("eth_getTransactionReceipt", [tx_hash]) for tx_hash in candidates
        ]
        requests.append(("eth_getTransactionCount", [self.address, "latest"]))
        attempts = 0
        while time.monotonic() < deadline:
            *answers, used_nonces = self._node.batch(requests)
            receipt = _mined_receipt(candidates, answers, name)
            if receipt is not None:
                return receipt
            if isinstance(used_nonces, str) and int(used_nonces, 16) > nonce:
                attempts += 1
                if attempts > RECEIPT_ATTEMPTS:
                    return None
            time.sleep(POLL_S)
        detail = f"transaction {candidates[-1]} is in no block after {self._timeout_s:g} s"
        raise ChainUnavailable(f"could not confirm {name}", detail=detail)

    def wait_for_pending(self) -> None:
        """Wait until no transaction of this wallet is pending.

        Raises:
            ChainUnavailable: If a transaction is still pending after ``timeout_s``.
        """
        deadline = time.monotonic() + self._timeout_s
        while self.next_nonce() > self.used_nonces():
            if time.monotonic() > deadline:
                detail = (
                    f"transactions of {self.address} are in no block after {self._timeout_s:g} s"
                )
                raise ChainUnavailable("could not start", detail=detail)
            time.sleep(POLL_S)

    def next_nonce(self) -> int:
        """Return the nonce that follows all mined and pending transactions that the node knows."""
        return int(self._node.ask("eth_getTransactionCount", self.address, "pending"), 16)

    def used_nonces(self) -> int:
        """Return how many nonces mined transactions have used."""
        return int(self._node.ask("eth_getTransactionCount", self.address, "latest"), 16)

    def fees(self) -> Fees:
        """Return the fees that a new transaction should offer."""
        return read_fees(self._node)

    def _send_one(self, payload: Payload, gas: int, fees: Fees, nonce: int, name: str) -> Draft:
        """Send a transaction. If another transaction has its nonce, retry with the next nonce."""
        for _ in range(SEND_ATTEMPTS):
            draft = self._sign(payload, gas, fees, nonce)
            if self.submit(draft) is SendResult.ACCEPTED or self._is_known(draft):
                return draft
            nonce = self.next_nonce()
        raise ChainUnavailable(
            f"could not send {name}",
            detail="another program uses the same wallet, or the node requires higher fees",
        )

    def _is_known(self, draft: Draft) -> bool:
        """Return whether the node has a transaction that it has just not accepted.

        The node sends such an answer if it received the transaction twice, because the connection
        broke before the first answer, and the transaction was mined in the meantime. A second
        transaction with another nonce would pay twice. Some of the endpoint's nodes may lag.
        """
        for _ in range(LOOKUP_ATTEMPTS):
            if self._node.ask("eth_getTransactionByHash", draft.hash):
                return True
            time.sleep(POLL_S)
        return False

    def _sign(self, payload: Payload, gas: int, fees: Fees, nonce: int) -> Draft:
        fields = to_fields(payload, chain_id=self._chain(), nonce=nonce, gas=gas, fees=fees)
        signed_transaction = self._wallet.sign_transaction(fields)
        return Draft(
            nonce=nonce,
            gas=gas,
            fees=fees,
            hash=signed_transaction.hash,
            raw=signed_transaction.raw,
        )

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
    """Return the receipt of the mined transaction, or None if no transaction is mined.

    Raises:
        TransactionReverted: If the contract refused the mined transaction.
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
