# SPDX-License-Identifier: Apache-2.0
"""Test that a restored site equals the site before its loss and that it runs new jobs.

Only the jobs that were running or pending at the backup differ. The loss of the hosts ends them.
"""

import json

import pytest
from tests.e2e.conftest import COLD, wait_until

# The final states in Slurm and on chain of the jobs that had not ended at the backup. Neither job
# costs anything. The running job was on a lost host. The pending job never runs, because the backup
# does not contain its environment.
LOST_JOBS = {"running": ("NODE_FAIL", "PANICKED"), "pending": ("CANCELLED", "CANCELLED")}
# The site may have assigned Slurm job ids and uids after the backup. The roles slurm and directory
# therefore skip this number of ids after a restore.
SKIPPED_IDS = 1000
STATE_COLUMN = 5  # the position of the field in a record of the accounting
TERMS = ("customer", "provider", "escrow_wei", "price_per_min_wei")


@pytest.fixture(scope="module")
def before(state_file):
    return json.loads(state_file.read_text())


@pytest.fixture(scope="module")
def customer(site):
    # Give the customer no credits, because a test compares the balances.
    return site.customer("creditor", credits_=0)


@pytest.fixture(scope="module")
def settled_records(grid, site, customer, before):
    """Wait for the end of the lost jobs. Return the jobs and balances on chain before new jobs."""
    for name in LOST_JOBS:
        number = before["numbers"][name]
        wait_until(lambda number=number: grid.job(customer, number)["state"] in COLD, timeout=300)
    records = {"balances": site.balances(customer)}
    for name, number in before["numbers"].items():
        records[name] = site.chain_record(customer, number)
    return records


@pytest.fixture(scope="module")
def new_jobs(grid, lab, site, customer, settled_records):
    """Run a job of an old user and a job of a new user.

    Returns the job's number, its record in Slurm's accounting and the user's uid, by the name of
    the user.
    """
    jobs = {}
    for user in (customer, site.customer("newcomer")):
        number = site.submit_hello(user)
        job = grid.wait(user, number, "FINISHED", timeout=180)
        (record,) = lab.sacct(job["id"])
        uid = int(lab.sh(lab.group("slurm_login")[0], f"id -u {user.address}"))
        jobs[user.name] = {"number": number, "record": record, "uid": uid}
    return jobs


def has_ended(row):
    """Return whether the job of a row of the accounting has ended."""
    return row.split("|")[STATE_COLUMN] not in {"RUNNING", "PENDING"}


def test_the_accounting_of_ended_jobs_is_unchanged(site, settled_records, before):
    rows_before = {jobid: row for jobid, row in before["accounting"].items() if has_ended(row)}
    rows_now = site.jobs()

    assert rows_before, "no job had ended before the loss of the site"
    assert rows_before.items() <= rows_now.items()


@pytest.mark.parametrize("name", LOST_JOBS)
def test_the_accounting_has_the_end_of_a_lost_job(site, settled_records, before, name):
    jobid = before["slurm"][name]
    old, new = before["accounting"][jobid].split("|"), site.jobs()[jobid].split("|")

    assert new[STATE_COLUMN].split()[0] == LOST_JOBS[name][0]
    assert new[:STATE_COLUMN] == old[:STATE_COLUMN]


def test_the_associations_are_restored(site, before):
    assert set(before["associations"]) - set(site.associations()) == set()


def test_the_users_are_restored(site, before):
    assert before["users"].items() <= site.users().items()


@pytest.mark.parametrize("name", ["journal", "reports of jobs"])
def test_a_restored_journal_starts_with_the_rows_before_the_loss(site, before, name):
    rows = before["journals"][name]

    assert site.journals()[name][: len(rows)] == rows


def test_a_paid_job_and_its_output_are_unchanged(site, settled_records, customer, before):
    assert settled_records["paid"] == before["on_chain"]["paid"]
    assert site.output(customer, before["numbers"]["paid"]) == before["output"]


@pytest.mark.parametrize("name", LOST_JOBS)
def test_a_lost_job_retains_its_terms_and_costs_nothing(
    grid, customer, settled_records, before, name
):
    old, new = before["on_chain"][name], settled_records[name]

    assert new["history"][: len(old["history"])] == old["history"]
    for key in TERMS:
        assert new["job"][key] == old["job"][key], f"the lost job has another {key}"
    assert new["job"]["state"] == LOST_JOBS[name][1]
    assert new["job"]["cost_wei"] == 0
    grid.check_money(customer, before["numbers"][name])


def test_the_escrow_of_lost_jobs_is_returned(settled_records, before):
    escrow = 0
    for name in LOST_JOBS:
        escrow += before["on_chain"][name]["job"]["escrow_wei"]
    balances = before["balances"]

    assert settled_records["balances"] == balances | {"customer": balances["customer"] + escrow}


def uids_of(users):
    """Return the uids in the directory's entries of users, by wallet address."""
    uids = {}
    for lines in users.values():
        attributes = {}
        for line in lines:
            name, value = line.split(": ", 1)
            attributes[name] = value
        uids[attributes["uid"]] = int(attributes["uidNumber"])
    return uids


def test_a_restored_user_keeps_the_uid_and_pays_for_a_new_job(
    grid, site, customer, new_jobs, before
):
    job = new_jobs[customer.name]

    assert job["uid"] == uids_of(before["users"])[customer.address]
    assert job["record"]["user"] == customer.address
    # The new job and the paid job before the loss run the same example.
    assert site.output(customer, job["number"]) == before["output"]
    assert grid.check_money(customer, job["number"])["cost_wei"] > 0


def test_no_slurm_id_or_uid_is_assigned_twice(new_jobs, before):
    old_ids = set()
    for jobid in before["accounting"]:
        if jobid.isdigit():
            old_ids.add(int(jobid))
    new_ids = [int(job["record"]["jobid"]) for job in new_jobs.values()]

    assert min(new_ids) > max(old_ids) + SKIPPED_IDS
    assert new_jobs["newcomer"]["uid"] > max(uids_of(before["users"]).values()) + SKIPPED_IDS
