# SPDX-License-Identifier: Apache-2.0
"""slurmctld killed or stopped while paid jobs run.

Guarantees: each job runs to its end at least once and is settled once, as finished. The billed time
is at most the time of one run, by the job's own clock, plus the time that the run waited for
slurmctld to create its step. No node is drained.

A job may run more than once: slurmctld writes its state with a delay of some seconds. After a kill,
slurmctld may not know a job that has started or ended. Slurm or the supervisor then runs the job
again. The provider is not paid for the earlier runs.
"""

import contextlib
import secrets
import time
from dataclasses import dataclass

import pytest
from tests import billing_oracle
from tests.e2e.conftest import wait_until

DOWN_S = 8
ROUNDING_S = 2  # Slurm rounds both times to seconds and starts a job shortly before its script


@dataclass(frozen=True)
class Run:
    """A grid job and the name of the file in its customer's home with its start and end times."""

    number: int
    trace: str

    @property
    def name(self):
        """The name of the Slurm job."""
        return f"0x{self.number:064x}"


class Controller:
    """Submits jobs that record their times, and stops slurmctld while they run."""

    def __init__(self, lab, grid):
        self.lab = lab
        self.grid = grid
        self.someone = grid.customer("controller")
        self.home = f"/home/ldap-users/{self.someone.address}"

    def submit(self, seconds):
        """Submit a job that takes this many seconds."""
        trace = f"times-{secrets.token_hex(4)}"
        command = (
            f'cd "$HOME"; echo start $(date +%s) >>{trace}; '
            f"sleep {seconds}; echo end $(date +%s) >>{trace}"
        )
        return Run(number=self.grid.submit(self.someone, command), trace=trace)

    def wait_listed(self, runs):
        """Wait until slurmctld lists all these jobs."""
        names = ",".join(run.name for run in runs)
        count = f"squeue -h --states=all -n {names} | wc -l"
        wait_until(
            lambda: int(self.lab.sh("controller", count)) == len(runs), timeout=60, every=0.1
        )

    def wait_started(self, run):
        """Wait until a job has written its start time."""
        wait_until(lambda: self.times(run), timeout=60)

    def kill(self):
        """Kill slurmctld; systemd starts it again."""
        self.lab.run("controller", "systemctl", "kill", "--signal=KILL", "slurmctld")

    @contextlib.contextmanager
    def down(self):
        """Stop slurmctld for the body."""
        self.lab.run("controller", "systemctl", "stop", "slurmctld")
        try:
            yield
        finally:
            self.lab.run("controller", "systemctl", "start", "slurmctld")

    @contextlib.contextmanager
    def without_accounting(self):
        """Stop slurmdbd for the body. slurmctld does not wait for slurmdbd at its start."""
        folder = "/run/systemd/system/slurmctld.service.d"
        drop_in = f"{folder}/no-wait.conf"
        self.lab.sh(
            "controller",
            f"mkdir -p {folder}; printf '[Service]\\nExecStartPre=\\n' >{drop_in}; "
            f"systemctl cat slurmctld | grep ^ExecStartPre=+ >>{drop_in}; systemctl daemon-reload",
        )
        self.lab.run("db", "systemctl", "stop", "slurmdbd")
        try:
            yield
        finally:
            self.lab.run("db", "systemctl", "start", "slurmdbd")
            self.lab.sh("controller", f"rm {drop_in}; systemctl daemon-reload")

    def drained(self):
        """Return the drained nodes."""
        return self.lab.run(
            "controller", "sinfo", "--noheader", "--states=drain", "--format=%n"
        ).stdout.split()

    def times(self, run):
        """Return the words and times (Unix seconds) in a job's file, oldest first."""
        text = self.lab.run("infra", "cat", f"{self.home}/{run.trace}", check=False).stdout
        lines = [line.split() for line in text.splitlines()]
        return [(word, int(time_s)) for word, time_s in lines]

    def durations(self, run):
        """Return the duration of each run that reached its end, by the job's clock."""
        start_s, durations = None, []
        for word, time_s in self.times(run):
            if word == "start":
                start_s = time_s
            elif start_s is not None:
                durations.append(time_s - start_s)
        return durations

    def waited(self, run):
        """Return the longest time between a start of the job and the start of its step.

        Slurm creates the step only while slurmctld runs.
        """
        options = f"-a -n -D --parsable2 -S now-1days --name={run.name} -o jobid,start"
        listing = self.lab.sh("controller", f"SLURM_TIME_FORMAT=%s sacct {options}")
        job_starts, step_starts = [], []
        for line in listing.splitlines():
            slurm_id, start = line.split("|")
            if start.isdigit() and slurm_id.isdigit():
                job_starts.append(int(start))
            elif start.isdigit() and slurm_id.endswith(".0"):
                step_starts.append(int(start))
        delays = []
        for step_start in step_starts:
            earlier = [start for start in job_starts if start <= step_start]
            delays.append(step_start - max(earlier, default=step_start))
        return max(delays)

    def check(self, run):
        """Assert the guarantees for a job."""
        job = self.grid.wait(self.someone, run.number, "FINISHED", timeout=180)
        history = self.grid.history(self.someone, run.number)
        events = [event["event"] for event in history]
        assert events.count("JobSettled") == 1

        durations = self.durations(run)
        assert durations, "the job never ended"
        billed_s = billing_oracle.billed_seconds(job["cost_wei"], job["price_per_min_wei"])
        assert min(durations) <= billed_s <= max(durations) + self.waited(run) + ROUNDING_S

        # slurmctld may not know that a run has ended. It then cancels the run after the payment,
        # and the record changes to CANCELLED.
        records = self.lab.wait_ended(run.name)
        ended = [record for record in records if record["state"] == "COMPLETED"]
        durations_s = [self.lab.billed_seconds(record) for record in ended]
        costs = [billing_oracle.cost(seconds, job["price_per_min_wei"]) for seconds in durations_s]
        assert job["cost_wei"] in costs or not ended
        return ended


