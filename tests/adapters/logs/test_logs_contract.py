# SPDX-License-Identifier: Apache-2.0
"""Contract tests of the two implementations of port LogStore: a fake and encrypted files.

Output is stored in chunks. A chunk has whole lines of one stream. A *position* is a place between
two chunks of a log. A writer can give each of its chunks a sequence number.
"""

from __future__ import annotations

import os

import pytest
from tests.adapters.logs.conftest import LATER_LOG, LOG, OTHER, OWNER, chunk, lines
from tests.fakes.definitions import MemoryLogs

from gridstead.adapters.logs.files import Limits
from gridstead.domain.logs.log import LogId, Stream
from gridstead.errors import LogFull

NOW = 1_800_000_000


@pytest.fixture(params=["memory", "files"])
def logs(request):
    if request.param == "memory":
        return MemoryLogs(max_bytes=100)
    return request.getfixturevalue("files")


class TestLogSink:
    def test_read_returns_the_chunks_after_a_position_in_order(self, logs):
        written_chunks = [
            chunk(b"one\n", 1, stream=Stream.STDOUT),
            chunk(b"\x00\xff three", 2, stream=Stream.STDERR, writer=2**64 - 1, sequence=1),
            chunk(b"", -3),
        ]
        for new_chunk in written_chunks:
            logs.append(LOG, new_chunk)

        stored = logs.read(LOG, after=0)

        assert [entry.chunk for entry in stored] == written_chunks
        assert [entry.first_line for entry in stored] == [1, 3, 4]  # b"one\n" counts as two lines
        for number, entry in enumerate(stored):
            assert logs.read(LOG, after=entry.start) == stored[number:]
            assert logs.read(LOG, after=entry.end) == stored[number + 1 :]

    def test_log_that_does_not_exist_is_empty(self, logs):
        assert logs.read(LOG, after=0) == ()
        assert logs.names(OWNER) == ()
        assert logs.newest(OWNER, "job") is None

    def test_sync_does_not_change_the_log(self, logs):
        logs.append(LOG, chunk(b"x"))
        logs.sync(LOG)
        logs.sync(LATER_LOG)
        logs.sync(LOG)

        assert lines(logs) == [b"x"]

    def test_repeated_chunk_is_stored_once(self, logs):
        for writer, sequence, data in (
            (1, 1, b"a"),
            (1, 2, b"b"),
            (1, 1, b"a"),
            (1, 2, b"b"),
            (2, 1, b"c"),
            (1, 4, b"d"),
        ):
            logs.append(LOG, chunk(data, writer=writer, sequence=sequence))

        assert lines(logs) == [b"a", b"b", b"c", b"d"]

    def test_equal_chunks_without_numbers_are_all_stored(self, logs):
        logs.append(LOG, chunk(b"x"))
        logs.append(LOG, chunk(b"x"))

        assert lines(logs) == [b"x", b"x"]

    def test_full_log_keeps_its_lines_and_reports_the_limit_once(self, logs):
        logs.append(LOG, chunk(b"x" * 90))

        for data in (b"y" * 500, b"z"):
            with pytest.raises(LogFull):
                logs.append(LOG, chunk(data))

        first_line, message = lines(logs)
        assert first_line == b"x" * 90
        assert message.startswith(b"gridstead: ")
        assert logs.read(LOG, after=0)[-1].chunk.stream is Stream.GRID

    def test_logs_with_different_identities_are_separate(self, logs):
        logs.append(LOG, chunk(b"old"))
        logs.append(LATER_LOG, chunk(b"new"))

        assert lines(logs) == [b"old"]
        assert lines(logs, LATER_LOG) == [b"new"]
        assert logs.newest(OWNER, "job") == LATER_LOG

    def test_names_returns_the_owners_logs_sorted(self, logs):
        for owner, name in ((OWNER, "b"), (OWNER, "a.log"), (OTHER, "c")):
            logs.append(LogId(owner=owner, name=name, log_identity="0" * 32), chunk(b"x"))

        assert logs.names(OWNER) == ("a.log", "b")


def path_of(root, log=LOG):
    """Return the file of a log."""
    return root / log.owner / log.name / f"{log.log_identity}.log"


class TestSweep:
    def write(self, files, tmp_path, name, *, age_s, owner=OWNER):
        """Write a log that was last changed ``age_s`` before NOW."""
        log = LogId(owner=owner, name=name, log_identity="0" * 32)
        files.append(log, chunk(b"x" * 50))
        os.utime(path_of(tmp_path, log), (NOW - age_s, NOW - age_s))
        return log

    def test_sweep_deletes_old_logs(self, files, tmp_path):
        # The default limit is 30 days.
        old_log = self.write(files, tmp_path, "old", age_s=31 * 24 * 3600)
        self.write(files, tmp_path, "new", age_s=29 * 24 * 3600)

        assert files.sweep(NOW) == 1
        assert files.names(OWNER) == ("new",)
        files.append(old_log, chunk(b"a new log"))
        assert lines(files, old_log) == [b"a new log"]

    def test_sweep_deletes_the_oldest_logs_of_an_owner_above_the_size_limit(self, files, tmp_path):
        # Log c is the newest and log a is the oldest.
        for age_s, name in enumerate(("c", "b", "a")):
            self.write(files, tmp_path, name, age_s=age_s)
        self.write(files, tmp_path, "d", age_s=100, owner=OTHER)
        log = LogId(owner=OWNER, name="a", log_identity="0" * 32)
        size = path_of(tmp_path, log).stat().st_size
        files._limits = Limits(owner_bytes=2 * size)

        assert files.sweep(NOW) == 1
        assert files.names(OWNER) == ("b", "c")
        assert files.names(OTHER) == ("d",)
