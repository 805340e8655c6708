# SPDX-License-Identifier: Apache-2.0
"""Encrypted log files: restarts after crashes, altered bytes, invalid names and full disks."""

from __future__ import annotations

import os
import stat
from dataclasses import replace

import pytest
from tests.adapters.logs.conftest import KEY, LATER_LOG, LOG, OTHER, OWNER, chunk, lines

from gridstead.adapters.logs import files as adapter
from gridstead.adapters.logs.file import CHUNK_HEADER_BYTES, FILE_HEADER_BYTES, MAX_SEALED_BYTES
from gridstead.adapters.logs.files import FileLogs, Limits
from gridstead.adapters.logs.tail import MAX_WRITERS
from gridstead.domain.logs.log import LogId
from gridstead.errors import ConfigError, InvalidInput, LogDamaged, LogFull, LoggerUnavailable


@pytest.fixture
def reopen_logs(tmp_path, files):
    """Return a function that closes the logs, and opens them again as a restarted process does."""
    reopened_logs = []  # only the last one is open

    def reopen():
        current = reopened_logs[-1] if reopened_logs else files
        current.close()
        reopened_logs.append(FileLogs(tmp_path, key=KEY, limits=Limits(log_bytes=600)))
        return reopened_logs[-1]

    yield reopen
    if reopened_logs:
        reopened_logs[-1].close()
        # The fixture ``files`` closes its logs a second time, and needs an open descriptor.
        files._held = os.open(os.devnull, os.O_RDONLY)


def path_of(root, log=LOG):
    """Return the file of a log."""
    return root / log.owner / log.name / f"{log.log_identity}.log"


class TestRestart:
    def test_sequence_and_line_numbers_continue_after_a_restart(self, files, reopen_logs):
        files.append(LOG, chunk(b"a\nb", writer=5, sequence=3))

        reopened_logs = reopen_logs()
        reopened_logs.append(LOG, chunk(b"again", writer=5, sequence=3))
        reopened_logs.append(LOG, chunk(b"c", writer=5, sequence=4))

        assert lines(reopened_logs) == [b"a", b"b", b"c"]
        assert [stored.first_line for stored in reopened_logs.read(LOG, after=0)] == [1, 3]

    def test_full_log_stays_full(self, files, reopen_logs):
        with pytest.raises(LogFull):
            files.append(LOG, chunk(b"x" * 600))

        with pytest.raises(LogFull):
            reopen_logs().append(LOG, chunk(b"x"))

    @pytest.mark.parametrize("missing_bytes", range(1, CHUNK_HEADER_BYTES + 20, 7))
    def test_chunk_truncated_by_a_crash_is_ignored_and_removed(
        self, files, reopen_logs, tmp_path, missing_bytes
    ):
        files.append(LOG, chunk(b"one"))
        files.append(LOG, chunk(b"two"))
        path = path_of(tmp_path)
        os.truncate(path, path.stat().st_size - missing_bytes)

        reopened_logs = reopen_logs()

        assert lines(reopened_logs) == [b"one"]
        reopened_logs.append(LOG, chunk(b"three"))
        assert lines(reopened_logs) == [b"one", b"three"]

    @pytest.mark.parametrize("size", [0, 1, FILE_HEADER_BYTES - 1, FILE_HEADER_BYTES])
    def test_file_with_a_truncated_header_is_rewritten(self, files, reopen_logs, tmp_path, size):
        files.append(LOG, chunk(b"one"))
        os.truncate(path_of(tmp_path), size)

        reopened_logs = reopen_logs()
        reopened_logs.append(LOG, chunk(b"two"))

        assert lines(reopened_logs) == [b"two"]

    def test_last_chunk_with_zeros_from_a_power_cut_is_removed(self, files, reopen_logs, tmp_path):
        files.append(LOG, chunk(b"one"))
        files.append(LOG, chunk(b"two"))
        with path_of(tmp_path).open("r+b") as file:
            file.seek(-2, os.SEEK_END)
            file.write(b"\0\0")

        reopened_logs = reopen_logs()
        reopened_logs.append(LOG, chunk(b"three"))

        assert lines(reopened_logs) == [b"one", b"three"]

    def test_large_unreadable_data_is_moved_to_another_file(self, files, reopen_logs, tmp_path):
        files.append(LOG, chunk(b"one"))
        end = path_of(tmp_path).stat().st_size
        damaged_data = os.urandom(1) * (MAX_SEALED_BYTES + 1000)
        with path_of(tmp_path).open("ab") as file:
            file.write(damaged_data)

        reopened_logs = reopen_logs()
        reopened_logs.append(LOG, chunk(b"two"))

        assert lines(reopened_logs) == [b"one", b"two"]
        assert path_of(tmp_path).with_suffix(f".damaged-{end}").read_bytes() == damaged_data

    def test_removed_log_file_is_created_again_with_the_next_chunk(self, files, tmp_path):
        files.append(LOG, chunk(b"one"))
        path_of(tmp_path).unlink()

        files.append(LOG, chunk(b"two"))

        (stored,) = files.read(LOG, after=0)
        assert stored.first_line == 1
        assert stored.chunk.data == b"two"

    def test_number_of_remembered_writers_is_limited(self, files):
        files._limits = Limits()
        for writer in range(1, 3 * MAX_WRITERS):
            files.append(LOG, chunk(b"", writer=writer, sequence=1))

        assert len(files._tails[LOG].writers) == MAX_WRITERS

    def test_number_of_remembered_logs_is_limited(self, files, monkeypatch):
        monkeypatch.setattr(adapter, "MAX_TAILS", 2)
        logs = [replace(LOG, name=f"job{number}") for number in range(4)]
        for log in logs * 2:
            files.append(log, chunk(b"x"))

        assert len(files._tails) == 2
        for log in logs:
            assert lines(files, log) == [b"x", b"x"]


