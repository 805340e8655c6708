# SPDX-License-Identifier: Apache-2.0
"""gridstead-first-job-id sets Slurm's first job id, so that no job id is used twice.

The program runs before slurmctld starts. It reads the used ids from the names of the folders in
slurmctld's state. From 67,000,000 the ids start again at 1.
"""

import subprocess

import pytest
from tests.roles.catalogue import Role

PROGRAM = Role("slurm").path / "files/usr/local/sbin/gridstead-first-job-id"


@pytest.fixture
def read_first_job_id(tmp_path):
    """A function that creates the folders of jobs, runs the program and returns its output."""

    def run(*ids):
        state = tmp_path / "state"
        file = tmp_path / "first_job_id.conf"
        state.mkdir()
        for job_id in ids:
            (state / f"hash.{job_id[-1]}" / f"job.{job_id}").mkdir(parents=True)
        subprocess.run([PROGRAM, state, file], check=True)
        assert file.stat().st_mode & 0o777 == 0o644
        return file.read_text()

    return run


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ((), 1),
        (("9", "10"), 11),
        (("999", "1000", "31"), 1001),
        (("7", "8.old", "x9"), 8),
        (("67000000",), 1),
        (("66999998",), 66_999_999),
    ],
)
def test_job_ids_continue_after_the_highest_id_with_a_folder(read_first_job_id, ids, expected):
    assert read_first_job_id(*ids) == f"FirstJobId={expected}\n"
