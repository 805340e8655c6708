# SPDX-License-Identifier: Apache-2.0
"""The journal of a service in the store."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import exists, insert, select

from gridstead.adapters.journal.database import Database
from gridstead.adapters.journal.schema import JOURNAL
from gridstead.domain.ids import parse_proof
from gridstead.domain.journal import Entry, EntryKind
from gridstead.errors import UnexpectedOutput


class SqlJournal:
    """Port Journal. Entries of a job after its closing entry begin its next life and are open again."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, entries: Iterable[Entry]) -> None:
        """Store the entries."""
        rows = [
            {
                "proof": str(entry.proof),
                "kind": entry.kind.value,
                "at": entry.at,
                "slurm_job_id": entry.slurm_job_id,
                "reason": entry.reason,
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
        with self._database.begin() as connection:
            rows = connection.execute(select(JOURNAL).where(~closed).order_by(JOURNAL.c.id)).all()
        return tuple(_entry(row.proof, row.kind, row.at, row.slurm_job_id, row.reason) for row in rows)


def _entry(proof_text: str, kind: str, at: int, slurm_job_id: int | None, reason: str) -> Entry:
    proof = parse_proof(proof_text)
    if proof is None:
        raise UnexpectedOutput("the journal", proof_text)
    return Entry(proof=proof, kind=EntryKind(kind), at=at, slurm_job_id=slurm_job_id, reason=reason)
