# SPDX-License-Identifier: Apache-2.0
"""Several instances of the Job Definition service that share one script store.

The store has an *exclusive section*, which only one thread of all instances can enter at a time.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import create_engine, event, text
from tests.adapters.definitions.definitions import KEY, close, open_scripts, put, use

from gridstead.adapters.store.database import Database
from gridstead.errors import ConfigError, Transient

DATABASE = "gridstead.adapters.store.database"


def enter_within(scripts, *, seconds):
    """Enter the exclusive section. While another instance is in it, retry for ``seconds``."""
    for _ in range(seconds * 10):
        try:
            with scripts.exclusive():
                return
        except Transient:
            time.sleep(0.1)
    raise AssertionError("the exclusive section stayed occupied")


def wait_for_a_lock(url):
    """Wait until a connection to the database waits for a lock. Fail after 20 s."""
    waiting_query = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    server = create_engine(url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        for _ in range(2000):
            if connection.execute(text(waiting_query)).scalar():
                break
            time.sleep(0.01)
        else:
            raise AssertionError("no connection waits for a lock")
    server.dispose()


def test_postgresql_store_can_be_shared_only_with_shared_true(postgresql_url):
    first, second = open_scripts(postgresql_url, KEY), open_scripts(postgresql_url, KEY)
    put(first)

    assert second.get("id").record == "text"
    assert first.mark_used("n", expires_at=100)
    assert not second.mark_used("n", expires_at=100)
    with pytest.raises(ConfigError, match="another process"):
        Database(postgresql_url)
    close(first)
    close(second)


def test_sqlite_store_cannot_be_shared(tmp_path):
    first = open_scripts(f"sqlite:///{tmp_path}/state.db", KEY)

    with pytest.raises(ConfigError, match="another process"):
        Database(f"sqlite:///{tmp_path}/state.db", shared=True)

    close(first)


def test_database_is_migrated_once_if_several_instances_start_together(postgresql_url):
    with ThreadPoolExecutor(5) as pool:
        futures = [pool.submit(open_scripts, postgresql_url, KEY) for _ in range(5)]

    for future in futures:
        close(future.result())


def test_exclusive_section_contains_at_most_one_thread(postgresql_url):
    first, second = open_scripts(postgresql_url, KEY), open_scripts(postgresql_url, KEY)
    threads_inside = []  # one entry for each thread in the section
    counts = []

    def enter(scripts):
        for _ in range(20):
            with scripts.exclusive():
                threads_inside.append(1)
                counts.append(len(threads_inside))
                scripts.totals()
                threads_inside.pop()

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(enter, [first, second] * 10))  # list() raises the error of a failed call

    assert max(counts) == 1
    close(first)
    close(second)


def test_exclusive_section_of_a_hanging_instance_is_freed_after_a_timeout(
    postgresql_url, monkeypatch
):
    monkeypatch.setattr(f"{DATABASE}.LOCK_TIMEOUT_S", 0.2)
    monkeypatch.setattr(f"{DATABASE}.IDLE_TIMEOUT_S", 2)
    hung_instance = open_scripts(postgresql_url, KEY)
    other_instance = open_scripts(postgresql_url, KEY)

    section = hung_instance.exclusive()
    section.__enter__()  # The first instance hangs in the section.
    with pytest.raises(Transient, match="has kept it locked") as caught, other_instance.exclusive():
        pass
    enter_within(other_instance, seconds=20)  # the server releases the lock of an idle session
    with pytest.raises(Transient, match="could not reach the state store"):
        section.__exit__(None, None, None)
    enter_within(hung_instance, seconds=20)

    assert "hangs" in caught.value.hint
    close(hung_instance)
    close(other_instance)


def test_entering_the_section_fails_after_a_timeout_if_another_thread_is_in_it(
    postgresql_url, monkeypatch
):
    monkeypatch.setattr(f"{DATABASE}.LOCK_TIMEOUT_S", 0.2)
    scripts = open_scripts(postgresql_url, KEY)

    with scripts.exclusive(), pytest.raises(Transient, match="kept it locked"), scripts.exclusive():
        pass

    close(scripts)


def test_hanging_transaction_blocks_another_instance_until_a_timeout(postgresql_url, monkeypatch):
    monkeypatch.setattr(f"{DATABASE}.LOCK_TIMEOUT_S", 0.2)
    hung_instance = open_scripts(postgresql_url, KEY)
    other_instance = open_scripts(postgresql_url, KEY)
    put(hung_instance)

    with hung_instance._database.begin() as connection:
        connection.execute(text("UPDATE definitions SET ends_at = 1"))
        with pytest.raises(Transient, match="kept it locked"):
            other_instance.add_uses([use(7)])

    close(hung_instance)
    close(other_instance)


def test_client_and_server_set_tcp_timeouts(postgresql_url):
    """The server keeps the locks of a dead client until a timeout, by default for two hours."""
    scripts = open_scripts(f"{postgresql_url}&keepalives_idle=7", KEY)
    query = text(
        "SELECT name, source FROM pg_settings"
        " WHERE name LIKE 'tcp_keepalives%' OR name LIKE 'tcp_user%'"
    )

    with scripts._database.begin() as connection:
        client_parameters = connection.connection.dbapi_connection.info.get_parameters()
        server_sources = dict(connection.execute(query).all())

    assert client_parameters["keepalives_idle"] == "7"
    assert client_parameters["keepalives_interval"] == "10"
    assert client_parameters["tcp_user_timeout"] == "60000"
    assert len(server_sources) == 4
    # Our client set these values for the session. They are not the defaults of the server.
    assert set(server_sources.values()) == {"session"}
    close(scripts)


def test_script_is_kept_if_a_new_job_uses_it_while_the_last_job_is_released(postgresql_url):
    """The release waits until the other instance has committed the use by the new job."""
    first, second = open_scripts(postgresql_url, KEY), open_scripts(postgresql_url, KEY)
    put(first)
    first.add_uses([use(7)])
    commit_reached, commit_allowed = threading.Event(), threading.Event()

    def pause(_):
        commit_reached.set()
        commit_allowed.wait(20)

    event.listen(second._database._engine, "commit", pause, once=True)
    with ThreadPoolExecutor(2) as pool:
        use_call = pool.submit(second.add_uses, [use(8)])
        commit_reached.wait(20)
        release_call = pool.submit(first.release, [use(7)], expires_at=1)
        wait_for_a_lock(postgresql_url)
        commit_allowed.set()
        use_call.result()
        release_call.result()

    assert first.uses() == (use(8),)
    assert first.sweep(2) == 0
    close(first)
    close(second)


def test_store_reconnects_after_the_server_closed_its_connections(postgresql_url):
    scripts = open_scripts(postgresql_url, KEY)
    put(scripts)
    server = create_engine(postgresql_url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        terminate = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
        connection.execute(text(terminate))
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
    free_count = pool.size() + pool._max_overflow - pool.checkedout()
    busy_connections = [pool.connect() for _ in range(free_count)]

    with pytest.raises(Transient, match="all connections are busy"):
        scripts.get("id")

    for connection in busy_connections:
        connection.close()
    close(scripts)
