# SPDX-License-Identifier: Apache-2.0
"""What ports ScriptStore and LogSink promise, on the fakes and on the real ones."""

from __future__ import annotations

import os
import threading

import pytest
from tests.fakes.definitions import MemoryLogs, MemoryScripts

from gridstead.adapters.journal.database import Database
from gridstead.adapters.logs import FileLogs
from gridstead.adapters.scripts import Scripts
from gridstead.errors import InvalidInput, LogFull, LoggerUnavailable

OWNER = "0x" + "ab" * 20
OTHER = "0x" + "cd" * 20


@pytest.fixture(params=["memory", "sqlite"])
def scripts(request, tmp_path):
    if request.param == "memory":
        yield MemoryScripts()
        return
    database = Database(f"sqlite:///{tmp_path}/state.db")
    yield Scripts(database)
    database.close()


@pytest.fixture(params=["memory", "files"])
def logs(request, tmp_path):
    return MemoryLogs(max_bytes=100) if request.param == "memory" else FileLogs(tmp_path, max_bytes=300)


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


class TestLogSink:
    def test_lines_come_back_in_order_after_a_position(self, logs):
        logs.append(OWNER, "job", [b"one", b""], 1)
        logs.append(OWNER, "job", [b"\x00\xff three"], 2)

        lines = logs.read(OWNER, "job", after=0)

        assert [(data, at) for _, data, at in lines] == [(b"one", 1), (b"", 1), (b"\x00\xff three", 2)]
        for number, (position, _, _) in enumerate(lines, 1):
            assert logs.read(OWNER, "job", after=position) == lines[number:]

    def test_log_that_does_not_exist_is_empty(self, logs):
        assert logs.read(OWNER, "job", after=0) == ()
        assert logs.names(OWNER) == ()

    def test_synced_log_reads_the_same(self, logs):
        logs.append(OWNER, "job", [b"x"], 1)
        logs.sync(OWNER, "job")
        logs.sync(OTHER, "job")

        assert [data for _, data, _ in logs.read(OWNER, "job", after=0)] == [b"x"]

    def test_full_log_takes_nothing_and_keeps_what_it_has(self, logs):
        logs.append(OWNER, "job", [b"x" * 90], 1)

        with pytest.raises(LogFull):
            logs.append(OWNER, "job", [b"y", b"x" * 400], 1)

        assert [data for _, data, _ in logs.read(OWNER, "job", after=0)] == [b"x" * 90]

    def test_names_are_sorted_and_the_owners(self, logs):
        for owner, name in ((OWNER, "b"), (OWNER, "a.log"), (OTHER, "c")):
            logs.append(owner, name, [b"x"], 1)

        assert logs.names(OWNER) == ("a.log", "b")


class TestFiles:
    @pytest.fixture
    def files(self, tmp_path):
        return FileLogs(tmp_path)

    def test_record_cut_short_by_a_crash_is_not_seen_and_then_removed(self, files, tmp_path):
        files.append(OWNER, "job", [b"one"], 1)
        path = tmp_path / OWNER / "job.log"
        with path.open("ab") as file:
            file.write(b"2 tor")

        assert [data for _, data, _ in files.read(OWNER, "job", after=0)] == [b"one"]
        files.append(OWNER, "job", [b"three"], 3)
        assert path.read_bytes() == b"1 one\n3 three\n"

    def test_log_of_nothing_but_a_torn_record_starts_anew(self, files, tmp_path):
        (tmp_path / OWNER).mkdir()
        (tmp_path / OWNER / "job.log").write_bytes(b"2 tor")

        files.append(OWNER, "job", [b"one"], 1)

        assert (tmp_path / OWNER / "job.log").read_bytes() == b"1 one\n"

    def test_long_log_is_read_in_parts(self, files):
        files.append(OWNER, "job", [b"x" * 100_000] * 25, 1)

        position, parts = 0, []
        while lines := files.read(OWNER, "job", after=position):
            parts.append(len(lines))
            position = lines[-1][0]

        assert sum(parts) == 25
        assert len(parts) > 1

    def test_only_the_service_may_read_them(self, files, tmp_path):
        files.append(OWNER, "job", [b"x"], 1)

        assert (tmp_path / OWNER).stat().st_mode & 0o777 == 0o700
        assert (tmp_path / OWNER / "job.log").stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize(("owner", "name"), [("..", "job"), (OWNER, "../x"), (OWNER, ""), ("", "job")])
    def test_no_name_leads_out(self, files, owner, name):
        with pytest.raises(InvalidInput):
            files.append(owner, name, [b"x"], 1)
        with pytest.raises(InvalidInput):
            files.read(owner, name, after=0)

    def test_link_is_not_followed(self, files, tmp_path):
        (tmp_path / OWNER).mkdir()
        (tmp_path / OWNER / "job.log").symlink_to(tmp_path / "elsewhere")

        with pytest.raises(LoggerUnavailable):
            files.append(OWNER, "job", [b"x"], 1)

        assert not (tmp_path / "elsewhere").exists()

    def test_disk_that_is_full_is_told(self, files, monkeypatch):
        monkeypatch.setattr(os, "write", lambda _fd, data: len(data) - 1)

        with pytest.raises(LoggerUnavailable):
            files.append(OWNER, "job", [b"x"], 1)
