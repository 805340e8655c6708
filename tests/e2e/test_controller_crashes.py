# SPDX-License-Identifier: Apache-2.0
"""Tests that kill or stop slurmctld while paid jobs run.

The tests check these guarantees:

- Each job runs to its end at least once.
- Each job is settled once, as finished.
- The billed time is at most the duration of one run plus the time that the run waited until
  slurmctld created the run's job step. The job itself measures the duration.
- No node is drained.

A job may run more than once, because slurmctld writes its state with a delay of some seconds. After
a kill, slurmctld may not know that a job has started or ended. Slurm or the supervisor then runs
the job again. The provider is not paid for the earlier runs.
"""

import contextlib
import secrets
import time
from dataclasses import dataclass

import pytest
from tests import billing_oracle
from tests.e2e.conftest import slurm_job_name, wait_until

DOWNTIME_S = 8
ROUNDING_S = 2  # Slurm rounds start and end to seconds, and starts a job shortly before its script


@dataclass(frozen=True)
class JobRun:
    """A grid job that writes its start and end times to ``times_file`` in the customer's home."""

    number: int
    times_file: str

    @property
    def name(self):
        """The name of the Slurm job."""
        return slurm_job_name(self.number)


class Controller:
    """A test bench that stops slurmctld, and submits jobs that record their start and end times."""

    def __init__(self, lab, grid):
        self.lab = lab
        self.grid = grid
        self.customer = grid.customer("controller")
        self.home = f"/home/ldap-users/{self.customer.address}"

    def submit(self, seconds):
        """Submit a job that takes this many seconds."""
        times_file = f"times-{secrets.token_hex(4)}"
        command = (
            f'cd "$HOME"; echo start $(date +%s) >>{times_file}; '
            f"sleep {seconds}; echo end $(date +%s) >>{times_file}"
        )
        return JobRun(number=self.grid.submit(self.customer, command), times_file=times_file)

    def wait_until_listed(self, runs):
        """Wait until slurmctld lists all these jobs."""
        names = ",".join(run.name for run in runs)
        count = f"squeue -h --states=all -n {names} | wc -l"
        wait_until(
            lambda: int(self.lab.sh("controller", count)) == len(runs), timeout=60, every=0.1
        )

    def wait_until_started(self, run):
        """Wait until a job has written its start time."""
        wait_until(lambda: self.times(run), timeout=60)

    def kill_slurmctld(self):
        """Kill slurmctld. systemd starts it again."""
        self.lab.run("controller", "systemctl", "kill", "--signal=KILL", "slurmctld")

    @contextlib.contextmanager
    def slurmctld_stopped(self):
        """Stop slurmctld during the ``with`` block."""
        self.lab.run("controller", "systemctl", "stop", "slurmctld")
        try:
            yield
        finally:
            self.lab.run("controller", "systemctl", "start", "slurmctld")

    @contextlib.contextmanager
    def slurmdbd_stopped(self):
        """Stop slurmdbd during the ``with`` block. slurmctld then starts without slurmdbd."""
        folder = "/run/systemd/system/slurmctld.service.d"
        drop_in = f"{folder}/no-wait.conf"
        # The drop-in keeps only the ExecStartPre commands with prefix +. The command that waits for
        # slurmdbd has no such prefix.
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

    def drained_nodes(self):
        """Return the drained nodes."""
        return self.lab.run(
            "controller", "sinfo", "--noheader", "--states=drain", "--format=%n"
        ).stdout.split()

    def times(self, run):
        """Return the pairs ("start" or "end", Unix time) of a job's file, oldest first."""
        text = self.lab.run("infra", "cat", f"{self.home}/{run.times_file}", check=False).stdout
        times = []
        for line in text.splitlines():
            word, time_s = line.split()
            times.append((word, int(time_s)))
        return times

    def durations(self, run):
        """Return the durations, in seconds, of those runs of a job that reached their end."""
        start_s, durations = None, []
        for word, time_s in self.times(run):
            if word == "start":
                start_s = time_s
            elif start_s is not None:
                durations.append(time_s - start_s)
        return durations

    def longest_wait_for_step(self, run):
        """Return the longest time between a start of the job and the start of the job's step.

        slurmctld creates the step, so the job waits for the step while slurmctld is down.
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
            earlier_starts = [start for start in job_starts if start <= step_start]
            # The latest of these starts is the start of the run to which the step belongs.
            delays.append(step_start - max(earlier_starts, default=step_start))
        return max(delays)

    def check_job(self, run):
        """Assert the guarantees for a job. Return the job's COMPLETED accounting records."""
        job = self.grid.wait(self.customer, run.number, "FINISHED", timeout=180)
        history = self.grid.history(self.customer, run.number)
        events = [event["event"] for event in history]
        assert events.count("JobSettled") == 1

        durations = self.durations(run)
        assert durations, "the job never ended"
        billed_s = billing_oracle.billed_seconds(job["cost_wei"], job["price_per_min_wei"])
        max_billed_s = max(durations) + self.longest_wait_for_step(run) + ROUNDING_S
        assert min(durations) <= billed_s <= max_billed_s

        completed_records, costs = [], []
        for record in self.lab.wait_ended(run.name):
            if record["state"] == "COMPLETED":
                completed_records.append(record)
                seconds = self.lab.billed_seconds(record)
                costs.append(billing_oracle.cost(seconds, job["price_per_min_wei"]))
        # If slurmctld does not know that a run has ended, the run is cancelled after the payment.
        # Then no record is COMPLETED.
        if completed_records:
            assert job["cost_wei"] in costs
        return completed_records


