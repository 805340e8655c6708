# SPDX-License-Identifier: Apache-2.0
"""Tests of module inspection, which verifies systemd units, files and commands of a host."""

import getpass
import os
import time

import pytest
from ansible_collections.gridstead.site.plugins.modules import inspection

RUNNING = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "UnitFileState": "enabled",
}


def command(*argv, expect=(), refuse=(), wait_s=0):
    """Return a command with the patterns to check, in the form in which a role passes it."""
    return {
        "what": "the command succeeds",
        "argv": list(argv),
        "expect": expect,
        "refuse": refuse,
        "wait_s": wait_s,
        "who": "grid",
        "hint": "Run it again.",
    }


@pytest.mark.parametrize(
    ("properties", "seen"),
    [
        ({"LoadState": "not-found"}, "it is not-found"),
        ({"ActiveState": "failed", "SubState": "failed"}, "it is failed (failed)"),
        ({"ActiveState": "inactive", "SubState": "dead"}, "it is inactive (dead)"),
        (
            {"ActiveState": "activating", "SubState": "auto-restart"},
            "it is activating (auto-restart)",
        ),
        ({"UnitFileState": "disabled"}, "it is disabled"),
    ],
)
def test_a_stopped_or_disabled_unit_is_reported(properties, seen):
    check = inspection.check_unit("x.service", RUNNING | properties)

    assert not check.ok
    assert check.seen == seen
    assert check.who == "operator"
    assert "x.service" in check.hint


@pytest.mark.parametrize(
    "properties",
    [{}, {"UnitFileState": "static"}, {"ActiveState": "reloading"}, {"ActiveState": "refreshing"}],
)
def test_a_running_or_reloading_unit_is_accepted(properties):
    check = inspection.check_unit("x.service", RUNNING | properties)

    assert check.ok
    assert check.seen == ""
    assert check.hint == ""


def test_a_starting_unit_is_checked_again(monkeypatch):
    monkeypatch.setattr(inspection, "POLL_INTERVAL_S", 0)
    starting = RUNNING | {"ActiveState": "activating"}
    results = iter([[RUNNING, starting], [RUNNING, RUNNING]])
    monkeypatch.setattr(inspection, "properties", lambda _names: next(results))

    assert all(check.ok for check in inspection.check_units(["a.service", "b.service"]))


def test_a_unit_whose_start_is_queued_is_checked_again(monkeypatch):
    """After a boot, units wait in systemd's queue until those before them have started."""
    monkeypatch.setattr(inspection, "POLL_INTERVAL_S", 0)
    queued = RUNNING | {"ActiveState": "inactive", "Job": "412"}
    results = iter([[queued], [RUNNING | {"Job": "0"}]])
    monkeypatch.setattr(inspection, "properties", lambda _names: next(results))

    (check,) = inspection.check_units(["a.service"])

    assert check.ok


def test_a_slow_host_is_waited_for_until_60_s_after_the_last_start_of_its_units(monkeypatch):
    states = [
        RUNNING | {"ActiveEnterTimestampMonotonic": "90000000"},
        RUNNING | {"ActiveEnterTimestampMonotonic": "80000000"},
    ]
    monkeypatch.setattr(inspection, "properties", lambda _names: states)

    assert inspection.startup_deadline(["a.service", "b.service"]) == 150.0


def test_commands_are_not_repeated_for_units_that_do_not_run(monkeypatch):
    failed = {"ActiveState": "failed", "ActiveEnterTimestampMonotonic": "90000000"}
    monkeypatch.setattr(inspection, "properties", lambda _names: [failed, {"LoadState": "x"}])

    assert inspection.startup_deadline(["a.service", "b.service"]) == 0.0
    assert inspection.startup_deadline([]) == 0.0


def test_a_unit_that_never_finishes_its_start_is_reported(monkeypatch):
    monkeypatch.setattr(inspection, "START_TIMEOUT_S", 0)
    monkeypatch.setattr(
        inspection, "properties", lambda _names: [RUNNING | {"ActiveState": "activating"}]
    )

    (check,) = inspection.check_units(["a.service"])

    assert not check.ok


