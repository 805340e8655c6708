# SPDX-License-Identifier: Apache-2.0
"""Playbooks run by the real ansible-runner, on this machine, and what is told of them."""

from __future__ import annotations

import json
import os
import time

import pytest

from gridstead.adapters.ansible.events import difference, message, to_event
from gridstead.adapters.ansible.notes import to_notes
from gridstead.adapters.ansible.runs import AnsiblePlaybooks
from gridstead.adapters.run_records import RunRecordFiles
from gridstead.domain.playbook import (
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
from gridstead.domain.run_record import Circumstances, FailedTask, RunRecord
from gridstead.errors import UnexpectedOutput
from gridstead.ports.playbooks import Stop

SECRET = "topsecret"
PLAYBOOK = """
- name: Change things
  hosts: all
  gather_facts: false
  tasks:
    - name: Ensure the secret is there
      ansible.builtin.copy: {content: topsecret, dest: "{{ folder }}/secret", mode: "0600"}
      no_log: true
      notify: x_restart
    - name: Ensure the secrets are there
      ansible.builtin.debug: {msg: "topsecret {{ item }}"}
      changed_when: true
      loop: [one, two]
      no_log: true
    - name: Ensure the settings are there
      ansible.builtin.copy: {content: "size = 2\\n", dest: "{{ folder }}/settings", mode: "0600"}
    - name: Ensure it reports
      ansible.builtin.copy: {content: '{"looked_at": 1}', dest: "{{ site_report_file }}"}
      check_mode: false
      changed_when: false
  handlers:
    - name: Restart x
      ansible.builtin.command: {argv: ["true"]}
      changed_when: true
      listen: x_restart
    - name: Restart what another component has
      ansible.builtin.command: {argv: ["true"]}
      when: folder is undefined
      listen: x_restart
    - name: Remount y
      ansible.builtin.command: {argv: ["true"]}
      when: not ansible_check_mode
      listen: x_restart
"""
LONG = """
- name: Take long
  hosts: all
  gather_facts: false
  tasks:
    - name: Ensure something changes
      ansible.builtin.debug: {msg: changed}
      changed_when: true
      notify: x_restart
    - name: Ensure it lasts
      ansible.builtin.pause: {seconds: "{{ pause }}"}
      when: pause > 0
    - name: Ensure it works
      ansible.builtin.assert: {that: works, fail_msg: the unit is dead, quiet: true}
  handlers:
    - name: Restart x
      ansible.builtin.debug: {msg: restarted}
      listen: x_restart
"""


class Place:
    """A checkout with one playbook and one host, which is this machine."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "p.yml").write_text(PLAYBOOK)
        (folder / "long.yml").write_text(LONG)
        (folder / "settings").write_text("size = 1\n")
        self.stop = Stop()
        self.told = []

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
        def hear(event):
            self.told.append(event)
            notify(event)

        order = PlaybookRequest(
            playbook=playbook, inventory=self.inventory(**variables), check=check
        )
        return AnsiblePlaybooks(self.folder).run(order, notify=hear, stop=self.stop)


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """A run in check mode."""
    place = Place(tmp_path_factory.mktemp("checked"))
    return place, place.run(check=True)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_check_mode_tells_what_would_change_and_changes_nothing(checked):
    place, run = checked

    assert run.outcome is RunOutcome.SUCCEEDED
    assert [(one.host, one.task.name) for one in changes(run.events)] == [
        ("ash", "Ensure the secret is there"),
        ("ash", "Ensure the secrets are there"),
        ("ash", "Ensure the settings are there"),
    ]
    assert (place.folder / "settings").read_text() == "size = 1\n"
    assert not (place.folder / "secret").exists()


def test_a_handler_that_check_mode_keeps_from_running_is_told_one_whose_condition_is_false_is_not(
    checked,
):
    _, run = checked

    told = [
        event.task.name
        for event in run.events
        if isinstance(event, HostFinished) and event.task.is_handler
    ]
    assert told == ["Restart x", "Restart what another component has", "Remount y"]
    assert [str(one) for one in effects(run.events)] == ["restart x", "remount y"]


def test_differences_are_told_and_secrets_are_not(checked):
    _, run = checked

    settings = next(
        one for one in changes(run.events) if one.task.name == "Ensure the settings are there"
    )
    assert settings.diff.splitlines()[2:] == ["@@ -1 +1 @@", "-size = 1", "+size = 2"]
    assert settings.targets == (str(checked[0].folder / "settings"),)
    assert SECRET not in repr(run)
    assert SECRET not in repr(checked[0].told)


def test_what_the_playbook_reports_is_read(checked):
    assert checked[1].report == {"looked_at": 1}


def test_progress_is_told_as_it_comes(checked):
    place, _ = checked

    assert place.told[0] == PlayStarted(name="Change things")
    assert [event.task.name for event in place.told if isinstance(event, TaskStarted)][:2] == [
        "Ensure the secret is there",
        "Ensure the secrets are there",
    ]


def test_a_failure_tells_its_words_and_what_was_not_restarted(place):
    run = place.run(playbook="long.yml", works=False)

    assert run.outcome is RunOutcome.FAILED
    assert [(one.host, one.task.name, one.message) for one in failures(run.events)] == [
        ("ash", "Ensure it works", "the unit is dead")
    ]
    assert run.waiting == {"ash": ("x_restart",)}
    assert run.report is None


def test_one_wish_to_stop_lets_the_task_end_and_begins_no_other(place):
    def once_it_lasts(event):
        if isinstance(event, TaskStarted) and event.task.name == "Ensure it lasts":
            place.stop.request()

    run = place.run(playbook="long.yml", pause=3, notify=once_it_lasts)

    ended = [event.task.name for event in run.events if isinstance(event, HostFinished)]
    assert run.outcome is RunOutcome.INTERRUPTED
    assert ended[-1] == "Ensure it lasts"
    assert run.waiting == {"ash": ("x_restart",)}


def test_a_second_wish_interrupts_the_task(place):
    def twice_when_it_lasts(event):
        if isinstance(event, TaskStarted) and event.task.name == "Ensure it lasts":
            place.stop.request()
            place.stop.request()

    begin = time.monotonic()
    run = place.run(playbook="long.yml", pause=60, notify=twice_when_it_lasts)

    assert run.outcome is RunOutcome.INTERRUPTED
    assert time.monotonic() - begin < 40
    assert [event.task.name for event in run.events if isinstance(event, HostFinished)][
        -1
    ] != "Ensure it lasts"


def test_a_playbook_that_cannot_be_read_says_why(place):
    (place.folder / "broken.yml").write_text("- hosts: all\n  tasks: [{nothing.like.it: {}}]\n")

    run = place.run(playbook="broken.yml")

    assert run.outcome is RunOutcome.FAILED
    assert failures(run.events) == ()
    assert "nothing.like.it" in "".join(
        event.text for event in run.events if isinstance(event, PrintedText)
    )


def test_host_keys_are_checked_and_our_programs_come_first(place, monkeypatch):
    monkeypatch.delenv("ANSIBLE_HOST_KEY_CHECKING", raising=False)
    (place.folder / "p.yml").write_text(
        "- hosts: all\n  gather_facts: false\n  tasks:\n"
        "    - ansible.builtin.assert: {that: false, fail_msg: \"{{ lookup('env', 'ANSIBLE_HOST_KEY_CHECKING') }}\"}\n"
    )

    run = place.run()

    assert [one.message for one in failures(run.events)] == ["True"]


def test_a_loop_tells_why_each_item_failed_once():
    results = [
        {"failed": True, "msg": "a", "stderr": "b"},
        {"failed": True, "msg": "a"},
        {"msg": "fine"},
    ]

    assert message({"msg": "One or more items failed"}, results) == "a\nb"


def test_a_secret_failure_stays_secret():
    told = {
        "event": "runner_on_failed",
        "event_data": {"host": "a", "task": "x", "res": {"censored": "hidden", "msg": SECRET}},
    }

    assert "no_log" in to_event(told).message


def test_a_task_that_only_tells_of_a_change_says_which():
    result = {"changed": True, "msg": "KillWait: reconfigure"}
    data = {"host": "a", "task": "x", "task_action": "ansible.builtin.debug", "res": result}

    assert to_event({"event": "runner_on_ok", "event_data": data}).targets == (
        "KillWait: reconfigure",
    )


def test_a_unit_says_what_it_was_asked():
    arguments = {"invocation": {"module_args": {"name": "slurmd", "state": "restarted"}}}
    told = {
        "event": "runner_on_ok",
        "event_data": {
            "host": "a", "task": "x", "task_action": "ansible.builtin.systemd_service",
            "res": {"changed": True, **arguments},
        },
    }  # fmt: skip

    event = to_event(told)

    assert (event.outcome, event.targets, event.unit_state) == (
        TaskOutcome.CHANGED,
        ("slurmd",),
        "restarted",
    )


def test_a_daemon_says_what_was_due():
    """It is asked for no state: its files decide."""
    arguments = {
        "invocation": {"module_args": {"name": "gridstead-agent", "reads": [], "restart": True}}
    }
    told = {
        "event": "runner_on_ok",
        "event_data": {
            "host": "a", "task": "x", "task_action": "daemon",
            "res": {"changed": True, "state": "restarted", **arguments},
        },
    }  # fmt: skip

    event = to_event(told)

    assert (event.targets, event.unit_state) == (("gridstead-agent",), "restarted")


@pytest.mark.parametrize(
    ("diff", "lines"),
    [
        (["not a mapping"], []),
        ({"prepared": "-a\n+b"}, ["-a", "+b"]),
        ({"before": {"mode": "0644"}, "after": {"mode": "0600"}}, ["-mode: 0644", "+mode: 0600"]),
    ],
)
def test_differences_come_in_many_forms(diff, lines):
    found = difference(diff).splitlines()

    assert [line for line in found if not line.startswith(("---", "+++", "@@"))] == lines


def test_a_long_difference_is_cut():
    found = difference({"before": "", "after": "x\n" * 1000}).splitlines()

    assert len(found) == 201
    assert "803" in found[-1]


def test_handlers_whose_turn_came_wait_no_more():
    told = [
        {"kind": "changed", "host": "a", "task": "1", "waits": "x,y"},
        {"kind": "flushed", "host": "a"},
        {"kind": "changed", "host": "a", "task": "2", "waits": "z"},
        {"kind": "changed", "host": "b", "task": "2", "waits": ""},
    ]

    assert to_notes(told, check=False).waiting == {"a": ("z",)}
    assert to_notes(told, check=True).waiting == {}


def record(number, **more):
    at = Circumstances(by="me@here", commit="abc", started_at=number, ended_at=number + 1)
    return RunRecord(
        id=f"{number}-apply", command="apply", circumstances=at, inventory=None, limit=None,
        tags=None,
        outcome=RunOutcome.FAILED, changed={"a": ("x", "y")},
        failed=(FailedTask(host="a", task="z", message="no"),), waiting={"a": ("w",)}, **more,
    )  # fmt: skip


def test_records_are_read_as_they_were_kept_the_newest_first(tmp_path):
    records = RunRecordFiles(tmp_path / "state" / "runs")
    records.add(record(1))
    records.add(record(2))

    assert records.all() == (record(2), record(1))


def test_records_are_for_their_owner_alone(tmp_path):
    folder = tmp_path / "runs"
    RunRecordFiles(folder).add(record(1))

    modes = [path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())]
    assert modes == [0o700, 0o600]


def test_two_runs_of_one_second_are_both_kept(tmp_path):
    records = RunRecordFiles(tmp_path)
    records.add(record(1))
    records.add(record(1))

    assert records.all() == (record(1), record(1))


def test_a_damaged_record_is_shown_not_guessed(tmp_path):
    (tmp_path / "1-apply.json").write_text("{}")

    with pytest.raises(UnexpectedOutput, match="1-apply"):
        RunRecordFiles(tmp_path).all()


def test_nobody_has_kept_a_record_yet(tmp_path):
    assert RunRecordFiles(tmp_path / os.urandom(4).hex()).all() == ()
