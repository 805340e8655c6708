# SPDX-License-Identifier: Apache-2.0
"""Tests that kill the supervisor at each failpoint in the life of a job.

A failpoint is a named place in the supervisor's code. The supervisor kills itself there if
$GRIDSTEAD_FAILPOINT contains this name.

Each job must run once, be settled once and have the right cost. A job appends a line to a trace
file in its customer's home when the job starts, and a second line when the job ends. Between the
two lines, the job waits for another file. The test creates this file to end the job.
"""

import contextlib
import secrets
from dataclasses import dataclass

import pytest
from tests.e2e.conftest import slurm_job_name, wait_until

pytestmark = pytest.mark.chain

UNIT = "gridstead-supervisor"
DROP_IN_FILE = f"/run/systemd/system/{UNIT}.service.d/crash.conf"
STATE_DATABASE = "/var/lib/gridstead/supervisor/state.db"

# The tests use the failpoints in this order, so that pending work of an earlier job does not reach
# the failpoint of a later job.
FAILPOINTS_BEFORE_START = [
    "before_SetRunning",
    "before_ClaimJobs",
    "claimed",
    "before_submit",
    "submitted",
]
FAILPOINTS_AT_END = [
    "before_Settle",
    "transaction_stored",
    "transaction_sent",
    "receipt_seen",
    "outcome_stored",
]
# Transactions of other jobs also reach these failpoints, so the supervisor must first be idle.
FAILPOINTS_FOR_IDLE_SUPERVISOR = {"receipt_seen", "outcome_stored"}


@dataclass(frozen=True)
class Run:
    """A grid job and the name of its trace file."""

    number: int
    trace_file: str


class CrashBench:
    """A test bench that submits jobs and kills the supervisor while the jobs run."""

    def __init__(self, lab, grid):
        self.lab = lab
        self.grid = grid
        self.customer = grid.customer("crashes")
        self.home = f"/home/ldap-users/{self.customer.address}"

    def submit(self):
        """Submit a job that runs until ``release`` is called."""
        trace_file = f"crash-{secrets.token_hex(4)}"
        command = (
            f'cd "$HOME"; echo start >>{trace_file}; '
            f"until sleep 1; [ -e {trace_file}.go ]; do :; done; echo end >>{trace_file}"
        )
        return Run(number=self.grid.submit(self.customer, command), trace_file=trace_file)

    def release(self, run):
        """Create the file for which a job waits, so that the job ends."""
        self.lab.run("infra", "touch", f"{self.home}/{run.trace_file}.go")

    def lines(self, run):
        """Return the words of a job's trace file."""
        return self.lab.run(
            "infra", "cat", f"{self.home}/{run.trace_file}", check=False
        ).stdout.split()

    @contextlib.contextmanager
    def killed_at(self, failpoint):
        """Make the supervisor kill itself at a failpoint. Start it again after the ``with`` block.

        The block must submit or end a job, so that the supervisor reaches the failpoint.
        """
        drop_in = f"[Service]\nRestart=no\nEnvironment=GRIDSTEAD_FAILPOINT={failpoint}\n"
        self.lab.sh(
            "control",
            f"mkdir -p $(dirname {DROP_IN_FILE}); cat >{DROP_IN_FILE}; "
            f"systemctl daemon-reload; systemctl restart {UNIT}",
            input=drop_in,
        )
        try:
            yield
            wait_until(self.was_killed, timeout=90, every=0.2)
        finally:
            self.lab.sh(
                "control", f"rm {DROP_IN_FILE}; systemctl daemon-reload; systemctl restart {UNIT}"
            )

    def was_killed(self):
        """Return whether the supervisor was killed and has not been started again."""
        result_and_state = self.lab.sh(
            "control", f"systemctl show {UNIT} -p Result -p ActiveState --value"
        ).split()
        return set(result_and_state) == {"failed", "signal"}

    def wait_until_idle(self):
        """Wait until the supervisor has no pending transaction."""
        query = """SELECT (SELECT count(*) FROM transactions WHERE closed = 0)
            + (SELECT count(*) FROM outbox WHERE state IN ('queued', 'sent', 'mined'))"""
        database = f"sqlite3.connect({STATE_DATABASE!r})"
        script = f"import sqlite3; print({database}.execute({query!r}).fetchone()[0])"
        wait_until(
            lambda: self.lab.run("control", "python3", "-c", script).stdout.strip() == "0",
            timeout=60,
        )

    def check(self, run):
        """Assert that a job ran once, is settled once, and that its cost matches Slurm's record."""
        self.grid.wait(self.customer, run.number, "FINISHED")
        job = self.grid.check_money(self.customer, run.number)

        history = self.grid.history(self.customer, run.number)
        events = [event["event"] for event in history]
        assert events.count("JobSettled") == 1
        assert self.lines(run) == ["start", "end"]
        (record,) = self.lab.sacct(job["id"])
        assert (record["user"], record["state"]) == (self.customer.address, "COMPLETED")
        assert job["cost_wei"] > 0


