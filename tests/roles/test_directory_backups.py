# SPDX-License-Identifier: Apache-2.0
"""Backups of the directory server, with a fake backup program."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BACK_UP = ROOT / "roles/directory/files/usr/local/sbin/gridstead-back-up-directory"
WRITES = '#!/bin/sh\nmkdir "$4" && echo "$1 $2 $3" >"$4/data.mdb"\n'
STOPS_HALFWAY = f"{WRITES}exit 1\n"
OLD = ["gridstead-20260101T000000Z", "gridstead-20260102T000000Z", "gridstead-20260103T000000Z"]


@pytest.fixture
def back_up(tmp_path, monkeypatch):
    """A function that runs the program with a fake server and returns the exit code."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    folder = tmp_path / "bak"
    for name in OLD:
        (folder / name).mkdir(parents=True)

    def run(server, *, kept):
        (tmp_path / "dsconf").write_text(server)
        (tmp_path / "dsconf").chmod(0o755)
        return subprocess.run([BACK_UP, "site", folder, str(kept)], check=False).returncode

    return run


@pytest.fixture
def backups(tmp_path):
    """A function that lists the backup folder, sorted."""
    return lambda: sorted(path.name for path in (tmp_path / "bak").iterdir())


def test_the_newest_backups_are_retained(back_up, backups, tmp_path):
    assert back_up(WRITES, kept=2) == 0

    oldest, newest = backups()
    assert oldest == OLD[-1]
    assert (tmp_path / "bak" / newest / "data.mdb").read_text() == "site backup create\n"


def test_few_backups_are_all_retained(back_up, backups):
    assert back_up(WRITES, kept=7) == 0

    assert backups()[: len(OLD)] == OLD
    assert len(backups()) == len(OLD) + 1


def test_an_incomplete_backup_replaces_no_complete_backup(back_up, backups):
    assert back_up(STOPS_HALFWAY, kept=1) != 0

    assert backups() == [*OLD, "unfinished"]


def test_the_next_backup_removes_an_incomplete_backup(back_up, backups):
    back_up(STOPS_HALFWAY, kept=1)

    assert back_up(WRITES, kept=1) == 0
    (only,) = backups()
    assert only.startswith("gridstead-")
