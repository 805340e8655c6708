# SPDX-License-Identifier: Apache-2.0
"""Tests of playbook runs with the real ansible-runner on this host."""

from __future__ import annotations

import json
import time

import pytest

from gridstead.adapters.site.runs import AnsiblePlaybooks
from gridstead.domain.site.playbook import (
    HostFinished,
    PlaybookRequest,
    PlayStarted,
    PrintedText,
    RunOutcome,
    TaskStarted,
    changes,
    effects,
    failures,
)
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
LONG_PLAYBOOK = """
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
    """A checkout with two playbooks, and an inventory with one host: this machine."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "p.yml").write_text(PLAYBOOK)
        (folder / "long.yml").write_text(LONG_PLAYBOOK)
        (folder / "settings").write_text("size = 1\n")
        self.stop = Stop()
        self.events = []

    def inventory(self, **variables):
        """Write the inventory and return its path."""
        defaults = {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "folder": str(self.folder),
            "pause": 0,
            "works": True,
        }
        path = self.folder / "hosts.json"
        path.write_text(json.dumps({"all": {"hosts": {"host1": defaults | variables}}}))
        return str(path)

    def run(self, *, check=False, playbook="p.yml", notify=lambda _event: None, **variables):
        """Run a playbook with these variables of the host. Keep the events in ``self.events``."""

        def record_event(event):
            self.events.append(event)
            notify(event)

        request = PlaybookRequest(
            playbook=playbook, inventory=self.inventory(**variables), check=check
        )
        return AnsiblePlaybooks(self.folder).run(request, notify=record_event, stop=self.stop)


@pytest.fixture(scope="module")
def checkout_and_run(tmp_path_factory):
    """Return a checkout, and the result of a run of the checkout's playbook in check mode."""
    checkout = Checkout(tmp_path_factory.mktemp("checked"))
    run = checkout.run(check=True)
    return checkout, run


def task_names(events, event_type):
    """Return the names of the tasks of all events of a type."""
    return [event.task.name for event in events if isinstance(event, event_type)]


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def test_check_mode_reports_changes_without_making_them(checkout_and_run):
    checkout, run = checkout_and_run

    assert run.outcome is RunOutcome.SUCCEEDED
    assert {change.host for change in changes(run.events)} == {"host1"}
    assert [change.task.name for change in changes(run.events)] == [
        "Write the secret",
        "Print the secrets",
        "Write the settings",
    ]
    assert (checkout.folder / "settings").read_text() == "size = 1\n"
    assert not (checkout.folder / "secret").exists()


def test_effects_include_handlers_that_are_skipped_because_of_check_mode(checkout_and_run):
    _, run = checkout_and_run

    finished_events = [event for event in run.events if isinstance(event, HostFinished)]
    handlers = [event.task.name for event in finished_events if event.task.is_handler]
    assert handlers == ["Restart x", "Restart z", "Remount y"]
    # Restart z is no effect, because it is also skipped outside check mode.
    assert [str(effect) for effect in effects(run.events)] == ["restart x", "remount y"]


def test_change_of_a_file_has_its_path_and_diff(checkout_and_run):
    checkout, run = checkout_and_run

    change = changes(run.events)[-1]
    assert change.task.name == "Write the settings"
    assert change.diff.splitlines()[2:] == ["@@ -1 +1 @@", "-size = 1", "+size = 2"]
    assert change.targets == (str(checkout.folder / "settings"),)


def test_events_contain_no_secrets(checkout_and_run):
    checkout, run = checkout_and_run

    assert SECRET not in repr(run)
    assert SECRET not in repr(checkout.events)


def test_report_file_of_a_playbook_is_read(checkout_and_run):
    _, run = checkout_and_run

    assert run.report == {"looked_at": 1}


def test_notify_receives_events_during_the_run(checkout_and_run):
    checkout, _ = checkout_and_run

    assert checkout.events[0] == PlayStarted(name="Change things")
    first_tasks = task_names(checkout.events, TaskStarted)[:2]
    assert first_tasks == ["Write the secret", "Print the secrets"]


def test_failed_run_has_a_message_and_pending_handlers(checkout):
    run = checkout.run(playbook="long.yml", works=False)

    assert run.outcome is RunOutcome.FAILED
    (failure,) = failures(run.events)
    assert failure.host == "host1"
    assert failure.task.name == "Check that it works"
    assert failure.message == "the unit is dead"
    assert run.waiting == {"host1": ("x_restart",)}
    assert run.report is None


def test_first_stop_request_ends_the_run_after_the_current_task(checkout):
    def stop_at_pause(event):
        if isinstance(event, TaskStarted) and event.task.name == "Pause":
            checkout.stop.request()

    run = checkout.run(playbook="long.yml", pause=3, notify=stop_at_pause)

    assert run.outcome is RunOutcome.INTERRUPTED
    assert task_names(run.events, HostFinished)[-1] == "Pause"
    assert run.waiting == {"host1": ("x_restart",)}


def test_second_stop_request_interrupts_the_current_task(checkout):
    def stop_twice_at_pause(event):
        if isinstance(event, TaskStarted) and event.task.name == "Pause":
            checkout.stop.request()
            checkout.stop.request()

    started_at_s = time.monotonic()
    run = checkout.run(playbook="long.yml", pause=400, notify=stop_twice_at_pause)

    assert run.outcome is RunOutcome.INTERRUPTED
    assert time.monotonic() - started_at_s < 300
    assert task_names(run.events, HostFinished)[-1] != "Pause"


def test_invalid_playbook_prints_the_reason(checkout):
    (checkout.folder / "broken.yml").write_text("- hosts: all\n  tasks: [{no.such.module: {}}]\n")

    run = checkout.run(playbook="broken.yml")

    assert run.outcome is RunOutcome.FAILED
    assert failures(run.events) == ()
    output = "".join(event.text for event in run.events if isinstance(event, PrintedText))
    assert "no.such.module" in output


def test_host_key_checking_is_on(checkout, monkeypatch):
    monkeypatch.delenv("ANSIBLE_HOST_KEY_CHECKING", raising=False)
    (checkout.folder / "p.yml").write_text(
        "- hosts: all\n  gather_facts: false\n  tasks:\n"
        "    - ansible.builtin.fail: {msg: \"{{ lookup('env', 'ANSIBLE_HOST_KEY_CHECKING') }}\"}\n"
    )

    run = checkout.run()

    (failure,) = failures(run.events)
    assert failure.message == "True"