@pytest.fixture(scope="module")
def controller(lab, grid):
    return Controller(lab, grid)


def test_jobs_survive_a_kill_of_slurmctld_right_after_submission(controller):
    runs = [controller.submit(seconds) for seconds in (4, DOWN_S)]
    controller.wait_listed(runs)
    time.sleep(1)  # the test needs this delay
    controller.kill()

    for run in runs:
        controller.check(run)
    assert controller.drained() == []


def test_time_without_slurmctld_after_the_end_is_not_billed(controller):
    run = controller.submit(5)
    controller.wait_started(run)
    with controller.down():
        wait_until(lambda: controller.durations(run), timeout=30)
        time.sleep(DOWN_S)

    (record,) = controller.check(run)
    (duration,) = controller.durations(run)
    assert int(record["elapsedraw"]) > duration + ROUNDING_S, "slurmctld knew the right end"


def test_a_kill_of_slurmctld_at_the_end_does_not_increase_the_bill(controller):
    run = controller.submit(12)
    controller.wait_started(run)
    time.sleep(7)  # slurmctld has saved the running job after this time
    controller.kill()
    with controller.down():
        wait_until(lambda: controller.durations(run), timeout=30)
        time.sleep(DOWN_S)

    controller.check(run)
    assert controller.drained() == []


def test_a_customer_missing_in_slurmctld_is_added_again(lab, grid, controller):
    state = "/var/lib/slurm/slurmctld/assoc_mgr_state"
    lab.run("controller", "cp", "--preserve", state, f"{state}.earlier")
    someone = grid.customer("forgotten")
    grid.wait(someone, grid.submit(someone, "true"), "FINISHED")
    since = lab.sh("controller", "date +%s").strip()

    with controller.without_accounting():
        lab.run("controller", "systemctl", "stop", "slurmctld")
        # After a power cut, this file may be up to five minutes old.
        lab.run("controller", "mv", f"{state}.earlier", state)
        lab.run("controller", "systemctl", "start", "slurmctld")

    grid.wait(someone, grid.submit(someone, "true"), "FINISHED", timeout=120)
    log = lab.sh("controller", f"journalctl --since=@{since} --unit=gridstead-agent --output=cat")
    assert "association_unknown" in log, "slurmctld still knew the customer"
