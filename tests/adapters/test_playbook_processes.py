# SPDX-License-Identifier: Apache-2.0
"""What is left on this machine of a run by the real ansible-runner, whose interpreters persist as
in ansible.cfg.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from gridstead.adapters.ansible.processes import end_processes
from gridstead.adapters.ansible.runs import AnsiblePlaybooks
from gridstead.domain.playbook import PlaybookRequest, RunOutcome
from gridstead.ports.playbooks import Stop

STRATEGIES = Path(__file__).parents[2] / "playbooks/strategy_plugins"
CONFIGURATION = f"[defaults]\nstrategy_plugins = {STRATEGIES}\nstrategy = persistent\n"
HERE = {
    "ansible_connection": "local",
    "ansible_python_interpreter": "{{ ansible_playbook_python }}",
}
PLAYBOOK = """
- name: Take long
  hosts: all
  gather_facts: false
  tasks:
    - name: Ensure it lasts
      ansible.builtin.shell: echo "$GRIDSTEAD_STOP" > new && mv new begun && exec sleep 300
      args: {chdir: "{{ playbook_dir }}"}
"""


class Once(Stop):
    """A stop that comes when a task runs a program: as two requests, or as the death of Ansible."""

    def __init__(self, begun, *, kills):
        self._begun, self._kills = begun, kills

    @property
    def requests(self):
        if not self._begun.exists():
            return 0
        if self._kills:
            for pid in started():
                os.kill(pid, signal.SIGKILL)
        return 0 if self._kills else 2


def started():
    """Return the pids of ansible-playbook that this process started."""
    pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [
        int(pid) for pid in pids if b"ansible-playbook" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def knowing(word):
    """Return the commands of all processes with a word in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended, or is another user's
            if word.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes())
    return found


@pytest.mark.parametrize(
    ("kills", "outcome"), [(False, RunOutcome.INTERRUPTED), (True, RunOutcome.FAILED)]
)
def test_no_process_of_a_run_is_left_when_it_is_interrupted_or_ansible_killed(
    tmp_path, kills, outcome
):
    (tmp_path / "long.yml").write_text(PLAYBOOK)
    (tmp_path / "ansible.cfg").write_text(CONFIGURATION)
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": {"ash": HERE}}}))
    order = PlaybookRequest(playbook="long.yml", inventory=str(tmp_path / "hosts.json"))
    begun = tmp_path / "begun"

    run = AnsiblePlaybooks(tmp_path).run(
        order, notify=lambda _event: None, stop=Once(begun, kills=kills)
    )

    assert run.outcome is outcome
    assert knowing(begun.read_text().strip()) == []


def test_the_processes_with_an_entry_are_ended_and_those_with_more_of_it_are_not(tmp_path):
    entry = f"GRIDSTEAD_STOP={tmp_path}"
    ours, other = (
        subprocess.Popen(["sleep", "300"], env={"GRIDSTEAD_STOP": place})
        for place in (str(tmp_path), f"{tmp_path}/x")
    )

    assert end_processes(entry, within_s=-1) == (ours.pid,)  # no time to end any
    assert end_processes(entry, within_s=60) == ()

    assert ours.wait() == -signal.SIGKILL
    assert other.poll() is None
    other.kill()
    other.wait()
