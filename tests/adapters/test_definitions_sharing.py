# SPDX-License-Identifier: Apache-2.0
"""Several instances of the Job Definition service on one store."""

from __future__ import annotations

import threading
import time

import pytest
from sqlalchemy import create_engine, event, text
from tests.adapters.definitions import KEY, close, open_scripts, put, use

from gridstead.adapters.journal.database import Database
from gridstead.errors import ConfigError, Transient

DATABASE = "gridstead.adapters.journal.database"


def enter_within(scripts, *, seconds):
    """Be alone, as soon as that can be had."""
    for _ in range(seconds * 10):
        try:
            with scripts.exclusive():
                return
        except Transient:
            time.sleep(0.1)
    raise AssertionError("somebody else was alone all the time")


def wait_for_a_lock(url):
    """Return when somebody waits for a lock in a database."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    server = create_engine(url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        for _ in range(2000):
            if connection.execute(text(waiting)).scalar():
                break
            time.sleep(0.01)
    server.dispose()


def test_postgresql_is_shared_by_those_that_say_so(postgresql_url):
    first, second = open_scripts(postgresql_url, KEY), open_scripts(postgresql_url, KEY)
    put(first)

    assert second.get("id").record == "text"
    assert first.take("n", ends_at=100)
    assert not second.take("n", ends_at=100)
    with pytest.raises(ConfigError, match="another process"):
        Database(postgresql_url)
    close(first)
    close(second)


def test_file_is_never_shared(tmp_path):
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


def test_one_at_a_time_is_alone(postgresql_url):
    first, second = open_scripts(postgresql_url, KEY), open_scripts(postgresql_url, KEY)
    inside, most = [], []

    def enter(scripts):
        for _ in range(20):
            with scripts.exclusive():
                inside.append(1)
                most.append(len(inside))
                scripts.holdings()
                inside.pop()

    threads = [threading.Thread(target=enter, args=(scripts,)) for scripts in (first, second) * 10]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert max(most) == 1
    close(first)
    close(second)


def test_instance_that_hangs_does_not_hang_the_others(postgresql_url, monkeypatch):
    monkeypatch.setattr(f"{DATABASE}.LOCK_WAIT_S", 0.2)
    monkeypatch.setattr(f"{DATABASE}.IDLE_S", 2)
    hung, other = open_scripts(postgresql_url, KEY), open_scripts(postgresql_url, KEY)

    staying = hung.exclusive()
    staying.__enter__()
    with (
        pytest.raises(Transient, match="has kept it locked") as caught,
        other.exclusive(),
    ):
        pass
    enter_within(other, seconds=20)  # the server has taken the lock away
    with pytest.raises(Transient, match="could not reach the state store"):
        staying.__exit__(None, None, None)
    enter_within(hung, seconds=20)

    assert "hangs" in caught.value.hint
    close(hung)
    close(other)


def test_thread_that_hangs_does_not_hang_the_others_of_its_process(postgresql_url, monkeypatch):
    monkeypatch.setattr(f"{DATABASE}.LOCK_WAIT_S", 0.2)
    scripts = open_scripts(postgresql_url, KEY)

    with scripts.exclusive(), pytest.raises(Transient, match="kept it locked"), scripts.exclusive():
        pass

    close(scripts)


def test_instance_that_hangs_in_a_transaction_does_not_hang_the_others(postgresql_url, monkeypatch):
    monkeypatch.setattr(f"{DATABASE}.LOCK_WAIT_S", 0.2)
    hung, other = open_scripts(postgresql_url, KEY), open_scripts(postgresql_url, KEY)
    put(hung)

    with hung._database.begin() as connection:
        connection.execute(text("UPDATE definitions SET ends_at = 1"))
        with pytest.raises(Transient, match="kept it locked"):
            other.use([use(7)])

    close(hung)
    close(other)


def test_both_ends_of_a_connection_notice_that_the_other_is_gone(postgresql_url):
    """A host that vanished holds its locks until the server notices, two hours later by default."""
    scripts = open_scripts(f"{postgresql_url}&keepalives_idle=7", KEY)
    told = text(
        "SELECT name, source FROM pg_settings WHERE name LIKE 'tcp_keepalives%' OR name LIKE 'tcp_user%'"
    )

    with scripts._database.begin() as connection:
        ours = connection.connection.dbapi_connection.info.get_parameters()
        servers = dict(connection.execute(told).all())

    assert (ours["keepalives_idle"], ours["keepalives_interval"], ours["tcp_user_timeout"]) == (
        "7",
        "10",
        "60000",
    )
    assert set(servers.values()) == {"session"}
    assert len(servers) == 4
    close(scripts)


def test_script_that_a_new_job_names_while_its_last_is_let_go_stays(postgresql_url):
    """The one instance must not judge by what it saw before the other's job was there."""
    first, second = open_scripts(postgresql_url, KEY), open_scripts(postgresql_url, KEY)
    put(first)
    first.use([use(7)])
    named, go_on = threading.Event(), threading.Event()

    def pause(_):
        named.set()
        go_on.wait(20)

    event.listen(second._database._engine, "commit", pause, once=True)
    naming = threading.Thread(target=second.use, args=([use(8)],))
    letting_go = threading.Thread(target=first.release, args=([use(7)],), kwargs={"ends_at": 1})
    naming.start()
    named.wait(20)
    letting_go.start()
    wait_for_a_lock(postgresql_url)
    go_on.set()
    naming.join()
    letting_go.join()

    assert first.uses() == (use(8),)
    assert first.sweep(2) == 0
    close(first)
    close(second)


def test_server_that_ended_our_connections_is_asked_again(postgresql_url):
    scripts = open_scripts(postgresql_url, KEY)
    put(scripts)
    server = create_engine(postgresql_url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = "
        connection.execute(text(end + "current_database()"))
    server.dispose()

    with pytest.raises(Transient, match="could not reach the state store"):
        scripts.get("id")

    assert scripts.get("id").record == "text"
    with scripts.exclusive():
        pass
    close(scripts)


def test_no_connection_in_time_is_transient(postgresql_url):
    scripts = open_scripts(postgresql_url, KEY)
    pool = scripts._database._engine.pool
    pool._timeout = 0.01
    held = [pool.connect() for _ in range(pool.size() + pool._max_overflow - pool.checkedout())]

    with pytest.raises(Transient, match="all connections are busy"):
        scripts.get("id")

    for connection in held:
        connection.close()
    close(scripts)
