# SPDX-License-Identifier: Apache-2.0
"""Processes that remain after a run of the real ansible-runner.

As with ansible.cfg, one Python interpreter per host stays alive during a run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from gridstead.adapters.site.processes import end_processes
from gridstead.adapters.site.runs import AnsiblePlaybooks
from gridstead.domain.site.playbook import PlaybookRequest, RunOutcome
from gridstead.ports.site import Stop

COLLECTIONS = Path(__file__).parents[3] / ".collections"
CONFIGURATION = (
    f"[defaults]\ncollections_path = {COLLECTIONS}\nstrategy = gridstead.site.persistent\n"
)
HERE = {
    "ansible_connection": "local",
    "ansible_python_interpreter": "{{ ansible_playbook_python }}",
}
PLAYBOOK = """
- name: Run a long task
  hosts: all
  gather_facts: false
  tasks:
    - name: Run a long command
      ansible.builtin.shell: echo "$GRIDSTEAD_STOP" > new && mv new begun && exec sleep 300
      args: {chdir: "{{ playbook_dir }}"}
"""


class Once(Stop):
    """A stop while a task runs a program: two requests to stop, or a kill of Ansible."""

    def __init__(self, begun, *, kills):
        self._begun, self._kills = begun, kills

    @property
    def requests(self):
        if not self._begun.exists():
            return 0
        if self._kills:
            for pid in ansible_pids():
                os.kill(pid, signal.SIGKILL)
        return 0 if self._kills else 2


def ansible_pids():
    """Return the pids of ansible-playbook that this process ansible_pids."""
    pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [
        int(pid) for pid in pids if b"ansible-playbook" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def commands_with(word):
    """Return the commands of all processes with a word in their environment."""
    commands = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process ended, or belongs to another user
            if word.encode() in (process / "environ").read_bytes():
                commands.append((process / "cmdline").read_bytes())
    return commands


@pytest.mark.parametrize(
    ("kills", "outcome"), [(False, RunOutcome.INTERRUPTED), (True, RunOutcome.FAILED)]
)
def test_an_interrupted_or_killed_run_leaves_no_process(tmp_path, kills, outcome):
    (tmp_path / "long.yml").write_text(PLAYBOOK)
    (tmp_path / "ansible.cfg").write_text(CONFIGURATION)
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": {"ash": HERE}}}))
    request = PlaybookRequest(playbook="long.yml", inventory=str(tmp_path / "hosts.json"))
    begun = tmp_path / "begun"

    run = AnsiblePlaybooks(tmp_path).run(
        request, notify=lambda _event: None, stop=Once(begun, kills=kills)
    )

    assert run.outcome is outcome
    assert commands_with(begun.read_text().strip()) == []


def test_end_processes_needs_the_whole_environment_entry(tmp_path):
    entry = f"GRIDSTEAD_STOP={tmp_path}"
    matching, other = (
        subprocess.Popen(["sleep", "300"], env={"GRIDSTEAD_STOP": value})
        for value in (str(tmp_path), f"{tmp_path}/x")
    )

    assert end_processes(entry, within_s=-1) == (matching.pid,)  # returns before any has ended
    assert end_processes(entry, within_s=60) == ()

    assert matching.wait() == -signal.SIGKILL
    assert other.poll() is None
    other.kill()
    other.wait()
