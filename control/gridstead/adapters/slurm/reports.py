# SPDX-License-Identifier: Apache-2.0
"""The agent's store of the plugins' reports: an SQLite file."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path

from gridstead.domain.slurm.hint import Hint
from gridstead.domain.supervisor.attempt import NodeReport
from gridstead.errors import ConfigError
from gridstead.ports import Clock

_MAX_REPORTS = 1000
_MS_PER_S = 1000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS report (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  event TEXT NOT NULL,
  slurm_job_id INTEGER NOT NULL,
  uid INTEGER NOT NULL,
  at INTEGER NOT NULL,
  stored_at INTEGER NOT NULL,
  UNIQUE (slurm_job_id, uid, event, at)
)
"""


class SqliteReports:
    """Implements port ``ReportStore``. It is thread-safe.

    The sequence numbers of a new file start at the current time in milliseconds. So the numbers
    still increase after the file was lost and created again.

    Raises:
        ConfigError: If the file cannot be opened.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        try:
            self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._database.execute("PRAGMA journal_mode=WAL")
            # With FULL, a stored report survives a power failure, so that its sequence number is
            # never used again. The supervisor reads only reports whose sequence number is above the
            # last one that it has read.
            self._database.execute("PRAGMA synchronous=FULL")
            self._database.execute(_SCHEMA)
            self._set_first_sequence()
        except sqlite3.OperationalError as err:
            raise ConfigError(f"could not open {path}", detail=str(err)) from err

    def add(self, hints: Iterable[Hint]) -> None:
        """Store the plugins' hints as reports in one transaction, and wake waiting readers."""
        now = self._clock.now()
        rows = [(hint.event, hint.slurm_job_id, hint.uid, hint.occurred_at, now) for hint in hints]
        if not rows:
            return
        with self._changed:
            with self._database:
                self._database.execute("BEGIN")
                self._database.executemany(
                    "INSERT OR IGNORE INTO report (event, slurm_job_id, uid, at, stored_at)"
                    " VALUES (?, ?, ?, ?, ?)",
                    rows,
                )
            self._changed.notify_all()

    def list_after(self, sequence: int, *, wait_s: float) -> tuple[NodeReport, ...]:
        """Return at most a thousand reports whose sequence number is higher than ``sequence``.

        If there is no such report, the call waits for one, up to ``wait_s`` seconds.
        """
        with self._changed:
            reports = self._select(sequence)
            if not reports and wait_s > 0:
                self._changed.wait(wait_s)
                reports = self._select(sequence)
            return reports

    def delete(self, *, before: int) -> None:
        """Delete the reports that were stored before a time in Unix seconds."""
        with self._changed:
            self._database.execute("DELETE FROM report WHERE stored_at < ?", (before,))

    def close(self) -> None:
        """Close the file."""
        with self._changed:
            self._database.close()

    def _select(self, sequence: int) -> tuple[NodeReport, ...]:
        rows = self._database.execute(
            "SELECT sequence, event, slurm_job_id, uid, at FROM report"
            " WHERE sequence > ? ORDER BY sequence LIMIT ?",
            (sequence, _MAX_REPORTS),
        )
        return tuple(_to_report(*row) for row in rows)

    def _set_first_sequence(self) -> None:
        query = "SELECT 1 FROM sqlite_sequence WHERE name = 'report'"
        if self._database.execute(query).fetchone() is None:
            first_id = self._clock.now() * _MS_PER_S
            self._database.execute(
                "INSERT INTO sqlite_sequence (name, seq) VALUES ('report', ?)", (first_id,)
            )


def _to_report(
    sequence: int, event: str, slurm_job_id: int, uid: int, occurred_at: int
) -> NodeReport:
    return NodeReport(
        sequence=sequence,
        event=event,
        slurm_job_id=slurm_job_id,
        uid=uid,
        occurred_at=occurred_at,
    )
