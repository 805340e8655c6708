# SPDX-License-Identifier: Apache-2.0
"""Stores the snapshot of a meta-scheduler, in the database of its outbox."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import delete, insert, select

from gridstead.adapters.store.database import Database
from gridstead.adapters.store.schema import SNAPSHOTS
from gridstead.adapters.store.snapshot_codec import content_format, decode, encode
from gridstead.domain.matching.snapshot import Snapshot
from gridstead.errors import UnexpectedOutput

_NAME = "meta-scheduler"  # Further readers of the chain may store snapshots under other names.
_IS_OWN_ROW = SNAPSHOTS.c.name == _NAME


class SqlSnapshotStore:
    """Implements port ``SnapshotStore``.

    Args:
        database: The database.
        rules: The contracts and the settings on which a snapshot depends, as a text.
        failpoint: Called in the transaction, after the old snapshot was deleted.
    """

    def __init__(
        self,
        database: Database,
        *,
        rules: str,
        failpoint: Callable[[str], None] = lambda _name: None,
    ) -> None:
        self._database = database
        self._rules = rules
        self._failpoint = failpoint

    def save(self, snapshot: Snapshot) -> None:
        """Replace the stored snapshot in one transaction."""
        row = {
            "name": _NAME,
            "format": content_format(),
            "rules": self._rules,
            "block": snapshot.block.number,
            "content": encode(snapshot),
        }
        with self._database.begin() as connection:
            connection.execute(delete(SNAPSHOTS).where(_IS_OWN_ROW))
            self._failpoint("snapshot-replaced")
            connection.execute(insert(SNAPSHOTS), row)

    def load(self) -> Snapshot | None:
        """Return the stored snapshot."""
        with self._database.begin() as connection:
            row = connection.execute(select(SNAPSHOTS).where(_IS_OWN_ROW)).one_or_none()
        if row is None:
            return None
        if row.format != content_format():
            raise UnexpectedOutput("the state store", f"snapshot with format {row.format}")
        if row.rules != self._rules:
            raise UnexpectedOutput("the state store", f"snapshot with other rules: {row.rules}")
        return decode(row.content)