def test_units_are_reported_as_stopped_without_systemd(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")

    first, second = inspection.check_units(["a.service", "b.service"])

    assert not first.ok
    assert not second.ok


def test_an_absent_file_is_reported(tmp_path):
    check = inspection.check_file({"path": str(tmp_path / "key")})

    assert not check.ok
    assert check.seen == "No such file or directory"


def test_all_faults_of_a_file_are_reported(tmp_path):
    path = tmp_path / "key"
    path.touch()
    path.chmod(0o644)

    check = inspection.check_file({"path": str(path), "owner": "nobody-here", "mode": "0600"})

    assert not check.ok
    assert check.seen == f"owner is {getpass.getuser()}, mode is 0644"


def test_a_correct_file_is_accepted(tmp_path):
    path = tmp_path / "key"
    path.touch()
    path.chmod(0o600)

    assert inspection.check_file({"path": str(path), "owner": getpass.getuser(), "mode": "0600"}).ok


def test_a_missing_command_is_reported():
    check = inspection.check_command(command("/nonexistent/program"))

    assert not check.ok
    assert check.who == "grid"
    assert check.hint == "Run it again."
    assert check.seen == '/nonexistent/program exited 127: "No such file or directory"'


def test_a_failed_command_is_reported_with_its_output():
    assert (
        inspection.check_command(command("sh", "-c", "echo no >&2; exit 3")).seen
        == 'sh exited 3: "no"'
    )


def test_a_command_that_does_not_end_is_reported(monkeypatch):
    monkeypatch.setattr(inspection, "COMMAND_TIMEOUT_S", 0.1)

    assert (
        inspection.check_command(command("sleep", "60")).seen
        == 'sleep exited 124: "not finished within 0.1 s"'
    )


def test_a_check_names_every_expected_pattern_that_the_output_lacks():
    assert (
        inspection.check_command(command("echo", "b", expect=["^a", "^b", "c$"])).seen
        == 'echo does not print ^a, c$: "b"'
    )


def test_a_check_names_every_forbidden_line_of_the_output():
    """The pattern forbids lines that do not end with idle."""
    check = inspection.check_command(
        command("printf", "n1 idle\\nn2 down\\nn3 drain\\n", refuse=["^(?!.* idle$).+$"])
    )

    assert check.seen == "printf prints n2 down, n3 drain"


def test_a_command_is_repeated_until_it_succeeds(tmp_path, monkeypatch):
    monkeypatch.setattr(inspection, "POLL_INTERVAL_S", 0.01)
    fail_once = f"test -e {tmp_path}/file || {{ touch {tmp_path}/file; exit 1; }}"

    assert inspection.check_command(command("sh", "-c", fail_once, wait_s=10)).ok


def test_a_command_is_repeated_until_the_units_have_settled(tmp_path, monkeypatch):
    """The command has no time of its own, but a unit has just been started."""
    monkeypatch.setattr(inspection, "POLL_INTERVAL_S", 0)
    script = f"test -e {tmp_path}/ready || {{ touch {tmp_path}/ready; false; }}"

    check = inspection.check_command(command("sh", "-c", script), time.monotonic() + 60)

    assert check.ok


def test_a_command_runs_with_empty_input_and_the_c_locale():
    assert inspection.check_command(command("sh", "-c", "cat; echo $LC_ALL", expect=["^C$"])).ok


def test_the_failure_message_does_not_mention_passed_checks():
    checks = [
        inspection.Check("a", ok=True),
        inspection.Check("b", ok=False, seen="x"),
        inspection.Check("c", ok=False, seen="y"),
    ]

    assert inspection.failure_message(checks) == "2 of 3 checks failed: b: x; c: y"
    assert inspection.failure_message(checks[:1]) == ""
    assert os.linesep not in inspection.failure_message(checks)
