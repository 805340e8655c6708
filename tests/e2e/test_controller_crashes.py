# SPDX-License-Identifier: Apache-2.0
"""Slurm's controller killed or stopped under paid jobs.

What is promised: each job runs to its end at least once, is settled once, as finished, and for no
more time than one of its runs took by the job's own clock, and waited for slurmctld to make its
step. What is not: that a job runs only once. slurmctld writes its state some seconds late, so after
a kill it may have forgotten a job that ran or even ended; Slurm itself or the supervisor then runs
it again. The earlier runs are the provider's loss. A node must not be drained by it.
"""

import contextlib
import secrets
import time
from dataclasses import dataclass

import pytest
from tests import billing_oracle
from tests.e2e.conftest import wait_until

DOWN_S = 8
ROUNDING_S = (
    2  # Slurm counts whole seconds at both ends, and starts a job a moment before its script
)


@dataclass(frozen=True)
class Run:
    """A job of the grid and the file in its customer's home that it writes its times to."""

    number: int
    trace: str

    @property
    def name(self):
        """Its Slurm name."""
        return f"0x{self.number:064x}"


class Controller:
    """Submits jobs that note their times, and takes slurmctld away from them."""

    def __init__(self, lab, grid):
        self.lab = lab
        self.grid = grid
        self.someone = grid.customer("controller")
        self.home = f"/home/ldap-users/{self.someone.address}"

    def submit(self, seconds):
        """Submit a job that takes so long."""
        trace = f"times-{secrets.token_hex(4)}"
        command = f'cd "$HOME"; echo start $(date +%s) >>{trace}; sleep {seconds}; echo end $(date +%s) >>{trace}'
        return Run(number=self.grid.submit(self.someone, command), trace=trace)

    def wait_listed(self, runs):
        """Wait until slurmctld has taken all these jobs."""
        names = ",".join(run.name for run in runs)
        count = f"squeue -h --states=all -n {names} | wc -l"
        wait_until(
            lambda: int(self.lab.sh("controller", count)) == len(runs), timeout=60, every=0.1
        )

    def wait_started(self, run):
        """Wait until a job has written its start."""
        wait_until(lambda: self.times(run), timeout=60)

    def kill(self):
        """Kill slurmctld; systemd starts it again."""
        self.lab.run("controller", "systemctl", "kill", "--signal=KILL", "slurmctld")

    @contextlib.contextmanager
    def down(self):
        """Keep slurmctld from running in the body."""
        self.lab.run("controller", "systemctl", "stop", "slurmctld")
        try:
            yield
        finally:
            self.lab.run("controller", "systemctl", "start", "slurmctld")

    @contextlib.contextmanager
    def without_accounting(self):
        """Keep slurmdbd from running in the body, and a slurmctld that starts from waiting for it."""
        place = "/run/systemd/system/slurmctld.service.d"
        self.lab.sh(
            "controller",
            f"mkdir -p {place}; echo [Service] >{place}/impatient.conf; echo ExecStartPre= >>{place}/impatient.conf; "
            f"systemctl cat slurmctld | grep ^ExecStartPre=+ >>{place}/impatient.conf; systemctl daemon-reload",
        )
        self.lab.run("db", "systemctl", "stop", "slurmdbd")
        try:
            yield
        finally:
            self.lab.run("db", "systemctl", "start", "slurmdbd")
            self.lab.sh("controller", f"rm {place}/impatient.conf; systemctl daemon-reload")

    def drained(self):
        """Return the nodes that take no jobs any more."""
        return self.lab.run(
            "controller", "sinfo", "--noheader", "--states=drain", "--format=%n"
        ).stdout.split()

    def times(self, run):
        """Return what a job has written: word and Unix seconds, oldest first."""
        text = self.lab.run("infra", "cat", f"{self.home}/{run.trace}", check=False).stdout
        return [(word, int(at)) for word, at in (line.split() for line in text.splitlines())]

    def durations(self, run):
        """Return how long each run that came to its end took, by its own clock."""
        start, found = None, []
        for word, at in self.times(run):
            if word == "start":
                start = at
            elif start is not None:
                found.append(at - start)
        return found

    def waited(self, run):
        """Return how long a job had its node, at most, before its step, which Slurm makes when
        slurmctld is there.
        """
        ask = f"SLURM_TIME_FORMAT=%s sacct -a -n -D --parsable2 -S now-1days --name={run.name} -o jobid,start"
        rows = [line.split("|") for line in self.lab.sh("controller", ask).splitlines()]
        began = [int(at) for name, at in rows if name.isdigit() and at.isdigit()]
        steps = [int(at) for name, at in rows if name.endswith(".0") and at.isdigit()]
        return max(step - max((at for at in began if at <= step), default=step) for step in steps)

    def check(self, run):
        """Assert what is promised for a job."""
        job = self.grid.wait(self.someone, run.number, "FINISHED", timeout=180)
        events = [step["event"] for step in self.grid.history(self.someone, run.number)]
        assert events.count("JobSettled") == 1

        durations = self.durations(run)
        assert durations, "it never came to its end"
        billed_s = billing_oracle.billed_seconds(job["cost_wei"], job["price_per_min_wei"])
        assert min(durations) <= billed_s <= max(durations) + self.waited(run) + ROUNDING_S

        # A run that slurmctld had forgotten to be over was cancelled after it was paid; its record
        # says so now.
        ended = [
            record for record in self.lab.wait_ended(run.name) if record["state"] == "COMPLETED"
        ]
        worth = [self.lab.worth(record) for record in ended]
        costs = [billing_oracle.cost(seconds, job["price_per_min_wei"]) for seconds in worth]
        assert job["cost_wei"] in costs or not ended
        return ended


