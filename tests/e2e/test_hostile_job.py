# SPDX-License-Identifier: Apache-2.0
"""A test with a paid job that attacks the site. The site refuses every attempt of the job."""

import json
import secrets
from pathlib import Path

import pytest
from tests.e2e.conftest import slurm_job_name

pytestmark = pytest.mark.jobs

PROGRAM = Path(__file__).with_name("hostile_job.py").read_text()
# The argument is the id of a Slurm job.
PRINT_REPORTED_ENDS = """
import json, sqlite3, sys
database = sqlite3.connect("file:/var/lib/gridstead/agent/reports.db?mode=ro", uri=True)
query = "SELECT at FROM report WHERE event = 'end' AND slurm_job_id = ?"
print(json.dumps([row[0] for row in database.execute(query, sys.argv[1:])]))
"""


@pytest.fixture(scope="module")
def victim(grid):
    return grid.customer("victim")


@pytest.fixture(scope="module")
def attacker(grid):
    return grid.customer("attacker")


def slurm_id(lab, grid_job):
    """Return the Slurm job id of a grid job. ``grid_job`` is the number of the grid job."""
    return lab.run(
        "controller", "squeue", "-h", "-t", "all", "-n", slurm_job_name(grid_job), "-o", "%i"
    ).stdout.strip()


def limits(lab, grid_job):
    """Return the fields of the Slurm job that determine the limits and payment of a grid job."""
    job = lab.run("controller", "scontrol", "show", "job", slurm_id(lab, grid_job)).stdout
    names = {"TimeLimit", "AdminComment", "Priority", "Partition"}
    return [field for field in job.split() if field.split("=")[0] in names]


def reported_ends(lab, grid_job):
    """Return the end times of a job in the reports that the agent received."""
    result = lab.run("controller", "python3", "-c", PRINT_REPORTED_ENDS, slurm_id(lab, grid_job))
    return json.loads(result.stdout)


def test_every_attempt_of_a_hostile_job_is_refused(grid, lab, victim, attacker):
    tag = secrets.token_hex(4)
    homes = {user.address: f"/home/ldap-users/{user.address}" for user in (victim, attacker)}
    victim_job = grid.submit(victim, f"until [ -e ~/{tag} ]; do sleep 0.5; done")
    grid.wait(victim, victim_job, "RUNNING")
    limits_before = limits(lab, victim_job)
    arguments = f"{slurm_id(lab, victim_job)} {homes[victim.address]} ~/{tag}.json"
    attacker_job = grid.submit(attacker, f"python3 - {arguments} <<'PROGRAM'\n{PROGRAM}\nPROGRAM")

    grid.wait(attacker, attacker_job, "FINISHED", timeout=180)

    report = json.loads(lab.run("infra", "cat", f"{homes[attacker.address]}/{tag}.json").stdout)
    for name, result in report["attempts"].items():
        assert result.startswith("refused"), name
    assert "Anonymous access is not allowed" in report["attempts"]["directory without credentials"]
    assert report["forged_end_at"] not in reported_ends(lab, attacker_job)
    assert limits(lab, victim_job) == limits_before
    lab.run("controller", "scontrol", "ping")  # this command fails if slurmctld does not answer
    # The suffix "-" and the state "plnd" mean that Slurm has planned a pending job on the node.
    node_states = {state.rstrip("-") for state in lab.sh("controller", "sinfo -h -o %t").split()}
    assert node_states <= {"idle", "mix", "alloc", "comp", "plnd"}
    lab.run("infra", "touch", f"{homes[victim.address]}/{tag}")
    grid.wait(victim, victim_job, "FINISHED")
    for user, number in ((attacker, attacker_job), (victim, victim_job)):
        grid.check_money(user, number)
        (record,) = lab.sacct(slurm_job_name(number))
        assert record["state"] == "COMPLETED"
        assert record["user"] == user.address
    attacker_jobs = lab.run(
        "controller", "sacct", "-X", "-n", "-P", "-u", attacker.address, "-o", "jobname"
    ).stdout.split()
    assert all(name.startswith("0x") for name in attacker_jobs), attacker_jobs
