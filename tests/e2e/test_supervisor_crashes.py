# SPDX-License-Identifier: Apache-2.0
"""A supervisor that is killed at each failpoint of a job's path. The job runs once, is settled once
and has the right cost.

Each job appends a line to a trace file in its customer's home at its start and at its end. It waits
for another file between the two lines, so that the test decides when the job ends.
"""

import contextlib
import secrets
from dataclasses import dataclass

import pytest
from tests.e2e.conftest import wait_until

pytestmark = pytest.mark.chain

UNIT = "gridstead-supervisor"
DROP_IN = f"/run/systemd/system/{UNIT}.service.d/crash.conf"
STATE = "/var/lib/gridstead/supervisor/state.db"

# In this order, pending work of an earlier job does not reach the failpoint of a later job.
BEFORE_START = [
    "before_SetRunning",
    "before_ClaimJobs",
    "claimed",
    "before_submit",
    "submitted",
]
AT_END = [
    "before_Settle",
    "transaction_stored",
    "transaction_sent",
    "receipt_seen",
    "outcome_stored",
]
NEEDS_IDLE = {"receipt_seen", "outcome_stored"}


@dataclass(frozen=True)
class Run:
    """A grid job and the name of its trace file."""

    number: int
    trace: str


class Crashes:
    """Submits jobs and kills the supervisor while they run."""

    def __init__(self, lab, grid):
        self.lab = lab
        self.grid = grid
        self.customer = grid.customer("crashes")
        self.home = f"/home/ldap-users/{self.customer.address}"

    def submit(self):
        """Submit a job that runs until it is released."""
        trace = f"crash-{secrets.token_hex(4)}"
        command = (
            f'cd "$HOME"; echo start >>{trace}; '
            f"until sleep 1; [ -e {trace}.go ]; do :; done; echo end >>{trace}"
        )
        return Run(number=self.grid.submit(self.customer, command), trace=trace)

    def release(self, run):
        """Let a job end."""
        self.lab.run("infra", "touch", f"{self.home}/{run.trace}.go")

    def lines(self, run):
        """Return the words of a job's trace file."""
        return self.lab.run("infra", "cat", f"{self.home}/{run.trace}", check=False).stdout.split()

    @contextlib.contextmanager
    def dying_at(self, failpoint):
        """Kill the supervisor at a failpoint that the body reaches; start it after the body."""
        drop_in = f"[Service]\nRestart=no\nEnvironment=GRIDSTEAD_FAILPOINT={failpoint}\n"
        self.lab.sh(
            "control",
            f"mkdir -p $(dirname {DROP_IN}); cat >{DROP_IN}; "
            f"systemctl daemon-reload; systemctl restart {UNIT}",
            input=drop_in,
        )
        try:
            yield
            wait_until(self.is_dead, timeout=90, every=0.2)
        finally:
            self.lab.sh(
                "control", f"rm {DROP_IN}; systemctl daemon-reload; systemctl restart {UNIT}"
            )

    def is_dead(self):
        """Return whether the supervisor was killed and has not been started again."""
        shown = self.lab.sh(
            "control", f"systemctl show {UNIT} -p Result -p ActiveState --value"
        ).split()
        return sorted(shown) == ["failed", "signal"]

    def wait_idle(self):
        """Wait until the supervisor has no pending transaction."""
        query = """SELECT (SELECT count(*) FROM transactions WHERE closed = 0)
            + (SELECT count(*) FROM outbox WHERE state IN ('queued', 'sent', 'mined'))"""
        script = (
            f"import sqlite3; print(sqlite3.connect({STATE!r}).execute({query!r}).fetchone()[0])"
        )
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
def crashes(lab, grid):
    return Crashes(lab, grid)


@pytest.fixture(scope="module")
def running(crashes):
    """A running job for each failpoint at the end of the path, by failpoint. None of the jobs has
    pending transactions.
    """
    runs = {failpoint: crashes.submit() for failpoint in AT_END}
    for run in runs.values():
        crashes.grid.wait(crashes.customer, run.number, "RUNNING")
    return runs


@pytest.fixture(scope="module")
def interrupted(crashes):
    """A job for each failpoint before the start, by failpoint, after the supervisor died there."""
    runs = {}
    for failpoint in BEFORE_START:
        with crashes.dying_at(failpoint):
            run = crashes.submit()
        crashes.release(run)
        runs[failpoint] = run
    return runs


@pytest.mark.parametrize("failpoint", BEFORE_START)
def test_a_supervisor_killed_before_the_start_runs_and_settles_the_job_once(
    crashes, interrupted, failpoint
):
    crashes.check(interrupted[failpoint])


def test_a_supervisor_killed_while_a_job_runs_settles_it_once(crashes):
    run = crashes.submit()
    crashes.grid.wait(crashes.customer, run.number, "RUNNING")
    crashes.lab.run("control", "systemctl", "kill", "--signal=KILL", UNIT)
    crashes.release(run)

    crashes.check(run)


@pytest.mark.parametrize("failpoint", AT_END)
def test_a_supervisor_killed_after_the_end_settles_the_job_once(crashes, running, failpoint):
    if failpoint in NEEDS_IDLE:
        crashes.wait_idle()
    with crashes.dying_at(failpoint):
        crashes.release(running[failpoint])

    crashes.check(running[failpoint])


def test_a_job_that_starts_and_ends_while_the_supervisor_is_down_is_settled_once(crashes, lab):
    lab.run("controller", "scontrol", "update", "PartitionName=main", "State=DOWN")
    try:
        run = crashes.submit()
        name = f"0x{run.number:064x}"
        wait_until(lambda: lab.run("controller", "squeue", "-h", "-n", name).stdout, timeout=60)
        lab.run("control", "systemctl", "stop", UNIT)
    finally:
        lab.run("controller", "scontrol", "update", "PartitionName=main", "State=UP")
    try:
        crashes.release(run)
        lab.wait_ended(name)
    finally:
        lab.run("control", "systemctl", "start", UNIT)

    crashes.check(run)
