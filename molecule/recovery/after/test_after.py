# SPDX-License-Identifier: Apache-2.0
"""A restored site is what it was, but for what ends with its hosts; and it goes on."""

import json

import pytest
from tests.e2e.conftest import COLD, wait_until

# What Slurm and the chain say of the jobs that were under way, neither of which costs anything. One
# ran on a host that is gone, which is the provider's fault; the other has lost its environment,
# which is in no archive, and never ran.
LOST = {"runs": ("NODE_FAIL", "PANICKED"), "waits": ("CANCELLED", "CANCELLED")}
# Slurm's ids and users' numbers of after the backup are nobody's: roles slurm and directory leave
# these out.
SKIPPED = 1000
STATE = 5  # among what the accounting is asked for


@pytest.fixture(scope="module")
def then(picture):
    return json.loads(picture.read_text())


@pytest.fixture(scope="module")
def someone(site):
    return site.customer("creditor", credits_=0)  # none to add: what is there is compared


@pytest.fixture(scope="module")
def settled(grid, site, someone, then):
    """What the chain says once the site has done with what it lost, before anything new is asked of
    it.
    """
    numbers = then["numbers"]
    for name in LOST:
        wait_until(
            lambda number=numbers[name]: grid.job(someone, number)["state"] in COLD, timeout=300
        )
    found = {name: site.obligation(someone, number) for name, number in numbers.items()}
    return found | {"balances": site.balances(someone)}


@pytest.fixture(scope="module")
def anew(grid, lab, site, someone, settled):
    """A job of a user of then, and one of a user who came later: Slurm's record and the user's
    number.
    """
    found = {}
    for person in (someone, site.customer("newcomer")):
        number = site.greet(person)
        job = grid.wait(person, number, "FINISHED", timeout=180)
        (record,) = lab.sacct(job["id"])
        uid = int(lab.sh(lab.group("slurm_login")[0], f"id -u {person.address}"))
        found[person.name] = {"number": number, "record": record, "uid": uid}
    return found


def test_the_accounting_of_jobs_that_had_ended_is_that_of_then(site, settled, then):
    lost = {
        jobid
        for jobid, row in then["accounting"].items()
        if row.split("|")[STATE] in {"RUNNING", "PENDING"}
    }
    ended = {jobid: row for jobid, row in then["accounting"].items() if jobid not in lost}
    now = site.jobs()

    assert ended
    assert {jobid: now.get(jobid) for jobid in ended} == ended


@pytest.mark.parametrize("name", LOST)
def test_the_accounting_tells_what_became_of_a_job_that_was_lost(site, settled, then, name):
    was, now = (rows[then["slurm"][name]].split("|") for rows in (then["accounting"], site.jobs()))

    assert now[STATE].split()[0] == LOST[name][0]
    assert now[:STATE] == was[:STATE]


def test_who_may_use_the_cluster_is_as_it_was(site, then):
    assert set(then["associations"]) - set(site.associations()) == set()


def test_the_users_are_those_of_then(site, then):
    now = site.people()

    assert {name: now.get(name) for name in then["people"]} == then["people"]


@pytest.mark.parametrize("name", ["journal", "reports of jobs"])
def test_what_services_remember_begins_with_what_they_remembered(site, then, name):
    rows = then["journals"][name]

    assert site.journals()[name][: len(rows)] == rows


def test_a_job_that_was_paid_is_paid_and_its_output_is_there(site, settled, someone, then):
    assert settled["paid"] == then["obligations"]["paid"]
    assert site.output(someone, then["numbers"]["paid"]) == then["output"]


@pytest.mark.parametrize("name", LOST)
def test_a_job_that_was_lost_is_still_owed_and_costs_nothing(grid, someone, settled, then, name):
    was, now = then["obligations"][name], settled[name]

    assert now["history"][: len(was["history"])] == was["history"]
    assert {
        key: now["job"][key] for key in ("customer", "provider", "escrow_wei", "price_per_min_wei")
    } == {
        key: was["job"][key] for key in ("customer", "provider", "escrow_wei", "price_per_min_wei")
    }
    assert (now["job"]["state"], now["job"]["cost_wei"]) == (LOST[name][1], 0)
    grid.check_money(someone, then["numbers"][name])


def test_who_lost_a_job_has_the_credits_back_and_nobody_lost_any(settled, then):
    locked = sum(then["obligations"][name]["job"]["escrow_wei"] for name in LOST)

    assert settled["balances"] == then["balances"] | {
        "customer": then["balances"]["customer"] + locked
    }


def numbers_of(people):
    """Return users' numbers by wallet."""
    told = [dict(line.split(": ", 1) for line in lines) for lines in people.values()]
    return {one["uid"]: int(one["uidNumber"]) for one in told}


def test_a_user_of_then_is_the_same_and_pays_for_a_new_job(grid, site, someone, anew, then):
    mine = anew[someone.name]

    assert mine["uid"] == numbers_of(then["people"])[someone.address]
    assert mine["record"]["user"] == someone.address
    assert site.output(someone, mine["number"]) == then["output"]
    assert grid.check_money(someone, mine["number"])["cost_wei"] > 0


def test_no_number_is_given_out_twice(anew, then):
    ids = [int(jobid) for jobid in then["accounting"] if jobid.isdigit()]

    assert min(int(one["record"]["jobid"]) for one in anew.values()) > max(ids) + SKIPPED
    assert anew["newcomer"]["uid"] > max(numbers_of(then["people"]).values()) + SKIPPED
