# SPDX-License-Identifier: Apache-2.0
"""Test upgrade.yml on a cluster with a running paid job.

The newer Slurm is the installed version in packages with a higher revision, because no newer
version is available.
"""

import contextlib
import os
import re
import subprocess
import threading
from pathlib import Path

import pytest
from tests.e2e import many_customers
from tests.e2e.conftest import CHECKOUT, wait_until

from gridstead_lab import names, processes

REPACK = (Path(__file__).parent / "repack.sh").read_text()
FOLDER = "/var/tmp/newer"
SUFFIX = "+lab1"
# The other sources of apt cannot be reached from the lab and are moved away.
SOURCE = f"""
mkdir -p {FOLDER} /var/tmp/sources
find /etc/apt -name '*.list' -o -name '*.sources' | xargs -r mv -t /var/tmp/sources
tar -x -C {FOLDER}
echo 'deb [trusted=yes] file:{FOLDER} ./' >/etc/apt/sources.list.d/newer.list
"""
# Group -> units, in the order of an upgrade.
STAGES = {
    "slurm_accounting": ("slurmdbd",),
    "slurm_controller": ("slurmctld", "slurmrestd"),
    "slurm_compute": ("slurmd",),
    "slurm_login": ("sackd",),
}
REPORTS = """
import sqlite3, sys
opened = sqlite3.connect("file:/var/lib/gridstead/agent/reports.db?mode=ro", uri=True)
count = "SELECT count(*) FROM report WHERE event = 'end' AND slurm_job_id = ?"
print(opened.execute(count, sys.argv[1:]).fetchone()[0])
"""
# An nftables table that drops ssh connections to a host, which itself continues to run.
NO_SSH = (
    "table inet away { chain in { type filter hook input priority -300; tcp dport 22 drop; }; }"
)
# A run takes longer on a busy machine.
PATIENCE_S = 200
pytestmark = pytest.mark.timeout(1800)


class Cluster:
    """Read the state of Slurm on the hosts of a lab."""

    def __init__(self, lab):
        self.lab = lab

    @property
    def daemons(self):
        """Slurm's daemons, as pairs of host and unit, in the order of an upgrade."""
        pairs = []
        for group, units in STAGES.items():
            for host in self.lab.group(group):
                pairs += [(host, unit) for unit in units]
        return pairs

    def started(self):
        """Return the start time of each daemon, by host and unit.

        Units: microseconds of the machine's monotonic clock, which all hosts of the lab share.
        """
        command = "systemctl show --property=ActiveEnterTimestampMonotonic --value"
        started = {}
        for host, unit in self.daemons:
            started[host, unit] = int(self.lab.sh(host, f"{command} {unit}"))
        return started

    def versions(self):
        """Return the versions of Slurm's packages on each host."""
        packages = "'slurm*' libslurm-dev"
        command = f"dpkg-query --show --showformat='${{Version}}\\n' {packages} | sort --unique"
        versions = {}
        for host, _ in self.daemons:
            if host not in versions:
                versions[host] = self.lab.sh(host, command).split()
        return versions

    def old_packages(self, hosts):
        """Return the versions of Slurm's packages on these hosts that are not the newer ones."""
        versions = self.versions()
        old = set()
        for host in hosts:
            for version in versions[host]:
                if SUFFIX not in version:
                    old.add(version)
        return old

    def restarted(self, before):
        """Return the daemons that were restarted since ``before``, a result of started()."""
        started = self.started()
        return [daemon for daemon in self.daemons if started[daemon] != before[daemon]]


@pytest.fixture(scope="module")
def cluster(lab):
    return Cluster(lab)


@pytest.fixture(scope="module")
def newer(lab, cluster):
    """Build packages with a higher revision and make them the only apt source of each host."""
    lab.run(lab.controller, "bash", "-s", FOLDER, SUFFIX, input=REPACK, timeout=3 * PATIENCE_S)
    archive = lab.folder / "newer.tar"
    ssh = ["ssh", "-F", str(lab.folder / "ssh_config")]
    with archive.open("wb") as out:
        subprocess.run([*ssh, lab.controller, f"tar -c -C {FOLDER} ."], check=True, stdout=out)
    for host in cluster.versions():
        with archive.open("rb") as packages:
            subprocess.run([*ssh, host, SOURCE], check=True, stdin=packages)
    archive.unlink()


