# SPDX-License-Identifier: Apache-2.0
"""Stores the journal of a service."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, exists, insert, select

from gridstead.adapters.store.codec import to_job_key, to_key, to_reason
from gridstead.adapters.store.database import Database
from gridstead.adapters.store.schema import JOURNAL
from gridstead.domain.supervisor.journal import EntryKind, JournalEntry

RETENTION_S = 30 * 86_400  # counted from the CLOSED entry of a job
_CLOSINGS_PER_SWEEP = 100


class SqlJournal:
    """Implements port ``Journal``. An entry is open until a CLOSED entry of its job is stored.

    When a CLOSED entry is stored, the entries of jobs that were closed RETENTION_S earlier are
    deleted.
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
                _delete_old_rows(connection, now=max(closing_times))

    def open_entries(self) -> tuple[JournalEntry, ...]:
        """Return the open entries in the order in which they were stored."""
        closing_rows = JOURNAL.alias("closing")
        is_closed = exists().where(
            closing_rows.c.job_key == JOURNAL.c.job_key,
            closing_rows.c.kind == EntryKind.CLOSED.value,
            closing_rows.c.id >= JOURNAL.c.id,
        )
        return self._select_entries(~is_closed)

    def cancelled_entries(self) -> tuple[JournalEntry, ...]:
        """Return the CANCELLED_BY_US entries of all jobs that are open or were closed recently.

        Older entries are not needed. If the job is claimed again, the Slurm jobs that they name
        were submitted long before the new claim, so they do not belong to the job.
        """
        return self._select_entries(JOURNAL.c.kind == EntryKind.CANCELLED_BY_US.value)

    def _select_entries(self, condition: ColumnElement[bool]) -> tuple[JournalEntry, ...]:
        with self._database.begin() as connection:
            query = select(JOURNAL).where(condition).order_by(JOURNAL.c.id)
            rows = connection.execute(query).all()
        return tuple(map(_to_entry, rows))


def _delete_old_rows(connection: Connection, *, now: int) -> None:
    """Delete the rows of some jobs that were closed long ago. Unit: ``now`` Unix seconds.

    If such a job was claimed again later, the rows of the new claim are kept.
    """
    closing_rows = JOURNAL.alias("closing")
    oldest_closing_ids = (
        select(closing_rows.c.id)
        .where(
            closing_rows.c.kind == EntryKind.CLOSED.value,
            closing_rows.c.at < now - RETENTION_S,
        )
        .order_by(closing_rows.c.id)
        .limit(_CLOSINGS_PER_SWEEP)
    )
    earlier_rows = JOURNAL.alias("earlier")
    ids_to_delete = (
        select(earlier_rows.c.id)
        .join(closing_rows, closing_rows.c.job_key == earlier_rows.c.job_key)
        .where(earlier_rows.c.id <= closing_rows.c.id, closing_rows.c.id.in_(oldest_closing_ids))
    )
    connection.execute(delete(JOURNAL).where(JOURNAL.c.id.in_(ids_to_delete)))


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
