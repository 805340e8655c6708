# SPDX-License-Identifier: Apache-2.0
"""A fixture that runs a test on each store: in memory, in SQLite, and in PostgreSQL."""

from __future__ import annotations

import pytest
from tests.fakes.store import (
    FakeClock,
    MemoryCursor,
    MemoryDecisionStore,
    MemoryJournal,
    MemoryOutbox,
    MemorySnapshotStore,
)

from gridstead.adapters.store.cursor import SqlCursor
from gridstead.adapters.store.database import Database
from gridstead.adapters.store.decisions import SqlDecisionStore
from gridstead.adapters.store.journal import SqlJournal
from gridstead.adapters.store.outbox import SqlOutbox
from gridstead.adapters.store.snapshots import SqlSnapshotStore


class MemoryStore:
    """A store in memory. Like a database, the store has the same content after a restart."""

    def __init__(self):
        self.clock = FakeClock()
        self.journal = MemoryJournal()
        self.outbox = MemoryOutbox(clock=self.clock)
        self.decisions = MemoryDecisionStore(self.outbox)
        self.snapshots = MemorySnapshotStore()
        self._cursors = {}

    def cursor(self, name):
        """Return the stored position up to which the reader ``name`` has read the chain."""
        return self._cursors.setdefault(name, MemoryCursor())

    def restart(self):
        pass

    def close(self):
        pass


class SqlStore:
    """A store in a database."""

    def __init__(self, url):
        self.clock = FakeClock()
        self.url = url
        self._open()

    def _open(self):
        self.database = Database(self.url)
        self.journal = SqlJournal(self.database)
        self.outbox = SqlOutbox(self.database, self.clock)
        self.decisions = SqlDecisionStore(self.database, self.outbox)
        self.snapshots = SqlSnapshotStore(self.database, rules="")

    def cursor(self, name):
        """Return the stored position up to which the reader ``name`` has read the chain."""
        return SqlCursor(self.database, name)

    def restart(self):
        self.database.close()
        self._open()

    def close(self):
        self.database.close()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request, tmp_path):
    """Yield an empty store."""
    if request.param == "memory":
        new_store = MemoryStore()
    elif request.param == "sqlite":
        new_store = SqlStore(f"sqlite:///{tmp_path}/state.db")
    else:
        new_store = SqlStore(request.getfixturevalue("postgresql_url"))
    yield new_store
    new_store.close()
