# SPDX-License-Identifier: Apache-2.0
"""What ports ScriptStore and TakenNonces promise, on the fake and on both databases; and what only these can."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import create_engine, event, text
from tests.fakes.definitions import MemoryScripts

from gridstead.adapters.journal.database import Database
from gridstead.adapters.script_seal import ScriptSeal, Sealed
from gridstead.adapters.scripts import Scripts
from gridstead.domain.job_definition import Holdings, ScriptUse
from gridstead.errors import ConfigError, ScriptDamaged, Transient

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
ALICE, BOB = "0x" + "a1" * 20, "0x" + "b0" * 20
SECRET = "the customer's very own secret"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql_url")
    return f"sqlite:///{tmp_path}/state.db"


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def scripts(request, tmp_path):
    if request.param == "memory":
        yield MemoryScripts()
        return
    url = request.getfixturevalue("postgresql_url") if request.param == "postgresql" else f"sqlite:///{tmp_path}/s.db"
    database = Database(url, shared=True)
    yield Scripts(database, ScriptSeal((KEY,)))
    database.close()


def put(scripts, name="id", record="text", owner="", ends_at=100):
    scripts.put(name, record, owner=owner, ends_at=ends_at)


def use(number, name="id", customer=ALICE):
    return ScriptUse(job_number=number, batch_location_hash=name, customer=customer)


class TestScriptStore:
    def test_record_comes_back_as_it_was(self, scripts):
        put(scripts, record="text\n'\"%s é")

        assert scripts.get("id").record == "text\n'\"%s é"

    def test_unknown_id_has_none(self, scripts):
        assert scripts.get("id") is None

    def test_putting_it_again_changes_nothing(self, scripts):
        put(scripts, owner=ALICE)
        put(scripts, owner=ALICE, ends_at=1)

        assert scripts.get("id").record == "text"
        assert scripts.sweep(50) == 0

    def test_ids_differ_by_case(self, scripts):
        put(scripts, "id", "small")
        put(scripts, "ID", "large")

        assert (scripts.get("id").record, scripts.get("ID").record) == ("small", "large")

    def test_many_threads_may_put(self, scripts):
        threads = [threading.Thread(target=put, args=(scripts, f"id{n}", str(n))) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [scripts.get(f"id{n}").record for n in range(20)] == [str(n) for n in range(20)]

    def test_first_customer_to_name_a_script_owns_it(self, scripts):
        put(scripts)

        scripts.use([use(7), use(8, customer=BOB)])

        assert scripts.get("id").owner == ALICE
        assert scripts.uses() == (use(7),)

    def test_owner_of_the_submission_stays(self, scripts):
        put(scripts, owner=ALICE)

        scripts.use([use(7, customer=BOB), use(8)])

        assert scripts.get("id").owner == ALICE
        assert scripts.uses() == (use(8),)

    def test_use_of_a_script_that_is_not_here_is_nothing(self, scripts):
        scripts.use([use(7)])

        assert scripts.uses() == ()

    def test_using_again_changes_nothing(self, scripts):
        put(scripts)
        scripts.use([use(7)])
        scripts.use([use(7)])

        assert scripts.uses() == (use(7),)

    def test_very_large_job_number_is_kept(self, scripts):
        put(scripts)
        scripts.use([use(2**256 - 1)])

        assert scripts.uses() == (use(2**256 - 1),)

    def test_script_that_no_job_names_is_removed_after_its_end(self, scripts):
        put(scripts)

        assert (scripts.sweep(100), scripts.sweep(101)) == (0, 1)
        assert scripts.get("id") is None

    def test_script_of_a_job_is_kept_until_after_its_release(self, scripts):
        put(scripts)
        scripts.use([use(7)])
        assert scripts.sweep(10**9) == 0

        scripts.release([use(7)], ends_at=200)
        scripts.release([use(7)], ends_at=900)

        assert (scripts.sweep(200), scripts.sweep(201)) == (0, 1)

    def test_script_of_two_jobs_waits_for_both(self, scripts):
        put(scripts)
        scripts.use([use(7), use(8)])

        scripts.release([use(7)], ends_at=200)
        assert scripts.sweep(201) == 0
        scripts.release([use(8)], ends_at=300)

        assert scripts.sweep(301) == 1

    def test_job_that_comes_back_keeps_its_script(self, scripts):
        put(scripts)
        scripts.use([use(7)])
        scripts.release([use(7)], ends_at=200)
        scripts.use([use(7)])

        assert scripts.sweep(201) == 0

    def test_holdings_are_told(self, scripts):
        put(scripts, "a", "x" * 1000)
        put(scripts, "b")
        scripts.use([use(7, "b")])

        told = scripts.holdings()

        assert (told.scripts, told.unused) == (2, 1)
        assert 1000 <= told.unused_bytes < 1100

    def test_nothing_is_told_of_nothing(self, scripts):
        assert scripts.holdings() == Holdings(scripts=0, unused=0, unused_bytes=0)

    def test_nonce_is_taken_once_until_its_end(self, scripts):
        assert scripts.take("n", ends_at=100)
        assert not scripts.take("n", ends_at=100)
        scripts.sweep(100)
        assert not scripts.take("n", ends_at=100)
        scripts.sweep(101)
        assert scripts.take("n", ends_at=200)

    def test_nonce_is_taken_once_by_many_threads(self, scripts):
        taken = []
        threads = [threading.Thread(target=lambda: taken.append(scripts.take("n", ends_at=100))) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(taken) == [False] * 9 + [True]


def open_scripts(url, *keys):
    return Scripts(Database(url, shared=True), ScriptSeal(keys))


def close(scripts):
    scripts._database.close()


class TestSealed:
    def test_scripts_survive_a_restart(self, url):
        first = open_scripts(url, KEY)
        put(first)
        close(first)

        second = open_scripts(url, KEY)

        assert second.get("id").record == "text"
        close(second)

    def test_nothing_stands_in_clear_in_the_file(self, tmp_path):
        scripts = open_scripts(f"sqlite:///{tmp_path}/state.db", KEY)
        put(scripts, record=SECRET)

        found = [path.name for path in Path(tmp_path).iterdir() if SECRET.encode() in path.read_bytes()]

        assert found == []
        close(scripts)

    def test_wrong_key_is_the_operators_at_the_start(self, url):
        first = open_scripts(url, KEY)
        put(first)
        close(first)
        database = Database(url, shared=True)

        with pytest.raises(ConfigError, match="not in storage_key_file") as caught:
            Scripts(database, ScriptSeal((OTHER_KEY,)))

        assert "Put the key back" in caught.value.hint
        database.close()

    def test_key_that_only_another_instance_has_is_the_operators(self, postgresql_url):
        old, new = open_scripts(postgresql_url, KEY), open_scripts(postgresql_url, OTHER_KEY, KEY)
        put(new)

        with pytest.raises(ConfigError, match="not in storage_key_file"):
            old.get("id")

        close(new)
        close(old)

    def test_newest_key_seals_and_what_is_older_is_sealed_anew(self, url):
        first = open_scripts(url, KEY)
        put(first, "old", "old text")
        close(first)
        second = open_scripts(url, OTHER_KEY, KEY)
        put(second, "new", "new text")

        assert (second.reseal(), second.reseal()) == (1, 0)

        close(second)
        third = open_scripts(url, OTHER_KEY)
        assert (third.get("old").record, third.get("new").record) == ("old text", "new text")
        close(third)

    @pytest.mark.parametrize(
        "change",
        ["UPDATE definitions SET id = 'other'", "UPDATE definitions SET sealed = CAST('short' AS {type})"],
    )
    def test_altered_record_does_not_open(self, url, change):
        scripts = open_scripts(url, KEY)
        put(scripts)
        kind = "BYTEA" if url.startswith("postgresql") else "BLOB"
        with scripts._database.begin() as connection:
            connection.execute(text(change.format(type=kind)))

        with pytest.raises(ScriptDamaged):
            scripts.get("other" if "other" in change else "id")

        close(scripts)

    @pytest.mark.parametrize("place", [0, 12, -1])
    def test_altered_byte_does_not_open(self, place):
        seal = ScriptSeal((KEY,))
        sealed = seal.close("text", about="id")
        data = bytearray(sealed.data)
        data[place] ^= 1

        with pytest.raises(ScriptDamaged):
            seal.open(Sealed(sealed.key_name, bytes(data)), about="id")

    @pytest.mark.parametrize("keys", [(), (b"short",), (KEY, b"short")])
    def test_key_that_is_none_is_the_operators(self, keys):
        with pytest.raises(ConfigError, match="storage_key_file"):
            ScriptSeal(keys)

    def test_key_is_not_shown(self):
        assert "kkk" not in repr(ScriptSeal((KEY,)))


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


class TestSharing:
    """Several instances behind one address."""

    def test_postgresql_is_shared_by_those_that_say_so(self, postgresql_url):
        first, second = open_scripts(postgresql_url, KEY), open_scripts(postgresql_url, KEY)
        put(first)

        assert second.get("id").record == "text"
        assert first.take("n", ends_at=100)
        assert not second.take("n", ends_at=100)
        with pytest.raises(ConfigError, match="another process"):
            Database(postgresql_url)
        close(first)
        close(second)

    def test_file_is_never_shared(self, tmp_path):
        first = open_scripts(f"sqlite:///{tmp_path}/state.db", KEY)

        with pytest.raises(ConfigError, match="another process"):
            Database(f"sqlite:///{tmp_path}/state.db", shared=True)

        close(first)

    def test_instances_that_start_together_migrate_once(self, postgresql_url):
        opened = []
        threads = [threading.Thread(target=lambda: opened.append(open_scripts(postgresql_url, KEY))) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(opened) == 5
        for scripts in opened:
            close(scripts)

    def test_one_at_a_time_is_alone(self, postgresql_url):
        first, second = open_scripts(postgresql_url, KEY), open_scripts(postgresql_url, KEY)
        inside, most = [], []

        def enter(scripts):
            for _ in range(20):
                with scripts.alone():
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

    def test_script_that_a_new_job_names_while_its_last_is_let_go_stays(self, postgresql_url):
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

    def test_server_that_ended_our_connections_is_asked_again(self, postgresql_url):
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
        with scripts.alone():
            pass
        close(scripts)

    def test_no_connection_in_time_is_transient(self, postgresql_url):
        scripts = open_scripts(postgresql_url, KEY)
        pool = scripts._database._engine.pool
        pool._timeout = 0.01
        held = [pool.connect() for _ in range(pool.size() + pool._max_overflow - pool.checkedout())]

        with pytest.raises(Transient, match="all connections are busy"):
            scripts.get("id")

        for connection in held:
            connection.close()
        close(scripts)
