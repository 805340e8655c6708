# SPDX-License-Identifier: Apache-2.0
"""Stores the journal of a service."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    delete,
    exists,
    insert,
    literal_column,
    select,
)

from gridstead.adapters.store.codec import to_job_key, to_key, to_reason
from gridstead.adapters.store.database import Database
from gridstead.adapters.store.schema import JOURNAL
from gridstead.domain.supervisor.journal import EntryKind, JournalEntry

RETENTION_S = 30 * 86_400  # counted from the CLOSED entry of a job
_JOBS_PER_DELETION = 100
# The database uses the partial index only if the kind is a literal in the query.
_IS_CLOSING = JOURNAL.c.kind == literal_column(f"'{EntryKind.CLOSED.value}'")


class SqlJournal:
    """Implements port ``Journal``. An entry is open until a CLOSED entry of its job is stored.

    Each call that stores a CLOSED entry also deletes the entries of up to 100 jobs that were closed
    more than 30 days earlier. The entries of a job are kept if the job was claimed again, or if we
    cancelled an attempt of it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, entries: Iterable[JournalEntry]) -> None:
        """Store the entries."""
        rows: list[dict[str, object]] = []
        closing_times: list[int] = []
        for entry in entries:
            rows.append(_to_row(entry))
            if entry.kind is EntryKind.CLOSED:
                closing_times.append(entry.occurred_at)
        if not rows:
            return
        with self._database.begin() as connection:
            connection.execute(insert(JOURNAL), rows)
            if closing_times:
                _delete_old_rows(connection, closed_before=max(closing_times) - RETENTION_S)

    def open_entries(self) -> tuple[JournalEntry, ...]:
        """Return the open entries in the order in which they were stored."""
        return self._select_entries(~_has_later_closing())

    def cancelled_entries(self) -> tuple[JournalEntry, ...]:
        """Return the CANCELLED_BY_US entries that are not open."""
        is_cancelled = JOURNAL.c.kind == EntryKind.CANCELLED_BY_US.value
        return self._select_entries(is_cancelled & _has_later_closing())

    def _select_entries(self, condition: ColumnElement[bool]) -> tuple[JournalEntry, ...]:
        with self._database.begin() as connection:
            query = select(JOURNAL).where(condition).order_by(JOURNAL.c.id)
            rows = connection.execute(query).all()
        return tuple(map(_to_entry, rows))


def _has_later_closing() -> ColumnElement[bool]:
    """Return the condition that a row is a CLOSED entry or is followed by one of its job."""
    closing_rows = JOURNAL.alias("closing")
    return exists().where(
        closing_rows.c.job_key == JOURNAL.c.job_key,
        closing_rows.c.kind == EntryKind.CLOSED.value,
        closing_rows.c.id >= JOURNAL.c.id,
    )


def _delete_old_rows(connection: Connection, *, closed_before: int) -> None:
    """Delete the rows of some jobs that were closed before this time. Unit: Unix seconds."""
    other_rows = JOURNAL.alias("other")
    must_stay = exists().where(
        other_rows.c.job_key == JOURNAL.c.job_key,
        (other_rows.c.id > JOURNAL.c.id) | (other_rows.c.kind == EntryKind.CANCELLED_BY_US.value),
    )
    job_keys = (
        select(JOURNAL.c.job_key)
        .where(_IS_CLOSING, JOURNAL.c.at < closed_before, ~must_stay)
        .order_by(JOURNAL.c.at)
        .limit(_JOBS_PER_DELETION)
    )
    old_job_keys = connection.execute(job_keys).scalars().all()
    if old_job_keys:
        connection.execute(delete(JOURNAL).where(JOURNAL.c.job_key.in_(old_job_keys)))


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
