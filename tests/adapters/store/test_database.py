# SPDX-License-Identifier: Apache-2.0
"""Tests of behaviour that only SQL stores have: settings, migrations, locks, retention."""

from __future__ import annotations

import sqlite3
import threading

import pytest
from sqlalchemy import create_engine, event, inspect, text
from sqlalchemy.exc import ProgrammingError
from tests.adapters.store.rows import entry, job_key
from tests.fakes.store import FakeClock

from gridstead.adapters.store import journal as journal_store
from gridstead.adapters.store import migrations
from gridstead.adapters.store.database import Database, StoreLost
from gridstead.adapters.store.journal import SqlJournal
from gridstead.adapters.store.outbox import RETENTION_S, SqlOutbox
from gridstead.domain.supervisor.journal import EntryKind
from gridstead.domain.transactions.calls import ClaimJobs
from gridstead.domain.transactions.outbox import EntryChange, Fees, SendState, Transaction
from gridstead.errors import ConfigError, Transient


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """Return the URL of an empty database."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql_url")
    return f"sqlite:///{tmp_path}/state.db"


@pytest.mark.parametrize(
    "url", ["nonsense", "mysql://host/x", "oracle+nothing://x", "sqlite:////no/such/dir/file"]
)
def test_invalid_url_is_refused(url):
    with pytest.raises(ConfigError):
        Database(url)


def test_store_that_is_already_open_is_refused(url):
    first_database = Database(url)

    with pytest.raises(ConfigError, match="another process"):
        Database(url)

    first_database.close()
    Database(url).close()


def test_store_of_a_newer_release_is_refused(url):
    database = Database(url)
    with database.begin() as connection:
        connection.execute(text("UPDATE schema_version SET version = 99"))
    database.close()

    with pytest.raises(ConfigError, match="version 99"):
        Database(url)


@pytest.fixture
def set_migrations(monkeypatch):
    """Return a function that replaces the migrations of this release."""

    def set_all(new_migrations):
        monkeypatch.setattr(migrations, "MIGRATIONS", new_migrations)
        monkeypatch.setattr("gridstead.adapters.store.database.MIGRATIONS", new_migrations)

    return set_all


def read_column(database, query):
    """Return the first column of the rows of a query."""
    with database.begin() as connection:
        return connection.execute(text(query)).scalars().all()


def test_old_store_is_migrated(url, set_migrations):
    Database(url).close()
    old_version = len(migrations.MIGRATIONS)
    add_column = ("ALTER TABLE outbox ADD COLUMN colour TEXT",)
    set_migrations((*migrations.MIGRATIONS, add_column))

    database = Database(url)

    assert read_column(database, "SELECT version FROM schema_version") == [old_version + 1]
    assert read_column(database, "SELECT colour FROM outbox") == []
    database.close()


def test_migration_keeps_the_transactions_of_an_old_store(url, set_migrations):
    """Migration 4 recreates the table of transactions.

    After this migration, two accounts may have transactions with the same hash.
    """
    current_migrations = migrations.MIGRATIONS
    set_migrations(current_migrations[:3])
    old_database = Database(url)
    outbox = SqlOutbox(old_database, FakeClock())
    fees = Fees(max_fee=3, tip=1)
    first = Transaction(hash="0xb", nonce=7, raw="0x02", entry_ids=(1, 2), fees=fees)
    second = Transaction(hash="0xa", nonce=7, raw="0x02", entry_ids=(1, 2), fees=fees)
    outbox.add("account", first)
    outbox.add("account", second)
    old_database.close()
    set_migrations(current_migrations)

    database = Database(url)

    outbox = SqlOutbox(database, FakeClock())
    assert outbox.open_transactions("account") == (first, second)
    database.close()


def test_failed_migration_is_rolled_back(url, set_migrations):
    Database(url).close()
    current_migrations = migrations.MIGRATIONS
    failing_migration = ("CREATE TABLE half (x TEXT)", "NONSENSE")
    set_migrations((*current_migrations, failing_migration))
    with pytest.raises((Transient, ProgrammingError)):
        Database(url)

    set_migrations(current_migrations)
    database = Database(url)

    with database.begin() as connection:
        assert not inspect(connection).has_table("half")
    database.close()


def run_in_threads(function, names):
    """Call a function once for each name, in a thread per name. Wait for the end of all calls."""
    threads = [threading.Thread(target=function, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_several_threads_can_write_at_once(url):
    database = Database(url)
    outbox = SqlOutbox(database, FakeClock())

    def put(name):
        for number in range(20):
            outbox.put(f"{name}-{number}", ClaimJobs(limit=1))
            outbox.put("shared", ClaimJobs(limit=1))

    run_in_threads(put, "abc")

    assert len(outbox.open_entries()) == 61  # 20 keys of each thread, and the key "shared"
    database.close()


def test_threads_do_not_wait_for_the_lock_of_sqlite(tmp_path, monkeypatch):
    """The threads wait for a mutex of the process instead.

    SQLite sleeps between two attempts to get its lock, so many writers would be five times slower
    than one writer. The test sets the busy timeout to 0. SQLite then raises an error if a thread
    would have to wait for SQLite's lock.
    """
    monkeypatch.setattr("gridstead.adapters.store.database._BUSY_TIMEOUT_MS", 0)
    database = Database(f"sqlite:///{tmp_path}/state.db")
    outbox = SqlOutbox(database, FakeClock())
    stored_numbers = []

    def put(name):
        for number in range(20):
            outbox.put(f"{name}-{number}", ClaimJobs(limit=1))
            stored_numbers.append(number)

    run_in_threads(put, "abcdef")

    assert len(stored_numbers) == 120
    database.close()


def test_sqlite_uses_wal_and_full_synchronous_mode(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/state.db")

    with database.begin() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
    database.close()


def test_closed_store_refuses_writes(url):
    closed_database = Database(url)
    closed_database.close()
    reopened_database = Database(url)

    with pytest.raises(StoreLost, match="closed"), closed_database.begin() as connection:
        connection.execute(text("DELETE FROM cursor"))

    reopened_database.close()


def terminate_other_connections(url):
    """Terminate all connections to a PostgreSQL database, which also releases their locks."""
    engine = create_engine(url)
    with engine.connect() as connection:
        terminate = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        other_connections = "pid <> pg_backend_pid() AND datname = current_database()"
        connection.execute(text(f"{terminate} WHERE {other_connections}"))
    engine.dispose()


def test_store_that_lost_its_lock_refuses_writes(postgresql_url):
    database = Database(postgresql_url)

    terminate_other_connections(postgresql_url)

    for _ in range(2):
        with pytest.raises(StoreLost), database.begin():
            pass

    database.close()


def record_statements(database):
    """Return a list to which each later SQL statement is added, together with its parameters."""
    executed_statements = []

    def record(_connection, _cursor, sql, parameters, *_):
        executed_statements.append((sql, parameters))

    with database.begin() as connection:
        event.listen(connection.engine, "before_cursor_execute", record)
    return executed_statements


def test_queries_for_open_rows_use_the_partial_indexes(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/state.db")
    outbox = SqlOutbox(database, FakeClock())
    executed_statements = record_statements(database)

    outbox.open_entries()
    outbox.next_entries(10)
    outbox.open_transactions("account")
    outbox.record("account", changes=[], withdrawn_nonces=[1], closed_nonces=[2])

    plans = []
    with database.begin() as connection:
        for sql, parameters in list(executed_statements):
            if sql.startswith(("SELECT", "UPDATE")):
                plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", parameters)
                plans.append(plan.all())
    database.close()
    assert len(plans) == 6  # the number of SELECT and UPDATE statements of the calls above
    # The names of the partial indexes contain "_open".
    for plan in plans:
        assert all("_open" in step.detail for step in plan)


def unsent_transaction(nonce, transaction_hash):
    """Return a transaction that was not sent and contains the call of no outbox entry."""
    return Transaction(
        hash=transaction_hash, nonce=nonce, raw="", entry_ids=(), fees=Fees(max_fee=1, tip=1)
    )


def test_closed_rows_are_deleted_after_the_retention_time(url):
    database = Database(url)
    clock = FakeClock()
    outbox = SqlOutbox(database, clock)
    for nonce, key in enumerate(("closed", "open")):
        outbox.put(key, ClaimJobs(limit=1))
        outbox.add("account", unsent_transaction(nonce, key))
    outbox.mark_sent("account", ["closed", "open"], sent_at=clock.now())
    closed_entry, open_entry = outbox.open_entries()
    final_change = EntryChange(entry_id=closed_entry.id, state=SendState.FINAL)

    outbox.record("account", changes=[final_change], withdrawn_nonces=[], closed_nonces=[0])
    assert len(outbox.entries()) == 2
    clock.advance(RETENTION_S + 1)
    outbox.record("account", changes=[], withdrawn_nonces=[], closed_nonces=[])

    assert outbox.entries() == (open_entry,)
    assert read_column(database, "SELECT hash FROM transactions") == ["open"]
    database.close()


def test_old_open_rows_do_not_prevent_the_deletion_of_closed_rows(url, monkeypatch):
    """Rows can stay open for ever, such as the transactions of an abandoned chain.

    The open rows come before the closed rows in the order of deletion. The closed rows were never
    sent.
    """
    monkeypatch.setattr("gridstead.adapters.store.outbox._ROWS_PER_SWEEP", 2)
    database = Database(url)
    clock = FakeClock()
    outbox = SqlOutbox(database, clock)
    for number in range(6):
        outbox.put(str(number), ClaimJobs(limit=1))
        account = "abandoned" if number < 3 else "account"
        outbox.add(account, unsent_transaction(number, str(number)))
    recent_entries = outbox.open_entries()[3:]
    final_changes = [
        EntryChange(entry_id=entry.id, state=SendState.FINAL) for entry in recent_entries
    ]
    outbox.record("account", changes=final_changes, withdrawn_nonces=[], closed_nonces=[3, 4, 5])
    clock.advance(RETENTION_S + 1)
    for _ in range(2):  # each call deletes at most ``_ROWS_PER_SWEEP`` rows
        outbox.record("account", changes=[], withdrawn_nonces=[], closed_nonces=[])

    assert [entry.key for entry in outbox.entries()] == ["0", "1", "2"]
    assert read_column(database, "SELECT hash FROM transactions") == ["0", "1", "2"]
    database.close()


def test_entries_of_jobs_that_were_closed_long_ago_are_deleted(url, monkeypatch):
    monkeypatch.setattr(journal_store, "_JOBS_PER_DELETION", 2)
    database = Database(url)
    journal = SqlJournal(database)
    later = 100 + journal_store.RETENTION_S + 1
    for number in (1, 2, 3):
        journal.append([entry(EntryKind.CLAIMED, number), entry(EntryKind.CLOSED, number)])
    open_entry = entry(EntryKind.CLAIMED, 4)
    journal.append([open_entry])

    for number in (5, 6):
        journal.append([entry(EntryKind.CLOSED, number, later)])

    remaining_keys = read_column(database, "SELECT job_key FROM journal ORDER BY id")
    assert remaining_keys == [str(job_key(number)) for number in (4, 5, 6)]
    assert journal.open_entries() == (open_entry,)
    database.close()


def test_entries_of_a_job_that_is_claimed_again_are_kept(url):
    """The second claim may follow the first one by seconds, and the job may then wait for weeks."""
    database = Database(url)
    journal = SqlJournal(database)
    cancellation = entry(EntryKind.CANCELLED_BY_US, 1, 1, slurm_job_id=7)
    second_claim = entry(EntryKind.CLAIMED, 1)
    journal.append([entry(EntryKind.CLAIMED, 1), cancellation, entry(EntryKind.CLOSED, 1)])
    journal.append([second_claim])

    journal.append([entry(EntryKind.CLOSED, 2, 101 + journal_store.RETENTION_S)])

    assert journal.cancelled_entries() == (cancellation,)
    assert journal.open_entries() == (second_claim,)
    database.close()


@pytest.mark.parametrize("age_s", [journal_store.RETENTION_S, journal_store.RETENTION_S + 1])
def test_entries_about_cancelled_attempts_are_kept(url, age_s):
    database = Database(url)
    journal = SqlJournal(database)
    cancellation = entry(EntryKind.CANCELLED_BY_US, 1, 1, slurm_job_id=7)
    journal.append([cancellation, entry(EntryKind.CLOSED, 1)])
    journal.append([entry(EntryKind.CLAIMED, 2), entry(EntryKind.CLOSED, 2)])

    journal.append([entry(EntryKind.CLOSED, 3, 100 + age_s)])

    assert journal.cancelled_entries() == (cancellation,)
    kinds = read_column(database, "SELECT kind FROM journal ORDER BY id")
    is_kept = age_s <= journal_store.RETENTION_S
    assert ("claimed" in kinds) is is_kept
    database.close()


def test_old_closings_are_found_with_an_index(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/state.db")
    queries = []
    event.listen(database._engine, "before_cursor_execute", lambda *args: queries.append(args[2:4]))
    SqlJournal(database).append([entry(EntryKind.CLOSED, 1)])
    statement, parameters = next(query for query in queries if "ORDER BY journal.at" in query[0])

    with sqlite3.connect(tmp_path / "state.db") as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()

    assert any("USING INDEX journal_closings" in row[3] for row in plan), plan
    database.close()