@pytest.fixture(scope="module")
def running(grid):
    """Start a paid job that runs until a file exists and then has another step."""
    customer = grid.customer("upgraded")
    home = f"/home/ldap-users/{customer.address}"
    workflow = many_customers.one_step('until test -e "$HOME/enough"; do sleep 0.5; done')
    workflow["steps"].append({"run": {"command": "echo another step"}})
    with contextlib.closing(many_customers.join(customer)) as member:
        (number,) = member.submit([workflow])
    grid.wait(customer, number, "RUNNING", timeout=PATIENCE_S)
    return customer, number, home


@pytest.fixture(scope="module")
def upgrade(play):
    """Return a function that runs upgrade.yml and returns its exit code and output on one line."""

    def run(*options):
        code, output = play("upgrade", *options)
        return code, " ".join(output.split())

    return run


@contextlib.contextmanager
def cut_off(host):
    """Block ssh connections to a host for a ``with`` block."""
    lab_names = names.names(CHECKOUT, os.environ["GRIDSTEAD_LAB_NAME"])
    init = processes.init_of(processes.nspawns(lab_names)[host])
    nft = ["nsenter", f"--target={init}", "--net", "nft"]
    subprocess.run([*nft, NO_SSH], check=True)
    try:
        yield
    finally:
        subprocess.run([*nft, "delete table inet away"], check=True)


def test_check_mode_lists_the_newer_packages_and_changes_nothing(cluster, newer, running, upgrade):
    before = cluster.started(), cluster.versions()

    code, output = upgrade("--check")

    assert code == 0, output
    hosts = ", ".join(sorted(cluster.versions()))
    assert re.search(rf"slurmd 24\S+ -> 24\S+{re.escape(SUFFIX)}: {hosts}'", output), output
    assert set(re.findall(r"changed=(\d+)", output)) == {"0"}
    assert (cluster.started(), cluster.versions()) == before


def test_a_failed_host_stops_the_run_before_later_hosts(lab, cluster, newer, running, upgrade):
    before = cluster.started()
    broken = lab.group("slurm_compute")[-1]
    lab.sh(broken, "touch /var/tmp/broken")

    code, output = upgrade()

    assert code != 0
    assert f'{broken} was not upgraded: "Upgrade the packages of Slurm"' in output
    position = cluster.daemons.index((broken, "slurmd"))
    assert cluster.restarted(before) == cluster.daemons[:position]
    versions = cluster.versions()
    for host in lab.group("slurm_login"):
        assert not [version for version in versions[host] if SUFFIX in version]


def test_an_upgrade_can_exclude_an_unreachable_host(lab, cluster, newer, running, upgrade):
    excluded = lab.group("slurm_compute")[-1]
    before = cluster.started()
    others = [daemon for daemon in cluster.daemons if daemon != (excluded, "slurmd")]

    with cut_off(excluded):
        code, output = upgrade("-e", f"without={excluded}")

    assert code == 0, output
    started = cluster.started()
    times = [started[daemon] for daemon in others]
    assert sorted(times) == times
    assert started[excluded, "slurmd"] == before[excluded, "slurmd"]
    assert cluster.old_packages(cluster.versions().keys() - {excluded}) == set()


def test_the_next_run_upgrades_the_rest_while_jobs_run_and_start(
    lab, cluster, grid, newer, running, upgrade
):
    customer, number, home = running
    before = cluster.started()
    broken = lab.group("slurm_compute")[-1]
    lab.sh(broken, "rm /var/tmp/broken")

    result = []
    thread = threading.Thread(target=lambda: result.extend(upgrade()))
    thread.start()
    wait_until(
        lambda: (broken, "slurmd") in cluster.restarted(before) or result, timeout=PATIENCE_S
    )
    meanwhile = grid.submit(customer, "echo meanwhile")
    thread.join()

    code, output = result
    assert code == 0, output
    assert cluster.restarted(before) == [(broken, "slurmd")]
    assert cluster.old_packages(cluster.versions()) == set()
    grid.wait(customer, meanwhile, "FINISHED", timeout=PATIENCE_S)
    lab.sh(lab.group("storage")[0], f"touch {home}/enough")
    grid.wait(customer, number, "FINISHED", timeout=PATIENCE_S)
    for job in (number, meanwhile):
        grid.check_money(customer, job)
        (record,) = lab.sacct(f"0x{job:064x}")
        reports = lab.run(lab.controller, "python3", "-c", REPORTS, record["jobid"]).stdout
        assert int(reports) == 1


def test_a_second_run_changes_nothing(cluster, newer, upgrade):
    before = cluster.started(), cluster.versions()

    code, output = upgrade()

    assert code == 0, output
    assert "Every host runs the newest Slurm that its apt offers." in output
    assert set(re.findall(r"changed=(\d+)", output)) == {"0"}
    assert (cluster.started(), cluster.versions()) == before
