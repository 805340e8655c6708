# SPDX-License-Identifier: Apache-2.0
"""Test that check mode reports no changes on a complete site."""

import os
import subprocess
import sys
from pathlib import Path

SCENARIO = Path(os.environ["MOLECULE_SCENARIO_DIRECTORY"])


def test_check_mode_reports_no_changes():
    command = [
        sys.executable,
        "-m",
        "ansible.cli.playbook",
        f"--inventory={SCENARIO}/inventory/",
        "--check",
        "--diff",
        str(SCENARIO / "../../site.yml"),
    ]
    # Disable colours, which molecule enables. A coloured line starts with an escape sequence.
    environment = os.environ | {"ANSIBLE_FORCE_COLOR": "false", "ANSIBLE_NOCOLOR": "true"}

    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stdout[-3000:]
    lines = result.stdout.splitlines()
    changes = [line for line in lines if line.startswith(("changed:", "--- ", "+++ "))]
    assert not changes, result.stdout
