# SPDX-License-Identifier: Apache-2.0
"""Two customers and forty jobs at once, with reports of starts and ends and without them."""

import json
import secrets
import subprocess
from pathlib import Path

import pytest
from tests import billing_oracle
from tests.e2e import many_customers

CHECKOUT = Path(__file__).resolve().parents[2]
JOBS_EACH = 20
CREDITS = 100
SETTLED_WITHIN_S = 240
REPORTS = "/var/lib/gridstead/agent/reports.db"
TAGS = "slurm_plugins_configure,slurm_configure"
SPOOL = "/var/spool/gridstead"


@pytest.fixture(scope="module")
def members(grid):
    names = ("first-of-crowd", "second-of-crowd")
    joined = [
        many_customers.join(grid.customer(name, credits_=3 * JOBS_EACH * CREDITS)) for name in names
    ]
    yield joined
    for member in joined:
        member.close()


def everyone(grid, members):
    """Return each address that can hold credits in these tests: people, provider, contracts."""
    deployment = json.loads((grid.where.chain / "deployment.json").read_text())
    return [m.customer.address for m in members] + [
        grid.provider,
        grid.admin.address,
        *deployment["contracts"].values(),
    ]


def balances(grid, members):
    return {address: members[0].customer.balance(address) for address in everyone(grid, members)}


def run_crowd(members):
    """Submit everybody's jobs at once; return folder of their traces and, by member, the cold jobs
    by number.
    """
    folder = f"crowd-{secrets.token_hex(4)}"
    trace = f"mkdir -p ~/{folder}; echo $SLURM_JOB_ID >>~/{folder}/"
    workflows = [
        many_customers.one_step(f"{trace}{number}; sleep 3") for number in range(JOBS_EACH)
    ]
    numbers = [member.submit(workflows, credits_=CREDITS) for member in members]
    asked = zip(members, numbers, strict=True)
    return folder, [member.wait_cold(mine, timeout=SETTLED_WITHIN_S) for member, mine in asked]


def check_runs(lab, member, jobs, folder):
    """Each job has one attempt in the accounting, as the wallet's user, and left one trace in its
    home.
    """
    user = member.customer.address
    ran = {}
    for number, attempts in many_customers.records_of(lab, jobs).items():
        (attempt,) = attempts
        assert (attempt["user"], attempt["state"]) == (user, "COMPLETED")
        ran[number] = attempt
    traces = lab.sh("infra", f"cd /home/ldap-users/{user}/{folder}; grep -c . * | sort -t: -n")
    assert traces.split() == [f"{number}:1" for number in range(JOBS_EACH)]
    return ran


def check_money(lab, member, jobs, ran):
    """Each job is settled once, by Slurm's own start and end; return what all of them cost and the
    fees, wei.
    """
    total = fees = 0
    for number, job in jobs.items():
        (end,) = member.ends(number)
        cost, fee = job.final_cost, end.numbers["fee"]
        assert (job.state.name, job.exit_code) == ("FINISHED", 0)
        if cost != bill(job, int(ran[number]["elapsedraw"])):
            assert cost == bill(job, lab.worth(ran[number]))
        assert (end.event, end.numbers["cost"], fee) == (
            "JobSettled",
            cost,
            billing_oracle.fee(cost),
        )
        total, fees = total + cost, fees + fee
    assert total > 0
    return total, fees


def bill(job, seconds):
    return billing_oracle.cost(seconds, job.price_per_min)


def check_crowd(lab, grid, members):
    before = balances(grid, members)

    folder, outcomes = run_crowd(members)

    after = balances(grid, members)
    paid = [
        check_money(lab, member, jobs, check_runs(lab, member, jobs, folder))
        for member, jobs in zip(members, outcomes, strict=True)
    ]
    gained = {
        address: after[address] - before[address]
        for address in before
        if after[address] != before[address]
    }
    meta_scheduler = grid.where.contract
    costs, fees = (sum(column) for column in zip(*paid, strict=True))
    expected = {
        member.customer.address: -cost for member, (cost, _) in zip(members, paid, strict=True)
    }
    assert gained == expected | {grid.provider: costs - fees, meta_scheduler: fees}
    assert sum(gained.values()) == 0


def reports(lab):
    """Return how many reports the agent has ever stored, and what is in the spool of ended jobs."""
    count = f"import sqlite3; print(sqlite3.connect('{REPORTS}').execute('SELECT seq FROM sqlite_sequence').fetchone())"
    return lab.run("controller", "python3", "-c", count).stdout, lab.run(
        "controller", "ls", "-l", SPOOL
    ).stdout


def apply_role(*, reports_come):
    """Have the roles put the plugins' reports in, or take them out; the nodes hear of it from the
    controller.
    """
    # The login hosts' operator is not touched here, so its key, which the control host has, need
    # not be known.
    wanted = json.dumps(
        {"slurm_plugins_reports": reports_come, "slurm_operator_authorized_key": ""}
    )
    command = [
        "ansible-playbook",
        "playbooks/scheduler.yml",
        "--limit",
        "controller",
        "--tags",
        TAGS,
        "-e",
        wanted,
    ]
    done = subprocess.run(command, cwd=CHECKOUT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def no_reports(lab):
    try:
        apply_role(reports_come=False)
        yield
    finally:
        apply_role(reports_come=True)


def test_forty_jobs_at_once_run_once_each_and_are_paid(lab, grid, members):
    stored, _ = reports(lab)

    check_crowd(lab, grid, members)

    assert reports(lab)[0] != stored


def test_forty_jobs_are_paid_though_no_report_ever_comes(lab, grid, members, no_reports):
    before = reports(lab)

    check_crowd(lab, grid, members)

    assert reports(lab) == before
