# SPDX-License-Identifier: Apache-2.0
"""Several instances of the Job Definition service on one store."""

from __future__ import annotations

import threading
import time

import pytest
from sqlalchemy import create_engine, event, text
from tests.adapters.definitions.definitions import KEY, close, open_scripts, put, use

from gridstead.adapters.store.database import Database
from gridstead.errors import ConfigError, Transient

DATABASE = "gridstead.adapters.store.database"


def enter_within(scripts, *, seconds):
    """Enter the exclusive section, with retries for this many seconds."""
    for _ in range(seconds * 10):
        try:
            with scripts.exclusive():
                return
        except Transient:
            time.sleep(0.1)
    raise AssertionError("the exclusive section stayed occupied")


def wait_for_a_lock(url):
    """Return when a connection waits for a lock in the database."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    server = create_engine(url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        for _ in range(2000):
            if connection.execute(text(waiting)).scalar():
                break
            time.sleep(0.01)
    server.dispose()


def test_postgresql_store_is_shared_only_with_shared_true(postgresql_url):
    first, second = open_scripts(postgresql_url, KEY), open_scripts(postgresql_url, KEY)
    put(first)

    assert second.get("id").record == "text"
    assert first.take("n", ends_at=100)
    assert not second.take("n", ends_at=100)
    with pytest.raises(ConfigError, match="another process"):
        Database(postgresql_url)
    close(first)
    close(second)


def test_sqlite_store_cannot_be_shared(tmp_path):
    first = open_scripts(f"sqlite:///{tmp_path}/state.db", KEY)

    with pytest.raises(ConfigError, match="another process"):
        Database(f"sqlite:///{tmp_path}/state.db", shared=True)

    close(first)


def test_instances_that_start_together_migrate_once(postgresql_url):
    opened = []
    threads = [
        threading.Thread(target=lambda: opened.append(open_scripts(postgresql_url, KEY)))
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(opened) == 5
    for scripts in opened:
        close(scripts)


def test_one_instance_at_a_time_enters_the_exclusive_section(postgresql_url):
    first, second = open_scripts(postgresql_url, KEY), open_scripts(postgresql_url, KEY)
    inside, counts = [], []

    def enter(scripts):
        for _ in range(20):
            with scripts.exclusive():
                inside.append(1)
                counts.append(len(inside))
                scripts.holdings()
                inside.pop()

    threads = [threading.Thread(target=enter, args=(scripts,)) for scripts in (first, second) * 10]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert max(counts) == 1
    close(first)
    close(second)


def test_hanging_instance_does_not_block_the_others(postgresql_url, monkeypatch):
    monkeypatch.setattr(f"{DATABASE}.LOCK_WAIT_S", 0.2)
    monkeypatch.setattr(f"{DATABASE}.IDLE_S", 2)
    hung, other = open_scripts(postgresql_url, KEY), open_scripts(postgresql_url, KEY)

    section = hung.exclusive()
    section.__enter__()
    with (
        pytest.raises(Transient, match="has kept it locked") as caught,
        other.exclusive(),
    ):
        pass
    enter_within(other, seconds=20)  # the server has released the lock
    with pytest.raises(Transient, match="could not reach the state store"):
        section.__exit__(None, None, None)
    enter_within(hung, seconds=20)

    assert "hangs" in caught.value.hint
    close(hung)
    close(other)


def test_hanging_thread_does_not_block_the_others_of_its_process(postgresql_url, monkeypatch):
    monkeypatch.setattr(f"{DATABASE}.LOCK_WAIT_S", 0.2)
    scripts = open_scripts(postgresql_url, KEY)

    with scripts.exclusive(), pytest.raises(Transient, match="kept it locked"), scripts.exclusive():
        pass

    close(scripts)


def test_hanging_transaction_does_not_block_the_other_instances(postgresql_url, monkeypatch):
    monkeypatch.setattr(f"{DATABASE}.LOCK_WAIT_S", 0.2)
    hung, other = open_scripts(postgresql_url, KEY), open_scripts(postgresql_url, KEY)
    put(hung)

    with hung._database.begin() as connection:
        connection.execute(text("UPDATE definitions SET ends_at = 1"))
        with pytest.raises(Transient, match="kept it locked"):
            other.use([use(7)])

    close(hung)
    close(other)


def test_client_and_server_set_tcp_timeouts(postgresql_url):
    """A dead client keeps its locks until the server notices, by default after two hours."""
    scripts = open_scripts(f"{postgresql_url}&keepalives_idle=7", KEY)
    query = text(
        "SELECT name, source FROM pg_settings"
        " WHERE name LIKE 'tcp_keepalives%' OR name LIKE 'tcp_user%'"
    )

    with scripts._database.begin() as connection:
        client = connection.connection.dbapi_connection.info.get_parameters()
        server = dict(connection.execute(query).all())

    assert (
        client["keepalives_idle"],
        client["keepalives_interval"],
        client["tcp_user_timeout"],
    ) == (
        "7",
        "10",
        "60000",
    )
    assert set(server.values()) == {"session"}
    assert len(server) == 4
    close(scripts)


def test_use_during_the_release_of_the_last_job_keeps_the_script(postgresql_url):
    """The release must read the uses after the other instance has committed its use."""
    first, second = open_scripts(postgresql_url, KEY), open_scripts(postgresql_url, KEY)
    put(first)
    first.use([use(7)])
    committing, proceed = threading.Event(), threading.Event()

    def pause(_):
        committing.set()
        proceed.wait(20)

    event.listen(second._database._engine, "commit", pause, once=True)
    using = threading.Thread(target=second.use, args=([use(8)],))
    releasing = threading.Thread(target=first.release, args=([use(7)],), kwargs={"ends_at": 1})
    using.start()
    committing.wait(20)
    releasing.start()
    wait_for_a_lock(postgresql_url)
    proceed.set()
    using.join()
    releasing.join()

    assert first.uses() == (use(8),)
    assert first.sweep(2) == 0
    close(first)
    close(second)


def test_store_reconnects_after_the_server_closed_its_connections(postgresql_url):
    scripts = open_scripts(postgresql_url, KEY)
    put(scripts)
    server = create_engine(postgresql_url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        others = "pid <> pg_backend_pid() AND datname = current_database()"
        terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        connection.execute(text(f"{terminate} WHERE {others}"))
    server.dispose()

    with pytest.raises(Transient, match="could not reach the state store"):
        scripts.get("id")

    assert scripts.get("id").record == "text"
    with scripts.exclusive():
        pass
    close(scripts)


def test_exhausted_connection_pool_is_a_transient_error(postgresql_url):
    scripts = open_scripts(postgresql_url, KEY)
    pool = scripts._database._engine.pool
    pool._timeout = 0.01
    held = [pool.connect() for _ in range(pool.size() + pool._max_overflow - pool.checkedout())]

    with pytest.raises(Transient, match="all connections are busy"):
        scripts.get("id")

    for connection in held:
        connection.close()
    close(scripts)
