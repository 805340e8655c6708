# SPDX-License-Identifier: Apache-2.0
"""Ports of the stored state of a service: journal, cursor, outbox and transactions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gridstead.domain.jobs.job import Block
from gridstead.domain.matching.decision_log import SignedRecord
from gridstead.domain.matching.snapshot import Snapshot
from gridstead.domain.supervisor.journal import JournalEntry
from gridstead.domain.transactions.calls import Call
from gridstead.domain.transactions.outbox import EntryChange, OutboxEntry, Transaction


class Outbox(Protocol):
    """The contract calls that a wallet must send. A stored call survives any crash."""

    def put(self, key: str, call: Call) -> None:
        """Store a call to send. Does nothing if an entry with this key is open already."""
        ...

    def put_all(self, calls: Iterable[tuple[str, Call]]) -> None:
        """Store pairs of a key and a call to send, in this order. Stores all pairs or none."""
        ...

    def open_entries(self) -> tuple[OutboxEntry, ...]:
        """Return the entries that are neither FINAL nor REJECTED, oldest first."""
        ...


class DecisionStore(Protocol):
    """The decision log of a meta-scheduler, in the same database as its outbox."""

    def append(self, record: SignedRecord, calls: Iterable[tuple[str, Call]]) -> None:
        """Store a record, and put calls into the outbox in this order. Stores all or nothing.

        Args:
            record: The record. Its number follows that of the last record.
            calls: Pairs of a key and a call, as for ``Outbox.put_all``.
        """
        ...

    def last_record(self) -> SignedRecord | None:
        """Return the newest record. Returns None if the log is empty."""
        ...

    def records(self, *, first: int, count: int) -> tuple[SignedRecord, ...]:
        """Return the records from number ``first`` on, oldest first, at most ``count``."""
        ...


class SnapshotStore(Protocol):
    """The last snapshot of a meta-scheduler with certain contracts and settings."""

    def save(self, snapshot: Snapshot) -> None:
        """Replace the stored snapshot. If this fails, the old one remains."""
        ...

    def load(self) -> Snapshot | None:
        """Return the stored snapshot. Returns None if there is none.

        Raises:
            UnexpectedOutput: If the snapshot cannot be used: another release has written it, it has
                other contracts or settings, or it is damaged.
        """
        ...


class Transactions(Protocol):
    """The signed transactions that carry the calls of an outbox, in the same database.

    An *account* is a wallet on one chain: the hash of the chain's first block and the wallet's
    address. A method with the parameter ``account`` uses only the transactions of this account. So
    a transaction of an old chain is never sent to a new chain, even if both chains have a
    transaction with the same hash.
    """

    def next_entries(self, max_queued: int) -> tuple[OutboxEntry, ...]:
        """Return all SENT and MINED entries and the oldest QUEUED entries, oldest first.

        Args:
            max_queued: The maximum number of QUEUED entries.
        """
        ...

    def open_transactions(self, account: str) -> tuple[Transaction, ...]:
        """Return the transactions whose nonce is not closed, sorted by nonce and then by age."""
        ...

    def add(self, account: str, *transactions: Transaction) -> None:
        """Store transactions before they are sent. Stores all or none.

        The outbox entries of the transactions become SENT.
        """
        ...

    def mark_sent(self, account: str, hashes: Iterable[str], *, sent_at: int) -> None:
        """Store the time at which the node accepted these transactions. Unit: Unix seconds."""
        ...

    def record(
        self,
        account: str,
        *,
        changes: Iterable[EntryChange],
        withdrawn_nonces: Iterable[int],
        closed_nonces: Iterable[int],
    ) -> None:
        """Store new states of entries, and withdrawn and closed nonces. Stores all or none.

        Args:
            account: The account whose transactions and nonces are changed.
            changes: The new states of entries.
            withdrawn_nonces: The nonces whose transactions are withdrawn.
            closed_nonces: The nonces that are closed, because a transaction with the nonce is
                final.
        """
        ...


class Journal(Protocol):
    """The journal of a service.

    Entries are never changed. The entries of a job may be deleted long after it was closed, unless
    they contain a CANCELLED_BY_US entry.
    """

    def append(self, entries: Iterable[JournalEntry]) -> None:
        """Store the entries, all or none. The entries are durable when the call returns."""
        ...

    def open_entries(self) -> tuple[JournalEntry, ...]:
        """Return the entries after the last CLOSED entry of their job, in the order of storage."""
        ...

    def cancelled_entries(self) -> tuple[JournalEntry, ...]:
        """Return the CANCELLED_BY_US entries that ``open_entries`` does not return.

        The entries are in the order of storage.
        """
        ...


class Cursor(Protocol):
    """The position of a reader of the chain."""

    def load(self) -> Block | None:
        """Return the last block that was read. Return None if no block was read."""
        ...

    def save(self, block: Block) -> None:
        """Store a block, and remove stored blocks with the same or a greater number.

        The caller must first store everything that it read up to this block.
        """
        ...

    def history(self) -> tuple[Block, ...]:
        """Return the last stored blocks, at most 64, newest first."""
        ...
