# SPDX-License-Identifier: Apache-2.0
"""Playbooks run by the real ansible-runner on this machine: events, reports and records."""

from __future__ import annotations

import json
import os
import time

import pytest

from gridstead.adapters.site.events import difference, message, to_event, to_task
from gridstead.adapters.site.notes import to_notes
from gridstead.adapters.site.run_records import RunRecordFiles
from gridstead.adapters.site.runs import AnsiblePlaybooks
from gridstead.domain.site.playbook import (
    HostFinished,
    PlaybookRequest,
    PlayStarted,
    PrintedText,
    RunOutcome,
    TaskOutcome,
    TaskStarted,
    changes,
    effects,
    failures,
)
from gridstead.domain.site.run_record import Circumstances, FailedTask, RunRecord
from gridstead.errors import UnexpectedOutput
from gridstead.ports.site import Stop

SECRET = "topsecret"
PLAYBOOK = """
- name: Change things
  hosts: all
  gather_facts: false
  tasks:
    - name: Write the secret
      ansible.builtin.copy: {content: topsecret, dest: "{{ folder }}/secret", mode: "0600"}
      no_log: true
      notify: x_restart
    - name: Print the secrets
      ansible.builtin.debug: {msg: "topsecret {{ item }}"}
      changed_when: true
      loop: [one, two]
      no_log: true
    - name: Write the settings
      ansible.builtin.copy: {content: "size = 2\\n", dest: "{{ folder }}/settings", mode: "0600"}
    - name: Write the report
      ansible.builtin.copy: {content: '{"looked_at": 1}', dest: "{{ site_report_file }}"}
      check_mode: false
      changed_when: false
  handlers:
    - name: Restart x
      ansible.builtin.command: {argv: ["true"]}
      changed_when: true
      listen: x_restart
    - name: Restart z
      ansible.builtin.command: {argv: ["true"]}
      when: folder is undefined
      listen: x_restart
    - name: Remount y
      ansible.builtin.command: {argv: ["true"]}
      when: not ansible_check_mode
      listen: x_restart
"""
LONG = """
- name: Run a long task
  hosts: all
  gather_facts: false
  tasks:
    - name: Change something
      ansible.builtin.debug: {msg: changed}
      changed_when: true
      notify: x_restart
    - name: Pause
      ansible.builtin.pause: {seconds: "{{ pause }}"}
      when: pause > 0
    - name: Check that it works
      ansible.builtin.assert: {that: works, fail_msg: the unit is dead, quiet: true}
  handlers:
    - name: Restart x
      ansible.builtin.debug: {msg: restarted}
      listen: x_restart
"""


