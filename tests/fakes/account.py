# SPDX-License-Identifier: Apache-2.0
"""A fake of port ``Account``, the interface for transactions of one wallet, on the fake chain.

A transaction waits in the ledger's pool until a block includes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from tests.fakes.ledger import FakeLedger

from gridstead.domain.jobs.job import Block
from gridstead.domain.transactions.calls import Call
from gridstead.domain.transactions.outbox import Fees, Receipt, Reply, SendResult, Transaction
from gridstead.errors import TransactionReverted


class FakeAccount:
    """A wallet on a fake chain.

    The class stores all signed transactions, so a later instance can send their raw bytes.
    """

    signed: dict[str, tuple[Call, ...]] = {}  # noqa: RUF012 - all instances share the dictionary

    def __init__(self, ledger: FakeLedger, address: str) -> None:
        self._ledger = ledger
        self.address = address
        self.sent: list[Transaction] = []
        self.max_calls = 1000  # the chain refuses a transaction with more calls
        self.pool_size = 1000  # transactions that the pool can hold
        self.payable_count = 1000  # pending transactions that the wallet can pay for

    def nonce(self, *, at_block: Block) -> int:
        return self._ledger._state_at(at_block).nonces.get(self.address, 0)

    def fees(self) -> Fees:
        return Fees(max_fee=100, tip=10)

    def receipts(self, hashes: Iterable[str]) -> dict[str, Receipt]:
        self._ledger._raise_if_down()
        receipts = self._ledger._history[-1].state.receipts
        return {tx: receipts[tx] for tx in hashes if tx in receipts}

    def gas(
        self, batches: Sequence[Sequence[Call]], *, available_gas: int
    ) -> tuple[int | TransactionReverted, ...]:
        self._ledger._raise_if_down()
        return tuple(21_000 + 100_000 * len(calls) for calls in batches)

    def sign(
        self, calls: Sequence[Call], *, entry_ids: tuple[int, ...], nonce: int, gas: int, fees: Fees
    ) -> Transaction:
        content = repr((self.address, nonce, gas, fees, tuple(calls)))
        raw = f"0x{content.encode().hex()}"
        self.signed[raw] = tuple(calls)
        transaction_hash = "0x" + hashlib.sha256(raw.encode()).hexdigest()
        return Transaction(
            hash=transaction_hash, nonce=nonce, raw=raw, entry_ids=entry_ids, fees=fees
        )

    def gas_limit(self, *, at_block: Block) -> int:
        self._ledger._state_at(at_block)
        return 30_000_000

    def gas_of(self, call: Call) -> int:
        return 100_000

    def send(self, transactions: Sequence[Transaction]) -> tuple[Reply, ...]:
        self._ledger._raise_if_down()
        return tuple(self._send(transaction) for transaction in transactions)

    def _send(self, transaction: Transaction) -> Reply:
        self.sent.append(transaction)
        if transaction.nonce < self._ledger._state.nonces[self.address]:
            return Reply(result=SendResult.NONCE_USED)
        if len(self.signed[transaction.raw]) > self.max_calls:
            return Reply(result=SendResult.REFUSED, message="exceeds block gas limit")
        key = self.address, transaction.nonce
        if key not in self._ledger.pool:
            pending_count = len(self._ledger.pool)
            if pending_count >= self.payable_count:
                return Reply(result=SendResult.CANNOT_PAY, message="insufficient funds")
            if pending_count >= self.pool_size:
                return Reply(result=SendResult.RETRY_LATER, message="txpool is full")
        else:
            pending_transaction, _ = self._ledger.pool[key]
            if self._is_underpriced(transaction, pending_transaction):
                return Reply(result=SendResult.UNDERPRICED)
        self._ledger.pool[key] = transaction, self.signed[transaction.raw]
        return Reply(result=SendResult.ACCEPTED)

    def _is_underpriced(self, transaction: Transaction, pending: Transaction) -> bool:
        """Return whether a replacement's fee is less than 110 % of the pending fee."""
        if transaction.hash == pending.hash:
            return False
        return transaction.fees.max_fee * 10 < pending.fees.max_fee * 11
