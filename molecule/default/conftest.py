# SPDX-License-Identifier: Apache-2.0
"""The fixtures of tests/e2e for the scenario's lab, and a fixture that runs playbooks."""

import os
import subprocess

import pytest
from tests.e2e.conftest import CHECKOUT, grid, lab  # noqa: F401 - fixtures

# Molecule enables colours, whose escape sequences would separate the words of the output.
PLAIN = {
    "ANSIBLE_FORCE_COLOR": "false",
    "ANSIBLE_NOCOLOR": "true",
    "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"),
}


@pytest.fixture(scope="session")
def play():
    """Return a function that runs a playbook and returns its exit code and its output."""

    def run(name, *options):
        argv = ["ansible-playbook", f"playbooks/{name}.yml", *options]
        # The ssh commands of the tests make the inherited stdin non-blocking. Ansible refuses that.
        streams = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
        done = subprocess.run(argv, cwd=CHECKOUT, env=os.environ | PLAIN, check=False, **streams)
        return done.returncode, done.stdout + done.stderr

    return run
