# SPDX-License-Identifier: Apache-2.0
"""A fresh chain below an old cluster: numbers start again, and Slurm and its accounting hold jobs of the same numbers.

Named so that it runs last: the grid has other contracts afterwards, though at the same addresses.
"""

import subprocess

import pytest
from tests.e2e.conftest import CHECKOUT, Grid, wait_until

ANVIL = "/var/lib/private/gridstead-anvil"
SERVICES = "supervisor meta-scheduler ldap-connector job-definitions anvil"


@pytest.fixture
def fresh_chain(lab):
    """A function that replaces the chain by one without a history and returns the grid on it."""

    def replaced():
        units = " ".join(f"gridstead-{name}" for name in SERVICES.split())
        lab.sh("control", f"systemctl stop {units}; mv {ANVIL}/state.json {ANVIL}/old-state.json")
        done = subprocess.run(
            ["ansible-playbook", "playbooks/control.yml"], cwd=CHECKOUT, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout[-3000:]
        return Grid(lab)

    yield replaced
    lab.run("control", "rm", "-f", f"{ANVIL}/old-state.json")


def test_nothing_of_an_old_chain_is_adopted_on_a_fresh_one(grid, lab, fresh_chain):
    someone = grid.customer("pioneer")
    ended = grid.submit(someone, "sleep 1")
    alive = grid.submit(someone, "sleep 900")
    grid.wait(someone, ended, "FINISHED")
    grid.wait(someone, alive, "RUNNING")
    (orphan,) = [record for record in lab.sacct(f"0x{alive:064x}") if record["state"] == "RUNNING"]

    grid = fresh_chain()
    someone = grid.customer("pioneer")
    credits_before, earned_before = grid.balance(someone.address), grid.balance(grid.provider)
    number = grid.submit(someone, "sleep 3")
    old = lab.sacct(f"0x{number:064x}")
    job = grid.wait(someone, number, "FINISHED")

    assert earned_before == 0
    assert number <= ended, "an old job has the same number"
    assert old, "accounting knows it"
    before = {record["jobid"] for record in old if record["admincomment"].split("/")[-1] != job["batch_location_hash"]}
    (record,) = [one for one in lab.wait_ended(job["id"]) if one["jobid"] not in before]
    assert (record["state"], record["user"]) == ("COMPLETED", someone.address)
    assert int(record["elapsedraw"]) >= 3
    grid.check_money(someone, number, seconds=lab.worth(record))
    assert grid.balance(someone.address) == credits_before - job["cost_wei"]
    assert grid.balance(grid.provider) == job["cost_wei"] - job["cost_wei"] // 5

    def cancelled():
        return next(one["state"] for one in lab.sacct(f"0x{alive:064x}") if one["jobid"] == orphan["jobid"])

    wait_until(lambda: cancelled().startswith("CANCELLED"), timeout=120)
    assert [step["event"] for step in grid.history(someone, number)].count("JobSettled") == 1
