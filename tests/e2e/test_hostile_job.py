# SPDX-License-Identifier: Apache-2.0
"""A paid job that tries what it must not: all of it is refused, and nobody is harmed."""

import json
import secrets
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("hostile_job.py").read_text()


@pytest.fixture(scope="module")
def victim(grid):
    return grid.customer("victim")


@pytest.fixture(scope="module")
def attacker(grid):
    return grid.customer("attacker")


def slurm_id(lab, number):
    return lab.run(
        "controller", "squeue", "-h", "-t", "all", "-n", f"0x{number:064x}", "-o", "%i"
    ).stdout.strip()


def limits(lab, number):
    """Return what Slurm itself holds of a job that its owner pays for."""
    shown = lab.run("controller", "scontrol", "show", "job", slurm_id(lab, number)).stdout.split()
    return [
        word
        for word in shown
        if word.split("=")[0] in {"TimeLimit", "AdminComment", "Priority", "Partition"}
    ]


def reported_ends(lab, number):
    """Return the times at which the agent was told that a job ended."""
    opened = "sqlite3.connect('file:/var/lib/gridstead/agent/reports.db?mode=ro', uri=True)"
    query = "SELECT at FROM report WHERE event = 'end' AND slurm_job_id = ?"
    script = f"import json, sqlite3, sys; print(json.dumps([at for at, in {opened}.execute({query!r}, sys.argv[1:])]))"
    return json.loads(lab.run("controller", "python3", "-c", script, slurm_id(lab, number)).stdout)


def test_a_hostile_job_gets_nowhere_and_harms_nobody(grid, lab, victim, attacker):
    tag = secrets.token_hex(4)
    homes = {who.address: f"/home/ldap-users/{who.address}" for who in (victim, attacker)}
    suffers = grid.submit(victim, f"until [ -e ~/{tag} ]; do sleep 0.5; done")
    grid.wait(victim, suffers, "RUNNING")
    before = limits(lab, suffers)
    arguments = f"{slurm_id(lab, suffers)} {homes[victim.address]} ~/{tag}.json"
    attacks = grid.submit(attacker, f"python3 - {arguments} <<'PROGRAM'\n{PROGRAM}\nPROGRAM")

    grid.wait(attacker, attacks, "FINISHED", timeout=180)

    told = json.loads(lab.run("infra", "cat", f"{homes[attacker.address]}/{tag}.json").stdout)
    assert {
        name: came for name, came in told["attempts"].items() if not came.startswith("refused")
    } == {}
    assert "Anonymous access is not allowed" in told["attempts"]["directory without credentials"]
    assert told["forged_end_at"] not in reported_ends(lab, attacks)
    assert limits(lab, suffers) == before
    assert lab.sh("controller", "scontrol ping; sinfo -h -o %t").split()[-1] in {
        "idle",
        "mix",
        "alloc",
    }
    lab.run("infra", "touch", f"{homes[victim.address]}/{tag}")
    grid.wait(victim, suffers, "FINISHED")
    for who, number in ((attacker, attacks), (victim, suffers)):
        grid.check_money(who, number)
        (record,) = lab.sacct(f"0x{number:064x}")
        assert (record["state"], record["user"]) == ("COMPLETED", who.address)
    theirs = lab.run(
        "controller", "sacct", "-X", "-n", "-P", "-u", attacker.address, "-o", "jobname"
    ).stdout.split()
    assert all(name.startswith("0x") for name in theirs), theirs
