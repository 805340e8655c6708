# SPDX-License-Identifier: Apache-2.0
"""Tests of upgrade.yml on a cluster with a running paid job.

No newer version of Slurm is available. The tests therefore upgrade to packages with the same
version and a higher revision.
"""

import contextlib
import itertools
import os
import re
import subprocess
import threading
from pathlib import Path

import pytest
from tests.e2e import many_customers
from tests.e2e.conftest import CHECKOUT, slurm_job_name, wait_until

from gridstead_lab import names, processes

REPACK = (Path(__file__).parent / "repack.sh").read_text()
PACKAGE_FOLDER = "/var/tmp/newer"
NEWER_SUFFIX = "+lab1"
# Moves the other sources of apt away, because the lab cannot reach them.
ADD_APT_SOURCE = f"""
mkdir -p {PACKAGE_FOLDER} /var/tmp/sources
find /etc/apt -name '*.list' -o -name '*.sources' | xargs -r mv -t /var/tmp/sources
tar -x -C {PACKAGE_FOLDER}
echo 'deb [trusted=yes] file:{PACKAGE_FOLDER} ./' >/etc/apt/sources.list.d/newer.list
"""
# The units of the groups, in the order of an upgrade.
UNITS_OF_GROUPS = {
    "slurm_accounting": ("slurmdbd",),
    "slurm_controller": ("slurmctld", "slurmrestd"),
    "slurm_compute": ("slurmd",),
    "slurm_login": ("sackd",),
}
COUNT_END_REPORTS = """
import sqlite3, sys
opened = sqlite3.connect("file:/var/lib/gridstead/agent/reports.db?mode=ro", uri=True)
count = "SELECT count(*) FROM report WHERE event = 'end' AND slurm_job_id = ?"
print(opened.execute(count, sys.argv[1:]).fetchone()[0])
"""
# An nftables table that drops ssh connections to a host. The host continues to run.
BLOCK_SSH_RULES = (
    "table inet away { chain in { type filter hook input priority -300; tcp dport 22 drop; }; }"
)
TIMEOUT_S = 200
pytestmark = pytest.mark.timeout(1800)


class Cluster:
    """A reader of the state of Slurm on the hosts of a lab."""

    def __init__(self, lab):
        self.lab = lab

    @property
    def daemons(self):
        """Slurm's daemons, as pairs of host and unit, in the order of an upgrade."""
        pairs = []
        for group, units in UNITS_OF_GROUPS.items():
            pairs += itertools.product(self.lab.group(group), units)
        return pairs

    def start_times(self):
        """Return the start time of each daemon, by host and unit.

        The times are in microseconds of the monotonic clock, which all hosts of the lab share.
        """
        command = "systemctl show --property=ActiveEnterTimestampMonotonic --value"
        start_times = {}
        for host, unit in self.daemons:
            start_times[host, unit] = int(self.lab.sh(host, f"{command} {unit}"))
        return start_times

    def versions(self):
        """Return the versions of Slurm's packages on each host."""
        packages = "'slurm*' libslurm-dev"
        command = f"dpkg-query --show --showformat='${{Version}}\\n' {packages} | sort --unique"
        versions = {}
        for host, _ in self.daemons:
            if host not in versions:
                versions[host] = self.lab.sh(host, command).split()
        return versions

    def outdated_versions(self, hosts):
        """Return the package versions on these hosts that do not have the higher revision."""
        versions = self.versions()
        old = set()
        for host in hosts:
            for version in versions[host]:
                if NEWER_SUFFIX not in version:
                    old.add(version)
        return old

    def restarted_since(self, before):
        """Return the daemons that were restarted since ``before``, a result of start_times()."""
        now = self.start_times()
        return [daemon for daemon in self.daemons if now[daemon] != before[daemon]]


@pytest.fixture(scope="module")
def cluster(lab):
    return Cluster(lab)


@pytest.fixture(scope="module")
def newer_packages(lab, cluster):
    """Build packages with a higher revision and make them the only apt source of each host."""
    lab.run(
        lab.controller,
        "bash",
        "-s",
        PACKAGE_FOLDER,
        NEWER_SUFFIX,
        input=REPACK,
        timeout=3 * TIMEOUT_S,
    )
    archive = lab.folder / "newer.tar"
    ssh = ["ssh", "-F", str(lab.folder / "ssh_config")]
    with archive.open("wb") as out:
        subprocess.run(
            [*ssh, lab.controller, f"tar -c -C {PACKAGE_FOLDER} ."], check=True, stdout=out
        )
    for host in cluster.versions():
        with archive.open("rb") as packages:
            subprocess.run([*ssh, host, ADD_APT_SOURCE], check=True, stdin=packages)
    archive.unlink()


@pytest.fixture(scope="module")
def running_job(grid):
    """Start a paid job whose first step runs until a file exists.

    Returns the customer, the number of the job and the user's home directory.
    """
    customer = grid.customer("upgraded")
    home = f"/home/ldap-users/{customer.address}"
    workflow = many_customers.one_step('until test -e "$HOME/enough"; do sleep 0.5; done')
    workflow["steps"].append({"run": {"command": "echo another step"}})
    with contextlib.closing(many_customers.connect(customer)) as connection:
        (number,) = connection.submit([workflow])
    grid.wait(customer, number, "RUNNING", timeout=TIMEOUT_S)
    return customer, number, home