@pytest.fixture(scope="module")
def controller(lab, grid):
    return Controller(lab, grid)


def test_jobs_survive_a_kill_of_slurmctld_after_their_submission(controller):
    runs = [controller.submit(seconds) for seconds in (4, DOWNTIME_S)]
    controller.wait_until_listed(runs)
    time.sleep(1)  # slurmctld is killed 1 s after it has listed the jobs
    controller.kill_slurmctld()

    for run in runs:
        controller.check_job(run)
    assert controller.drained_nodes() == []


def test_downtime_of_slurmctld_after_the_end_of_a_job_is_not_billed(controller):
    run = controller.submit(5)
    controller.wait_until_started(run)
    with controller.slurmctld_stopped():
        wait_until(lambda: controller.durations(run), timeout=30)
        time.sleep(DOWNTIME_S)

    (record,) = controller.check_job(run)
    (duration,) = controller.durations(run)
    assert int(record["elapsedraw"]) > duration + ROUNDING_S, "slurmctld knew the right end"


def test_a_kill_of_slurmctld_before_the_end_of_a_job_does_not_increase_the_bill(controller):
    run = controller.submit(12)
    controller.wait_until_started(run)
    time.sleep(7)  # after this time, slurmctld has saved the state of the running job
    controller.kill_slurmctld()
    with controller.slurmctld_stopped():
        wait_until(lambda: controller.durations(run), timeout=30)
        time.sleep(DOWNTIME_S)

    controller.check_job(run)
    assert controller.drained_nodes() == []


def test_a_customer_whom_slurmctld_lost_is_added_to_slurm_again(lab, grid, controller):
    state = "/var/lib/slurm/slurmctld/assoc_mgr_state"
    lab.run("controller", "cp", "--preserve", state, f"{state}.earlier")
    customer = grid.customer("forgotten")
    grid.wait(customer, grid.submit(customer, "true"), "FINISHED")
    since = lab.sh("controller", "date +%s").strip()

    with controller.slurmdbd_stopped():
        lab.run("controller", "systemctl", "stop", "slurmctld")
        # After a power cut, this file may have the content that it had up to five minutes earlier.
        lab.run("controller", "mv", f"{state}.earlier", state)
        lab.run("controller", "systemctl", "start", "slurmctld")

    grid.wait(customer, grid.submit(customer, "true"), "FINISHED", timeout=120)
    log = lab.sh("controller", f"journalctl --since=@{since} --unit=gridstead-agent --output=cat")
    assert "association_unknown" in log, "slurmctld still knew the customer"
