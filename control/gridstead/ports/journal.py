# SPDX-License-Identifier: Apache-2.0
"""What a service remembers: entries, how far it has read, and what it must still send."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gridstead.domain.calls import Call
from gridstead.domain.job import Block
from gridstead.domain.journal import JournalEntry
from gridstead.domain.sending import EntryChange, OutboxEntry, Transaction


class Outbox(Protocol):
    """Calls that a wallet must make. Durable: what put() took survives any crash."""

    def put(self, key: str, call: Call) -> None:
        """Store a call to be sent. While an entry of this key is open, this changes nothing."""
        ...

    def put_all(self, calls: Iterable[tuple[str, Call]]) -> None:
        """Store calls to be sent, each with its key, in this order, all or none."""
        ...

    def open_entries(self) -> tuple[OutboxEntry, ...]:
        """Return the entries whose transaction is not final yet, oldest first."""
        ...


class Transactions(Protocol):
    """The signed transactions that carry an outbox, in the same store.

    An *account* is a wallet on one chain: the hash of the chain's first block and the address. What
    was signed for another account is not seen, so nothing of an old chain is ever sent to a fresh
    one. What is signed anew there may well be the same transaction, with the same hash.
    """

    def next_entries(self, most: int) -> tuple[OutboxEntry, ...]:
        """Return the entries that are SENT or MINED and the oldest of those QUEUED, so many at
        most, oldest first.
        """
        ...

    def open_transactions(self, account: str) -> tuple[Transaction, ...]:
        """Return the transactions whose nonce is not closed, by nonce and then age."""
        ...

    def add(self, account: str, *transactions: Transaction) -> None:
        """Store transactions that are about to be sent, all or none; their entries are SENT from
        now on.
        """
        ...

    def mark_sent(self, account: str, hashes: Iterable[str], *, sent_at: int) -> None:
        """Store that the node took these transactions of the account at that time (Unix seconds)."""
        ...

    def record(
        self,
        account: str,
        *,
        changes: Iterable[EntryChange],
        withdrawn: Iterable[int],
        closed: Iterable[int],
    ) -> None:
        """Store new states of entries, withdraw all transactions of some nonces and close other
        nonces, all or none.
        """
        ...


class Journal(Protocol):
    """The append-only memory of a service."""

    def append(self, entries: Iterable[JournalEntry]) -> None:
        """Store the entries, all or none, before returning."""
        ...

    def open_entries(self) -> tuple[JournalEntry, ...]:
        """Return all entries of jobs without a closing entry, in the order they were stored."""
        ...

    def cancelled_entries(self) -> tuple[JournalEntry, ...]:
        """Return the UNDONE entries of all jobs, closed ones too, in the order they were stored."""
        ...


class Cursor(Protocol):
    """How far a reader of the chain has come."""

    def load(self) -> Block | None:
        """Return the last block that was covered, None at the very start."""
        ...

    def save(self, block: Block) -> None:
        """Store the block and forget those of its height and above. Call only after all that it
        covers is stored.
        """
        ...

    def history(self) -> tuple[Block, ...]:
        """Return the last blocks that were saved and not forgotten, newest first, at most 64."""
        ...
