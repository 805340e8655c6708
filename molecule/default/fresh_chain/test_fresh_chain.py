# SPDX-License-Identifier: Apache-2.0
"""Test a cluster whose chain is replaced by a new chain.

On the new chain, job numbers start at 1 again. Slurm and its accounting still contain jobs of the
old chain with these numbers. The tests restore the old chain at the end.
"""

import contextlib

import pytest
from tests import billing_oracle
from tests.e2e.conftest import GridClient, script_hash, wait_until

ANVIL_FOLDER = "/var/lib/private/gridstead-anvil"
SERVICES = ("anvil", "supervisor", "meta-scheduler", "ldap-connector", "job-definitions")
UNITS = " ".join(f"gridstead-{name}" for name in SERVICES)


@pytest.fixture
def start_fresh_chain(lab, run_playbook):
    """Return a context manager that replaces the chain and yields a client of the new chain.

    The new chain contains only newly deployed contracts.
    """

    @contextlib.contextmanager
    def replace_chain():
        lab.sh(
            "control",
            f"systemctl stop {UNITS}; mv {ANVIL_FOLDER}/state.json {ANVIL_FOLDER}/old-state.json",
        )
        try:
            code, output = run_playbook("control")
            assert code == 0, output[-3000:]
            with contextlib.closing(GridClient(lab)) as new_grid:
                yield new_grid
        finally:
            restore = f"mv {ANVIL_FOLDER}/old-state.json {ANVIL_FOLDER}/state.json"
            lab.sh("control", f"systemctl stop {UNITS}; {restore}")
            lab.sh("control", f"systemctl start gridstead-anvil; systemctl start {UNITS}")

    return replace_chain


def split_records(lab, name, job):
    """Return the accounting records of ``job``, and the records of other jobs with the same name.

    A record belongs to ``job`` if its script is the job's script.
    """
    own_records, other_records = [], []
    for record in lab.sacct(name):
        if script_hash(record) == job["batch_location_hash"]:
            own_records.append(record)
        else:
            other_records.append(record)
    return own_records, other_records


def is_old_job_cancelled(lab, job):
    ours, _ = split_records(lab, job["id"], job)
    return ours[-1]["state"].startswith("CANCELLED")


def cancel_restarted_job(grid, lab, number, old_job):
    """Wait until the old chain's job runs again, cancel the job and check its bill.

    On the old chain the job still has state RUNNING. The supervisor cancelled its Slurm job because
    the new chain has no claim for the job. After the old chain is back, the supervisor submits the
    job again.
    """
    customer = grid.customer("pioneer")
    wait_until(lambda: lab.sacct(old_job["id"])[-1]["state"] == "RUNNING", timeout=180)
    customer.run("job", "cancel", str(number))
    job = grid.wait(customer, number, "CANCELLED")
    ours, _ = split_records(lab, job["id"], job)
    grid.check_money(customer, number, seconds=lab.billed_seconds(ours[-1]))


def test_jobs_of_an_old_chain_are_not_adopted_on_a_new_chain(grid, lab, start_fresh_chain):
    customer = grid.customer("pioneer")
    finished_job = grid.submit(customer, "sleep 1")
    running_job = grid.submit(customer, "sleep 900")
    grid.wait(customer, finished_job, "FINISHED")
    old_job = grid.wait(customer, running_job, "RUNNING")

    with start_fresh_chain() as new_grid:
        customer = new_grid.customer("pioneer")
        credits_before = new_grid.balance(customer.address)
        assert new_grid.balance(new_grid.provider) == 0
        number = new_grid.submit(customer, "sleep 3")
        assert number <= finished_job  # a job of the old chain has this number too
        job = new_grid.wait(customer, number, "FINISHED")
        wait_until(lambda: is_old_job_cancelled(lab, old_job), timeout=120)

        (record,), records_of_old_chain = split_records(lab, job["id"], job)
        assert records_of_old_chain
        assert record["state"] == "COMPLETED"
        assert record["user"] == customer.address
        new_grid.check_money(customer, number, seconds=lab.billed_seconds(record))
        credits_left = credits_before - job["cost_wei"]
        assert credits_left > 0
        assert new_grid.balance(customer.address) == credits_left
        earned_wei = billing_oracle.earned(job["cost_wei"])
        assert earned_wei > 0
        assert new_grid.balance(new_grid.provider) == earned_wei

    cancel_restarted_job(grid, lab, running_job, old_job)
