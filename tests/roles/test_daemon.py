# SPDX-License-Identifier: Apache-2.0
"""Module daemon restarts or reloads a daemon if a file of the daemon is newer than its start.

A newer file in ``reads`` needs a restart, and a newer file in ``rereads`` needs a reload.
"""

import os

import pytest
from ansible_collections.gridstead.site.plugins.modules import daemon
from tests.roles.catalogue import ROOT
from tests.roles.modules import run_module

# The daemon needs 10 s to start. It reloads its files 500 s before NOW, if a test sets this time.
UPTIME_S = 5000.0
NOW = 1_700_000_000.0
STARTED_AT = NOW - 1000
READY_AT = NOW - 990
RELOADED_AT = NOW - 500


def monotonic_us(time_s):
    """Return a time in the format of systemd: microseconds since the boot."""
    return str(int((UPTIME_S - (NOW - time_s)) * 1e6))


RUNNING = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "UnitFileState": "enabled",
    "NeedDaemonReload": "no",
    "InactiveExitTimestampMonotonic": monotonic_us(STARTED_AT),
    "ActiveEnterTimestampMonotonic": monotonic_us(READY_AT),
    "StateChangeTimestampMonotonic": monotonic_us(READY_AT),
}


def what_to_do(properties, reads=(), rereads=(), **options):
    """Return the commands of systemctl that the module would run, and the reasons."""
    defaults = {"reads": reads, "rereads": rereads, "restart": False, "reload": False}
    return daemon.plan_commands(properties, defaults | options)


def show_output(properties):
    """Return the output of systemctl show."""
    return "".join(f"{name}={value}\n" for name, value in properties.items())


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(daemon.time, "time", lambda: NOW)
    monkeypatch.setattr(daemon.time, "monotonic", lambda: UPTIME_S)


@pytest.fixture
def make_file(tmp_path):
    """A function that creates a file with a modification time and returns its path."""

    def make(name, modified_at):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (modified_at, modified_at))
        return str(tmp_path / name)

    return make


def test_a_daemon_that_started_after_changes_of_its_files_is_not_restarted(make_file):
    reads = [make_file("old", STARTED_AT - 1), "/no/such/file"]

    assert what_to_do(RUNNING, reads) == ([], [])


@pytest.mark.parametrize("state", ["active", "activating", "reloading"])
def test_a_daemon_that_started_before_a_change_of_a_file_is_restarted(make_file, state):
    reads = [make_file("old", STARTED_AT - 1), make_file("young", STARTED_AT + 0.5)]

    assert what_to_do(RUNNING | {"ActiveState": state}, reads) == (
        [["restart"]],
        [f"{reads[1]} is newer"],
    )


@pytest.mark.parametrize("state", ["inactive", "failed", "deactivating"])
def test_a_stopped_daemon_is_started_and_not_restarted(make_file, state):
    properties = RUNNING | {"ActiveState": state}

    assert what_to_do(properties, [make_file("young", NOW)]) == ([["start"]], ["it does not run"])


def test_systemd_reloads_unit_files_before_a_start(make_file):
    properties = RUNNING | {"NeedDaemonReload": "yes", "UnitFileState": "disabled"}

    commands, _ = what_to_do(properties, [make_file("young", NOW)])

    assert commands == [["daemon-reload"], ["enable"], ["restart"]]


@pytest.mark.parametrize(("need_reload", "commands"), [("no", []), ("yes", [["daemon-reload"]])])
def test_systemd_reloads_unit_files_if_a_file_of_any_unit_changed(need_reload, commands):
    other_unit = RUNNING | {"ActiveState": "failed", "NeedDaemonReload": need_reload}
    output = show_output(RUNNING) + "\n" + show_output(other_unit)

    assert what_to_do(daemon.properties_of(output))[0] == commands


def test_a_reload_is_enough_for_files_that_the_daemon_rereads(make_file):
    between, after = make_file("between", RELOADED_AT - 1), make_file("after", RELOADED_AT + 1)
    reloaded_unit = RUNNING | {"StateChangeTimestampMonotonic": monotonic_us(RELOADED_AT)}

    assert what_to_do(RUNNING, rereads=[between]) == ([["reload"]], [f"{between} is newer"])
    assert what_to_do(reloaded_unit, rereads=[between]) == ([], [])
    assert what_to_do(reloaded_unit, rereads=[between, after]) == (
        [["reload"]],
        [f"{after} is newer"],
    )
    assert what_to_do(reloaded_unit, reads=[between], rereads=[after]) == (
        [["restart"]],
        [f"{between} is newer"],
    )


def test_a_file_written_during_the_start_needs_a_reload(make_file):
    assert what_to_do(RUNNING, rereads=[make_file("young", READY_AT - 1)])[0] == [["reload"]]


@pytest.mark.parametrize("action", ["restart", "reload"])
def test_requested_actions_are_performed_on_a_running_daemon(action):
    failed_unit = RUNNING | {"ActiveState": "failed"}

    assert what_to_do(RUNNING, **{action: True}) == ([[action]], ["the task requires it"])
    assert what_to_do(failed_unit, **{action: True})[0] == [["start"]]


@pytest.mark.parametrize(
    ("active", "options", "state"),
    [
        ("active", {}, ""),
        ("active", {"reload": True}, "reloaded"),
        ("active", {"restart": True}, "restarted"),
        ("failed", {"restart": True}, "started"),
    ],
)
def test_check_mode_reports_the_action_and_does_nothing(
    tmp_path, fake_systemctl, active, options, state
):
    """`gridstead provider plan` reads this result."""
    fake_systemctl(RUNNING | {"ActiveState": active})
    arguments = {"name": "x", "reads": []} | options

    result = run_module(
        ROOT / "plugins/modules/daemon.py", arguments, tmp=tmp_path / "tmp", check_mode=True
    )

    assert result["changed"] is bool(state)
    assert result["state"] == state
    assert systemctl_calls(tmp_path) == []


@pytest.fixture
def fake_systemctl(tmp_path, monkeypatch):
    """A function that creates a fake systemctl with the given properties. It records its calls."""

    def set_properties(properties):
        (tmp_path / "properties").write_text(show_output(properties))
        (tmp_path / "systemctl").write_text(
            f"#!/bin/sh\n[ $1 != show ] || exec cat {tmp_path}/properties\n"
            f"echo $* >>{tmp_path}/calls\n"
        )
        (tmp_path / "systemctl").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return set_properties


def systemctl_calls(folder):
    """Return the recorded calls of the fake systemctl, without the calls of show."""
    calls = folder / "calls"
    return calls.read_text().splitlines() if calls.exists() else []


def test_option_no_block_starts_the_daemon_without_waiting(tmp_path, fake_systemctl):
    fake_systemctl(RUNNING | {"ActiveState": "failed", "NeedDaemonReload": "yes"})

    run_module(
        ROOT / "plugins/modules/daemon.py",
        {"name": "x", "reads": [], "no_block": True},
        tmp=tmp_path / "tmp",
    )

    assert systemctl_calls(tmp_path) == ["daemon-reload", "--no-block start -- x"]
