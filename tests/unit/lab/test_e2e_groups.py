# SPDX-License-Identifier: Apache-2.0
"""The groups of tests/e2e, and the program tools/e2e, which runs the groups in rounds."""

import os
import re
import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]
FILES = {file.name: file.read_text() for file in (CHECKOUT / "tests/e2e").glob("test_*.py")}
# The groups of a round run at the same time.
ROUNDS = [{"chain", "slurm", "hosts"}, {"jobs", "steps", "site"}]
MARK = re.compile(r"^pytestmark = pytest\.mark\.(\w+)$", re.MULTILINE)


def read_groups():
    """Return the group of each file that has one, by the name of the file."""
    groups = {}
    for name, text in FILES.items():
        mark = MARK.search(text)
        if mark:
            groups[name] = mark[1]
    return groups


GROUPS = read_groups()


def test_tools_e2e_runs_each_group_and_the_files_without_a_group(tmp_path):
    record, fake_pytest = tmp_path / "record", tmp_path / "pytest"
    # The fifth argument is the expression of -m: a group, or "not" and all groups.
    fake_pytest.write_text(f'#!/bin/sh\necho "$5" >>{record}\n')
    fake_pytest.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"

    subprocess.run(
        ["tools/e2e"],
        cwd=CHECKOUT,
        env={**os.environ, "PATH": path},
        check=True,
        capture_output=True,
    )

    *groups, last_expression = record.read_text().splitlines()
    assert [set(groups[:3]), set(groups[3:])] == ROUNDS
    assert set(groups) == set(GROUPS.values())
    assert last_expression == "not (chain or slurm or hosts or jobs or steps or site)"


def test_tools_e2e_fails_if_a_group_fails(tmp_path):
    fake_pytest = tmp_path / "pytest"
    fake_pytest.write_text('#!/bin/sh\n[ "$5" != slurm ]\n')
    fake_pytest.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"

    result = subprocess.run(
        ["tools/e2e"], cwd=CHECKOUT, env={**os.environ, "PATH": path}, check=False
    )

    assert result.returncode == 1


def test_only_three_groups_submit_paid_jobs():
    # A test with the fixture ``grid`` pays customers and submits paid jobs.
    uses_grid = re.compile(r"^def .*\bgrid\b", re.MULTILINE)

    groups = set()
    for name, group in GROUPS.items():
        if uses_grid.search(FILES[name]):
            groups.add(group)
    assert groups == {"chain", "jobs", "steps"}
