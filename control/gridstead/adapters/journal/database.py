# SPDX-License-Identifier: Apache-2.0
"""The store of one process: a SQLite file, or a PostgreSQL database by URL.

Rule 1: what begin() committed survives a power cut. Rule 2: one process at a time; a second one is
turned away, unless both said that they share it and it is PostgreSQL. Rule 3: any thread may use
it; writers wait for each other.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as NoConnectionLeft

from gridstead.adapters.journal.migrations import MIGRATIONS, migrate, version_of
from gridstead.errors import ConfigError, Transient

LOCK_WAIT_S = 30
SILENCE_S = 120  # the server ends a transaction that says nothing for so long
_BUSY_TIMEOUT_MS = 30_000
_LOCK_KEY = 0x67726964  # "grid": the advisory lock that a process holds on a PostgreSQL database
_MIGRATION_KEY = _LOCK_KEY + 1
_ALONE_KEY = _LOCK_KEY + 2
_LOCK_NOT_AVAILABLE, _SILENT_TOO_LONG = "55P03", "25P03"  # PostgreSQL's names of errors

# A peer whose host has vanished is given up after a minute, by us and by the server.
_CLIENT = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
_SERVER = {f"tcp_{name.removeprefix('tcp_')}": value for name, value in _CLIENT.items()}


class StoreLost(Exception):
    """The store is not known to be this process's any more: the process must end, and begin again
    from the store.
    """


class Database:
    """An open store, brought to the present version.

    Args:
        url: ``sqlite:////path/to/file`` or ``postgresql+psycopg://…``.
        shared: Whether other processes that share it too may have it open; a SQLite file is never
            shared.

    Raises:
        ConfigError: If the URL is wrong, the store is newer than this release or another process
            has it open.
        Transient: If the server does not answer.
    """

    def __init__(self, url: str, *, shared: bool = False) -> None:
        self._engine = _engine(url)
        self._shared = shared
        self._is_closed = False
        self._alone = threading.Lock()
        # SQLite lets a writer that must wait sleep, ever longer; a thread that waits here is woken
        # at once.
        self._turn: AbstractContextManager[Any] = (
            threading.Lock() if self._engine.dialect.name == "sqlite" else nullcontext()
        )
        self._lock_fd: int | None = None
        self._lock_connection: Connection | None = None
        self._lock_guard = threading.Lock()
        ready = False
        try:
            with _translated():
                self._lock()
                with self._held(_MIGRATION_KEY):
                    self._migrate()
            ready = True
        finally:
            if not ready:
                self.close()

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Yield a connection in a transaction that is committed at the end, or rolled back if an
        error leaves it.

        Raises:
            StoreLost: The lock is gone, or the store was closed; no expected error, so it ends the
                process.
            Transient: The server does not answer.
        """
        self._check_lock()
        with self._turn:
            if self._is_closed:
                raise StoreLost("the state store is closed")
            with _translated(), self._engine.begin() as connection:
                yield connection

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Wait until no thread of any process that shares the store is in here.

        Raises:
            Transient: One stays there, or has been silent for so long that the server let others
                in.
        """
        # One thread of ours at a time: those that wait for the server would need all connections
        # there are.
        if not self._alone.acquire(timeout=LOCK_WAIT_S):
            raise _locked()
        try:
            with _translated(), self._held(_ALONE_KEY):
                yield
        finally:
            self._alone.release()

    @contextmanager
    def _held(self, key: int) -> Iterator[None]:
        if self._engine.dialect.name == "sqlite":
            yield
            return
        with self._engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})
            yield

    def close(self) -> None:
        """Let go of the store, for good: a thread that still works must not write what another
        process has by then.
        """
        with self._turn:
            self._is_closed = True
        if self._lock_connection is not None:
            # The server sees the end of a connection some time later; what is let go by name can be
            # had at once.
            with suppress(SQLAlchemyError):
                self._lock_connection.execute(text("SELECT pg_advisory_unlock_all()"))
            self._lock_connection.close()
            self._lock_connection = None
        self._engine.dispose()
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def _migrate(self) -> None:
        with self._engine.begin() as connection:
            version = version_of(connection)
        for step in range(version, len(MIGRATIONS)):
            with self._engine.begin() as connection:
                migrate(connection, step)

    def _lock(self) -> None:
        taken = self._lock_file() if self._engine.dialect.name == "sqlite" else self._lock_server()
        if not taken:
            raise ConfigError(
                f"cannot open the state store {self._engine.url.render_as_string()}",
                detail="another process has it open",
                hint="Run one process per store.",
            )

    def _check_lock(self) -> None:
        """Make sure that the store is still ours: a server that was restarted has forgotten it.

        Raises:
            StoreLost: It is not, and another process may have it by now.
        """
        if self._lock_connection is None or self._shared:
            return
        try:
            with self._lock_guard:
                self._lock_connection.execute(text("SELECT 1"))
        except SQLAlchemyError as err:
            raise StoreLost("lost the lock of the state store") from err

    def _lock_file(self) -> bool:
        path = self._engine.url.database
        if not path or path == ":memory:":
            return True
        self._lock_fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _lock_server(self) -> bool:
        self._lock_connection = self._engine.connect().execution_options(
            isolation_level="AUTOCOMMIT"
        )
        query = text(f"SELECT pg_try_advisory_lock{'_shared' if self._shared else ''}(:key)")
        return bool(self._lock_connection.execute(query, {"key": _LOCK_KEY}).scalar())


def _engine(text_url: str) -> Engine:
    try:
        url = make_url(text_url)
        postgresql = url.get_backend_name() == "postgresql"
        given = {name: value for name, value in _CLIENT.items() if name not in url.query}
        engine = create_engine(url, connect_args=given if postgresql else {})
    except (ArgumentError, NoSuchModuleError, ImportError) as err:
        raise ConfigError("cannot use the state store's URL", detail=str(err)) from err
    if engine.dialect.name not in {"sqlite", "postgresql"}:
        raise ConfigError(
            "cannot use the state store's URL", detail=f"dialect {engine.dialect.name!r}"
        )
    if engine.dialect.name == "sqlite":
        if url.database and not Path(url.database).parent.is_dir():
            raise ConfigError(
                f"cannot open the state store {url.database}", detail="its directory does not exist"
            )
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_immediate)
    else:
        event.listen(engine, "connect", _prepare_postgresql)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:  # noqa: ANN401
    connection.isolation_level = None  # the driver must not begin transactions of its own
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        f"busy_timeout = {_BUSY_TIMEOUT_MS}",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _prepare_postgresql(connection: Any, _record: Any) -> None:  # noqa: ANN401 # its driver's
    waits = {
        "lock_timeout": f"{LOCK_WAIT_S}s",
        "idle_in_transaction_session_timeout": f"{SILENCE_S}s",
    }
    for name, value in {**_SERVER, **waits}.items():
        connection.execute(f"SET {name} = '{value}'")
    connection.commit()


def _begin_immediate(connection: Connection) -> None:
    # A transaction that reads first and writes later cannot wait for another writer; one that
    # begins as a writer can.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except DBAPIError as err:
        state = getattr(err.orig, "sqlstate", None)
        if state == _LOCK_NOT_AVAILABLE:
            raise _locked() from err
        if isinstance(err, OperationalError | InterfaceError) or state == _SILENT_TOO_LONG:
            raise Transient("could not reach the state store", detail=str(err.orig)) from err
        raise
    except NoConnectionLeft as err:
        raise Transient(
            "could not reach the state store", detail="all connections are busy"
        ) from err


def _locked() -> Transient:
    return Transient(
        "could not use the state store",
        detail=f"another process, or thread, has kept it locked for {LOCK_WAIT_S} s",
        hint=f"Look for one that hangs. PostgreSQL takes the lock from it after {SILENCE_S} s of silence.",
    )
