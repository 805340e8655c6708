# SPDX-License-Identifier: Apache-2.0
"""Module daemon restarts a daemon only if a file is newer than the daemon."""

import os

import pytest
from ansible_collections.gridstead.site.plugins.modules import daemon
from tests.roles.catalogue import ROOT
from tests.roles.modules import run_module

SINCE_BOOT_S, NOW = 5000.0, 1_700_000_000.0
BEGUN, READY, RELOADED = NOW - 1000, NOW - 990, NOW - 500


def told_at(moment):
    """Return a time in the format of systemd."""
    return str(int((SINCE_BOOT_S - (NOW - moment)) * 1e6))


TOLD = {
    "LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled", "NeedDaemonReload": "no",
    "InactiveExitTimestampMonotonic": told_at(BEGUN), "ActiveEnterTimestampMonotonic": told_at(READY),
    "StateChangeTimestampMonotonic": told_at(READY),
}  # fmt: skip


def what_to_do(properties, reads=(), rereads=(), **more):
    return daemon.what_to_do(
        properties, {"reads": reads, "rereads": rereads, "restart": False, "reload": False} | more
    )


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(daemon.time, "time", lambda: NOW)
    monkeypatch.setattr(daemon.time, "monotonic", lambda: SINCE_BOOT_S)


@pytest.fixture
def written(tmp_path):
    """A function that returns a file with a modification time."""

    def make(name, time_s):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time_s, time_s))
        return str(tmp_path / name)

    return make


def test_a_daemon_newer_than_its_files_is_not_changed(written):
    reads = [written("old", BEGUN - 1), "/no/such/file"]

    assert what_to_do(TOLD, reads) == ([], [])


@pytest.mark.parametrize("state", ["active", "activating", "reloading"])
def test_a_daemon_older_than_a_file_is_restarted(written, state):
    reads = [written("old", BEGUN - 1), written("young", BEGUN + 0.5)]

    assert what_to_do(TOLD | {"ActiveState": state}, reads) == (
        [["restart"]],
        [f"{reads[1]} is newer"],
    )


@pytest.mark.parametrize("state", ["inactive", "failed", "deactivating"])
def test_a_stopped_daemon_is_started_and_not_restarted(written, state):
    properties = TOLD | {"ActiveState": state}

    assert what_to_do(properties, [written("young", NOW)]) == ([["start"]], ["it does not run"])


def test_systemd_reloads_unit_files_before_a_start(written):
    properties = TOLD | {"NeedDaemonReload": "yes", "UnitFileState": "disabled"}

    commands, _ = what_to_do(properties, [written("young", NOW)])

    assert commands == [["daemon-reload"], ["enable"], ["restart"]]


@pytest.mark.parametrize(("other_reload", "needed"), [("no", []), ("yes", [["daemon-reload"]])])
def test_systemd_reloads_unit_files_of_other_units_too(other_reload, needed):
    of_it, of_another = ("\n".join(f"{name}={text}" for name, text in (TOLD | more).items())
                         for more in ({}, {"ActiveState": "failed",
                                           "NeedDaemonReload": other_reload}))  # fmt: skip

    assert what_to_do(daemon.properties_of(f"{of_it}\n\n{of_another}\n"))[0] == needed


def test_a_reload_is_enough_for_files_that_the_daemon_rereads(written):
    between, after = written("between", RELOADED - 1), written("after", RELOADED + 1)
    reloaded = TOLD | {"StateChangeTimestampMonotonic": told_at(RELOADED)}

    assert what_to_do(TOLD, rereads=[between]) == ([["reload"]], [f"{between} is newer"])
    assert what_to_do(reloaded, rereads=[between]) == ([], [])
    assert what_to_do(reloaded, rereads=[between, after]) == ([["reload"]], [f"{after} is newer"])
    assert what_to_do(reloaded, reads=[between], rereads=[after]) == (
        [["restart"]],
        [f"{between} is newer"],
    )


def test_a_file_written_during_the_start_needs_a_restart(written):
    assert what_to_do(TOLD, rereads=[written("young", READY - 1)])[0] == [["reload"]]


@pytest.mark.parametrize(("asked", "command"), [("restart", "restart"), ("reload", "reload")])
def test_requested_actions_are_performed_on_a_running_daemon(asked, command):
    assert what_to_do(TOLD, **{asked: True}) == ([[command]], ["the task requires it"])
    assert what_to_do(TOLD | {"ActiveState": "failed"}, **{asked: True})[0] == [["start"]]


@pytest.mark.parametrize(
    ("active", "options", "state"),
    [("active", {}, ""), ("active", {"reload": True}, "reloaded"), ("active", {"restart": True}, "restarted"),
     ("failed", {"restart": True}, "started")],
)  # fmt: skip
def test_check_mode_reports_the_action_and_does_nothing(
    tmp_path, monkeypatch, active, options, state
):
    """`gridstead provider plan` reads this result."""
    says = "".join(
        f"echo {name}={text}\n" for name, text in (TOLD | {"ActiveState": active}).items()
    )
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\ntest $1 = show || exit 1\n{says}")
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    arguments = {"name": "x", "reads": []} | options
    properties = run_module(
        ROOT / "plugins/modules/daemon.py", arguments, tmp=tmp_path / "tmp", check_mode=True
    )

    assert (properties["changed"], properties["state"]) == (bool(state), state)


def test_the_module_does_not_wait_for_a_start_without_blocking(tmp_path, monkeypatch):
    says = "".join(
        f"echo {name}={text}\n"
        for name, text in (TOLD | {"ActiveState": "failed", "NeedDaemonReload": "yes"}).items()
    )
    (tmp_path / "systemctl").write_text(
        f"#!/bin/sh\necho $* >> {tmp_path}/asked\n[ $1 = show ] || exit 0\n{says}"
    )
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    run_module(
        ROOT / "plugins/modules/daemon.py",
        {"name": "x", "reads": [], "no_block": True},
        tmp=tmp_path / "tmp",
    )

    assert (tmp_path / "asked").read_text().splitlines()[1:] == [
        "daemon-reload",
        "--no-block start -- x",
    ]
