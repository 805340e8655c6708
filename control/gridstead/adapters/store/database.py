# SPDX-License-Identifier: Apache-2.0
"""The store of a process: an SQLite file or a PostgreSQL database.

Rule 1: a committed transaction survives a power failure.
Rule 2: at most one process at a time may open the store. Exception: several processes may open a
PostgreSQL database if each of them opens the database as shared.
Rule 3: any thread may use the store. Writers wait for each other.
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
from sqlalchemy.exc import TimeoutError as PoolTimeout

from gridstead.adapters.store.migrations import MIGRATIONS, migrate, version_of
from gridstead.errors import ConfigError, Transient

LOCK_TIMEOUT_S = 30
IDLE_TIMEOUT_S = 120  # PostgreSQL ends a transaction that is idle for this time.
_BUSY_TIMEOUT_MS = 30_000
# The keys of advisory locks in PostgreSQL. A process holds _STORE_KEY while the store is open.
_STORE_KEY = 0x67726964  # "grid"
_MIGRATION_KEY = _STORE_KEY + 1
_EXCLUSIVE_KEY = _STORE_KEY + 2
_LOCK_NOT_AVAILABLE_CODE = "55P03"  # error codes of PostgreSQL
_IDLE_TIMEOUT_CODE = "25P03"

# The client and the server close a connection one minute after the other host has failed.
_CLIENT_KEEPALIVES = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
# The same values as settings of PostgreSQL, whose names all begin with tcp_, for example
# tcp_keepalives_idle.
_SERVER_KEEPALIVES = {
    f"tcp_{name.removeprefix('tcp_')}": value for name, value in _CLIENT_KEEPALIVES.items()
}


class StoreLost(Exception):
    """The process may have lost its lock on the store, and must end.

    A new process must then read the state from the store again.
    """


class Database:
    """An open store with the schema of this release.

    Args:
        url: ``sqlite:////path/to/file`` or ``postgresql+psycopg://…``.
        shared: Whether other processes may also open the store. An SQLite file is never shared.

    Raises:
        ConfigError: If the URL is invalid, if a newer release has written the store, or if another
            process has opened the store.
        Transient: If the server does not answer.
    """

    def __init__(self, url: str, *, shared: bool = False) -> None:
        self._engine = _engine(url)
        self._shared = shared
        self._is_closed = False
        self._exclusive_lock = threading.Lock()
        # SQLite makes a waiting writer sleep for increasing intervals. With this lock, a waiting
        # writer of the same process continues as soon as the lock is released.
        self._write_lock: AbstractContextManager[Any] = nullcontext()
        if self._engine.dialect.name == "sqlite":
            self._write_lock = threading.Lock()
        self._lock_fd: int | None = None
        self._lock_connection: Connection | None = None
        self._lock_connection_mutex = threading.Lock()
        is_open = False
        try:
            with _translated_errors():
                self._lock_store()
                with self._advisory_lock(_MIGRATION_KEY):
                    self._migrate()
            is_open = True
        finally:
            if not is_open:
                self.close()

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Yield a connection in a transaction.

        The transaction is committed at the end of the block, or rolled back after an error.

        Raises:
            StoreLost: If the lock is lost or the store is closed. The process must end.
            Transient: If the server does not answer.
        """
        self._check_lock()
        with self._write_lock:
            if self._is_closed:
                raise StoreLost("the state store is closed")
            with _translated_errors(), self._engine.begin() as connection:
                yield connection

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold a mutex that is common to all processes that share the store.

        Raises:
            Transient: If another thread or process holds the mutex for too long, or if this thread
                was idle for so long that the server released the mutex.
        """
        # Only one thread of the process waits for the server, so that waiting threads cannot use
        # all connections.
        if not self._exclusive_lock.acquire(timeout=LOCK_TIMEOUT_S):
            raise _lock_timeout_error()
        try:
            with _translated_errors(), self._advisory_lock(_EXCLUSIVE_KEY):
                yield
        finally:
            self._exclusive_lock.release()

    @contextmanager
    def _advisory_lock(self, key: int) -> Iterator[None]:
        if self._engine.dialect.name == "sqlite":
            yield
            return
        with self._engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})
            yield

    def close(self) -> None:
        """Close the store. From now on, ``begin`` raises StoreLost in every thread.

        So a thread that still runs cannot write to the store after another process has opened it.
        """
        with self._write_lock:
            self._is_closed = True
        if self._lock_connection is not None:
            # The server may notice a closed connection late. An unlock takes effect at once.
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
        has_lock = self._try_lock_file() if is_sqlite else self._try_lock_server()
        if not has_lock:
            raise ConfigError(
                f"cannot open the state store {self._engine.url.render_as_string()}",
                detail="another process has opened it",
                hint="Run one process per store.",
            )

    def _check_lock(self) -> None:
        """Check that this process still holds the lock. A restart of the server releases the lock.

        Raises:
            StoreLost: If the lock is lost. Another process may have opened the store.
        """
        if self._lock_connection is None or self._shared:
            return
        try:
            with self._lock_connection_mutex:
                self._lock_connection.execute(text("SELECT 1"))
        except SQLAlchemyError as error:
            raise StoreLost("lost the lock of the state store") from error

    def _try_lock_file(self) -> bool:
        path = self._engine.url.database
        if not path or path == ":memory:":
            return True
        self._lock_fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _try_lock_server(self) -> bool:
        self._lock_connection = self._engine.connect().execution_options(
            isolation_level="AUTOCOMMIT"
        )
        function = "pg_try_advisory_lock_shared" if self._shared else "pg_try_advisory_lock"
        query = text(f"SELECT {function}(:key)")
        return bool(self._lock_connection.execute(query, {"key": _STORE_KEY}).scalar())


def _engine(url_text: str) -> Engine:
    """Return the engine of a database URL, with the settings of its connections."""
    try:
        url = make_url(url_text)
        is_postgresql = url.get_backend_name() == "postgresql"
        keepalives = {
            name: value for name, value in _CLIENT_KEEPALIVES.items() if name not in url.query
        }
        connect_args = keepalives if is_postgresql else {}
        engine = create_engine(url, connect_args=connect_args)
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise ConfigError("invalid URL of the state store", detail=str(error)) from error
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
    connection.isolation_level = None  # The driver must not start transactions itself.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")


# The types of the arguments depend on the driver.
def _prepare_postgresql(connection: Any, _record: Any) -> None:  # noqa: ANN401
    timeouts = {
        "lock_timeout": f"{LOCK_TIMEOUT_S}s",
        "idle_in_transaction_session_timeout": f"{IDLE_TIMEOUT_S}s",
    }
    for name, value in {**_SERVER_KEEPALIVES, **timeouts}.items():
        connection.execute(f"SET {name} = '{value}'")
    connection.commit()


def _begin_immediate(connection: Connection) -> None:
    # Each transaction starts as a writer and waits until no other transaction writes. A transaction
    # that starts as a reader fails in SQLite if it writes while another transaction writes.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Convert errors of the database library to the errors that ports raise."""
    try:
        yield
    except DBAPIError as error:
        error_code = getattr(error.orig, "sqlstate", None)
        if error_code == _LOCK_NOT_AVAILABLE_CODE:
            raise _lock_timeout_error() from error
        is_connection_error = isinstance(error, OperationalError | InterfaceError)
        if is_connection_error or error_code == _IDLE_TIMEOUT_CODE:
            raise Transient("could not reach the state store", detail=str(error.orig)) from error
        raise
    except PoolTimeout as error:
        raise Transient(
            "could not reach the state store", detail="all connections are busy"
        ) from error


def _lock_timeout_error() -> Transient:
    return Transient(
        "could not use the state store",
        detail=f"another process or thread has kept it locked for {LOCK_TIMEOUT_S} s",
        hint=(
            "Find the process that hangs. PostgreSQL releases its lock after"
            f" {IDLE_TIMEOUT_S} s without a statement."
        ),
    )
