# SPDX-License-Identifier: Apache-2.0
"""Contract tests of the ports ScriptStore and UsedNonces, and tests of the encryption of scripts.

The contract tests run with three stores: a fake, SQLite and PostgreSQL. To *seal* a script is to
encrypt the script.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text
from tests.adapters.definitions.definitions import (
    ALICE,
    BOB,
    KEY,
    OTHER_KEY,
    close,
    open_scripts,
    put,
    use,
)
from tests.fakes.definitions import MemoryScripts, job_id

from gridstead.adapters.definitions.script_seal import ScriptSeal, SealedRecord
from gridstead.adapters.definitions.scripts import Scripts
from gridstead.adapters.store.database import Database
from gridstead.domain.definitions.job_definition import ResealResult, ScriptTotals
from gridstead.errors import ConfigError, ScriptDamaged

SECRET = "the customer's very own secret"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """Return the URL of an empty database."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql_url")
    return f"sqlite:///{tmp_path}/state.db"


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def scripts(request, tmp_path):
    """Yield an empty store of scripts and nonces."""
    if request.param == "memory":
        yield MemoryScripts()
        return
    url = (
        request.getfixturevalue("postgresql_url")
        if request.param == "postgresql"
        else f"sqlite:///{tmp_path}/s.db"
    )
    database = Database(url, shared=True)
    yield Scripts(database, ScriptSeal((KEY,)), job_id)
    database.close()


class TestScriptStore:
    def test_get_returns_the_stored_record(self, scripts):
        put(scripts, record="text\n'\"%s é")

        assert scripts.get("id").record == "text\n'\"%s é"

    def test_get_returns_none_for_an_unknown_id(self, scripts):
        assert scripts.get("id") is None

    def test_put_with_an_existing_id_changes_nothing(self, scripts):
        put(scripts, owner=ALICE)
        put(scripts, owner=ALICE, expires_at=1)

        assert scripts.get("id").record == "text"
        assert scripts.sweep(50) == 0  # the end is still 100, from the first call

    def test_ids_are_case_sensitive(self, scripts):
        put(scripts, "id", "small")
        put(scripts, "ID", "large")

        assert scripts.get("id").record == "small"
        assert scripts.get("ID").record == "large"

    def test_put_is_thread_safe(self, scripts):
        def put_number(number):
            put(scripts, f"id{number}", str(number))

        with ThreadPoolExecutor(20) as pool:
            list(pool.map(put_number, range(20)))  # list() raises the error of a failed call

        for number in range(20):
            assert scripts.get(f"id{number}").record == str(number)

    def test_first_customer_to_use_a_script_becomes_its_owner(self, scripts):
        put(scripts)

        scripts.add_uses([use(7), use(8, customer=BOB)])

        assert scripts.get("id").owner == ALICE
        assert scripts.uses() == (use(7),)

    def test_owner_from_the_submission_does_not_change(self, scripts):
        put(scripts, owner=ALICE)

        scripts.add_uses([use(7, customer=BOB), use(8)])

        assert scripts.get("id").owner == ALICE
        assert scripts.uses() == (use(8),)

    def test_use_of_an_unknown_script_is_ignored(self, scripts):
        scripts.add_uses([use(7)])

        assert scripts.uses() == ()

    def test_repeated_use_changes_nothing(self, scripts):
        put(scripts)
        scripts.add_uses([use(7)])
        scripts.add_uses([use(7)])

        assert scripts.uses() == (use(7),)

    def test_very_large_job_number_is_stored(self, scripts):
        put(scripts)
        scripts.add_uses([use(2**256 - 1)])

        assert scripts.uses() == (use(2**256 - 1),)

    def test_unused_script_is_removed_after_its_end(self, scripts):
        put(scripts)

        assert scripts.sweep(100) == 0
        assert scripts.sweep(101) == 1
        assert scripts.get("id") is None

    def test_used_script_is_removed_after_its_release(self, scripts):
        put(scripts)
        scripts.add_uses([use(7)])
        assert scripts.sweep(10**9) == 0

        scripts.release([use(7)], expires_at=200)
        scripts.release([use(7)], expires_at=900)  # has no effect

        assert scripts.sweep(200) == 0
        assert scripts.sweep(201) == 1

    def test_script_of_two_jobs_is_removed_after_the_second_release(self, scripts):
        put(scripts)
        scripts.add_uses([use(7), use(8)])

        scripts.release([use(7)], expires_at=200)
        assert scripts.sweep(201) == 0
        scripts.release([use(8)], expires_at=300)

        assert scripts.sweep(301) == 1

    def test_script_that_is_used_again_after_its_release_is_kept(self, scripts):
        put(scripts)
        scripts.add_uses([use(7)])
        scripts.release([use(7)], expires_at=200)
        scripts.add_uses([use(7)])

        assert scripts.sweep(201) == 0

    def test_holdings_count_unused_scripts_and_their_size(self, scripts):
        put(scripts, "a", "x" * 1000)
        put(scripts, "b")
        scripts.add_uses([use(7, "b")])

        totals = scripts.totals()

        assert (totals.scripts, totals.unused) == (2, 1)
        assert 1000 <= totals.unused_bytes < 1100  # encryption adds some bytes

    def test_holdings_of_an_empty_store_are_zero(self, scripts):
        assert scripts.totals() == ScriptTotals(scripts=0, unused=0, unused_bytes=0)

    def test_nonce_can_be_taken_once_until_its_end(self, scripts):
        assert scripts.mark_used("n", expires_at=100)
        assert not scripts.mark_used("n", expires_at=100)
        scripts.sweep(100)
        assert not scripts.mark_used("n", expires_at=100)
        scripts.sweep(101)
        assert scripts.mark_used("n", expires_at=200)

    def test_nonce_is_taken_by_one_of_many_threads(self, scripts):
        with ThreadPoolExecutor(10) as pool:
            futures = [pool.submit(scripts.mark_used, "n", expires_at=100) for _ in range(10)]

        results = [future.result() for future in futures]
        assert results.count(True) == 1
        assert results.count(False) == 9


