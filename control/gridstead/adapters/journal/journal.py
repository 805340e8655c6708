# SPDX-License-Identifier: Apache-2.0
"""The journal of a service in the store."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import ColumnElement, exists, insert, select

from gridstead.adapters.journal.codec import to_key, to_proof, to_reason
from gridstead.adapters.journal.database import Database
from gridstead.adapters.journal.schema import JOURNAL
from gridstead.domain.journal import Entry, EntryKind


class SqlJournal:
    """Port Journal. Entries of a job after its closing entry begin its next life and are open again."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, entries: Iterable[Entry]) -> None:
        """Store the entries."""
        rows = [
            {
                "proof": to_key(str(entry.proof)),
                "kind": entry.kind.value,
                "at": entry.at,
                "slurm_job_id": entry.slurm_job_id,
                "reason": to_reason(entry.reason),
            }
            for entry in entries
        ]
        if not rows:
            return
        with self._database.begin() as connection:
            connection.execute(insert(JOURNAL), rows)

    def open_entries(self) -> tuple[Entry, ...]:
        """Return the entries of jobs that are not closed."""
        closing = JOURNAL.alias("closing")
        closed = exists().where(
            closing.c.proof == JOURNAL.c.proof,
            closing.c.kind == EntryKind.CLOSED.value,
            closing.c.id >= JOURNAL.c.id,
        )
        return self._entries(~closed)

    def undone_entries(self) -> tuple[Entry, ...]:
        """Return the UNDONE entries of all jobs."""
        return self._entries(JOURNAL.c.kind == EntryKind.UNDONE.value)

    def _entries(self, wanted: ColumnElement[bool]) -> tuple[Entry, ...]:
        with self._database.begin() as connection:
            rows = connection.execute(select(JOURNAL).where(wanted).order_by(JOURNAL.c.id)).all()
        return tuple(
            Entry(
                proof=to_proof(row.proof),
                kind=EntryKind(row.kind),
                at=row.at,
                slurm_job_id=row.slurm_job_id,
                reason=row.reason,
            )
            for row in rows
        )
