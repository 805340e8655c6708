# SPDX-License-Identifier: Apache-2.0
"""Test that the second controller takes over when the first controller fails during a paid job."""

import contextlib
import re
import secrets
import shlex
import subprocess
from pathlib import Path

import pytest
from tests.e2e import many_customers
from tests.e2e.conftest import GridClient, Lab, slurm_job_name, wait_until

LAB_FOLDER = Path(__file__).resolve().parents[3] / ".lab" / "molecule-two_controllers"
FIRST, SECOND = "controller", "control"
TIMEOUT_S = 120
STATE_FOLDER = "/srv/shared/slurm"


class Cluster(Lab):
    """A lab. Its methods run Slurm commands on the second controller, whose host does not fail."""

    def run(self, host, *argv, check=True, **options):
        """Run a command on a host over a new ssh connection.

        A shared connection is not used, because it hangs after its host has stopped.
        """
        config = str(self.folder / "ssh_config")
        ssh = ["ssh", "-F", config, "-o", "ConnectTimeout=5", host, shlex.join(argv)]
        options = {"timeout": TIMEOUT_S} | options
        return subprocess.run(ssh, check=check, capture_output=True, text=True, **options)

    def answering_controllers(self):
        """Return the hosts whose slurmctld answers."""
        output = self.run(SECOND, "scontrol", "ping", check=False).stdout
        return set(re.findall(r"^Slurmctld\(\w+\) at (\S+) is UP$", output, re.MULTILINE))

    def state(self, number):
        """Return the state of a job of the grid in Slurm's queue.

        Returns an empty text if no slurmctld answers or if the job is not in the queue.
        """
        name = f"--name={slurm_job_name(number)}"
        command = ("squeue", "--noheader", "--states=all", name, "--format=%T")
        return self.run(SECOND, *command, check=False).stdout.strip()

    def records(self, number):
        """Return slurmdbd's records of a job of the grid, each as ``SLURM_JOB_ID|STATE``."""
        options = "-a -X -D -S now-1days -o jobidraw,state --noheader --parsable2"
        return self.sh(SECOND, f"sacct {options} --name={slurm_job_name(number)}").split()

    def is_completed(self, number):
        """Return whether the last record of a job of the grid has the state COMPLETED."""
        records = self.records(number)
        return bool(records) and records[-1].endswith("|COMPLETED")


@pytest.fixture(scope="module")
def cluster():
    return Cluster(LAB_FOLDER)


@pytest.fixture(scope="module")
def grid(cluster):
    with contextlib.closing(GridClient(cluster)) as client:
        yield client


@pytest.fixture
def stop_first_controller(cluster):
    """Cut the power of the first controller's host, and start the host after the test."""
    cluster.tool("kill", "--lab", "molecule-two_controllers", FIRST)
    try:
        yield
    finally:
        cluster.tool("start", "--lab", "molecule-two_controllers", FIRST)
        wait_until(lambda: cluster.answering_controllers() == {FIRST, SECOND}, timeout=TIMEOUT_S)


def test_both_controllers_answer_and_share_their_state(cluster):
    assert cluster.answering_controllers() == {FIRST, SECOND}
    for host in (FIRST, SECOND):
        files = set(cluster.sh(host, f"ls {STATE_FOLDER}").split())
        assert {"clustername", "state_of_this_cluster"} <= files


def test_a_restart_of_the_second_controller_holds_no_partitions(cluster):
    """The second controller does not create the file stopped_cleanly, which marks a clean stop.

    If this file exists, a later crash of the first controller looks like a clean stop.
    """
    cluster.run(SECOND, "systemctl", "restart", "slurmctld")
    wait_until(lambda: cluster.answering_controllers() == {FIRST, SECOND}, timeout=TIMEOUT_S)

    assert (
        cluster.sh(SECOND, f"find {STATE_FOLDER} -name stopped_cleanly -o -name partitions_held")
        == ""
    )
    assert cluster.sh(SECOND, "sinfo --noheader --format=%a").split() == ["up"]


@pytest.fixture(scope="module")
def running_job(cluster, grid):
    """Start a paid job that runs until a file exists."""
    customer = grid.customer("taken-over")
    signal_file = f"enough-{secrets.token_hex(4)}"
    workflow = many_customers.one_step(f'until test -e "$HOME/{signal_file}"; do sleep 0.5; done')
    with contextlib.closing(many_customers.connect(customer)) as connection:
        (number,) = connection.submit([workflow])
    grid.wait(customer, number, "RUNNING")
    return customer, number, f"/home/ldap-users/{customer.address}/{signal_file}"


@pytest.mark.usefixtures("stop_first_controller")
def test_a_running_job_ends_and_a_new_job_runs_without_the_first_controller(cluster, running_job):
    _, number, signal_file = running_job
    # 65534 is the uid and the gid of user nobody.
    submit = (
        "sbatch --parsable --uid=65534 --gid=65534 --account=grid --chdir=/tmp "
        "--output=/dev/null --time=1 --wrap=true"
    )
    # sacctmgr fails if an earlier run has added the user.
    add_user = (
        "sacctmgr --immediate add user nobody account=grid || "
        "sacctmgr --noheader show user nobody | grep nobody"
    )

    wait_until(lambda: cluster.state(number) == "RUNNING", timeout=TIMEOUT_S)
    assert cluster.answering_controllers() == {SECOND}
    cluster.sh(SECOND, add_user)
    new_job = cluster.sh(SECOND, submit).strip()
    cluster.sh(SECOND, f"touch {signal_file}")

    wait_until(lambda: cluster.is_completed(number), timeout=TIMEOUT_S)
    sacct = f"sacct -a -X --noheader -o state%20 -j {new_job}"
    wait_until(lambda: cluster.sh(SECOND, sacct).split() == ["COMPLETED"], timeout=TIMEOUT_S)


def test_the_job_is_paid_once_after_the_first_controller_returns(cluster, grid, running_job):
    customer, number, _ = running_job

    wait_until(
        lambda: cluster.sh(SECOND, "sinfo --noheader --format=%a:%T").split() == ["up:idle"],
        timeout=TIMEOUT_S,
    )
    grid.wait(customer, number, "FINISHED", timeout=TIMEOUT_S)

    assert len(cluster.records(number)) == 1
    grid.check_money(customer, number)
    assert (
        cluster.sh(FIRST, f"find {STATE_FOLDER} -name stopped_cleanly -o -name partitions_held")
        == ""
    )
