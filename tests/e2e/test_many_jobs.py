# SPDX-License-Identifier: Apache-2.0
"""Tests with forty simultaneous jobs of two customers, with and without the plugins' reports."""

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
SETTLEMENT_TIMEOUT_S = 240
REPORTS_DATABASE = "/var/lib/gridstead/agent/reports.db"
TAGS = "slurm_plugins_configure,slurm_configure"
SPOOL_FOLDER = "/var/spool/gridstead"


@pytest.fixture(scope="module")
def connections(grid):
    names = ("first-of-crowd", "second-of-crowd")
    open_connections = []
    for name in names:
        user = grid.customer(name, credits_=3 * JOBS_EACH * CREDITS)
        open_connections.append(many_customers.connect(user))
    yield open_connections
    for connection in open_connections:
        connection.close()


def addresses(grid, connections):
    """Return the addresses that can own credits: the users, the provider and the contracts."""
    deployment = json.loads((grid.lab_grid.chain / "deployment.json").read_text())
    customers = [connection.customer.address for connection in connections]
    return [*customers, grid.provider, grid.admin.address, *deployment["contracts"].values()]


def balances(grid, connections):
    return {
        address: connections[0].customer.balance(address)
        for address in addresses(grid, connections)
    }


def run_jobs(connections):
    """Submit the jobs of all customers at the same time and wait until they have ended.

    Returns:
        The folder of the trace files, and the jobs by number for each customer.
    """
    folder = f"crowd-{secrets.token_hex(4)}"
    # This command appends the Slurm job id to a job's trace file. The workflows below add the name
    # of the file, which is the index of the job.
    trace = f"mkdir -p ~/{folder}; echo $SLURM_JOB_ID >>~/{folder}/"
    workflows = [
        many_customers.one_step(f"{trace}{number}; sleep 3") for number in range(JOBS_EACH)
    ]
    numbers = [connection.submit(workflows, credits_=CREDITS) for connection in connections]
    jobs = []
    for connection, numbers_of_customer in zip(connections, numbers, strict=True):
        ended_jobs = connection.wait_cold(numbers_of_customer, timeout=SETTLEMENT_TIMEOUT_S)
        jobs.append(ended_jobs)
    return folder, jobs


def check_runs(lab, connection, jobs, folder):
    """Assert that each job has one accounting record, of the customer's user, and one trace file.

    Returns:
        The accounting records by job number.
    """
    user = connection.customer.address
    records = {}
    for number, attempts in many_customers.records_of(lab, jobs).items():
        (attempt,) = attempts
        assert attempt["user"] == user
        assert attempt["state"] == "COMPLETED"
        records[number] = attempt
    # Each run of a job writes one line to the job's trace file. grep prints "FILE:LINES".
    traces = lab.sh("infra", f"cd /home/ldap-users/{user}/{folder}; grep -c . * | sort -t: -n")
    assert traces.split() == [f"{number}:1" for number in range(JOBS_EACH)]
    return records


def check_money(lab, connection, jobs, records):
    """Assert that each job is settled once, with a bill for the time between its start and end.

    Returns:
        The sum of the costs and the sum of the fees, in wei.
    """
    total_cost = total_fee = 0
    for number, job in jobs.items():
        (end,) = connection.end_events(number)
        cost, fee = job.final_cost, end.numbers["fee"]
        assert job.state.name == "FINISHED"
        assert job.exit_code == 0
        # If the node reported an earlier end than slurmdbd, the bill is for the reported end.
        if cost != bill(job, int(records[number]["elapsedraw"])):
            assert cost == bill(job, lab.billed_seconds(records[number]))
        assert end.event == "JobSettled"
        assert end.numbers["cost"] == cost
        assert fee == billing_oracle.fee(cost)
        total_cost += cost
        total_fee += fee
    assert total_cost > 0
    return total_cost, total_fee


def bill(job, seconds):
    return billing_oracle.cost(seconds, job.price_per_min)


def check_jobs(lab, grid, connections):
    """Run the jobs. Assert that each job runs once and that the balances change by the payments.

    Customers pay the costs. The contract gets the fees, and the provider gets the costs minus fees.
    """
    balances_before = balances(grid, connections)

    folder, jobs_of_customers = run_jobs(connections)

    balances_after = balances(grid, connections)
    expected_changes, costs, fees = {}, 0, 0
    for connection, jobs in zip(connections, jobs_of_customers, strict=True):
        records = check_runs(lab, connection, jobs, folder)
        cost, fee = check_money(lab, connection, jobs, records)
        expected_changes[connection.customer.address] = -cost
        costs, fees = costs + cost, fees + fee
    expected_changes |= {grid.provider: costs - fees, grid.lab_grid.contract: fees}
    changes = {}
    for address, wei_before in balances_before.items():
        changes[address] = balances_after[address] - wei_before
    assert {address: wei for address, wei in changes.items() if wei} == expected_changes
    assert sum(changes.values()) == 0


def stored_reports(lab):
    """Return the number of reports that the agent has stored, and the list of its spool files."""
    query = "SELECT seq FROM sqlite_sequence"
    database = f"sqlite3.connect({REPORTS_DATABASE!r})"
    count = f"import sqlite3; print({database}.execute({query!r}).fetchone())"
    stored_count = lab.run("controller", "python3", "-c", count).stdout
    return stored_count, lab.run("controller", "ls", "-l", SPOOL_FOLDER).stdout


def apply_role(*, with_reports):
    """Apply the roles to the controller, with or without the plugins' reports.

    The nodes receive the configuration of Slurm from the controller.
    """
    # An empty key makes the run skip the operator account of the login hosts.
    variables = json.dumps(
        {"slurm_plugins_reports": with_reports, "slurm_operator_authorized_key": ""}
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
    result = subprocess.run(command, cwd=CHECKOUT, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture
def disable_reports():
    try:
        apply_role(with_reports=False)
        yield
    finally:
        apply_role(with_reports=True)


def test_forty_simultaneous_jobs_run_once_and_are_paid(lab, grid, connections):
    stored, _ = stored_reports(lab)

    check_jobs(lab, grid, connections)

    assert stored_reports(lab)[0] != stored


def test_forty_jobs_are_paid_without_reports(lab, grid, connections, disable_reports):
    reports_before = stored_reports(lab)

    check_jobs(lab, grid, connections)

    assert stored_reports(lab) == reports_before
