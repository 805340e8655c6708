# SPDX-License-Identifier: Apache-2.0
"""The strategy plugin: one interpreter for a whole run with Mitogen, the linear strategy without
it.
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
    - ansible.builtin.command: {argv: [sh, -c, "echo $PPID"]}
      register: first
    - ansible.builtin.command: {argv: [sh, -c, "echo $PPID"]}
      register: second
    - ansible.builtin.command: {argv: [python3, -c, "import os; print(*sorted(os.sched_getaffinity(0)))"]}
      register: processors
    - ansible.builtin.debug: {msg: "parents {{ first.stdout }} {{ second.stdout }}"}
    - ansible.builtin.debug: {msg: "processors {{ processors.stdout }};"}
"""
WITHOUT = "import sys; sys.modules['ansible_mitogen'] = None; "
MAIN = "from ansible.cli.playbook import main; sys.argv[0] = 'ansible-playbook'; main()"


@pytest.mark.parametrize("installed", [True, False])
def test_mitogen_reuses_one_interpreter_on_all_cpus(tmp_path, installed):
    playbook = tmp_path / "playbook.yml"
    playbook.write_text(PLAYBOOK)
    program = ("import sys; " if installed else WITHOUT) + MAIN

    result = subprocess.run(
        [sys.executable, "-c", program, "--inventory", "localhost,", playbook],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip

    assert result.returncode == 0, result.stdout + result.stderr
    first, second = re.search(r"parents (\d+) (\d+)", result.stdout).groups()
    assert (first == second) is installed
    (processors,) = re.findall(r"processors ([\d ]+);", result.stdout)
    assert {int(item) for item in processors.split()} == os.sched_getaffinity(0)
