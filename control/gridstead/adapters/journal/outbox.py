# SPDX-License-Identifier: Apache-2.0
"""The outbox of a wallet and the transactions that carry it, in the store."""

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

from gridstead.adapters.journal.codec import from_key, from_text, to_key, to_reason, to_text
from gridstead.adapters.journal.database import Database
from gridstead.adapters.journal.schema import OUTBOX, TRANSACTIONS
from gridstead.domain.calls import Call
from gridstead.domain.sending import EntryChange, Fees, OutboxEntry, SendState, Transaction
from gridstead.ports import Clock

_STATES = (SendState.QUEUED, SendState.SENT, SendState.MINED)
# Spelled out in the query, as in the partial indexes: a database takes those only when it can see
# that they serve.
_OPEN = OUTBOX.c.state.in_(
    bindparam("open", [state.value for state in _STATES], expanding=True, literal_execute=True)
)
_NOT_CLOSED = TRANSACTIONS.c.closed == literal_column("0")
KEPT_S = 30 * 86_400
_SWEPT = 100  # rows looked at in one go
_INSERT: dict[str, Callable[..., Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


class SqlOutbox:
    """Ports Outbox and Transactions.

    Args:
        database: The store.
        clock: Stamps new entries.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def put(self, key: str, call: Call) -> None:
        """Store a call to be sent."""
        self.put_all([(key, call)])

    def put_all(self, calls: Iterable[tuple[str, Call]]) -> None:
        """Store calls to be sent, in one write."""
        shared = {"state": SendState.QUEUED.value, "created_at": self._clock.now(), "reason": ""}
        rows = [{"key": to_key(key), "call": to_text(call)} | shared for key, call in calls]
        if not rows:
            return
        with self._database.begin() as connection:
            connection.execute(
                _INSERT[connection.dialect.name](OUTBOX).on_conflict_do_nothing(), rows
            )

    def open_entries(self) -> tuple[OutboxEntry, ...]:
        """Return the entries that are not final."""
        query = select(OUTBOX).where(_OPEN).order_by(OUTBOX.c.id)
        with self._database.begin() as connection:
            rows = connection.execute(query).all()
        return tuple(_entry(row) for row in rows)

    def next_entries(self, most: int) -> tuple[OutboxEntry, ...]:
        """Return what is on its way and the oldest of what waits for that."""
        state = OUTBOX.c.state
        queued = (
            select(OUTBOX)
            .where(_OPEN, state == SendState.QUEUED.value)
            .order_by(OUTBOX.c.id)
            .limit(most)
        )
        on_its_way = select(OUTBOX).where(_OPEN, state != SendState.QUEUED.value)
        with self._database.begin() as connection:
            rows = [*connection.execute(queued).all(), *connection.execute(on_its_way).all()]
        return tuple(sorted((_entry(row) for row in rows), key=lambda entry: entry.id))

    def entries(self, *, after: int = 0) -> tuple[OutboxEntry, ...]:
        """Return every entry with a greater id, those closed in the last 30 days too, oldest first."""
        query = select(OUTBOX).where(OUTBOX.c.id > after).order_by(OUTBOX.c.id)
        with self._database.begin() as connection:
            rows = connection.execute(query).all()
        return tuple(_entry(row) for row in rows)

    def open_transactions(self, account: str) -> tuple[Transaction, ...]:
        """Return the transactions whose nonce is not closed."""
        mine = (TRANSACTIONS.c.account == account, _NOT_CLOSED)
        query = select(TRANSACTIONS).where(*mine).order_by(TRANSACTIONS.c.nonce, TRANSACTIONS.c.id)
        with self._database.begin() as connection:
            rows = connection.execute(query).all()
        return tuple(_transaction(row) for row in rows)

    def add(self, account: str, *transactions: Transaction) -> None:
        """Store transactions that are about to be sent.

        After a chain went back by more than the confirmations, the same call under the same nonce
        may be signed to the same bytes as in a closed row: that row makes room.
        """
        rows = [
            {
                "hash": one.hash,
                "account": account,
                "nonce": one.nonce,
                "raw": one.raw,
                "entry_ids": json.dumps(one.entry_ids),
                "max_fee": str(one.fees.max_fee),
                "tip": str(one.fees.tip),
                "sent_at": one.sent_at,
                "withdrawn": int(one.withdrawn),
                "closed": 0,
            }
            for one in transactions
        ]
        carried = [entry_id for one in transactions for entry_id in one.entry_ids]
        again = TRANSACTIONS.c.hash.in_([one.hash for one in transactions])
        with self._database.begin() as connection:
            connection.execute(delete(TRANSACTIONS).where(TRANSACTIONS.c.account == account, again))
            connection.execute(insert(TRANSACTIONS), rows)
            sent = update(OUTBOX).where(OUTBOX.c.id.in_(carried), _OPEN)
            connection.execute(sent.values(state=SendState.SENT.value))

    def mark_sent(self, account: str, hashes: Iterable[str], *, sent_at: int) -> None:
        """Store that the node took these transactions."""
        with self._database.begin() as connection:
            mine = (TRANSACTIONS.c.account == account, TRANSACTIONS.c.hash.in_(tuple(hashes)))
            connection.execute(update(TRANSACTIONS).where(*mine).values(sent_at=sent_at))

    def record(
        self,
        account: str,
        *,
        changes: Iterable[EntryChange],
        withdrawn: Iterable[int],
        closed: Iterable[int],
    ) -> None:
        """Store new states of entries and nonces."""
        with self._database.begin() as connection:
            if rows := [_change(one) for one in changes]:
                row = update(OUTBOX).where(OUTBOX.c.id == bindparam("entry"))
                connection.execute(
                    row.values(state=bindparam("now"), reason=bindparam("words")), rows
                )
            mine = update(TRANSACTIONS).where(TRANSACTIONS.c.account == account, _NOT_CLOSED)
            connection.execute(
                mine.where(TRANSACTIONS.c.nonce.in_(tuple(withdrawn))).values(withdrawn=1)
            )
            # A crash may have kept from us when it was sent; it is kept as long as if that was now.
            sent_at = func.coalesce(TRANSACTIONS.c.sent_at, self._clock.now())
            connection.execute(
                mine.where(TRANSACTIONS.c.nonce.in_(tuple(closed))).values(
                    closed=1, sent_at=sent_at
                )
            )
            self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        """Delete what was done with long ago, from the oldest on and a little at a time.

        Transactions without a time were closed by an earlier release.
        """
        before = self._clock.now() - KEPT_S
        sent_at = func.coalesce(TRANSACTIONS.c.sent_at, 0)
        for table, is_done, at in (
            (OUTBOX, ~_OPEN, OUTBOX.c.created_at),
            (TRANSACTIONS, ~_NOT_CLOSED, sent_at),
        ):
            oldest = select(table.c.id).where(is_done).order_by(table.c.id).limit(_SWEPT)
            connection.execute(delete(table).where(table.c.id.in_(oldest), at < before))


def _change(change: EntryChange) -> dict[str, Any]:
    return {"entry": change.entry_id, "now": change.state.value, "words": to_reason(change.reason)}


def _entry(row: Row[Any]) -> OutboxEntry:
    return OutboxEntry(
        id=row.id,
        key=from_key(row.key),
        call=from_text(row.call),
        state=SendState(row.state),
        created_at=row.created_at,
        reason=row.reason,
    )


def _transaction(row: Row[Any]) -> Transaction:
    return Transaction(
        hash=row.hash,
        nonce=row.nonce,
        raw=row.raw,
        entry_ids=tuple(json.loads(row.entry_ids)),
        fees=Fees(max_fee=int(row.max_fee), tip=int(row.tip)),
        sent_at=row.sent_at,
        withdrawn=bool(row.withdrawn),
    )
