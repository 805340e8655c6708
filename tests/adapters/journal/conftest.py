# SPDX-License-Identifier: Apache-2.0
"""Stores of every kind: in memory, SQLite, PostgreSQL."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.store import FakeClock, MemoryCursor, MemoryJournal, MemoryOutbox

from gridstead.adapters.journal.cursor import SqlCursor
from gridstead.adapters.journal.database import Database
from gridstead.adapters.journal.journal import SqlJournal
from gridstead.adapters.journal.outbox import SqlOutbox


class MemoryStore:
    """A store whose memory outlives a restart, as a file does."""

    def __init__(self):
        self.clock = FakeClock()
        self.journal = MemoryJournal()
        self.outbox = MemoryOutbox(clock=self.clock)
        self._cursors = {}

    def cursor(self, name):
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

    def cursor(self, name):
        return SqlCursor(self.database, name)

    def restart(self):
        self.database.close()
        self._open()

    def close(self):
        self.database.close()


def _postgresql_bin() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


def _unprivileged() -> dict[str, int]:
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid}


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Path]:
    """The directory of the socket of a PostgreSQL server of our own."""
    binaries = _postgresql_bin()
    if binaries is None:
        if os.environ.get("CI"):
            pytest.fail("PostgreSQL is not installed")
        pytest.skip("PostgreSQL is not installed")
    with tempfile.TemporaryDirectory(prefix="gs-pg-") as name:
        directory = Path(name)
        account = _unprivileged()
        if account:
            os.chown(directory, account["user"], account["group"])
        data = directory / "data"

        def run(*words):
            groups = [] if account else None
            subprocess.run(words, check=True, cwd="/", stdout=subprocess.DEVNULL, extra_groups=groups, **account)

        run(binaries / "initdb", "-D", data, "-U", "gridstead", "-A", "trust", "--no-sync", "-E", "UTF8")
        options = f"-c listen_addresses= -c unix_socket_directories={directory} -c fsync=off"
        run(binaries / "pg_ctl", "-D", data, "-w", "-o", options, "-l", directory / "log", "start")
        try:
            yield directory
        finally:
            run(binaries / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")


@pytest.fixture
def postgresql_url(postgresql, request) -> str:
    """The URL of an empty database."""
    from sqlalchemy import create_engine, text  # noqa: PLC0415

    name = f"test_{abs(hash(request.node.nodeid)):x}"
    server = f"postgresql+psycopg://gridstead@/postgres?host={postgresql}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE IF EXISTS {name}"))
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return f"postgresql+psycopg://gridstead@/{name}?host={postgresql}"


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request, tmp_path):
    """An empty store of each kind."""
    if request.param == "memory":
        made = MemoryStore()
    elif request.param == "sqlite":
        made = SqlStore(f"sqlite:///{tmp_path}/state.db")
    else:
        made = SqlStore(request.getfixturevalue("postgresql_url"))
    yield made
    made.close()