class TestSealed:
    def test_scripts_survive_a_restart(self, url):
        first = open_scripts(url, KEY)
        put(first)
        close(first)

        second = open_scripts(url, KEY)

        assert second.get("id").record == "text"
        close(second)

    def test_no_file_of_the_database_contains_the_plain_text_of_a_record(self, tmp_path):
        scripts = open_scripts(f"sqlite:///{tmp_path}/state.db", KEY)
        put(scripts, record=SECRET)

        files = list(tmp_path.iterdir())
        assert files
        for file in files:
            assert SECRET.encode() not in file.read_bytes()
        close(scripts)

    def test_missing_key_is_a_config_error_at_start(self, url):
        first = open_scripts(url, KEY)
        put(first)
        close(first)
        database = Database(url, shared=True)

        with pytest.raises(ConfigError, match="in storage_key_file") as caught:
            Scripts(database, ScriptSeal((OTHER_KEY,)), job_id)

        assert "key" in caught.value.hint
        database.close()

    def test_new_record_is_a_config_error_in_an_instance_without_its_key(self, postgresql_url):
        old_instance = open_scripts(postgresql_url, KEY)
        new_instance = open_scripts(postgresql_url, OTHER_KEY, KEY)
        put(new_instance)

        with pytest.raises(ConfigError, match="in storage_key_file"):
            old_instance.get("id")

        close(new_instance)
        close(old_instance)

    def test_reseal_encrypts_old_records_with_the_newest_key(self, url):
        first = open_scripts(url, KEY)
        put(first, "old", "old text")
        close(first)
        second = open_scripts(url, OTHER_KEY, KEY)
        put(second, "new", "new text")

        assert second.reseal(after_id="") == ResealResult(count=1, unreadable=(), last="old")
        assert second.reseal(after_id="") == ResealResult(count=0, unreadable=(), last=None)

        close(second)
        third = open_scripts(url, OTHER_KEY)
        assert third.get("old").record == "old text"
        assert third.get("new").record == "new text"
        close(third)

    def test_reseal_skips_unreadable_records_and_returns_their_ids(self, url, monkeypatch):
        monkeypatch.setattr("gridstead.adapters.definitions.scripts.RECORDS_PER_RESEAL", 2)
        scripts = open_scripts(url, KEY)
        for name in ("a", "b", "d"):
            put(scripts, name)
        # Make two records unreadable. Record c is encrypted with a key that the store later
        # lacks. Record a gets another id, but a record can be decrypted only with its own id.
        lost_key = b"l" * 32
        scripts._seal = ScriptSeal((lost_key,))
        put(scripts, "c")
        scripts._seal = ScriptSeal((OTHER_KEY, KEY))
        with scripts._database.begin() as connection:
            connection.execute(text("UPDATE definitions SET id = 'A' WHERE id = 'a'"))

        resealed_count, unreadable_ids = 0, []
        page = scripts.reseal(after_id="")
        while page.last:
            resealed_count += page.count
            unreadable_ids += page.unreadable
            page = scripts.reseal(after_id=page.last)

        assert resealed_count == 2
        assert sorted(unreadable_ids) == ["A", "c"]
        assert scripts.get("b").record == "text"
        assert scripts.get("d").record == "text"
        close(scripts)

    @pytest.mark.parametrize(
        ("change", "script_id"),
        [
            ("UPDATE definitions SET id = 'other'", "other"),
            ("UPDATE definitions SET sealed = CAST('short' AS {type})", "id"),
        ],
    )
    def test_altered_record_is_refused(self, url, change, script_id):
        scripts = open_scripts(url, KEY)
        put(scripts)
        column_type = "BYTEA" if url.startswith("postgresql") else "BLOB"
        with scripts._database.begin() as connection:
            connection.execute(text(change.format(type=column_type)))

        with pytest.raises(ScriptDamaged):
            scripts.get(script_id)

        close(scripts)

    # A byte of the nonce, of the encrypted text and of the authentication tag.
    @pytest.mark.parametrize("position", [0, 12, -1])
    def test_altered_byte_is_refused(self, position):
        seal = ScriptSeal((KEY,))
        sealed_text = seal.seal("text", script_id="id")
        data = bytearray(sealed_text.data)
        data[position] ^= 1

        with pytest.raises(ScriptDamaged):
            seal.open(SealedRecord(sealed_text.key_name, bytes(data)), script_id="id")

    @pytest.mark.parametrize("keys", [(), (b"short",), (KEY, b"short")])
    def test_missing_or_short_key_is_a_config_error(self, keys):
        with pytest.raises(ConfigError, match="storage_key_file"):
            ScriptSeal(keys)

    def test_repr_does_not_contain_the_key(self):
        assert "kkk" not in repr(ScriptSeal((KEY,)))