class TestEncryption:
    @pytest.fixture
    def sealed_file(self, files, tmp_path):
        """Return the encrypted file of a log with two lines."""
        files._limits = Limits()
        for data in (b"secret one", b"secret two"):
            files.append(LOG, chunk(data))
        return path_of(tmp_path)

    def test_file_does_not_contain_the_plain_text(self, sealed_file):
        assert b"secret" not in sealed_file.read_bytes()

    def test_a_flipped_bit_in_any_byte_is_detected(self, files, sealed_file):
        original = sealed_file.read_bytes()
        for position in range(len(original)):
            altered_content = bytearray(original)
            altered_content[position] ^= 1 << position % 8  # bit 0 of byte 0, bit 1 of byte 1
            sealed_file.write_bytes(altered_content)

            try:
                read_lines = lines(files)
            except LogDamaged:
                continue
            # If the flipped bit makes the length larger, the chunk looks truncated and is ignored.
            assert read_lines in ([], [b"secret one"]), position

    def test_moved_chunk_is_refused(self, files, sealed_file):
        content = sealed_file.read_bytes()
        first, second = files.read(LOG, after=0)
        header = content[: first.start]
        first_chunk = content[first.start : first.end]
        second_chunk = content[second.start : second.end]
        sealed_file.write_bytes(header + second_chunk + first_chunk)

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
    def test_file_of_another_log_is_refused(self, files, sealed_file, tmp_path, log):
        path_of(tmp_path, log).parent.mkdir(parents=True, exist_ok=True)
        path_of(tmp_path, log).write_bytes(sealed_file.read_bytes())

        with pytest.raises(LogDamaged):
            files.read(log, after=0)

    def test_another_key_is_refused(self, files, sealed_file, tmp_path):
        files._key = b"j" * 32

        with pytest.raises(LogDamaged):
            files.read(LOG, after=0)

    def test_position_inside_a_chunk_returns_no_lines(self, files, sealed_file):
        chunk_starts = {stored.start for stored in files.read(LOG, after=0)}
        positions = set(range(FILE_HEADER_BYTES + 1, sealed_file.stat().st_size))
        for after in positions - chunk_starts:
            try:
                assert files.read(LOG, after=after) == ()
            except LogDamaged:
                continue  # this error is also correct

    def test_equal_lines_are_encrypted_differently(self, files, tmp_path):
        files.append(LOG, chunk(b"same same same same"))
        files.append(LATER_LOG, chunk(b"same same same same"))

        first_line = path_of(tmp_path, LOG).read_bytes()[-30:]
        second_line = path_of(tmp_path, LATER_LOG).read_bytes()[-30:]
        assert first_line != second_line

    def test_short_key_is_a_config_error(self, tmp_path):
        with pytest.raises(ConfigError):
            FileLogs(tmp_path, key=b"short")


