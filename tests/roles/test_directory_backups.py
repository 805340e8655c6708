# SPDX-License-Identifier: Apache-2.0
"""The backup program of role directory, with a fake dsconf, the directory server's own tool."""

import subprocess

import pytest
from tests.roles.catalogue import ROOT
from tests.roles.content import names_in

BACK_UP = ROOT / "roles/directory/files/usr/local/sbin/gridstead-back-up-directory"
SUCCEEDS = '#!/bin/sh\nmkdir "$4" && echo "$1 $2 $3" >"$4/data.mdb"\n'
FAILS_HALFWAY = f"{SUCCEEDS}exit 1\n"
OLD_BACKUPS = [
    "gridstead-20260101T000000Z",
    "gridstead-20260102T000000Z",
    "gridstead-20260103T000000Z",
]


@pytest.fixture
def back_up(tmp_path, monkeypatch):
    """Return a function that runs the program with a fake dsconf and returns the exit code."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    folder = tmp_path / "bak"
    for name in OLD_BACKUPS:
        (folder / name).mkdir(parents=True)

    def run(dsconf, *, retained):
        (tmp_path / "dsconf").write_text(dsconf)
        (tmp_path / "dsconf").chmod(0o755)
        return subprocess.run([BACK_UP, "site", folder, str(retained)], check=False).returncode

    return run


@pytest.fixture
def list_backups(tmp_path):
    """Return a function that returns the sorted names in the backup folder."""
    return lambda: sorted(names_in(tmp_path / "bak"))


def test_the_newest_backups_are_retained(back_up, list_backups, tmp_path):
    assert back_up(SUCCEEDS, retained=2) == 0

    oldest, newest = list_backups()
    assert oldest == OLD_BACKUPS[-1]
    assert (tmp_path / "bak" / newest / "data.mdb").read_text() == "site backup create\n"


def test_all_backups_are_retained_below_the_limit(back_up, list_backups):
    assert back_up(SUCCEEDS, retained=7) == 0

    assert list_backups()[: len(OLD_BACKUPS)] == OLD_BACKUPS
    assert len(list_backups()) == len(OLD_BACKUPS) + 1


def test_a_failed_backup_leaves_all_complete_backups(back_up, list_backups):
    assert back_up(FAILS_HALFWAY, retained=1) != 0

    assert list_backups() == [*OLD_BACKUPS, "unfinished"]


def test_a_backup_removes_the_incomplete_backup_of_an_earlier_run(back_up, list_backups):
    back_up(FAILS_HALFWAY, retained=1)

    assert back_up(SUCCEEDS, retained=1) == 0
    (backup_name,) = list_backups()
    assert backup_name.startswith("gridstead-")
