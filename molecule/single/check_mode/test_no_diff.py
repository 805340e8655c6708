# SPDX-License-Identifier: Apache-2.0
"""A check of a site that stands has nothing to tell."""

import os
import subprocess
import sys
from pathlib import Path

SCENARIO = Path(os.environ["MOLECULE_SCENARIO_DIRECTORY"])


def test_a_check_of_a_site_has_nothing_to_tell():
    playbook = [
        sys.executable,
        "-m",
        "ansible.cli.playbook",
        f"--inventory={SCENARIO}/inventory/",
        "--check",
        "--diff",
    ]

    # Molecule asks for colours, before which no line begins as it is looked for.
    plain = os.environ | {"ANSIBLE_FORCE_COLOR": "false", "ANSIBLE_NOCOLOR": "true"}

    done = subprocess.run(
        [*playbook, str(SCENARIO / "../../site.yml")],
        env=plain,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-3000:]
    told = [
        line for line in done.stdout.splitlines() if line.startswith(("changed:", "--- ", "+++ "))
    ]
    assert not told, done.stdout