@pytest.fixture(scope="module")
def run_upgrade(run_playbook):
    """Return a function that runs upgrade.yml and returns its exit code and output on one line."""

    def run(*options):
        code, output = run_playbook("upgrade", *options)
        return code, " ".join(output.split())

    return run


@contextlib.contextmanager
def blocked_ssh(host):
    """Block ssh connections to a host during the ``with`` block."""
    lab_names = names.names(CHECKOUT, os.environ["GRIDSTEAD_LAB_NAME"])
    init = processes.init_of(processes.nspawns(lab_names)[host])
    nft = ["nsenter", f"--target={init}", "--net", "nft"]
    subprocess.run([*nft, BLOCK_SSH_RULES], check=True)
    try:
        yield
    finally:
        subprocess.run([*nft, "delete table inet away"], check=True)


def test_check_mode_lists_the_newer_packages_and_changes_nothing(
    cluster, newer_packages, running_job, run_upgrade
):
    before = cluster.start_times(), cluster.versions()

    code, output = run_upgrade("--check")

    assert code == 0, output
    # The output contains 'slurmd 24.11.5-4 -> 24.11.5-4+lab1: compute1, compute2, ...'.
    hosts = ", ".join(sorted(cluster.versions()))
    report = rf"slurmd 24\S+ -> 24\S+{re.escape(NEWER_SUFFIX)}: {hosts}'"
    assert re.search(report, output), output
    assert set(re.findall(r"changed=(\d+)", output)) == {"0"}
    assert (cluster.start_times(), cluster.versions()) == before


def test_a_failed_host_stops_the_run_before_later_hosts(
    lab, cluster, newer_packages, running_job, run_upgrade
):
    before = cluster.start_times()
    broken = lab.group("slurm_compute")[-1]
    # The packages of repack.sh cannot be installed on a host with this file.
    lab.sh(broken, "touch /var/tmp/broken")

    code, output = run_upgrade()

    assert code != 0
    assert f'{broken} was not upgraded: "Upgrade the packages of Slurm"' in output
    position = cluster.daemons.index((broken, "slurmd"))
    assert cluster.restarted_since(before) == cluster.daemons[:position]
    versions = cluster.versions()
    for host in lab.group("slurm_login"):
        assert NEWER_SUFFIX not in " ".join(versions[host])


def test_an_upgrade_can_exclude_an_unreachable_host(
    lab, cluster, newer_packages, running_job, run_upgrade
):
    excluded_node = lab.group("slurm_compute")[-1]
    before = cluster.start_times()
    other_daemons = [daemon for daemon in cluster.daemons if daemon != (excluded_node, "slurmd")]

    with blocked_ssh(excluded_node):
        code, output = run_upgrade("-e", f"without={excluded_node}")

    assert code == 0, output
    start_times = cluster.start_times()
    times = [start_times[daemon] for daemon in other_daemons]
    assert times == sorted(times), "the daemons were not restarted in the order of their groups"
    assert start_times[excluded_node, "slurmd"] == before[excluded_node, "slurmd"]
    assert cluster.outdated_versions(cluster.versions().keys() - {excluded_node}) == set()


def test_the_next_run_upgrades_the_excluded_host_while_jobs_run(
    lab, cluster, grid, newer_packages, running_job, run_upgrade
):
    customer, number, home = running_job
    before = cluster.start_times()
    broken = lab.group("slurm_compute")[-1]
    lab.sh(broken, "rm /var/tmp/broken")

    result = []
    thread = threading.Thread(target=lambda: result.extend(run_upgrade()))

    def slurmd_restarted_or_upgrade_ended():
        return (broken, "slurmd") in cluster.restarted_since(before) or result

    thread.start()
    wait_until(slurmd_restarted_or_upgrade_ended, timeout=TIMEOUT_S)
    meanwhile = grid.submit(customer, "echo meanwhile")
    thread.join()

    code, output = result
    assert code == 0, output
    assert cluster.restarted_since(before) == [(broken, "slurmd")]
    assert cluster.outdated_versions(cluster.versions()) == set()
    grid.wait(customer, meanwhile, "FINISHED", timeout=TIMEOUT_S)
    lab.sh(lab.group("storage")[0], f"touch {home}/enough")
    grid.wait(customer, number, "FINISHED", timeout=TIMEOUT_S)
    for job in (number, meanwhile):
        grid.check_money(customer, job)
        (record,) = lab.sacct(slurm_job_name(job))
        reports = lab.run(
            lab.controller, "python3", "-c", COUNT_END_REPORTS, record["jobid"]
        ).stdout
        assert int(reports) == 1  # the agent has one report of the job's end


def test_a_run_after_the_upgrade_changes_nothing(cluster, newer_packages, run_upgrade):
    before = cluster.start_times(), cluster.versions()

    code, output = run_upgrade()

    assert code == 0, output
    assert "Every host runs the newest Slurm that its apt offers." in output
    assert set(re.findall(r"changed=(\d+)", output)) == {"0"}
    assert (cluster.start_times(), cluster.versions()) == before
