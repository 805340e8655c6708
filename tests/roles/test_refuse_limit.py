# SPDX-License-Identifier: Apache-2.0
"""Playbooks that would be incomplete with --limit or --tags refuse these options."""

import re
import subprocess

import pytest
from tests.roles.catalogue import ROOT

pytestmark = pytest.mark.slow


def run_playbook(name, *options):
    """Run a playbook on the example inventory and return the result of Ansible."""
    argv = ["ansible-playbook", "--inventory=inventory/example", f"playbooks/{name}.yml", *options]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("add_node", "gpu1"),
        ("drain", "gpu1"),
        ("plan", "gpu1"),
        ("backup", "gpu1"),
        ("restore", "gpu1"),
        ("upgrade", "gpu1"),
        ("rotate", "gpu1"),
        ("authority", "localhost,gpu1"),
    ],
)
def test_playbooks_that_need_all_hosts_refuse_limit(name, limit):
    result = run_playbook(name, f"--limit={limit}", "-e", "nodes=gpu1 reason=disks")

    output = " ".join(result.stdout.split())
    assert result.returncode == 2, output
    assert f'--limit is "{limit}", but ' in output
    assert "No host was changed. Run the playbook without --limit." in output
    tasks = re.findall(r"^TASK \[(.*)\]", result.stdout, re.MULTILINE)
    assert tasks[-1] == "Refuse --limit"
    assert set(tasks[:-1]) <= {"Check that --tags and --skip-tags are allowed"}


@pytest.mark.parametrize("name", ["add_node", "drain", "plan", "backup", "restore", "upgrade"])
def test_playbooks_without_tags_refuse_tags(name):
    result = run_playbook(name, "--tags=slurm_configure")

    output = " ".join(result.stdout.split())
    assert result.returncode == 2, output
    assert '--tags is "slurm_configure", but ' in output
    assert output.count("TASK [") == 2


def test_skipped_tags_are_accepted():
    """Molecule runs every playbook with --skip-tags and Molecule's own tags."""
    options = ["--skip-tags=molecule-notest", "-e", "__refuse_limit_because=test"]

    result = run_playbook("refuse_limit", *options)

    assert result.returncode == 0, result.stdout
