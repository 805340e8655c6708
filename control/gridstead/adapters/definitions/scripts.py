# SPDX-License-Identifier: Apache-2.0
"""The store of the Job Definition service: sealed scripts, their jobs, and used challenges.

Several processes may share the store if it is a PostgreSQL database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Connection, Row, text

from gridstead.adapters.definitions.script_seal import ScriptSeal, SealedRecord, unknown_keys_error
from gridstead.adapters.store.database import Database
from gridstead.domain.definitions.job_definition import (
    ResealResult,
    ScriptTotals,
    ScriptUse,
    StoredScript,
)
from gridstead.domain.jobs.ids import JobId, parse_slurm_job_name
from gridstead.errors import ConfigError, ScriptDamaged, UnexpectedOutput

RECORDS_PER_RESEAL = 200

# _USE contains the statements of add_uses(), _RELEASE those of release(). Each transaction starts
# with an update of the script's row. The update locks the row, so that other processes wait until
# the transaction is committed.
#
# A script with ends_at NULL is in use and does not expire. _RELEASE first sets the time at which
# the script expires. The last statement removes this time if other jobs still use the script.
#
# The owner '' means that the script has no owner yet. The first customer whose job uses the script
# becomes its owner. Jobs of other customers change nothing.
_USE = (
    """UPDATE definitions SET owner = :customer, ends_at = NULL
    WHERE id = :id AND owner IN ('', :customer)""",
    """INSERT INTO definition_jobs (job, id, customer) SELECT :job, id, owner FROM definitions
    WHERE id = :id AND owner = :customer ON CONFLICT (job, id) DO NOTHING""",
)
_RELEASE = (
    "UPDATE definitions SET ends_at = coalesce(ends_at, :expires_at) WHERE id = :id",
    "DELETE FROM definition_jobs WHERE job = :job AND id = :id",
    """UPDATE definitions SET ends_at = NULL WHERE id = :id
    AND EXISTS (SELECT 1 FROM definition_jobs WHERE definition_jobs.id = :id)""",
)


class Scripts:
    """Implements ports ``ScriptStore`` and ``UsedNonces``.

    Args:
        database: The service's store.
        seal: Encrypts and decrypts records.
        to_job_id: Returns the job id for a job number.

    Raises:
        ConfigError: If the store contains records whose key the seal does not have.
    """

    def __init__(
        self, database: Database, seal: ScriptSeal, to_job_id: Callable[[int], JobId]
    ) -> None:
        self._database = database
        self._to_job_id = to_job_id
        self._seal = seal
        with database.begin() as connection:
            query = text("SELECT DISTINCT key_name FROM definitions")
            key_names = connection.execute(query).scalars().all()
        missing_keys = [name for name in key_names if not seal.has_key(name)]
        if missing_keys:
            raise unknown_keys_error(missing_keys)

    def put(self, script_id: str, record: str, *, owner: str, expires_at: int) -> None:
        """Seal a script's record and store it under the script's id.

        The record is JSON text: the script, its secrets and a salt.
        """
        sealed_record = self._seal.seal(record, script_id=script_id)
        statement = text(
            "INSERT INTO definitions (id, key_name, sealed, owner, ends_at)"
            " VALUES (:id, :key_name, :sealed, :owner, :expires_at) ON CONFLICT (id) DO NOTHING"
        )
        row = {
            "id": script_id,
            "key_name": sealed_record.key_name,
            "sealed": sealed_record.data,
        }
        with self._database.begin() as connection:
            connection.execute(statement, row | {"owner": owner, "expires_at": expires_at})

    def get(self, script_id: str) -> StoredScript | None:
        """Return the script with this id. Returns None if no script has the id."""
        query = text("SELECT key_name, sealed, owner FROM definitions WHERE id = :id")
        with self._database.begin() as connection:
            row = connection.execute(query, {"id": script_id}).one_or_none()
        if row is None:
            return None
        record = self._seal.open(SealedRecord(row.key_name, bytes(row.sealed)), script_id=script_id)
        return StoredScript(record=record, owner=row.owner)

    def add_uses(self, uses: Iterable[ScriptUse]) -> None:
        """Store that these jobs use scripts."""
        self._execute(_USE, map(_to_row, uses))

    def uses(self) -> tuple[ScriptUse, ...]:
        """Return the jobs that use scripts."""
        with self._database.begin() as connection:
            rows = connection.execute(
                text("SELECT job, id, customer FROM definition_jobs ORDER BY job, id")
            ).all()
        return tuple(map(self._row_to_use, rows))

    def release(self, uses: Iterable[ScriptUse], *, expires_at: int) -> None:
        """Store that these jobs no longer use scripts."""
        self._execute(_RELEASE, [_to_row(use) | {"expires_at": expires_at} for use in uses])

    def sweep(self, now: int) -> int:
        """Delete expired scripts and nonces, and return the number of deleted scripts."""
        with self._database.begin() as connection:
            connection.execute(text("DELETE FROM taken_nonces WHERE ends_at < :now"), {"now": now})
            removed = connection.execute(
                text("DELETE FROM definitions WHERE ends_at < :now"), {"now": now}
            )
        return removed.rowcount

    def reseal(self, *, after_id: str) -> ResealResult:
        """Seal records that are sealed with an older key again, with the newest key.

        One call processes the next RECORDS_PER_RESEAL such records after an id, in order of ids.
        """
        query = text(
            "SELECT id, key_name, sealed FROM definitions"
            " WHERE key_name <> :newest AND id > :after_id ORDER BY id LIMIT :page_size"
        )
        unreadable = []
        with self._database.begin() as connection:
            parameters = {
                "newest": self._seal.newest_key_name,
                "after_id": after_id,
                "page_size": RECORDS_PER_RESEAL,
            }
            rows = connection.execute(query, parameters).all()
            for row in rows:
                try:
                    record = self._seal.open(
                        SealedRecord(row.key_name, bytes(row.sealed)), script_id=row.id
                    )
                except (ConfigError, ScriptDamaged):
                    unreadable.append(row.id)
                else:
                    self._reseal(connection, row.id, record)
        last = rows[-1].id if rows else None
        return ResealResult(
            count=len(rows) - len(unreadable), unreadable=tuple(unreadable), last=last
        )

    def totals(self) -> ScriptTotals:
        """Return the number and the size of the stored scripts."""
        query = text(
            "SELECT count(*) AS scripts, count(ends_at) AS unused,"
            " coalesce(sum(CASE WHEN ends_at IS NOT NULL THEN length(sealed) END), 0)"
            " AS unused_bytes FROM definitions"
        )
        with self._database.begin() as connection:
            row = connection.execute(query).one()
        return ScriptTotals(
            scripts=row.scripts, unused=row.unused, unused_bytes=int(row.unused_bytes)
        )

    def exclusive(self) -> AbstractContextManager[None]:
        """Return a lock. Only one of the processes that share the store can hold it at a time."""
        return self._database.lock()

    def mark_used(self, nonce: str, *, expires_at: int) -> bool:
        """Store a nonce, and return whether it was new."""
        statement = text(
            "INSERT INTO taken_nonces (nonce, ends_at) VALUES (:nonce, :expires_at)"
            " ON CONFLICT (nonce) DO NOTHING"
        )
        with self._database.begin() as connection:
            row = {"nonce": nonce, "expires_at": expires_at}
            return connection.execute(statement, row).rowcount == 1

    def _execute(self, statements: Iterable[str], rows: Iterable[Mapping[str, object]]) -> None:
        """Execute the statements for each row, sorted by script id to avoid deadlocks."""
        ordered_rows = sorted(rows, key=lambda row: str(row["id"]))
        with self._database.begin() as connection:
            for row in ordered_rows:
                for statement in statements:
                    connection.execute(text(statement), row)

    def _row_to_use(self, row: Row[Any]) -> ScriptUse:
        number = parse_slurm_job_name(row.job)
        if number is None:
            raise UnexpectedOutput("the store of scripts", row.job)
        job_id = self._to_job_id(number)
        return ScriptUse(job_id=job_id, batch_location_hash=row.id, customer=row.customer)

    def _reseal(self, connection: Connection, script_id: str, record: str) -> None:
        sealed_record = self._seal.seal(record, script_id=script_id)
        connection.execute(
            text("UPDATE definitions SET key_name = :key_name, sealed = :sealed WHERE id = :id"),
            {
                "id": script_id,
                "key_name": sealed_record.key_name,
                "sealed": sealed_record.data,
            },
        )


def _to_row(use: ScriptUse) -> dict[str, object]:
    return {
        "job": use.job_id.slurm_job_name,
        "id": use.batch_location_hash,
        "customer": use.customer,
    }
