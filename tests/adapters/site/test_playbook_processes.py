# SPDX-License-Identifier: Apache-2.0
"""Tests that no process remains after a run of the real ansible-runner.

The runs use the strategy of ansible.cfg, which keeps one Python interpreter per host alive.
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
LOCAL_HOST = {
    "ansible_connection": "local",
    "ansible_python_interpreter": "{{ ansible_playbook_python }}",
}
# The command writes the id of the run, which is in GRIDSTEAD_STOP, to the file started. Then it
# waits.
PLAYBOOK = """
- name: Run a long task
  hosts: all
  gather_facts: false
  tasks:
    - name: Run a long command
      ansible.builtin.shell: echo "$GRIDSTEAD_STOP" > new && mv new started && exec sleep 300
      args: {chdir: "{{ playbook_dir }}"}
"""


class StopWhileTaskRuns(Stop):
    """Requests a stop twice, after the command of the task has started.

    Args:
        start_file: The file that the command of the task creates.
    """

    def __init__(self, start_file):
        self._start_file = start_file

    @property
    def requests(self):
        return 2 if self._start_file.exists() else 0


class KillWhileTaskRuns(Stop):
    """Kills ansible-playbook after the command of the task has started. Requests no stop.

    Args:
        start_file: The file that the command of the task creates.
    """

    def __init__(self, start_file):
        self._start_file = start_file

    @property
    def requests(self):
        # AnsiblePlaybooks reads this property repeatedly while the playbook runs.
        if self._start_file.exists():
            for pid in ansible_pids():
                os.kill(pid, signal.SIGKILL)
        return 0


def ansible_pids():
    """Return the pids of the children of this process that run ansible-playbook."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in children if runs_ansible(pid)]


def runs_ansible(pid):
    return b"ansible-playbook" in Path(f"/proc/{pid}/cmdline").read_bytes()


def commands_with(word):
    """Return the command lines of all processes whose environment contains a word."""
    commands = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # The process ended, or belongs to another user.
            if word.encode() in (process / "environ").read_bytes():
                commands.append((process / "cmdline").read_bytes())
    return commands


@pytest.mark.parametrize(
    ("stop_class", "outcome"),
    [(StopWhileTaskRuns, RunOutcome.INTERRUPTED), (KillWhileTaskRuns, RunOutcome.FAILED)],
)
def test_stopped_or_killed_run_leaves_no_process(tmp_path, stop_class, outcome):
    (tmp_path / "long.yml").write_text(PLAYBOOK)
    (tmp_path / "ansible.cfg").write_text(CONFIGURATION)
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": {"host1": LOCAL_HOST}}}))
    request = PlaybookRequest(playbook="long.yml", inventory=str(tmp_path / "hosts.json"))
    start_file = tmp_path / "started"
    stop = stop_class(start_file)

    run = AnsiblePlaybooks(tmp_path).run(request, notify=lambda _event: None, stop=stop)

    assert run.outcome is outcome
    # The value of GRIDSTEAD_STOP, which every process of the run inherits.
    id_of_run = start_file.read_text().strip()
    assert commands_with(id_of_run) == []


def test_end_processes_compares_the_whole_environment_variable(tmp_path):
    variable = f"GRIDSTEAD_STOP={tmp_path}"
    matching_process = subprocess.Popen(["sleep", "300"], env={"GRIDSTEAD_STOP": str(tmp_path)})
    other_process = subprocess.Popen(["sleep", "300"], env={"GRIDSTEAD_STOP": f"{tmp_path}/x"})

    # The call returns before the process has ended.
    remaining_pids = end_processes(variable, timeout_s=-1)
    assert remaining_pids == (matching_process.pid,)
    assert end_processes(variable, timeout_s=60) == ()

    assert matching_process.wait() == -signal.SIGKILL
    assert other_process.poll() is None
    other_process.kill()
    other_process.wait()
