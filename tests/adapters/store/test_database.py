# SPDX-License-Identifier: Apache-2.0
"""Behaviour that only SQL stores have: settings, migrations, locks, retention."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import create_engine, event, inspect, text
from sqlalchemy.exc import ProgrammingError
from tests.fakes.store import FakeClock

from gridstead.adapters.store import migrations
from gridstead.adapters.store.database import Database, StoreLost
from gridstead.adapters.store.outbox import KEPT_S, SqlOutbox
from gridstead.domain.transactions.calls import ClaimJobs
from gridstead.domain.transactions.outbox import EntryChange, Fees, SendState, Transaction
from gridstead.errors import ConfigError, Transient


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql_url")
    return f"sqlite:///{tmp_path}/state.db"


@pytest.mark.parametrize(
    "url", ["nonsense", "mysql://host/x", "oracle+nothing://x", "sqlite:////no/such/dir/file"]
)
def test_open_rejects_a_bad_url(url):
    with pytest.raises(ConfigError):
        Database(url)


def test_open_rejects_a_store_that_is_already_open(url):
    first = Database(url)

    with pytest.raises(ConfigError, match="another process"):
        Database(url)

    first.close()
    Database(url).close()


def test_open_rejects_a_store_of_a_newer_release(url):
    first = Database(url)
    with first.begin() as connection:
        connection.execute(text("UPDATE schema_version SET version = 99"))
    first.close()

    with pytest.raises(ConfigError, match="version 99"):
        Database(url)


@pytest.fixture
def change_schema(monkeypatch):
    """Return a function that adds migrations to the released ones."""
    released = migrations.MIGRATIONS

    def change(*more):
        monkeypatch.setattr(migrations, "MIGRATIONS", (*released, *more))
        monkeypatch.setattr("gridstead.adapters.store.database.MIGRATIONS", (*released, *more))
        return len(released) + len(more)

    return change


def test_open_migrates_an_old_store(url, change_schema):
    Database(url).close()
    version = change_schema(("ALTER TABLE outbox ADD COLUMN colour TEXT",))

    database = Database(url)

    with database.begin() as connection:
        assert connection.execute(text("SELECT version FROM schema_version")).scalars().all() == [
            version
        ]
        connection.execute(text("SELECT colour FROM outbox"))
    database.close()


def test_open_keeps_the_transactions_of_an_old_store(url, monkeypatch):
    """A migration recreated the table when hashes became unique per account."""
    with monkeypatch.context() as before:
        released = migrations.MIGRATIONS[:3]
        before.setattr(migrations, "MIGRATIONS", released)
        before.setattr("gridstead.adapters.store.database.MIGRATIONS", released)
        old = Database(url)
    signed = [
        Transaction(hash=name, nonce=7, raw="0x02", entry_ids=(1, 2), fees=Fees(max_fee=3, tip=1))
        for name in ("0xb", "0xa")
    ]
    outbox = SqlOutbox(old, FakeClock())
    for transaction in signed:
        outbox.add("account", transaction)
    old.close()

    database = Database(url)

    assert SqlOutbox(database, FakeClock()).open_transactions("account") == tuple(signed)
    database.close()


def test_open_rolls_back_a_migration_that_fails(url, change_schema):
    Database(url).close()
    change_schema(("CREATE TABLE half (x TEXT)", "NONSENSE"))
    with pytest.raises((Transient, ProgrammingError)):
        Database(url)

    change_schema()
    database = Database(url)

    with database.begin() as connection:
        assert not inspect(connection).has_table("half")
    database.close()


def test_threads_write_at_the_same_time(url):
    database = Database(url)
    outbox = SqlOutbox(database, FakeClock())

    def put(name):
        for number in range(20):
            outbox.put(f"{name}-{number}", ClaimJobs(limit=1))
            outbox.put("shared", ClaimJobs(limit=1))

    threads = [threading.Thread(target=put, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(outbox.open_entries()) == 61
    database.close()


def test_threads_of_a_process_wait_for_a_mutex_and_not_for_sqlite(tmp_path, monkeypatch):
    """SQLite sleeps while it waits. Many writers were therefore five times slower than one."""
    monkeypatch.setattr("gridstead.adapters.store.database._BUSY_TIMEOUT_MS", 0)
    database = Database(f"sqlite:///{tmp_path}/state.db")
    outbox = SqlOutbox(database, FakeClock())
    stored = []

    def put(name):
        for number in range(20):
            outbox.put(f"{name}-{number}", ClaimJobs(limit=1))
            stored.append(number)

    threads = [threading.Thread(target=put, args=(name,)) for name in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(stored) == 120
    database.close()


def test_sqlite_uses_wal_and_full_synchronous_mode(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/state.db")

    with database.begin() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
    database.close()


def test_a_closed_store_refuses_writes(url):
    first = Database(url)
    first.close()
    second = Database(url)

    with pytest.raises(StoreLost, match="closed"), first.begin() as connection:
        connection.execute(text("DELETE FROM cursor"))

    second.close()


def test_a_store_that_lost_its_lock_refuses_writes(postgresql_url):
    database = Database(postgresql_url)
    engine = create_engine(postgresql_url)
    with engine.connect() as connection:
        others = "pid <> pg_backend_pid() AND datname = current_database()"
        terminate = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        connection.execute(text(f"{terminate} WHERE {others}"))
    engine.dispose()

    for _ in range(2):
        with pytest.raises(StoreLost), database.begin():
            pass

    database.close()


@pytest.fixture
def statements():
    """Return a function that records the statements of a database with their parameters."""

    def listen(database):
        executed = []
        with database.begin() as connection:
            engine = connection.engine
        event.listen(
            engine,
            "before_cursor_execute",
            lambda _c, _k, sql, parameters, *_: executed.append((sql, parameters)),
        )
        return executed

    return listen


def test_queries_for_open_rows_use_the_partial_indexes(tmp_path, statements):
    database = Database(f"sqlite:///{tmp_path}/state.db")
    outbox = SqlOutbox(database, FakeClock())
    executed = statements(database)

    outbox.open_entries()
    outbox.next_entries(10)
    outbox.open_transactions("account")
    outbox.record("account", changes=[], withdrawn=[1], closed=[2])

    with database.begin() as connection:
        queries = [
            statement
            for statement in list(executed)
            if statement[0].startswith(("SELECT", "UPDATE"))
        ]
        plans = [
            connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {words}", given).all()
            for words, given in queries
        ]
    database.close()
    assert len(queries) == 6
    for plan in plans:
        assert all("_open" in step.detail for step in plan)


def test_closed_rows_are_deleted_after_the_retention_time(url):
    database, clock = Database(url), FakeClock()
    outbox = SqlOutbox(database, clock)
    for number, key in enumerate(("done", "open")):
        outbox.put(key, ClaimJobs(limit=1))
        outbox.add(
            "account",
            Transaction(hash=key, nonce=number, raw="", entry_ids=(), fees=Fees(max_fee=1, tip=1)),
        )
    outbox.mark_sent("account", ["done", "open"], sent_at=clock.now())
    done, kept = outbox.open_entries()
    final = EntryChange(entry_id=done.id, state=SendState.FINAL)

    outbox.record("account", changes=[final], withdrawn=[], closed=[0])
    assert len(outbox.entries()) == 2
    clock.advance(KEPT_S + 1)
    outbox.record("account", changes=[], withdrawn=[], closed=[])

    assert outbox.entries() == (kept,)
    with database.begin() as connection:
        assert connection.execute(text("SELECT hash FROM transactions")).scalars().all() == ["open"]
    database.close()


def test_open_rows_do_not_stop_the_deletion_of_closed_ones(url, monkeypatch):
    """Rows that stay open for ever, such as transactions of an abandoned chain, come first in the
    order of deletion. The closed rows after them were never sent.
    """
    monkeypatch.setattr("gridstead.adapters.store.outbox._ROWS_PER_SWEEP", 2)
    database, clock = Database(url), FakeClock()
    outbox = SqlOutbox(database, clock)
    for number in range(6):
        outbox.put(str(number), ClaimJobs(limit=1))
        signed = Transaction(
            hash=f"{number}", nonce=number, raw="", entry_ids=(), fees=Fees(max_fee=1, tip=1)
        )
        outbox.add("abandoned" if number < 3 else "account", signed)
    final = [
        EntryChange(entry_id=entry.id, state=SendState.FINAL) for entry in outbox.open_entries()[3:]
    ]
    outbox.record("account", changes=final, withdrawn=[], closed=[3, 4, 5])
    clock.advance(KEPT_S + 1)
    for _ in range(2):
        outbox.record("account", changes=[], withdrawn=[], closed=[])

    assert [entry.key for entry in outbox.entries()] == ["0", "1", "2"]
    with database.begin() as connection:
        assert connection.execute(text("SELECT hash FROM transactions")).scalars().all() == [
            "0",
            "1",
            "2",
        ]
    database.close()
