# SPDX-License-Identifier: Apache-2.0
"""The module of the roles' verification: units, files and commands on this machine."""

import getpass
import os

import pytest
from ansible_collections.gridstead.site.plugins.modules import inspection

RUNNING = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "UnitFileState": "enabled",
}


def asked(*argv, expect=(), refuse=(), wait_s=0):
    return {
        "what": "it says yes", "argv": list(argv), "expect": expect, "refuse": refuse, "wait_s": wait_s,
        "who": "grid", "hint": "Ask it again.",
    }  # fmt: skip


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
    look = inspection.unit("x.service", RUNNING | properties)

    assert (look.ok, look.seen, look.who) == (False, seen, "operator")
    assert "x.service" in look.hint


@pytest.mark.parametrize(
    "properties",
    [{}, {"UnitFileState": "static"}, {"ActiveState": "reloading"}, {"ActiveState": "refreshing"}],
)
def test_a_running_unit_is_accepted(properties):
    look = inspection.unit("x.service", RUNNING | properties)

    assert (look.ok, look.seen, look.hint) == (True, "", "")


def test_a_starting_unit_is_checked_again(monkeypatch):
    monkeypatch.setattr(inspection, "PAUSE_S", 0)
    answers = iter([[RUNNING, RUNNING | {"ActiveState": "activating"}], [RUNNING, RUNNING]])
    monkeypatch.setattr(inspection, "properties", lambda _names: next(answers))

    assert [look.ok for look in inspection.units(["a.service", "b.service"])] == [True, True]


def test_a_unit_that_never_finishes_its_start_is_reported(monkeypatch):
    monkeypatch.setattr(inspection, "START_TIMEOUT_S", 0)
    monkeypatch.setattr(
        inspection, "properties", lambda _names: [RUNNING | {"ActiveState": "activating"}]
    )

    assert [look.ok for look in inspection.units(["a.service"])] == [False]


def test_a_machine_without_systemd_has_no_unit_that_runs(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")

    assert [look.ok for look in inspection.units(["a.service", "b.service"])] == [False, False]


def test_an_absent_file_is_reported(tmp_path):
    look = inspection.file({"path": str(tmp_path / "key")})

    assert (look.ok, look.seen) == (False, "No such file or directory")


def test_all_faults_of_a_file_are_reported(tmp_path):
    path = tmp_path / "key"
    path.touch()
    path.chmod(0o644)

    look = inspection.file({"path": str(path), "owner": "nobody-here", "mode": "0600"})

    assert (look.ok, look.seen) == (False, f"owner is {getpass.getuser()}, mode is 0644")


def test_a_correct_file_is_accepted(tmp_path):
    path = tmp_path / "key"
    path.touch()
    path.chmod(0o600)

    assert inspection.file({"path": str(path), "owner": getpass.getuser(), "mode": "0600"}).ok


def test_a_missing_command_is_reported():
    look = inspection.command(asked("/nonexistent/program"))

    assert (look.ok, look.who, look.hint) == (False, "grid", "Ask it again.")
    assert look.seen == '/nonexistent/program exited 127: "No such file or directory"'


def test_a_failed_command_is_reported_with_its_output():
    assert inspection.command(asked("sh", "-c", "echo no >&2; exit 3")).seen == 'sh exited 3: "no"'


def test_a_command_that_does_not_end_is_reported(monkeypatch):
    monkeypatch.setattr(inspection, "COMMAND_TIMEOUT_S", 0.1)

    assert (
        inspection.command(asked("sleep", "60")).seen
        == 'sleep exited 124: "not finished within 0.1 s"'
    )


def test_every_pattern_that_is_missing_is_named():
    assert (
        inspection.command(asked("echo", "b", expect=["^a", "^b", "c$"])).seen
        == 'echo does not print ^a, c$: "b"'
    )


def test_every_forbidden_line_is_named():
    look = inspection.command(
        asked("printf", "n1 idle\\nn2 down\\nn3 drain\\n", refuse=["^(?!.* idle$).+$"])
    )

    assert look.seen == "printf prints n2 down, n3 drain"


def test_a_command_is_repeated_until_it_succeeds(tmp_path, monkeypatch):
    monkeypatch.setattr(inspection, "PAUSE_S", 0.01)
    second_time = f"test -e {tmp_path}/seen || {{ touch {tmp_path}/seen; exit 1; }}"

    assert inspection.command(asked("sh", "-c", second_time, wait_s=10)).ok


def test_a_command_has_no_input_and_an_english_locale():
    assert inspection.command(asked("sh", "-c", "cat; echo $LC_ALL", expect=["^C$"])).ok


def test_the_message_names_only_the_faults():
    looks = [
        inspection.Check("a", ok=True),
        inspection.Check("b", ok=False, seen="x"),
        inspection.Check("c", ok=False, seen="y"),
    ]

    assert inspection.failure_message(looks) == "2 of 3 checks failed: b: x; c: y"
    assert inspection.failure_message(looks[:1]) == ""
    assert os.linesep not in inspection.failure_message(looks)
