# SPDX-License-Identifier: Apache-2.0
"""Stores the outbox of a wallet and its transactions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import (
    Connection,
    Row,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from gridstead.adapters.store.codec import from_key, from_text, to_key, to_reason, to_text
from gridstead.adapters.store.database import Database
from gridstead.adapters.store.schema import OUTBOX, TRANSACTIONS
from gridstead.domain.transactions.calls import Call
from gridstead.domain.transactions.outbox import (
    EntryChange,
    Fees,
    OutboxEntry,
    SendState,
    Transaction,
)
from gridstead.ports import Clock

_OPEN_STATES = (SendState.QUEUED, SendState.SENT, SendState.MINED)
# The database uses the partial indexes only if the states are literals in the query.
_IS_OPEN_ENTRY = OUTBOX.c.state.in_(
    bindparam("open", [state.value for state in _OPEN_STATES], expanding=True, literal_execute=True)
)
_IS_OPEN_TRANSACTION = TRANSACTIONS.c.closed == literal_column("0")
RETENTION_S = 30 * 86_400  # counted from the creation of an entry or the sending of a transaction
_ROWS_PER_SWEEP = 100
_INSERT_BY_DIALECT: dict[str, Callable[..., Any]] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
}


class SqlOutbox:
    """Implements the ports ``Outbox`` and ``Transactions``.

    Args:
        database: The database that stores the outbox.
        clock: The wall clock.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def put(self, key: str, call: Call) -> None:
        """Store a call to be sent."""
        self.put_all([(key, call)])

    def put_all(self, calls: Iterable[tuple[str, Call]]) -> None:
        """Store calls to be sent, in one transaction."""
        with self._database.begin() as connection:
            self.put_in(connection, calls)

    def put_in(self, connection: Connection, calls: Iterable[tuple[str, Call]]) -> None:
        """Store calls to be sent, in the transaction of a connection."""
        created_at = self._clock.now()
        rows = []
        for key, call in calls:
            rows.append(
                {
                    "key": to_key(key),
                    "call": to_text(call),
                    "state": SendState.QUEUED.value,
                    "created_at": created_at,
                    "reason": "",
                }
            )
        if rows:
            insert_rows = _INSERT_BY_DIALECT[connection.dialect.name](OUTBOX)
            connection.execute(insert_rows.on_conflict_do_nothing(), rows)

    def open_entries(self) -> tuple[OutboxEntry, ...]:
        """Return the entries whose state is neither final nor rejected."""
        query = select(OUTBOX).where(_IS_OPEN_ENTRY).order_by(OUTBOX.c.id)
        with self._database.begin() as connection:
            rows = connection.execute(query).all()
        return tuple(map(_to_entry, rows))

    def next_entries(self, max_queued: int) -> tuple[OutboxEntry, ...]:
        """Return the sent and mined entries, and up to ``max_queued`` of the oldest queued ones."""
        state = OUTBOX.c.state
        queued_query = (
            select(OUTBOX)
            .where(_IS_OPEN_ENTRY, state == SendState.QUEUED.value)
            .order_by(OUTBOX.c.id)
            .limit(max_queued)
        )
        other_query = select(OUTBOX).where(_IS_OPEN_ENTRY, state != SendState.QUEUED.value)
        with self._database.begin() as connection:
            queued_rows = connection.execute(queued_query).all()
            other_rows = connection.execute(other_query).all()
        entries = map(_to_entry, [*queued_rows, *other_rows])
        return tuple(sorted(entries, key=lambda entry: entry.id))

    def entries(self, *, after: int = 0) -> tuple[OutboxEntry, ...]:
        """Return all entries with an id above ``after``, oldest first.

        Closed entries that were created more than 30 days ago may be missing.
        """
        query = select(OUTBOX).where(OUTBOX.c.id > after).order_by(OUTBOX.c.id)
        with self._database.begin() as connection:
            rows = connection.execute(query).all()
        return tuple(map(_to_entry, rows))

    def open_transactions(self, account: str) -> tuple[Transaction, ...]:
        """Return the transactions of an account that are not closed."""
        conditions = (TRANSACTIONS.c.account == account, _IS_OPEN_TRANSACTION)
        query = (
            select(TRANSACTIONS)
            .where(*conditions)
            .order_by(TRANSACTIONS.c.nonce, TRANSACTIONS.c.id)
        )
        with self._database.begin() as connection:
            rows = connection.execute(query).all()
        return tuple(map(_to_transaction, rows))

    def add(self, account: str, *transactions: Transaction) -> None:
        """Store transactions before they are sent.

        A transaction replaces a closed row with the same hash. There is such a row if a reorg was
        deeper than the number of confirmations, and the call was then signed again with the same
        nonce.
        """
        rows = [_to_row(account, transaction) for transaction in transactions]
        hashes = [transaction.hash for transaction in transactions]
        entry_ids: list[int] = []
        for transaction in transactions:
            entry_ids += transaction.entry_ids
        have_same_hash = (TRANSACTIONS.c.account == account, TRANSACTIONS.c.hash.in_(hashes))
        with self._database.begin() as connection:
            connection.execute(delete(TRANSACTIONS).where(*have_same_hash))
            connection.execute(insert(TRANSACTIONS), rows)
            entry_update = update(OUTBOX).where(OUTBOX.c.id.in_(entry_ids), _IS_OPEN_ENTRY)
            connection.execute(entry_update.values(state=SendState.SENT.value))

    def mark_sent(self, account: str, hashes: Iterable[str], *, sent_at: int) -> None:
        """Store that the node has accepted these transactions."""
        with self._database.begin() as connection:
            conditions = (TRANSACTIONS.c.account == account, TRANSACTIONS.c.hash.in_(tuple(hashes)))
            connection.execute(update(TRANSACTIONS).where(*conditions).values(sent_at=sent_at))

    def record(
        self,
        account: str,
        *,
        changes: Iterable[EntryChange],
        withdrawn_nonces: Iterable[int],
        closed_nonces: Iterable[int],
    ) -> None:
        """Store new states of entries and nonces."""
        with self._database.begin() as connection:
            rows = [_to_update(change) for change in changes]
            if rows:
                entry_update = update(OUTBOX).where(OUTBOX.c.id == bindparam("entry_id"))
                connection.execute(
                    entry_update.values(
                        state=bindparam("new_state"), reason=bindparam("new_reason")
                    ),
                    rows,
                )
            own_update = update(TRANSACTIONS).where(
                TRANSACTIONS.c.account == account, _IS_OPEN_TRANSACTION
            )
            is_withdrawn = TRANSACTIONS.c.nonce.in_(tuple(withdrawn_nonces))
            connection.execute(own_update.where(is_withdrawn).values(withdrawn=1))
            # If the time of sending is unknown because of a crash, the current time is stored.
            sent_at = func.coalesce(TRANSACTIONS.c.sent_at, self._clock.now())
            is_closed = TRANSACTIONS.c.nonce.in_(tuple(closed_nonces))
            connection.execute(own_update.where(is_closed).values(closed=1, sent_at=sent_at))
            self._delete_old_rows(connection)

    def _delete_old_rows(self, connection: Connection) -> None:
        """Delete some of the closed entries and transactions that are older than RETENTION_S.

        A closed transaction without a time of sending was written by an earlier release, and counts
        as old.
        """
        oldest_kept_at = self._clock.now() - RETENTION_S
        sent_at = func.coalesce(TRANSACTIONS.c.sent_at, 0)
        for table, is_closed, row_time in (
            (OUTBOX, ~_IS_OPEN_ENTRY, OUTBOX.c.created_at),
            (TRANSACTIONS, ~_IS_OPEN_TRANSACTION, sent_at),
        ):
            first_ids = (
                select(table.c.id).where(is_closed).order_by(table.c.id).limit(_ROWS_PER_SWEEP)
            )
            connection.execute(
                delete(table).where(table.c.id.in_(first_ids), row_time < oldest_kept_at)
            )


