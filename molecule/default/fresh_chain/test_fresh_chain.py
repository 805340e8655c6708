# SPDX-License-Identifier: Apache-2.0
"""Test a new chain on an old cluster.

Job numbers start at 1 again, while Slurm and its accounting have jobs of the old chain with the
same numbers. The old chain is restored afterwards.
"""

import contextlib

import pytest
from tests import billing_oracle
from tests.e2e.conftest import GridClient, wait_until

ANVIL = "/var/lib/private/gridstead-anvil"
SERVICES = ("anvil", "supervisor", "meta-scheduler", "ldap-connector", "job-definitions")
UNITS = " ".join(f"gridstead-{name}" for name in SERVICES)


@pytest.fixture
def fresh_chain(lab, play):
    """Return a context manager in whose block the chain has only newly deployed contracts."""

    @contextlib.contextmanager
    def replaced():
        lab.sh("control", f"systemctl stop {UNITS}; mv {ANVIL}/state.json {ANVIL}/old-state.json")
        try:
            code, output = play("control")
            assert code == 0, output[-3000:]
            with contextlib.closing(GridClient(lab)) as new_grid:
                yield new_grid
        finally:
            lab.sh(
                "control", f"systemctl stop {UNITS}; mv {ANVIL}/old-state.json {ANVIL}/state.json"
            )
            lab.sh("control", f"systemctl start gridstead-anvil; systemctl start {UNITS}")

    return replaced


def records(lab, name, job):
    """Return the records of a Slurm job name that belong to this job of this chain, and the others.

    A record belongs to the job if its AdminComment ends with the hash of the job's batch location.
    """
    ours, others = [], []
    for record in lab.sacct(name):
        if record["admincomment"].split("/")[-1] == job["batch_location_hash"]:
            ours.append(record)
        else:
            others.append(record)
    return ours, others


def old_job_is_cancelled(lab, job):
    ours, _ = records(lab, job["id"], job)
    return ours[-1]["state"].startswith("CANCELLED")


def test_jobs_of_an_old_chain_are_not_adopted_on_a_new_chain(grid, lab, fresh_chain):
    customer = grid.customer("pioneer")
    finished = grid.submit(customer, "sleep 1")
    running = grid.submit(customer, "sleep 900")
    grid.wait(customer, finished, "FINISHED")
    old_job = grid.wait(customer, running, "RUNNING")

    with fresh_chain() as new_grid:
        customer = new_grid.customer("pioneer")
        credits_before = new_grid.balance(customer.address)
        assert new_grid.balance(new_grid.provider) == 0
        number = new_grid.submit(customer, "sleep 3")
        assert number <= finished
        job = new_grid.wait(customer, number, "FINISHED")
        wait_until(lambda: old_job_is_cancelled(lab, old_job), timeout=120)

        (record,), of_the_old_chain = records(lab, job["id"], job)
        assert of_the_old_chain
        assert (record["state"], record["user"]) == ("COMPLETED", customer.address)
        new_grid.check_money(customer, number, seconds=lab.billed_seconds(record))
        assert new_grid.balance(customer.address) == credits_before - job["cost_wei"] > 0
        earned = billing_oracle.earned(job["cost_wei"])
        assert new_grid.balance(new_grid.provider) == earned > 0

    # On the old chain the job still runs. The supervisor cancelled its Slurm job because the new
    # chain has no claim for it. Such a cancellation is not the end of the job, which runs again.
    customer = grid.customer("pioneer")
    wait_until(lambda: lab.sacct(old_job["id"])[-1]["state"] == "RUNNING", timeout=180)
    customer.run("job", "cancel", str(running))
    job = grid.wait(customer, running, "CANCELLED")
    ours, _ = records(lab, job["id"], job)
    grid.check_money(customer, running, seconds=lab.billed_seconds(ours[-1]))
