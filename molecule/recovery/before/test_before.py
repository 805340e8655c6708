# SPDX-License-Identifier: Apache-2.0
"""Before a backup, create a paid, a running and a pending job, and save the state of the site."""

import json

from tests.e2e.conftest import slurm_job_name, wait_until


def slurm_states(lab, number):
    return [record["state"] for record in lab.sacct(slurm_job_name(number))]


def read_state(lab, site, customer, numbers):
    """Return the state that the tests compare after the restore.

    ``numbers`` contains the numbers of the jobs by name.
    """
    slurm, on_chain = {}, {}
    for name, number in numbers.items():
        slurm[name] = lab.sacct(slurm_job_name(number))[-1]["jobid"]
        on_chain[name] = site.chain_record(customer, number)
    return {
        "numbers": numbers,
        "slurm": slurm,
        "on_chain": on_chain,
        "output": site.output(customer, numbers["paid"]),
        "balances": site.balances(customer),
        "accounting": site.jobs(),
        "associations": site.associations(),
        "users": site.users(),
        "journals": site.journals(),
    }


def test_the_state_of_a_site_with_jobs_is_saved_before_the_backup(lab, grid, site, state_file):
    customer = site.customer("creditor")
    paid_job = site.submit_hello(customer)
    grid.wait(customer, paid_job, "FINISHED", timeout=180)
    # The node does not have enough memory for both jobs, so the second job waits.
    running_job = grid.submit(customer, "sleep 3000", memory_mb=1500)
    grid.wait(customer, running_job, "RUNNING", timeout=180)
    pending_job = grid.submit(customer, "sleep 3000", memory_mb=1500)
    wait_until(lambda: slurm_states(lab, pending_job) == ["PENDING"], timeout=180)
    grid.check_money(customer, paid_job)

    numbers = {"paid": paid_job, "running": running_job, "pending": pending_job}
    state_file.write_text(json.dumps(read_state(lab, site, customer, numbers)))

    saved_state = json.loads(state_file.read_text())
    for name in ("output", "accounting", "associations", "users"):
        assert saved_state[name], name
    assert all(saved_state["journals"].values())
