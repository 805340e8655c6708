# SPDX-License-Identifier: Apache-2.0
"""Tests of the files of signed reports."""

import os
import secrets

import pytest
from tests.fakes.benchmarks import report

from gridstead.adapters.benchmarks import public_files
from gridstead.adapters.benchmarks.public_files import MAX_FILES, PublicReportFiles
from gridstead.adapters.chain.wallet import recover, wallet_of
from gridstead.domain.benchmarks.public_report import digest, read_file, report_text, signed_file
from gridstead.errors import ConfigError


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "supervisor" / "reports"


@pytest.fixture
def files(directory):
    return PublicReportFiles(directory)


def test_file_is_served_under_a_fixed_name(files, directory):
    assert not files.has(digest(b"first"))
    files.add(b"first")
    files.add(b"second")
    assert files.has(digest(b"first"))

    for file in (b"first", b"second", b"second"):
        files.serve(digest(file))
        assert (directory / "benchmark-report.json").read_bytes() == file

    assert {path.suffix for path in directory.iterdir()} == {".json"}


def test_served_file_is_not_written_again(files, directory):
    files.add(b"first")
    files.serve(digest(b"first"))
    before = (directory / "benchmark-report.json").stat().st_ino

    files.serve(digest(b"first"))

    assert (directory / "benchmark-report.json").stat().st_ino == before


def test_old_files_are_removed_except_the_served_one(files, directory):
    contents = [f"file {number}".encode() for number in range(MAX_FILES + 3)]
    for number, content in enumerate(contents):
        files.add(content)
        os.utime(directory / f"{digest(content)}.json", (number, number))
        if number == 0:
            files.serve(digest(content))

    assert files.has(digest(contents[0]))
    assert not files.has(digest(contents[1]))
    assert all(files.has(digest(content)) for content in contents[-MAX_FILES:])


def test_interrupted_write_leaves_no_partial_file(files, directory, monkeypatch):
    def fail(_path):
        raise OSError("no space left")

    monkeypatch.setattr(public_files, "sync", fail)
    with pytest.raises(ConfigError, match=r"no space left"):
        files.add(b"first")

    assert not files.has(digest(b"first"))


def test_directory_that_cannot_be_written_is_a_config_error(directory):
    directory.parent.mkdir()
    directory.write_text("a file")

    with pytest.raises(ConfigError, match="cannot write the report of the benchmarks"):
        PublicReportFiles(directory).add(b"first")
    with pytest.raises(ConfigError, match="cannot write the report of the benchmarks"):
        PublicReportFiles(directory).serve(digest(b"first"))


def test_same_run_signed_twice_by_a_wallet_has_the_same_bytes():
    """A restart of the supervisor must not change the label with the hash of the file."""
    key = secrets.token_bytes(32)
    address = wallet_of(key).address
    text = report_text(report(1_000), chain_id=1, provider=address)

    first, second = (signed_file(text, wallet_of(key).sign_text) for _ in range(2))

    assert first == second
    assert recover(text, read_file(first).signature) == address
