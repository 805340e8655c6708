# SPDX-License-Identifier: Apache-2.0
"""Stores the decision log of a meta-scheduler, in the database of its outbox."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Row, insert, select

from gridstead.adapters.store.database import Database
from gridstead.adapters.store.outbox import SqlOutbox
from gridstead.adapters.store.schema import DECISIONS
from gridstead.domain.matching.decision_log import SignedRecord
from gridstead.domain.transactions.calls import Call


class SqlDecisionStore:
    """Implements port ``DecisionStore``.

    Args:
        database: The database.
        outbox: The outbox in this database, which receives the matches.
    """

    def __init__(self, database: Database, outbox: SqlOutbox) -> None:
        self._database = database
        self._outbox = outbox

    def append(self, record: SignedRecord, calls: Iterable[tuple[str, Call]]) -> None:
        """Store a record and its calls in one transaction."""
        row = {"number": record.number, "text": record.text, "signature": record.signature}
        with self._database.begin() as connection:
            connection.execute(insert(DECISIONS), row)
            self._outbox.put_in(connection, calls)

    def last_record(self) -> SignedRecord | None:
        """Return the newest record."""
        query = select(DECISIONS).order_by(DECISIONS.c.number.desc()).limit(1)
        with self._database.begin() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else _to_record(row)

    def records(self, *, first: int, count: int) -> tuple[SignedRecord, ...]:
        """Return consecutive records, oldest first."""
        query = select(DECISIONS).where(DECISIONS.c.number >= first)
        query = query.order_by(DECISIONS.c.number).limit(count)
        with self._database.begin() as connection:
            rows = connection.execute(query).all()
        return tuple(map(_to_record, rows))


def _to_record(row: Row[Any]) -> SignedRecord:
    return SignedRecord(number=row.number, text=row.text, signature=row.signature)
