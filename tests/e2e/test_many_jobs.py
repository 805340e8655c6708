# SPDX-License-Identifier: Apache-2.0
"""Two customers with forty jobs at once, with and without reports of starts and ends."""

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
def connections(grid):
    names = ("first-of-crowd", "second-of-crowd")
    connected = []
    for name in names:
        user = grid.customer(name, credits_=3 * JOBS_EACH * CREDITS)
        connected.append(many_customers.connect(user))
    yield connected
    for connection in connected:
        connection.close()


def addresses(grid, connections):
    """Return each address that can own credits in these tests: users, provider, contracts."""
    deployment = json.loads((grid.lab_grid.chain / "deployment.json").read_text())
    customers = [connection.customer.address for connection in connections]
    return [*customers, grid.provider, grid.admin.address, *deployment["contracts"].values()]


def balances(grid, connections):
    return {
        address: connections[0].customer.balance(address)
        for address in addresses(grid, connections)
    }


def run_jobs(connections):
    """Submit the jobs of all members at once and wait until they have ended.

    Returns:
        The folder of the trace files, and the jobs by number of each member.
    """
    folder = f"crowd-{secrets.token_hex(4)}"
    trace = f"mkdir -p ~/{folder}; echo $SLURM_JOB_ID >>~/{folder}/"
    workflows = [
        many_customers.one_step(f"{trace}{number}; sleep 3") for number in range(JOBS_EACH)
    ]
    numbers = [connection.submit(workflows, credits_=CREDITS) for connection in connections]
    pairs = zip(connections, numbers, strict=True)
    return folder, [
        connection.wait_cold(own_numbers, timeout=SETTLED_WITHIN_S)
        for connection, own_numbers in pairs
    ]


def check_runs(lab, connection, jobs, folder):
    """Assert that each job has one accounting record of the wallet's user and one trace file.

    Returns:
        The accounting records by job number.
    """
    user = connection.customer.address
    runs = {}
    for number, attempts in many_customers.records_of(lab, jobs).items():
        (attempt,) = attempts
        assert (attempt["user"], attempt["state"]) == (user, "COMPLETED")
        runs[number] = attempt
    traces = lab.sh("infra", f"cd /home/ldap-users/{user}/{folder}; grep -c . * | sort -t: -n")
    assert traces.split() == [f"{number}:1" for number in range(JOBS_EACH)]
    return runs


def check_money(lab, connection, jobs, runs):
    """Assert that each job is settled once, by Slurm's start and end.

    Returns:
        The sum of the costs and the sum of the fees, in wei.
    """
    total = fees = 0
    for number, job in jobs.items():
        (end,) = connection.end_events(number)
        cost, fee = job.final_cost, end.numbers["fee"]
        assert (job.state.name, job.exit_code) == ("FINISHED", 0)
        if cost != bill(job, int(runs[number]["elapsedraw"])):
            assert cost == bill(job, lab.billed_seconds(runs[number]))
        assert end.event == "JobSettled"
        assert (end.numbers["cost"], fee) == (cost, billing_oracle.fee(cost))
        total, fees = total + cost, fees + fee
    assert total > 0
    return total, fees


def bill(job, seconds):
    return billing_oracle.cost(seconds, job.price_per_min)


def check_jobs(lab, grid, connections):
    before = balances(grid, connections)

    folder, outcomes = run_jobs(connections)

    after = balances(grid, connections)
    expected, costs, fees = {}, 0, 0
    for connection, jobs in zip(connections, outcomes, strict=True):
        runs = check_runs(lab, connection, jobs, folder)
        cost, fee = check_money(lab, connection, jobs, runs)
        expected[connection.customer.address] = -cost
        costs, fees = costs + cost, fees + fee
    expected |= {grid.provider: costs - fees, grid.lab_grid.contract: fees}
    differences = {address: after[address] - before[address] for address in before}
    assert {address: wei for address, wei in differences.items() if wei} == expected
    assert sum(differences.values()) == 0


def reports(lab):
    """Return the number of reports that the agent ever stored, and the list of its spool files."""
    query = "SELECT seq FROM sqlite_sequence"
    count = f"import sqlite3; print(sqlite3.connect({REPORTS!r}).execute({query!r}).fetchone())"
    stored = lab.run("controller", "python3", "-c", count).stdout
    return stored, lab.run("controller", "ls", "-l", SPOOL).stdout


def apply_role(*, reports_come):
    """Apply the roles with or without the plugins' reports. The nodes receive the configuration
    from the controller.
    """
    # This run does not configure the operator account of the login hosts, so that it does not need
    # the operator's public key.
    variables = json.dumps(
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
        variables,
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


def test_forty_jobs_at_once_each_run_once_and_are_paid(lab, grid, connections):
    stored, _ = reports(lab)

    check_jobs(lab, grid, connections)

    assert reports(lab)[0] != stored


def test_forty_jobs_are_paid_without_reports(lab, grid, connections, no_reports):
    before = reports(lab)

    check_jobs(lab, grid, connections)

    assert reports(lab) == before
