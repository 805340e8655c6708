# SPDX-License-Identifier: Apache-2.0
"""What port ScriptStore promises, on the fake and on the real one."""

from __future__ import annotations

import threading

import pytest
from tests.fakes.definitions import MemoryScripts

from gridstead.adapters.journal.database import Database
from gridstead.adapters.scripts import Scripts


@pytest.fixture(params=["memory", "sqlite"])
def scripts(request, tmp_path):
    if request.param == "memory":
        yield MemoryScripts()
        return
    database = Database(f"sqlite:///{tmp_path}/state.db")
    yield Scripts(database)
    database.close()


class TestScriptStore:
    def test_record_comes_back_as_it_was(self, scripts):
        scripts.put("id", "text\n'\"%s é")

        assert scripts.get("id") == "text\n'\"%s é"

    def test_unknown_id_has_none(self, scripts):
        assert scripts.get("id") is None

    def test_putting_it_again_changes_nothing(self, scripts):
        scripts.put("id", "text")
        scripts.put("id", "text")

        assert scripts.get("id") == "text"

    def test_ids_differ_by_case(self, scripts):
        scripts.put("id", "small")
        scripts.put("ID", "large")

        assert (scripts.get("id"), scripts.get("ID")) == ("small", "large")

    def test_many_threads_may_put(self, scripts):
        threads = [threading.Thread(target=scripts.put, args=(f"id{n}", str(n))) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [scripts.get(f"id{n}") for n in range(20)] == [str(n) for n in range(20)]


def test_scripts_survive_a_restart(tmp_path):
    for _ in range(2):
        database = Database(f"sqlite:///{tmp_path}/state.db")
        scripts = Scripts(database)
        assert scripts.get("id") in (None, "text")
        scripts.put("id", "text")
        database.close()

    assert (tmp_path / "state.db").exists()
