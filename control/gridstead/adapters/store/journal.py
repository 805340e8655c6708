# SPDX-License-Identifier: Apache-2.0
"""Stores the journal of a service."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Row, exists, insert, select

from gridstead.adapters.store.codec import to_job_key, to_key, to_reason
from gridstead.adapters.store.database import Database
from gridstead.adapters.store.schema import JOURNAL
from gridstead.domain.supervisor.journal import EntryKind, JournalEntry


class SqlJournal:
    """Implements port ``Journal``. An entry is open until a CLOSED entry of its job is stored."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, entries: Iterable[JournalEntry]) -> None:
        """Store the entries."""
        rows = [_to_row(entry) for entry in entries]
        if not rows:
            return
        with self._database.begin() as connection:
            connection.execute(insert(JOURNAL), rows)

    def open_entries(self) -> tuple[JournalEntry, ...]:
        """Return the open entries in the order in which they were stored."""
        closing = JOURNAL.alias("closing")
        is_closed = exists().where(
            closing.c.job_key == JOURNAL.c.job_key,
            closing.c.kind == EntryKind.CLOSED.value,
            closing.c.id >= JOURNAL.c.id,
        )
        return self._entries(~is_closed)

    def cancelled_entries(self) -> tuple[JournalEntry, ...]:
        """Return the CANCELLED_BY_US entries of all jobs."""
        return self._entries(JOURNAL.c.kind == EntryKind.CANCELLED_BY_US.value)

    def _entries(self, condition: ColumnElement[bool]) -> tuple[JournalEntry, ...]:
        with self._database.begin() as connection:
            query = select(JOURNAL).where(condition).order_by(JOURNAL.c.id)
            rows = connection.execute(query).all()
        return tuple(map(_to_entry, rows))


def _to_row(entry: JournalEntry) -> dict[str, object]:
    return {
        "job_key": to_key(str(entry.job_key)),
        "kind": entry.kind.value,
        "at": entry.occurred_at,
        "slurm_job_id": entry.slurm_job_id,
        "reason": to_reason(entry.reason),
    }


def _to_entry(row: Row[Any]) -> JournalEntry:
    return JournalEntry(
        job_key=to_job_key(row.job_key),
        kind=EntryKind(row.kind),
        occurred_at=row.at,
        slurm_job_id=row.slurm_job_id,
        reason=row.reason,
    )
