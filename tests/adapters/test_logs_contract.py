# SPDX-License-Identifier: Apache-2.0
"""What port LogSink promises, on the fake and on sealed files."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from tests.fakes.definitions import MemoryLogs

from gridstead.adapters.logs import FileLogs, Limits
from gridstead.domain.log import Chunk, LogId, Stream, to_lines
from gridstead.errors import LogFull

OWNER = "0x" + "ab" * 20
OTHER = "0x" + "cd" * 20
KEY = b"k" * 32
LOG = LogId(owner=OWNER, name="job", log_identity="1" * 32)
NEXT = replace(LOG, log_identity="0" * 32)
NOW = 1_800_000_000


def chunk(data, at=1, **fields):
    return Chunk(data=data, timestamp_ns=at, **fields)


def lines(logs, log=LOG, after=0):
    return [line for one in logs.read(log, after=after) for line in to_lines(one.chunk.data)]


@pytest.fixture
def files(tmp_path):
    logs = FileLogs(tmp_path, key=KEY, limits=Limits(log_bytes=600))
    yield logs
    logs.close()


@pytest.fixture(params=["memory", "files"])
def logs(request):
    return (
        MemoryLogs(max_bytes=100) if request.param == "memory" else request.getfixturevalue("files")
    )


class TestLogSink:
    def test_chunks_come_back_in_order_after_a_position(self, logs):
        written = [
            chunk(b"one\n", 1, stream=Stream.STDOUT),
            chunk(b"\x00\xff three", 2, stream=Stream.STDERR, writer=2**64 - 1, sequence=1),
            chunk(b"", -3),
        ]
        for one in written:
            logs.append(LOG, one)

        stored = logs.read(LOG, after=0)

        assert [one.chunk for one in stored] == written
        assert [one.first_line for one in stored] == [1, 3, 4]
        for number, one in enumerate(stored):
            assert logs.read(LOG, after=one.start) == stored[number:]
            assert logs.read(LOG, after=one.end) == stored[number + 1 :]

    def test_log_that_does_not_exist_is_empty(self, logs):
        assert logs.read(LOG, after=0) == ()
        assert logs.names(OWNER) == ()
        assert logs.newest(OWNER, "job") is None

    def test_synced_log_reads_the_same(self, logs):
        logs.append(LOG, chunk(b"x"))
        logs.sync(LOG)
        logs.sync(NEXT)
        logs.sync(LOG)

        assert lines(logs) == [b"x"]

    def test_chunk_that_comes_again_is_stored_once(self, logs):
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

    def test_chunks_without_numbers_may_be_equal(self, logs):
        logs.append(LOG, chunk(b"x"))
        logs.append(LOG, chunk(b"x"))

        assert lines(logs) == [b"x", b"x"]

    def test_full_log_keeps_what_it_has_and_says_so_once(self, logs):
        logs.append(LOG, chunk(b"x" * 90))

        for data in (b"y" * 500, b"z"):
            with pytest.raises(LogFull):
                logs.append(LOG, chunk(data))

        assert lines(logs)[0] == b"x" * 90
        assert [line[:11] for line in lines(logs)[1:]] == [b"gridstead: "]
        assert logs.read(LOG, after=0)[-1].chunk.stream is Stream.GRID

    def test_log_identities_of_a_name_are_apart(self, logs):
        logs.append(LOG, chunk(b"old"))
        logs.append(NEXT, chunk(b"new"))

        assert (lines(logs), lines(logs, NEXT)) == ([b"old"], [b"new"])
        assert logs.newest(OWNER, "job") == NEXT

    def test_names_are_sorted_and_the_owners(self, logs):
        for owner, name in ((OWNER, "b"), (OWNER, "a.log"), (OTHER, "c")):
            logs.append(LogId(owner=owner, name=name, log_identity="0" * 32), chunk(b"x"))

        assert logs.names(OWNER) == ("a.log", "b")


def path_of(root, log=LOG):
    return root / log.owner / log.name / f"{log.log_identity}.log"


class TestSweep:
    def write(self, files, tmp_path, name, *, age_s, owner=OWNER):
        log = LogId(owner=owner, name=name, log_identity="0" * 32)
        files.append(log, chunk(b"x" * 50))
        os.utime(path_of(tmp_path, log), (NOW - age_s, NOW - age_s))
        return log

    def test_old_logs_go(self, files, tmp_path):
        old = self.write(files, tmp_path, "old", age_s=31 * 24 * 3600)
        self.write(files, tmp_path, "new", age_s=29 * 24 * 3600)

        assert files.sweep(NOW) == 1
        assert files.names(OWNER) == ("new",)
        files.append(old, chunk(b"it begins anew"))
        assert lines(files, old) == [b"it begins anew"]

    def test_owner_with_too_much_loses_the_oldest(self, files, tmp_path):
        for age_s, name in enumerate(("c", "b", "a")):
            self.write(files, tmp_path, name, age_s=age_s)
        self.write(files, tmp_path, "d", age_s=100, owner=OTHER)
        size = path_of(tmp_path, LogId(owner=OWNER, name="a", log_identity="0" * 32)).stat().st_size
        files._limits = Limits(owner_bytes=2 * size)

        assert files.sweep(NOW) == 1
        assert files.names(OWNER) == ("b", "c")
        assert files.names(OTHER) == ("d",)
