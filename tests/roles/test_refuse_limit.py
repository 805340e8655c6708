# SPDX-License-Identifier: Apache-2.0
"""Playbooks that would be incomplete with --limit or --tags refuse these options."""

import subprocess

import pytest
from tests.roles.catalogue import ROOT

INVENTORY = "inventory/example"


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
    argv = [
        "ansible-playbook",
        f"--inventory={INVENTORY}",
        f"playbooks/{name}.yml",
        f"--limit={limit}",
    ]
    argv += ["-e", "nodes=gpu1 reason=disks"]

    result = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )

    said = " ".join(result.stdout.split())
    assert result.returncode == 2, said
    assert f'--limit is "{limit}", but ' in said
    assert "No host was changed. Run the playbook without --limit." in said
    tasks = [
        line.partition("[")[2].partition("]")[0]
        for line in result.stdout.splitlines()
        if line.startswith("TASK")
    ]
    assert tasks[-1] == "Refuse --limit"
    assert set(tasks[:-1]) <= {"Check the tags of the run"}


@pytest.mark.parametrize("name", ["add_node", "drain", "plan", "backup", "restore", "upgrade"])
def test_playbooks_without_tags_refuse_tags(name):
    argv = [
        "ansible-playbook",
        f"--inventory={INVENTORY}",
        f"playbooks/{name}.yml",
        "--tags=slurm_configure",
    ]

    result = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )

    said = " ".join(result.stdout.split())
    assert result.returncode == 2, said
    assert '--tags is "slurm_configure", but ' in said
    assert said.count("TASK [") == 2


def test_skipped_tags_are_accepted():
    """Molecule passes its own tags to every playbook."""
    argv = [
        "ansible-playbook",
        f"--inventory={INVENTORY}",
        "playbooks/refuse_limit.yml",
        "--skip-tags=molecule-notest",
    ]
    argv += ["-e", "__refuse_limit_because=whatever"]

    result = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )

    assert result.returncode == 0, result.stdout
