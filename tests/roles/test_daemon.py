# SPDX-License-Identifier: Apache-2.0
"""A daemon is restarted where a file is younger than it is, and only there."""

import os

import pytest
from tests.modules import load
from tests.roles.catalogue import ROOT

daemon = load(ROOT / "library/daemon.py")

SINCE_BOOT_S, NOW = 5000.0, 1_700_000_000.0
BEGUN = NOW - 1000
TOLD = {
    "LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled", "NeedDaemonReload": "no",
    "InactiveExitTimestampMonotonic": str(int((SINCE_BOOT_S - 1000) * 1e6)),
}  # fmt: skip


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(daemon.time, "time", lambda: NOW)
    monkeypatch.setattr(daemon.time, "monotonic", lambda: SINCE_BOOT_S)


@pytest.fixture
def written(tmp_path):
    """Return what makes a file that was last written at a time."""

    def make(name, at):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (at, at))
        return str(tmp_path / name)

    return make


def test_a_daemon_that_knows_its_files_is_left_alone(written):
    reads = [written("old", BEGUN - 1), "/no/such/file"]

    assert daemon.what_to_do(TOLD, reads) == ([], [])


@pytest.mark.parametrize("state", ["active", "activating", "reloading"])
def test_a_daemon_that_is_older_than_a_file_is_restarted(written, state):
    reads = [written("old", BEGUN - 1), written("young", BEGUN + 0.5)]

    assert daemon.what_to_do(TOLD | {"ActiveState": state}, reads) == ([["restart"]], [f"{reads[1]} is younger"])


@pytest.mark.parametrize("state", ["inactive", "failed", "deactivating"])
def test_a_daemon_that_does_not_run_is_started_and_never_restarted(written, state):
    told = TOLD | {"ActiveState": state}

    assert daemon.what_to_do(told, [written("young", NOW)]) == ([["start"]], ["it does not run"])


def test_units_are_read_anew_before_anything_starts(written):
    told = TOLD | {"NeedDaemonReload": "yes", "UnitFileState": "disabled"}

    commands, _ = daemon.what_to_do(told, [written("young", NOW)])

    assert commands == [["daemon-reload"], ["enable"], ["restart"]]
