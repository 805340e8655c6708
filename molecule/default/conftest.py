# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the lab of scenario default: those of tests/e2e, and one that runs playbooks."""

import os
import subprocess

import pytest
from tests.e2e.conftest import CHECKOUT, grid, lab  # noqa: F401 - fixtures

# Settings that disable colours, which molecule enables. Colours add escape sequences to the output.
PLAIN_OUTPUT = {
    "ANSIBLE_FORCE_COLOR": "false",
    "ANSIBLE_NOCOLOR": "true",
    "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"),
}


@pytest.fixture(scope="session")
def run_playbook():
    """Return a function that runs a playbook and returns its exit code and its output."""

    def run(name, *options):
        argv = ["ansible-playbook", f"playbooks/{name}.yml", *options]
        # The ssh commands of the tests make the inherited stdin non-blocking. Ansible refuses a
        # non-blocking stdin.
        streams = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
        result = subprocess.run(
            argv, cwd=CHECKOUT, env=os.environ | PLAIN_OUTPUT, check=False, **streams
        )
        return result.returncode, result.stdout + result.stderr

    return run
