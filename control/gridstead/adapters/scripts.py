# SPDX-License-Identifier: Apache-2.0
"""Rendered scripts in the Job Definition service's store."""

from __future__ import annotations

from sqlalchemy import text

from gridstead.adapters.journal.database import Database


class Scripts:
    """Implements port ``ScriptStore``.

    Args:
        database: The service's store.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, batch_location_hash: str, record: str) -> None:
        """Store a record under an id."""
        statement = text("INSERT INTO scripts (id, record) VALUES (:id, :record) ON CONFLICT (id) DO NOTHING")
        with self._database.begin() as connection:
            connection.execute(statement, {"id": batch_location_hash, "record": record})

    def get(self, batch_location_hash: str) -> str | None:
        """Return the record."""
        statement = text("SELECT record FROM scripts WHERE id = :id")
        with self._database.begin() as connection:
            record: str | None = connection.execute(statement, {"id": batch_location_hash}).scalar()
        return record
