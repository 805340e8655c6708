# SPDX-License-Identifier: Apache-2.0
"""Tests of the translation of ansible-runner's events and of the notes of our callback plugin."""

from __future__ import annotations

import pytest

from gridstead.adapters.site.events import message, to_event, to_task, to_unified_diff
from gridstead.adapters.site.notes import to_notes
from gridstead.domain.site.playbook import TaskOutcome

SECRET = "topsecret"


def test_message_of_a_loop_contains_each_failure_once():
    results = [
        {"failed": True, "msg": "a", "stderr": "b"},
        {"failed": True, "msg": "a"},
        {"msg": "fine"},
    ]

    assert message({"msg": "One or more items failed"}, results) == "a\nb"


def test_message_of_a_task_with_no_log_is_hidden():
    result = {"censored": "hidden", "msg": SECRET}
    event_data = {"host": "a", "task": "x", "res": result}

    message = to_event({"event": "runner_on_failed", "event_data": event_data}).message

    assert "no_log" in message
    assert SECRET not in message


def test_target_of_a_debug_task_is_its_message():
    result = {"changed": True, "msg": "KillWait: reconfigure"}
    event_data = {"host": "a", "task": "x", "task_action": "ansible.builtin.debug", "res": result}

    event = to_event({"event": "runner_on_ok", "event_data": event_data})

    assert event.targets == ("KillWait: reconfigure",)


def test_unit_state_of_a_systemd_task_is_the_requested_state():
    arguments = {"name": "slurmd", "state": "restarted"}
    result = {"changed": True, "invocation": {"module_args": arguments}}
    event_data = {
        "host": "a",
        "task": "x",
        "task_action": "ansible.builtin.systemd_service",
        "res": result,
    }

    event = to_event({"event": "runner_on_ok", "event_data": event_data})

    assert event.outcome is TaskOutcome.CHANGED
    assert event.targets == ("slurmd",)
    assert event.unit_state == "restarted"


def test_unit_state_of_a_daemon_task_is_the_resulting_state():
    """Module daemon has no argument ``state``. The module itself decides whether to restart."""
    arguments = {"name": "gridstead-agent", "reads": [], "restart": True}
    result = {"changed": True, "state": "restarted", "invocation": {"module_args": arguments}}
    event_data = {"host": "a", "task": "x", "task_action": "daemon", "res": result}

    event = to_event({"event": "runner_on_ok", "event_data": event_data})

    assert event.targets == ("gridstead-agent",)
    assert event.unit_state == "restarted"


@pytest.mark.parametrize(
    ("role", "name"), [("gridstead.site.base", "base"), ("base", "base"), (None, "")]
)
def test_role_is_named_without_its_collection(role, name):
    assert to_task({"task": "Write /etc/hosts", "role": role}).role == name


@pytest.mark.parametrize(
    ("diff", "lines"),
    [
        (["not a mapping"], []),
        ({"prepared": "-a\n+b"}, ["-a", "+b"]),
        ({"before": {"mode": "0644"}, "after": {"mode": "0600"}}, ["-mode: 0644", "+mode: 0600"]),
    ],
)
def test_diff_is_read_in_every_format_of_ansible(diff, lines):
    diff_lines = to_unified_diff(diff).splitlines()

    headers = ("---", "+++", "@@")
    assert [line for line in diff_lines if not line.startswith(headers)] == lines


def test_long_diff_is_truncated():
    diff_lines = to_unified_diff({"before": "", "after": "x\n" * 1000}).splitlines()

    assert len(diff_lines) == 201
    # The diff has 1003 lines: 3 header lines and 1000 added lines. 200 lines are kept. The last
    # line says how many lines were removed: 803.
    assert "803" in diff_lines[-1]


def test_flushed_handlers_are_not_pending():
    # "waits" names the handlers that the task has notified. A flush runs these handlers.
    notes = [
        {"kind": "changed", "host": "a", "task": "1", "waits": "x,y"},
        {"kind": "flushed", "host": "a"},
        {"kind": "changed", "host": "a", "task": "2", "waits": "z"},
        {"kind": "changed", "host": "b", "task": "2", "waits": ""},
    ]

    assert to_notes(notes, check=False).waiting == {"a": ("z",)}


def test_no_handler_is_pending_after_a_run_in_check_mode():
    notes = [{"kind": "changed", "host": "a", "task": "1", "waits": "x"}]

    assert to_notes(notes, check=True).waiting == {}
