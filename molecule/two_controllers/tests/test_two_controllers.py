# SPDX-License-Identifier: Apache-2.0
"""The first controller's host is cut off under a paid job: who is in charge, what runs on, what is
paid.
"""

import contextlib
import re
import secrets
import shlex
import subprocess
from pathlib import Path

import pytest
from tests.e2e import many_customers
from tests.e2e.conftest import GridClient, Lab, wait_until

FOLDER = Path(__file__).resolve().parents[3] / ".lab" / "molecule-two_controllers"
FIRST, SECOND = "controller", "control"
PATIENCE_S = 120
STATE = "/srv/shared/slurm"


class Cluster(Lab):
    """A lab that is asked at the host of the second controller, which stays."""

    def run(self, host, *argv, check=True, **options):
        """Run a command on a host, each over its own connection: a kept one would hang on a host
        that was cut off.
        """
        ssh = [
            "ssh",
            "-F",
            str(self.folder / "ssh_config"),
            "-o",
            "ConnectTimeout=5",
            host,
            shlex.join(argv),
        ]
        return subprocess.run(
            ssh, check=check, capture_output=True, text=True, **{"timeout": PATIENCE_S} | options
        )

    def answering(self):
        """Return the hosts whose slurmctld answers."""
        told = self.run(SECOND, "scontrol", "ping", check=False).stdout
        return set(re.findall(r"^Slurmctld\(\w+\) at (\S+) is UP$", told, re.MULTILINE))

    def state(self, number):
        """Return a job of the chain's state in the queue; empty while nobody answers or if it is
        not there.
        """
        ask = ("squeue", "--noheader", "--states=all", f"--name=0x{number:064x}", "--format=%T")
        return self.run(SECOND, *ask, check=False).stdout.strip()

    def records(self, number):
        """Return slurmdbd's records of a job of the chain: Slurm's id and the state of each."""
        fields = "-o jobidraw,state --noheader --parsable2"
        return self.sh(
            SECOND, f"sacct -a -X -D -S now-1days --name=0x{number:064x} {fields}"
        ).split()


@pytest.fixture(scope="module")
def cluster():
    return Cluster(FOLDER)


@pytest.fixture(scope="module")
def grid(cluster):
    with contextlib.closing(GridClient(cluster)) as one:
        yield one


@pytest.fixture
def cut_off(cluster):
    """The first controller's host is off; it is on again afterwards."""
    cluster.tool("kill", "--lab", "molecule-two_controllers", FIRST)
    try:
        yield
    finally:
        cluster.tool("start", "--lab", "molecule-two_controllers", FIRST)
        wait_until(lambda: cluster.answering() == {FIRST, SECOND}, timeout=PATIENCE_S)


def test_both_answer_and_keep_their_state_in_one_place(cluster):
    assert cluster.answering() == {FIRST, SECOND}
    for host in (FIRST, SECOND):
        assert {"clustername", "state_of_this_cluster"} <= set(
            cluster.sh(host, f"ls {STATE}").split()
        )


def test_the_second_holds_nothing_while_the_first_is_in_charge(cluster):
    """Its start and its end leave no note: a crash of the first would pass for a clean stop."""
    cluster.run(SECOND, "systemctl", "restart", "slurmctld")
    wait_until(lambda: cluster.answering() == {FIRST, SECOND}, timeout=PATIENCE_S)

    assert cluster.sh(SECOND, f"find {STATE} -name stopped_cleanly -o -name partitions_held") == ""
    assert cluster.sh(SECOND, "sinfo --noheader --format=%a").split() == ["up"]


@pytest.fixture(scope="module")
def running(cluster, grid):
    """A paid job that runs until a file tells it to go on."""
    customer = grid.customer("taken-over")
    enough = f"enough-{secrets.token_hex(4)}"
    workflow = many_customers.one_step(f'until test -e "$HOME/{enough}"; do sleep 0.5; done')
    with contextlib.closing(many_customers.join(customer)) as member:
        (number,) = member.submit([workflow])
    grid.wait(customer, number, "RUNNING")
    return customer, number, f"/home/ldap-users/{customer.address}/{enough}"


def test_a_job_outlives_its_controller_and_the_second_takes_new_ones(cluster, running, cut_off):
    _, number, enough = running
    script = "sbatch --parsable --uid=65534 --gid=65534 --account=grid --chdir=/tmp --output=/dev/null --time=1 --wrap=true"

    wait_until(lambda: cluster.state(number) == "RUNNING", timeout=PATIENCE_S)
    assert cluster.answering() == {SECOND}
    cluster.sh(
        SECOND,
        "sacctmgr --immediate add user nobody account=grid || sacctmgr --noheader show user nobody | grep nobody",
    )
    another = cluster.sh(SECOND, script).strip()
    cluster.sh(SECOND, f"touch {enough}")

    wait_until(
        lambda: cluster.records(number) and cluster.records(number)[-1].endswith("|COMPLETED"),
        timeout=PATIENCE_S,
    )
    ask = f"sacct -a -X --noheader -o state%20 -j {another}"
    wait_until(lambda: cluster.sh(SECOND, ask).split() == ["COMPLETED"], timeout=PATIENCE_S)


def test_the_first_has_control_again_and_the_job_is_paid_once(cluster, grid, running):
    customer, number, _ = running

    wait_until(
        lambda: cluster.sh(SECOND, "sinfo --noheader --format=%a:%T").split() == ["up:idle"],
        timeout=PATIENCE_S,
    )
    grid.wait(customer, number, "FINISHED", timeout=PATIENCE_S)

    assert len(cluster.records(number)) == 1
    grid.check_money(customer, number)
    assert cluster.sh(FIRST, f"find {STATE} -name stopped_cleanly -o -name partitions_held") == ""
