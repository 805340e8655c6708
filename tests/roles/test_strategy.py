# SPDX-License-Identifier: Apache-2.0
"""The strategy plugin. With Mitogen, one Python process on the host runs all tasks of a run.

The playbook prints the parent process of two commands, and the CPUs that a command may use.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

PLAYBOOK = """\
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.command:
        argv: [sh, -c, "echo $PPID"]
      register: first
    - ansible.builtin.command:
        argv: [sh, -c, "echo $PPID"]
      register: second
    - ansible.builtin.command:
        argv: [python3, -c, "import os; print(*sorted(os.sched_getaffinity(0)))"]
      register: processors
    - ansible.builtin.debug:
        msg: "parents {{ first.stdout }} {{ second.stdout }}"
    - ansible.builtin.debug:
        msg: "processors {{ processors.stdout }};"
"""
MAIN = """
import sys
from ansible.cli.playbook import main
sys.argv[0] = "ansible-playbook"
main()
"""
WITHOUT_MITOGEN = f"""
import sys
sys.modules["ansible_mitogen"] = None
{MAIN}
"""


@pytest.mark.parametrize(("program", "has_mitogen"), [(MAIN, True), (WITHOUT_MITOGEN, False)])
def test_tasks_share_one_interpreter_only_with_mitogen_and_may_use_all_cpus(
    tmp_path, program, has_mitogen
):
    playbook = tmp_path / "playbook.yml"
    playbook.write_text(PLAYBOOK)

    result = subprocess.run(
        [sys.executable, "-c", program, "--inventory", "localhost,", playbook],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert result.returncode == 0, result.stdout + result.stderr
    first_parent, second_parent = re.search(r"parents (\d+) (\d+)", result.stdout).groups()
    assert (first_parent == second_parent) is has_mitogen
    (processors,) = re.findall(r"processors ([\d ]+);", result.stdout)
    assert set(map(int, processors.split())) == os.sched_getaffinity(0)
