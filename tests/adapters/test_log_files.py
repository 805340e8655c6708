# SPDX-License-Identifier: Apache-2.0
"""Logs as sealed files: what crashes, altered bytes, strange names and full disks make of them."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from gridstead.adapters import logs as adapter
from gridstead.adapters.log_file import CHUNK_HEAD_BYTES, FILE_HEAD_BYTES, MAX_SEALED_BYTES
from gridstead.adapters.log_tail import MAX_WRITERS
from gridstead.adapters.logs import FileLogs, Limits
from gridstead.domain.log import Chunk, LogId, to_lines
from gridstead.errors import ConfigError, InvalidInput, LogDamaged, LogFull, LoggerUnavailable

OWNER = "0x" + "ab" * 20
OTHER = "0x" + "cd" * 20
KEY = b"k" * 32
LOG = LogId(owner=OWNER, name="job", log_identity="1" * 32)
NEXT = replace(LOG, log_identity="0" * 32)


def chunk(data, at=1, **fields):
    return Chunk(data=data, timestamp_ns=at, **fields)


def lines(logs, log=LOG, after=0):
    return [line for one in logs.read(log, after=after) for line in to_lines(one.chunk.data)]


@pytest.fixture
def files(tmp_path):
    logs = FileLogs(tmp_path, key=KEY, limits=Limits(log_bytes=600))
    yield logs
    logs.close()


@pytest.fixture
def reopened(tmp_path, files):
    """Returns the logs as another process finds them after a crash of the first."""
    again = []

    def reopen():
        (again[-1] if again else files).close()
        again.append(FileLogs(tmp_path, key=KEY, limits=Limits(log_bytes=600)))
        return again[-1]

    yield reopen
    if again:
        again[-1].close()
        files._held = os.open(os.devnull, os.O_RDONLY)  # closed already


def path_of(root, log=LOG):
    return root / log.owner / log.name / f"{log.log_identity}.log"


class TestRestart:
    def test_all_goes_on_where_it_was(self, files, reopened):
        files.append(LOG, chunk(b"a\nb", writer=5, sequence=3))

        again = reopened()
        again.append(LOG, chunk(b"again", writer=5, sequence=3))
        again.append(LOG, chunk(b"c", writer=5, sequence=4))

        assert lines(again) == [b"a", b"b", b"c"]
        assert [one.first_line for one in again.read(LOG, after=0)] == [1, 3]

    def test_full_log_stays_full(self, files, reopened):
        with pytest.raises(LogFull):
            files.append(LOG, chunk(b"x" * 600))

        with pytest.raises(LogFull):
            reopened().append(LOG, chunk(b"x"))

    @pytest.mark.parametrize("cut", range(1, CHUNK_HEAD_BYTES + 20, 7))
    def test_chunk_cut_short_by_a_crash_is_not_seen_and_then_removed(
        self, files, reopened, tmp_path, cut
    ):
        files.append(LOG, chunk(b"one"))
        files.append(LOG, chunk(b"two"))
        os.truncate(path_of(tmp_path), path_of(tmp_path).stat().st_size - cut)

        again = reopened()

        assert lines(again) == [b"one"]
        again.append(LOG, chunk(b"three"))
        assert lines(again) == [b"one", b"three"]

    @pytest.mark.parametrize("size", [0, 1, FILE_HEAD_BYTES - 1, FILE_HEAD_BYTES])
    def test_file_without_a_whole_head_starts_anew(self, files, reopened, tmp_path, size):
        files.append(LOG, chunk(b"one"))
        os.truncate(path_of(tmp_path), size)

        again = reopened()
        again.append(LOG, chunk(b"two"))

        assert lines(again) == [b"two"]

    def test_last_chunk_that_a_power_cut_left_empty_is_removed(self, files, reopened, tmp_path):
        files.append(LOG, chunk(b"one"))
        files.append(LOG, chunk(b"two"))
        with path_of(tmp_path).open("r+b") as file:
            file.seek(-2, os.SEEK_END)
            file.write(b"\0\0")

        again = reopened()
        again.append(LOG, chunk(b"three"))

        assert lines(again) == [b"one", b"three"]

    def test_more_than_a_chunk_that_does_not_open_is_kept_aside(self, files, reopened, tmp_path):
        files.append(LOG, chunk(b"one"))
        end = path_of(tmp_path).stat().st_size
        junk = os.urandom(1) * (MAX_SEALED_BYTES + 1000)
        with path_of(tmp_path).open("ab") as file:
            file.write(junk)

        again = reopened()
        again.append(LOG, chunk(b"two"))

        assert lines(again) == [b"one", b"two"]
        assert path_of(tmp_path).with_suffix(f".damaged-{end}").read_bytes() == junk

    def test_log_that_somebody_removed_starts_anew(self, files, tmp_path):
        files.append(LOG, chunk(b"one"))
        path_of(tmp_path).unlink()

        files.append(LOG, chunk(b"two"))

        assert [(one.first_line, one.chunk.data) for one in files.read(LOG, after=0)] == [
            (1, b"two")
        ]

    def test_many_restarts_of_a_writer_cost_no_memory(self, files):
        for writer in range(1, 3 * MAX_WRITERS):
            files._limits = Limits()
            files.append(LOG, chunk(b"", writer=writer, sequence=1))

        assert len(files._tails[LOG].writers) == MAX_WRITERS

    def test_places_of_few_logs_are_remembered(self, files, monkeypatch):
        monkeypatch.setattr(adapter, "MAX_TAILS", 2)
        several = [replace(LOG, name=f"job{number}") for number in range(4)]
        for _ in range(2):
            for log in several:
                files.append(log, chunk(b"x"))

        assert len(files._tails) == 2
        assert [lines(files, log) for log in several] == [[b"x", b"x"]] * 4


class TestSeal:
    @pytest.fixture
    def sealed(self, files, tmp_path):
        files._limits = Limits()
        for data in (b"secret one", b"secret two"):
            files.append(LOG, chunk(data))
        return path_of(tmp_path)

    def test_nothing_of_a_line_is_on_disk(self, sealed):
        assert b"secret" not in sealed.read_bytes()

    def test_every_bit_of_every_byte_counts(self, files, sealed):
        good = sealed.read_bytes()
        for place in range(len(good)):
            altered = bytearray(good)
            altered[place] ^= 1 << place % 8
            sealed.write_bytes(altered)

            try:
                found = lines(files)
            except LogDamaged:
                continue
            # A length that became larger looks like a chunk that is still being written.
            assert found in ([], [b"secret one"]), place

    def test_chunk_that_was_moved_does_not_open(self, files, sealed):
        good = sealed.read_bytes()
        first, second = files.read(LOG, after=0)
        moved = (
            good[: first.start] + good[second.start : second.end] + good[first.start : first.end]
        )
        sealed.write_bytes(moved)

        with pytest.raises(LogDamaged):
            files.read(LOG, after=0)

    @pytest.mark.parametrize(
        "log",
        [
            replace(LOG, owner=OTHER),
            replace(LOG, name="other"),
            replace(LOG, log_identity="2" * 32),
        ],
    )
    def test_file_of_another_log_does_not_open(self, files, sealed, tmp_path, log):
        path_of(tmp_path, log).parent.mkdir(parents=True, exist_ok=True)
        path_of(tmp_path, log).write_bytes(sealed.read_bytes())

        with pytest.raises(LogDamaged):
            files.read(log, after=0)

    def test_another_key_does_not_open_it(self, files, sealed, tmp_path):
        files._key = b"j" * 32

        with pytest.raises(LogDamaged):
            files.read(LOG, after=0)

    def test_position_in_the_middle_of_a_chunk_gives_nothing(self, files, sealed):
        starts = {one.start for one in files.read(LOG, after=0)}
        for after in set(range(FILE_HEAD_BYTES + 1, sealed.stat().st_size)) - starts:
            try:
                assert files.read(LOG, after=after) == ()
            except LogDamaged:
                continue

    def test_equal_lines_do_not_look_equal(self, files, tmp_path):
        files.append(LOG, chunk(b"same same same same"))
        files.append(NEXT, chunk(b"same same same same"))

        tails = {path_of(tmp_path, log).read_bytes()[-30:] for log in (LOG, NEXT)}
        assert len(tails) == 2

    def test_short_key_is_the_operators(self, tmp_path):
        with pytest.raises(ConfigError):
            FileLogs(tmp_path, key=b"short")


class TestFiles:
    def test_long_log_is_read_in_parts(self, files):
        files._limits = Limits()
        for number in range(25):
            files.append(LOG, chunk(b"%d" % number * 50_000))
        files.append(LOG, chunk(b"x" * 3_000_000))

        position, parts, count = 0, 0, 0
        while stored := files.read(LOG, after=position):
            parts, count, position = parts + 1, count + len(stored), stored[-1].end

        assert count == 26
        assert parts > 2

    def test_only_the_service_may_read_them(self, files, tmp_path):
        files.append(LOG, chunk(b"x"))

        path = path_of(tmp_path)
        assert {place.stat().st_mode & 0o777 for place in (path.parent, path.parent.parent)} == {
            0o700
        }
        assert path.stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize(
        ("owner", "name", "log_identity"),
        [("..", "job", "0" * 32), (OWNER, "../x", "0" * 32), (OWNER, "", "0" * 32), ("", "job", "0" * 32),
         (OWNER, "..", "0" * 32), (OWNER, "job", "../" + "0" * 29), (OWNER, "job", "")],
    )  # fmt: skip
    def test_no_name_leads_out(self, files, owner, name, log_identity):
        log = LogId(owner=owner, name=name, log_identity=log_identity)
        for act in (
            lambda: files.append(log, chunk(b"x")),
            lambda: files.read(log, after=0),
            lambda: files.sync(log),
        ):
            with pytest.raises(InvalidInput):
                act()

    def test_link_is_not_followed(self, files, tmp_path):
        path_of(tmp_path).parent.mkdir(parents=True)
        path_of(tmp_path).symlink_to(tmp_path / "elsewhere")

        with pytest.raises(LoggerUnavailable):
            files.append(LOG, chunk(b"x"))
        with pytest.raises(LoggerUnavailable):
            files.read(LOG, after=0)

        assert not (tmp_path / "elsewhere").exists()

    def test_disk_that_is_full_is_told_and_leaves_nothing(self, files, monkeypatch):
        files.append(LOG, chunk(b"one"))
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", lambda _fd, data, _at: len(data) - 1)
            with pytest.raises(LoggerUnavailable):
                files.append(LOG, chunk(b"two"))
        files.append(LOG, chunk(b"three"))

        assert lines(files) == [b"one", b"three"]

    def test_second_logger_is_kept_out(self, files, tmp_path):
        with pytest.raises(ConfigError, match="cannot store logs"):
            FileLogs(tmp_path, key=KEY)

    def test_folder_that_is_not_there_is_the_operators(self, tmp_path):
        with pytest.raises(ConfigError, match="cannot store logs"):
            FileLogs(tmp_path / "no", key=KEY)
