# SPDX-License-Identifier: Apache-2.0
"""The plan of a wallet's sender for one tick, and the limits that the plan must respect.

``dispatch.py`` decides the plan and explains open nonces and nonce gaps.
``services.transactions.sender`` performs it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridstead.domain.transactions.outbox import EntryChange, Fees, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchPolicy:
    """The limits and waiting times of a sender.

    Attributes:
        confirmations: A transaction is final when this many blocks follow its block.
        max_batch_calls: Maximum number of calls in one transaction.
        max_pending_nonces: Maximum number of nonces with a pending transaction.
        max_pending_gas_in_blocks: Maximum gas of all pending transactions. Unit: the gas limit of
            one block.
        max_new_gas_in_blocks: Maximum gas of the transactions that one tick adds. Unit: the gas
            limit of one block. With a low value, a tick signs few transactions and sends them soon.
        max_queued: Maximum number of queued calls that one tick reads, oldest first.
        resend_after_s: Interval at which a pending transaction is sent to the node again.
        replace_after_s: A transaction that is pending for this long, while blocks are mined, is
            replaced by one with higher fees.
        max_replacements: Maximum number of pending transactions that are replaced, those with the
            lowest nonces. Transactions with higher nonces cannot be mined before these.
        max_fee_factor: A replacement offers at most this multiple of the fees that a new
            transaction should offer.
        batch_gas_divisor: The calls of a batch may use the gas limit of a block divided by this
            number.
    """

    confirmations: int
    max_batch_calls: int = 50
    max_pending_nonces: int = 512
    max_pending_gas_in_blocks: int = 8
    max_new_gas_in_blocks: int = 2
    max_queued: int = 2000
    resend_after_s: int = 10
    replace_after_s: int = 45
    max_replacements: int = 16
    max_fee_factor: int = 10
    batch_gas_divisor: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsignedTransaction:
    """A transaction that must be signed.

    Attributes:
        nonce: The nonce.
        entry_ids: The entries whose calls the transaction carries. Empty for an empty transaction,
            which only uses the nonce.
        fees: The fees that the transaction offers.
    """

    nonce: int
    entry_ids: tuple[int, ...]
    fees: Fees


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionPlan:
    """What the sender must do, in this order.

    Attributes:
        changes: New states of entries.
        withdrawn_nonces: Nonces whose transactions must never be sent again.
        closed_nonces: Open nonces whose transactions are final.
        replacements: The nonces of gaps and of stuck transactions, for which a transaction must be
            signed.
        to_send: Transactions to send to the node, for the first time or again. Sorted by nonce.
        batches: Ids of the entries of each new transaction. The transactions use the nonces from
            ``next_nonce`` on, in this order.
        next_nonce: The nonce of the first batch.
    """

    changes: tuple[EntryChange, ...] = ()
    withdrawn_nonces: tuple[int, ...] = ()
    closed_nonces: tuple[int, ...] = ()
    replacements: tuple[UnsignedTransaction, ...] = ()
    to_send: tuple[Transaction, ...] = ()
    batches: tuple[tuple[int, ...], ...] = ()
    next_nonce: int = 0

    @property
    def entry_ids_to_send(self) -> frozenset[int]:
        """The ids of the entries whose calls this plan sends to the node."""
        entry_ids: set[int] = set()
        for replacement in self.replacements:
            entry_ids.update(replacement.entry_ids)
        for transaction in self.to_send:
            entry_ids.update(transaction.entry_ids)
        for batch in self.batches:
            entry_ids.update(batch)
        return frozenset(entry_ids)
