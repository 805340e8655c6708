# SPDX-License-Identifier: Apache-2.0
"""The scenario's lab and the grid on it, as the tests of the whole grid have them, and its
playbooks.
"""

import os
import subprocess

import pytest
from tests.e2e.conftest import CHECKOUT, grid, lab  # noqa: F401 - fixtures

# Molecule asks for colours, which would be between the words that are looked for.
PLAIN = {
    "ANSIBLE_FORCE_COLOR": "false",
    "ANSIBLE_NOCOLOR": "true",
    "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"),
}


@pytest.fixture(scope="session")
def play():
    """Return a function: a playbook's name and options in, its exit code and what it said out."""

    def run(name, *words):
        argv = ["ansible-playbook", f"playbooks/{name}.yml", *words]
        # Ansible refuses an input that does not block, as ssh makes ours meanwhile.
        streams = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
        done = subprocess.run(argv, cwd=CHECKOUT, env=os.environ | PLAIN, check=False, **streams)
        return done.returncode, done.stdout + done.stderr

    return run