@pytest.fixture(scope="module")
def controller(lab, grid):
    return Controller(lab, grid)


def test_jobs_outlive_a_controller_killed_a_second_after_their_submission(controller):
    runs = [controller.submit(seconds) for seconds in (4, DOWN_S)]
    controller.wait_listed(runs)
    time.sleep(1)  # the moment itself is what is tested
    controller.kill()

    for run in runs:
        controller.check(run)
    assert controller.drained() == []


def test_a_job_that_ends_while_the_controller_is_down_is_not_billed_for_that(controller):
    run = controller.submit(5)
    controller.wait_started(run)
    with controller.down():
        wait_until(lambda: controller.durations(run), timeout=30)
        time.sleep(DOWN_S)

    (record,) = controller.check(run)
    (duration,) = controller.durations(run)
    assert int(record["elapsedraw"]) > duration + ROUNDING_S, (
        "slurmctld knew the end, so nothing was tested"
    )


def test_a_controller_killed_while_a_job_ends_does_not_raise_its_bill(controller):
    run = controller.submit(12)
    controller.wait_started(run)
    time.sleep(7)  # by now slurmctld has written that the job runs
    controller.kill()
    with controller.down():
        wait_until(lambda: controller.durations(run), timeout=30)
        time.sleep(DOWN_S)

    controller.check(run)
    assert controller.drained() == []


def test_a_controller_that_forgot_a_customer_while_accounting_was_down_is_told_again(
    lab, grid, controller
):
    state = "/var/lib/slurm/slurmctld/assoc_mgr_state"
    lab.run("controller", "cp", "--preserve", state, f"{state}.earlier")
    someone = grid.customer("forgotten")
    grid.wait(someone, grid.submit(someone, "true"), "FINISHED")
    since = lab.sh("controller", "date +%s").strip()

    with controller.without_accounting():
        lab.run("controller", "systemctl", "stop", "slurmctld")
        lab.run(
            "controller", "mv", f"{state}.earlier", state
        )  # as a power cut leaves it, up to five minutes old
        lab.run("controller", "systemctl", "start", "slurmctld")

    grid.wait(someone, grid.submit(someone, "true"), "FINISHED", timeout=120)
    log = lab.sh("controller", f"journalctl --since=@{since} --unit=gridstead-agent --output=cat")
    assert "association_unknown" in log, "slurmctld knew the customer, so nothing was tested"
