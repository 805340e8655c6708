# SPDX-License-Identifier: Apache-2.0
"""The store of a process: an SQLite file or a PostgreSQL database.

Rule 1: a committed transaction survives a power cut. Rule 2: one process at a time may open the
store, unless all processes share it and it is a PostgreSQL database. Rule 3: any thread may use the
store; writers wait for each other.
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

from gridstead.adapters.store.migrations import MIGRATIONS, migrate, version_of
from gridstead.errors import ConfigError, Transient

LOCK_WAIT_S = 30
IDLE_S = 120  # the server ends a transaction that is idle for so long
_BUSY_TIMEOUT_MS = 30_000
_LOCK_KEY = 0x67726964  # "grid": the advisory lock that a process holds on a PostgreSQL database
_MIGRATION_KEY = _LOCK_KEY + 1
_EXCLUSIVE_KEY = _LOCK_KEY + 2
_LOCK_NOT_AVAILABLE, _IDLE_TIMEOUT = "55P03", "25P03"  # PostgreSQL error codes

# The client and the server close the connection a minute after the other host has vanished.
_CLIENT = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
_SERVER = {f"tcp_{name.removeprefix('tcp_')}": value for name, value in _CLIENT.items()}


class StoreLost(Exception):
    """The process may no longer own the store. It must exit and start again from the store."""


class Database:
    """An open store with the schema of this release.

    Args:
        url: ``sqlite:////path/to/file`` or ``postgresql+psycopg://…``.
        shared: Whether other processes may open the store too; an SQLite file is never shared.

    Raises:
        ConfigError: If the URL is wrong, the store is newer than this release, or another process
            has opened it.
        Transient: If the server does not answer.
    """

    def __init__(self, url: str, *, shared: bool = False) -> None:
        self._engine = _engine(url)
        self._shared = shared
        self._is_closed = False
        self._exclusive = threading.Lock()
        # A waiting writer of SQLite sleeps longer and longer. A thread that waits for this lock is
        # woken at once.
        self._write_lock: AbstractContextManager[Any] = (
            threading.Lock() if self._engine.dialect.name == "sqlite" else nullcontext()
        )
        self._lock_fd: int | None = None
        self._lock_connection: Connection | None = None
        self._lock_guard = threading.Lock()
        ready = False
        try:
            with _translated():
                self._lock_store()
                with self._held(_MIGRATION_KEY):
                    self._migrate()
            ready = True
        finally:
            if not ready:
                self.close()

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Yield a connection in a transaction.

        The transaction is committed at the end of the block, or rolled back after an error.

        Raises:
            StoreLost: If the lock is lost or the store is closed. This error ends the process.
            Transient: If the server does not answer.
        """
        self._check_lock()
        with self._write_lock:
            if self._is_closed:
                raise StoreLost("the state store is closed")
            with _translated(), self._engine.begin() as connection:
                yield connection

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the mutex that all processes sharing the store have in common.

        Raises:
            Transient: If another thread or process holds the mutex for too long, or this one was
                idle for so long that the server released the mutex.
        """
        # Only one thread of the process waits for the server; otherwise the waiting threads could
        # use up all connections.
        if not self._exclusive.acquire(timeout=LOCK_WAIT_S):
            raise _locked()
        try:
            with _translated(), self._held(_EXCLUSIVE_KEY):
                yield
        finally:
            self._exclusive.release()

    @contextmanager
    def _held(self, key: int) -> Iterator[None]:
        if self._engine.dialect.name == "sqlite":
            yield
            return
        with self._engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})
            yield

    def close(self) -> None:
        """Close the store for good.

        A thread that is still running must not write to a store that another process has opened.
        """
        with self._write_lock:
            self._is_closed = True
        if self._lock_connection is not None:
            # The server may notice a closed connection late. An explicit unlock takes effect at
            # once.
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

    def _lock_store(self) -> None:
        is_sqlite = self._engine.dialect.name == "sqlite"
        locked = self._lock_file() if is_sqlite else self._lock_server()
        if not locked:
            raise ConfigError(
                f"cannot open the state store {self._engine.url.render_as_string()}",
                detail="another process has opened it",
                hint="Run one process per store.",
            )

    def _check_lock(self) -> None:
        """Check that this process still holds the lock, which a restart of the server releases.

        Raises:
            StoreLost: If the lock is lost; another process may have opened the store.
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
        defaults = {name: value for name, value in _CLIENT.items() if name not in url.query}
        engine = create_engine(url, connect_args=defaults if postgresql else {})
    except (ArgumentError, NoSuchModuleError, ImportError) as err:
        raise ConfigError("invalid URL of the state store", detail=str(err)) from err
    if engine.dialect.name not in {"sqlite", "postgresql"}:
        raise ConfigError(
            "invalid URL of the state store", detail=f"dialect {engine.dialect.name!r}"
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
    connection.isolation_level = None  # the driver must not start its own transactions
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")


def _prepare_postgresql(connection: Any, _record: Any) -> None:  # noqa: ANN401 # a type of the driver
    timeouts = {
        "lock_timeout": f"{LOCK_WAIT_S}s",
        "idle_in_transaction_session_timeout": f"{IDLE_S}s",
    }
    for name, value in {**_SERVER, **timeouts}.items():
        connection.execute(f"SET {name} = '{value}'")
    connection.commit()


def _begin_immediate(connection: Connection) -> None:
    # A transaction that reads before it writes cannot wait for another writer. A transaction that
    # starts as a writer can.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except DBAPIError as err:
        state = getattr(err.orig, "sqlstate", None)
        if state == _LOCK_NOT_AVAILABLE:
            raise _locked() from err
        if isinstance(err, OperationalError | InterfaceError) or state == _IDLE_TIMEOUT:
            raise Transient("could not reach the state store", detail=str(err.orig)) from err
        raise
    except NoConnectionLeft as err:
        raise Transient(
            "could not reach the state store", detail="all connections are busy"
        ) from err


def _locked() -> Transient:
    return Transient(
        "could not use the state store",
        detail=f"another process or thread has kept it locked for {LOCK_WAIT_S} s",
        hint=(
            "Find the process that hangs. PostgreSQL releases its lock after"
            f" {IDLE_S} s without a statement."
        ),
    )
