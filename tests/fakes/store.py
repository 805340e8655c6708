# SPDX-License-Identifier: Apache-2.0
"""Fake stores in memory: journal, cursor, outbox and transactions.

A port is an interface between the services and the adapters. The docstring of each fake names the
port that the fake implements. These fakes pass the same tests as the real stores.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gridstead.adapters.store.snapshot_codec import decode, encode
from gridstead.domain.jobs.ids import JobKey
from gridstead.domain.jobs.job import Block
from gridstead.domain.matching.decision_log import SignedRecord
from gridstead.domain.matching.snapshot import Snapshot
from gridstead.domain.supervisor.journal import EntryKind, JournalEntry
from gridstead.domain.transactions.calls import Call
from gridstead.domain.transactions.outbox import EntryChange, OutboxEntry, SendState, Transaction

OPEN_STATES = {SendState.QUEUED, SendState.SENT, SendState.MINED}
HISTORY_BLOCKS = 64


@dataclass
class FakeClock:
    """A clock that stands still until a test calls ``advance``."""

    seconds: int = 1_800_000_000

    def now(self) -> int:
        return self.seconds

    def advance(self, seconds: int) -> None:
        self.seconds += seconds


@dataclass
class MemoryJournal:
    """Implements port ``Journal``."""

    stored: list[JournalEntry] = field(default_factory=list)

    def append(self, entries: Iterable[JournalEntry]) -> None:
        self.stored.extend(entries)

    def open_entries(self) -> tuple[JournalEntry, ...]:
        open_entries, _ = self._divide()
        return tuple(open_entries)

    def cancelled_entries(self) -> tuple[JournalEntry, ...]:
        _, closed_entries = self._divide()
        return tuple(entry for entry in closed_entries if entry.kind is EntryKind.CANCELLED_BY_US)

    def _divide(self) -> tuple[list[JournalEntry], list[JournalEntry]]:
        """Return the open entries and the others."""
        closed_indexes: dict[JobKey, int] = {}
        for index, entry in enumerate(self.stored):
            if entry.kind is EntryKind.CLOSED:
                closed_indexes[entry.job_key] = index
        open_entries: list[JournalEntry] = []
        closed_entries: list[JournalEntry] = []
        for index, entry in enumerate(self.stored):
            is_open = index > closed_indexes.get(entry.job_key, -1)
            (open_entries if is_open else closed_entries).append(entry)
        return open_entries, closed_entries


@dataclass
class MemoryCursor:
    """Implements port ``Cursor``."""

    saved: list[Block] = field(default_factory=list)

    def load(self) -> Block | None:
        return self.saved[-1] if self.saved else None

    def save(self, block: Block) -> None:
        lower_blocks = [
            saved_block for saved_block in self.saved if saved_block.number < block.number
        ]
        self.saved = [*lower_blocks, block][-HISTORY_BLOCKS:]

    def history(self) -> tuple[Block, ...]:
        return tuple(reversed(self.saved))


@dataclass
class MemoryDecisionStore:
    """Implements port ``DecisionStore``.

    Attributes:
        outbox: The outbox that receives the calls.
        stored: All records.
    """

    outbox: MemoryOutbox
    stored: list[SignedRecord] = field(default_factory=list)

    def append(self, record: SignedRecord, calls: Iterable[tuple[str, Call]]) -> None:
        assert record.number == len(self.stored)
        self.outbox.put_all(calls)
        self.stored.append(record)

    def last_record(self) -> SignedRecord | None:
        return self.stored[-1] if self.stored else None

    def records(self, *, first: int, count: int) -> tuple[SignedRecord, ...]:
        return tuple(self.stored[first : first + count])


@dataclass
class MemorySnapshotStore:
    """Implements port ``SnapshotStore``. Stores the bytes of the real store."""

    content: bytes | None = None

    def save(self, snapshot: Snapshot) -> None:
        self.content = encode(snapshot)

    def load(self) -> Snapshot | None:
        return None if self.content is None else decode(self.content)


@dataclass
class MemoryOutbox:
    """Implements the ports ``Outbox`` and ``Transactions``.

    Attributes:
        stored: All entries, in the order of their ids, which start at 1.
        signed: All transactions with the accounts that signed them.
        closed: The accounts and nonces that are closed.
    """

    clock: FakeClock = field(default_factory=FakeClock)
    stored: list[OutboxEntry] = field(default_factory=list)
    signed: list[tuple[str, Transaction]] = field(default_factory=list)
    closed: set[tuple[str, int]] = field(default_factory=set)

    def put(self, key: str, call: Call) -> None:
        if any(entry.key == key for entry in self.open_entries()):
            return
        entry_id = len(self.stored) + 1
        now = self.clock.now()
        self.stored.append(
            OutboxEntry(id=entry_id, key=key, call=call, state=SendState.QUEUED, created_at=now)
        )

    def put_all(self, calls: Iterable[tuple[str, Call]]) -> None:
        for key, call in calls:
            self.put(key, call)

    def open_entries(self) -> tuple[OutboxEntry, ...]:
        return tuple(entry for entry in self.stored if entry.state in OPEN_STATES)

    def entries(self, *, after: int = 0) -> tuple[OutboxEntry, ...]:
        return tuple(entry for entry in self.stored if entry.id > after)

    def open_transactions(self, account: str) -> tuple[Transaction, ...]:
        transactions: list[Transaction] = []
        for owner, transaction in self.signed:
            if owner == account and (account, transaction.nonce) not in self.closed:
                transactions.append(transaction)
        return tuple(sorted(transactions, key=lambda transaction: transaction.nonce))

    def next_entries(self, max_queued: int) -> tuple[OutboxEntry, ...]:
        entries: list[OutboxEntry] = []
        queued_count = 0
        for entry in self.open_entries():
            if entry.state is SendState.QUEUED:
                queued_count += 1
                if queued_count > max_queued:
                    continue
            entries.append(entry)
        return tuple(entries)

    def add(self, account: str, *transactions: Transaction) -> None:
        new_keys = {(account, transaction.nonce) for transaction in transactions}
        # An account's new transaction with a closed nonce replaces its old transactions with this
        # nonce.
        reopened_keys = new_keys & self.closed
        self.closed -= reopened_keys
        kept_transactions = []
        for owner, transaction in self.signed:
            if (owner, transaction.nonce) not in reopened_keys:
                kept_transactions.append((owner, transaction))
        self.signed = kept_transactions
        for transaction in transactions:
            self.signed.append((account, transaction))
            for entry_id in transaction.entry_ids:
                if self.stored[entry_id - 1].state in OPEN_STATES:
                    self._change(EntryChange(entry_id=entry_id, state=SendState.SENT))

    def mark_sent(self, account: str, hashes: Iterable[str], *, sent_at: int) -> None:
        sent_hashes = set(hashes)
        for index, (owner, transaction) in enumerate(self.signed):
            if owner == account and transaction.hash in sent_hashes:
                self.signed[index] = (owner, replace(transaction, sent_at=sent_at))

    def record(
        self,
        account: str,
        *,
        changes: Iterable[EntryChange],
        withdrawn_nonces: Iterable[int],
        closed_nonces: Iterable[int],
    ) -> None:
        for change in changes:
            self._change(change)
        nonces = set(withdrawn_nonces)
        for index, (owner, transaction) in enumerate(self.signed):
            if owner == account and transaction.nonce in nonces:
                self.signed[index] = (owner, replace(transaction, withdrawn=True))
        for nonce in closed_nonces:
            self.closed.add((account, nonce))

    def _change(self, change: EntryChange) -> None:
        index = change.entry_id - 1
        self.stored[index] = replace(self.stored[index], state=change.state, reason=change.reason)