class Checkout:
    """A checkout with playbooks and one host, which is this machine."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "p.yml").write_text(PLAYBOOK)
        (folder / "long.yml").write_text(LONG)
        (folder / "settings").write_text("size = 1\n")
        self.stop = Stop()
        self.events = []

    def inventory(self, **variables):
        here = {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        }
        known = {"folder": str(self.folder), "pause": 0, "works": True, **here, **variables}
        path = self.folder / "hosts.json"
        path.write_text(json.dumps({"all": {"hosts": {"ash": known}}}))
        return str(path)

    def run(self, *, check=False, playbook="p.yml", notify=lambda _event: None, **variables):
        def record_event(event):
            self.events.append(event)
            notify(event)

        request = PlaybookRequest(
            playbook=playbook, inventory=self.inventory(**variables), check=check
        )
        return AnsiblePlaybooks(self.folder).run(request, notify=record_event, stop=self.stop)


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """Return a checkout and its run in check mode."""
    checkout = Checkout(tmp_path_factory.mktemp("checked"))
    return checkout, checkout.run(check=True)


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def test_check_mode_reports_changes_and_makes_none(checked):
    checkout, run = checked

    assert run.outcome is RunOutcome.SUCCEEDED
    assert [(change.host, change.task.name) for change in changes(run.events)] == [
        ("ash", "Write the secret"),
        ("ash", "Print the secrets"),
        ("ash", "Write the settings"),
    ]
    assert (checkout.folder / "settings").read_text() == "size = 1\n"
    assert not (checkout.folder / "secret").exists()


def test_effects_include_handlers_skipped_by_check_mode_only(
    checked,
):
    _, run = checked

    handlers = [
        event.task.name
        for event in run.events
        if isinstance(event, HostFinished) and event.task.is_handler
    ]
    assert handlers == ["Restart x", "Restart z", "Remount y"]
    assert [str(effect) for effect in effects(run.events)] == ["restart x", "remount y"]


def test_differences_are_reported_without_secrets(checked):
    _, run = checked

    settings = next(
        change for change in changes(run.events) if change.task.name == "Write the settings"
    )
    assert settings.diff.splitlines()[2:] == ["@@ -1 +1 @@", "-size = 1", "+size = 2"]
    assert settings.targets == (str(checked[0].folder / "settings"),)
    assert SECRET not in repr(run)
    assert SECRET not in repr(checked[0].events)


def test_the_report_file_of_a_playbook_is_read(checked):
    assert checked[1].report == {"looked_at": 1}


def test_events_are_passed_on_during_the_run(checked):
    checkout, _ = checked

    assert checkout.events[0] == PlayStarted(name="Change things")
    assert [event.task.name for event in checkout.events if isinstance(event, TaskStarted)][:2] == [
        "Write the secret",
        "Print the secrets",
    ]


def test_a_failed_run_has_its_message_and_pending_handlers(checkout):
    run = checkout.run(playbook="long.yml", works=False)

    assert run.outcome is RunOutcome.FAILED
    assert [
        (failure.host, failure.task.name, failure.message) for failure in failures(run.events)
    ] == [("ash", "Check that it works", "the unit is dead")]
    assert run.waiting == {"ash": ("x_restart",)}
    assert run.report is None


def test_the_first_stop_ends_the_run_after_the_current_task(checkout):
    def stop_at_pause(event):
        if isinstance(event, TaskStarted) and event.task.name == "Pause":
            checkout.stop.request()

    run = checkout.run(playbook="long.yml", pause=3, notify=stop_at_pause)

    ended = [event.task.name for event in run.events if isinstance(event, HostFinished)]
    assert run.outcome is RunOutcome.INTERRUPTED
    assert ended[-1] == "Pause"
    assert run.waiting == {"ash": ("x_restart",)}


def test_the_second_stop_interrupts_the_current_task(checkout):
    def stop_twice_at_pause(event):
        if isinstance(event, TaskStarted) and event.task.name == "Pause":
            checkout.stop.request()
            checkout.stop.request()

    start = time.monotonic()
    run = checkout.run(playbook="long.yml", pause=60, notify=stop_twice_at_pause)

    assert run.outcome is RunOutcome.INTERRUPTED
    assert time.monotonic() - start < 40
    assert [event.task.name for event in run.events if isinstance(event, HostFinished)][
        -1
    ] != "Pause"


def test_an_invalid_playbook_prints_the_reason(checkout):
    (checkout.folder / "broken.yml").write_text("- hosts: all\n  tasks: [{nothing.like.it: {}}]\n")

    run = checkout.run(playbook="broken.yml")

    assert run.outcome is RunOutcome.FAILED
    assert failures(run.events) == ()
    assert "nothing.like.it" in "".join(
        event.text for event in run.events if isinstance(event, PrintedText)
    )


def test_host_key_checking_is_on(checkout, monkeypatch):
    monkeypatch.delenv("ANSIBLE_HOST_KEY_CHECKING", raising=False)
    (checkout.folder / "p.yml").write_text(
        "- hosts: all\n  gather_facts: false\n  tasks:\n"
        "    - ansible.builtin.fail: {msg: \"{{ lookup('env', 'ANSIBLE_HOST_KEY_CHECKING') }}\"}\n"
    )

    run = checkout.run()

    assert [failure.message for failure in failures(run.events)] == ["True"]


def test_the_message_of_a_loop_contains_each_failure_once():
    results = [
        {"failed": True, "msg": "a", "stderr": "b"},
        {"failed": True, "msg": "a"},
        {"msg": "fine"},
    ]

    assert message({"msg": "One or more items failed"}, results) == "a\nb"


def test_the_message_of_a_secret_task_is_hidden():
    raw_event = {
        "event": "runner_on_failed",
        "event_data": {"host": "a", "task": "x", "res": {"censored": "hidden", "msg": SECRET}},
    }

    message = to_event(raw_event).message
    assert "no_log" in message
    assert SECRET not in message


def test_the_target_of_a_debug_task_is_its_message():
    result = {"changed": True, "msg": "KillWait: reconfigure"}
    data = {"host": "a", "task": "x", "task_action": "ansible.builtin.debug", "res": result}

    assert to_event({"event": "runner_on_ok", "event_data": data}).targets == (
        "KillWait: reconfigure",
    )


def test_the_state_of_a_systemd_task_is_the_requested_one():
    arguments = {"invocation": {"module_args": {"name": "slurmd", "state": "restarted"}}}
    raw_event = {
        "event": "runner_on_ok",
        "event_data": {
            "host": "a", "task": "x", "task_action": "ansible.builtin.systemd_service",
            "res": {"changed": True, **arguments},
        },
    }  # fmt: skip

    event = to_event(raw_event)

    assert (event.outcome, event.targets, event.unit_state) == (
        TaskOutcome.CHANGED,
        ("slurmd",),
        "restarted",
    )


def test_the_state_of_a_daemon_task_is_the_resulting_one():
    """The module has no requested state: it compares the daemon with its files."""
    arguments = {
        "invocation": {"module_args": {"name": "gridstead-agent", "reads": [], "restart": True}}
    }
    raw_event = {
        "event": "runner_on_ok",
        "event_data": {
            "host": "a", "task": "x", "task_action": "daemon",
            "res": {"changed": True, "state": "restarted", **arguments},
        },
    }  # fmt: skip

    event = to_event(raw_event)

    assert (event.targets, event.unit_state) == (("gridstead-agent",), "restarted")


@pytest.mark.parametrize(
    ("role", "name"), [("gridstead.site.base", "base"), ("base", "base"), (None, "")]
)
def test_a_role_is_named_without_the_collection(role, name):
    assert to_task({"task": "Write /etc/hosts", "role": role}).role == name


@pytest.mark.parametrize(
    ("diff", "lines"),
    [
        (["not a mapping"], []),
        ({"prepared": "-a\n+b"}, ["-a", "+b"]),
        ({"before": {"mode": "0644"}, "after": {"mode": "0600"}}, ["-mode: 0644", "+mode: 0600"]),
    ],
)
def test_differences_are_read_in_every_form(diff, lines):
    text = difference(diff).splitlines()

    assert [line for line in text if not line.startswith(("---", "+++", "@@"))] == lines


def test_a_long_difference_is_truncated():
    text = difference({"before": "", "after": "x\n" * 1000}).splitlines()

    assert len(text) == 201
    assert "803" in text[-1]


def test_flushed_handlers_are_not_pending():
    notes = [
        {"kind": "changed", "host": "a", "task": "1", "waits": "x,y"},
        {"kind": "flushed", "host": "a"},
        {"kind": "changed", "host": "a", "task": "2", "waits": "z"},
        {"kind": "changed", "host": "b", "task": "2", "waits": ""},
    ]

    assert to_notes(notes, check=False).waiting == {"a": ("z",)}
    assert to_notes(notes, check=True).waiting == {}


def record(number, **more):
    circumstances = Circumstances(
        by="me@here", commit="abc", started_at=number, ended_at=number + 1
    )
    return RunRecord(
        id=f"{number}-apply", command="apply", circumstances=circumstances,
        inventory=None, limit=None, tags=None,
        outcome=RunOutcome.FAILED, changed={"a": ("x", "y")},
        failed=(FailedTask(host="a", task="z", message="no"),), waiting={"a": ("w",)}, **more,
    )  # fmt: skip


def test_records_are_read_newest_first(tmp_path):
    records = RunRecordFiles(tmp_path / "state" / "runs")
    records.add(record(1))
    records.add(record(2))

    assert records.all() == (record(2), record(1))


def test_records_are_readable_by_their_owner_only(tmp_path):
    folder = tmp_path / "runs"
    RunRecordFiles(folder).add(record(1))

    modes = [path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())]
    assert modes == [0o700, 0o600]


def test_two_runs_in_the_same_second_are_both_stored(tmp_path):
    records = RunRecordFiles(tmp_path)
    records.add(record(1))
    records.add(record(1))

    assert records.all() == (record(1), record(1))


def test_a_damaged_record_raises_unexpected_output(tmp_path):
    (tmp_path / "1-apply.json").write_text("{}")

    with pytest.raises(UnexpectedOutput, match="1-apply"):
        RunRecordFiles(tmp_path).all()


def test_a_missing_folder_has_no_records(tmp_path):
    assert RunRecordFiles(tmp_path / os.urandom(4).hex()).all() == ()