class TestFiles:
    def test_long_log_is_read_in_parts(self, files):
        files._limits = Limits()
        for number in range(25):
            # The digits of the number, repeated 50,000 times.
            files.append(LOG, chunk(b"%d" % number * 50_000))
        files.append(LOG, chunk(b"x" * 3_000_000))

        part_count, chunk_count = 0, 0
        stored = files.read(LOG, after=0)
        while stored:
            part_count += 1
            chunk_count += len(stored)
            stored = files.read(LOG, after=stored[-1].end)

        assert chunk_count == 26
        assert part_count > 2

    def test_files_are_readable_by_their_owner_only(self, files, tmp_path):
        files.append(LOG, chunk(b"x"))

        file = path_of(tmp_path)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(file.parent.parent.stat().st_mode) == 0o700

    @pytest.mark.parametrize(
        ("owner", "name", "log_identity"),
        [
            ("..", "job", "0" * 32),
            (OWNER, "../x", "0" * 32),
            (OWNER, "", "0" * 32),
            ("", "job", "0" * 32),
            (OWNER, "..", "0" * 32),
            (OWNER, "job", "../" + "0" * 29),
            (OWNER, "job", ""),
        ],
    )
    def test_names_outside_the_storage_are_refused(self, files, owner, name, log_identity):
        log = LogId(owner=owner, name=name, log_identity=log_identity)
        for operation in (
            lambda: files.append(log, chunk(b"x")),
            lambda: files.read(log, after=0),
            lambda: files.sync(log),
        ):
            with pytest.raises(InvalidInput):
                operation()

    def test_symlink_is_not_followed(self, files, tmp_path):
        path_of(tmp_path).parent.mkdir(parents=True)
        path_of(tmp_path).symlink_to(tmp_path / "elsewhere")

        with pytest.raises(LoggerUnavailable):
            files.append(LOG, chunk(b"x"))
        with pytest.raises(LoggerUnavailable):
            files.read(LOG, after=0)

        assert not (tmp_path / "elsewhere").exists()

    def test_full_disk_raises_an_error_and_leaves_no_partial_chunk(self, files, monkeypatch):
        files.append(LOG, chunk(b"one"))
        with monkeypatch.context() as patch:
            # On a full disk, pwrite writes fewer bytes than it was given.
            patch.setattr(os, "pwrite", lambda _fd, data, _at: len(data) - 1)
            with pytest.raises(LoggerUnavailable):
                files.append(LOG, chunk(b"two"))
        files.append(LOG, chunk(b"three"))

        assert lines(files) == [b"one", b"three"]

    def test_second_logger_on_the_same_storage_is_refused(self, files, tmp_path):
        with pytest.raises(ConfigError, match="cannot store logs"):
            FileLogs(tmp_path, key=KEY)

    def test_missing_folder_is_a_config_error(self, tmp_path):
        with pytest.raises(ConfigError, match="cannot store logs"):
            FileLogs(tmp_path / "no", key=KEY)