def _to_row(account: str, transaction: Transaction) -> dict[str, Any]:
    return {
        "hash": transaction.hash,
        "account": account,
        "nonce": transaction.nonce,
        "raw": transaction.raw,
        "entry_ids": json.dumps(transaction.entry_ids),
        "max_fee": str(transaction.fees.max_fee),
        "tip": str(transaction.fees.tip),
        "sent_at": transaction.sent_at,
        "withdrawn": int(transaction.withdrawn),
        "closed": 0,
    }


def _to_update(change: EntryChange) -> dict[str, Any]:
    return {
        "entry_id": change.entry_id,
        "new_state": change.state.value,
        "new_reason": to_reason(change.reason),
    }


def _to_entry(row: Row[Any]) -> OutboxEntry:
    return OutboxEntry(
        id=row.id,
        key=from_key(row.key),
        call=from_text(row.call),
        state=SendState(row.state),
        created_at=row.created_at,
        reason=row.reason,
    )


def _to_transaction(row: Row[Any]) -> Transaction:
    return Transaction(
        hash=row.hash,
        nonce=row.nonce,
        raw=row.raw,
        entry_ids=tuple(json.loads(row.entry_ids)),
        fees=Fees(max_fee=int(row.max_fee), tip=int(row.tip)),
        sent_at=row.sent_at,
        withdrawn=bool(row.withdrawn),
    )