@pytest.fixture(scope="module")
def crash_bench(lab, grid):
    return CrashBench(lab, grid)


@pytest.fixture(scope="module")
def running_jobs(crash_bench):
    """Start a job for each of FAILPOINTS_AT_END. Return the running jobs by failpoint."""
    runs = {failpoint: crash_bench.submit() for failpoint in FAILPOINTS_AT_END}
    for run in runs.values():
        crash_bench.grid.wait(crash_bench.customer, run.number, "RUNNING")
    return runs


@pytest.fixture(scope="module")
def interrupted_jobs(crash_bench):
    """Submit a job for each of FAILPOINTS_BEFORE_START, and kill the supervisor at this failpoint.

    Returns the jobs by failpoint.
    """
    runs = {}
    for failpoint in FAILPOINTS_BEFORE_START:
        with crash_bench.killed_at(failpoint):
            run = crash_bench.submit()
        crash_bench.release(run)
        runs[failpoint] = run
    return runs


@pytest.mark.parametrize("failpoint", FAILPOINTS_BEFORE_START)
def test_a_job_runs_once_and_is_settled_once_if_the_supervisor_is_killed_before_the_start(
    crash_bench, interrupted_jobs, failpoint
):
    crash_bench.check(interrupted_jobs[failpoint])


def test_a_job_is_settled_once_if_the_supervisor_is_killed_while_the_job_runs(crash_bench):
    run = crash_bench.submit()
    crash_bench.grid.wait(crash_bench.customer, run.number, "RUNNING")
    crash_bench.lab.run("control", "systemctl", "kill", "--signal=KILL", UNIT)
    crash_bench.release(run)

    crash_bench.check(run)


@pytest.mark.parametrize("failpoint", FAILPOINTS_AT_END)
def test_a_job_is_settled_once_if_the_supervisor_is_killed_after_the_job_ends(
    crash_bench, running_jobs, failpoint
):
    if failpoint in FAILPOINTS_FOR_IDLE_SUPERVISOR:
        crash_bench.wait_until_idle()
    with crash_bench.killed_at(failpoint):
        crash_bench.release(running_jobs[failpoint])

    crash_bench.check(running_jobs[failpoint])


def test_a_job_that_starts_and_ends_while_the_supervisor_is_down_is_settled_once(crash_bench, lab):
    # Keep the job in the queue until the supervisor is stopped.
    lab.run("controller", "scontrol", "update", "PartitionName=main", "State=DOWN")
    try:
        run = crash_bench.submit()
        name = slurm_job_name(run.number)
        wait_until(lambda: lab.run("controller", "squeue", "-h", "-n", name).stdout, timeout=60)
        lab.run("control", "systemctl", "stop", UNIT)
    finally:
        lab.run("controller", "scontrol", "update", "PartitionName=main", "State=UP")
    try:
        crash_bench.release(run)
        lab.wait_ended(name)
    finally:
        lab.run("control", "systemctl", "start", UNIT)

    crash_bench.check(run)
