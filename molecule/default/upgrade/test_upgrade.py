# SPDX-License-Identifier: Apache-2.0
"""upgrade.yml on a cluster that runs, under a paid job: what it says before, where it stops, how it
goes on.

The newer Slurm is the installed one in packages of a higher revision, because there is no other.
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
# Sources of another place would have to be reached.
SOURCE = f"""
mkdir -p {FOLDER} /var/tmp/sources
find /etc/apt -name '*.list' -o -name '*.sources' | xargs -r mv -t /var/tmp/sources
tar -x -C {FOLDER}
echo 'deb [trusted=yes] file:{FOLDER} ./' >/etc/apt/sources.list.d/newer.list
"""
STAGES = ("slurm_accounting", "slurm_controller", "slurm_compute", "slurm_login")
REPORTS = """
import sqlite3, sys
opened = sqlite3.connect("file:/var/lib/gridstead/agent/reports.db?mode=ro", uri=True)
count = "SELECT count(*) FROM report WHERE event = 'end' AND slurm_job_id = ?"
print(opened.execute(count, sys.argv[1:]).fetchone()[0])
"""
# What keeps everybody from a host that itself goes on.
AWAY = "table inet away { chain in { type filter hook input priority -300; tcp dport 22 drop; }; }"
# A run takes as long as the machine is busy.
PATIENCE_S = 200
pytestmark = pytest.mark.timeout(1800)


class Cluster:
    """Slurm on the hosts of a lab."""

    def __init__(self, lab):
        self.lab = lab

    @property
    def daemons(self):
        """Slurm's daemons, as pairs of host and unit, in the order of an upgrade."""
        units = zip(
            STAGES, (["slurmdbd"], ["slurmctld", "slurmrestd"], ["slurmd"], ["sackd"]), strict=True
        )
        return [
            (host, unit)
            for stage, names in units
            for host in self.lab.group(stage)
            for unit in names
        ]

    def started(self):
        """Return when each daemon was started, by host and unit. Units: microseconds of the one
        clock of all hosts.
        """
        ask = "systemctl show --property=ActiveEnterTimestampMonotonic --value"
        return {
            (host, unit): int(self.lab.sh(host, f"{ask} {unit}")) for host, unit in self.daemons
        }

    def versions(self):
        """Return the versions of Slurm's packages on each host."""
        ask = "dpkg-query --show --showformat='${Version}\\n' 'slurm*' libslurm-dev | sort --unique"
        return {host: self.lab.sh(host, ask).split() for host in {host for host, _ in self.daemons}}


@pytest.fixture(scope="module")
def cluster(lab):
    return Cluster(lab)


@pytest.fixture(scope="module")
def newer(lab, cluster):
    """Packages with a higher revision, as the only ones that each host's apt knows."""
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
    """A paid job that runs until a file tells it to go on; then it has another step."""
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
    """Run upgrade.yml and return its exit code and what it says, on one line."""

    def run(*words):
        code, said = play("upgrade", *words)
        return code, " ".join(said.split())

    return run


@contextlib.contextmanager
def cut_off(host):
    """Inside, nobody comes to a host by ssh."""
    init = processes.init_of(
        processes.nspawns(names.names(CHECKOUT, os.environ["GRIDSTEAD_LAB_NAME"]))[host]
    )
    nft = ["nsenter", f"--target={init}", "--net", "nft"]
    subprocess.run([*nft, AWAY], check=True)
    try:
        yield
    finally:
        subprocess.run([*nft, "delete table inet away"], check=True)


def test_a_check_tells_what_is_newer_and_changes_nothing(cluster, newer, running, upgrade):
    before = cluster.started(), cluster.versions()

    code, said = upgrade("--check")

    assert code == 0, said
    hosts = ", ".join(sorted(cluster.versions()))
    assert re.search(rf"slurmd 24\S+ -> 24\S+{re.escape(SUFFIX)}: {hosts}'", said), said
    assert set(re.findall(r"changed=(\d+)", said)) == {"0"}
    assert (cluster.started(), cluster.versions()) == before


def test_a_host_that_fails_ends_the_run_and_leaves_the_later_ones(
    lab, cluster, newer, running, upgrade
):
    before = cluster.started()
    broken = lab.group("slurm_compute")[-1]
    lab.sh(broken, "touch /var/tmp/broken")

    code, said = upgrade()

    assert code != 0
    assert f'{broken} was not upgraded: "Upgrade the packages of Slurm"' in said
    after = cluster.started()
    place = cluster.daemons.index((broken, "slurmd"))
    assert [
        daemon for daemon in cluster.daemons if after[daemon] != before[daemon]
    ] == cluster.daemons[:place]
    assert not [
        one
        for host in lab.group("slurm_login")
        for one in cluster.versions()[host]
        if SUFFIX in one
    ]


def test_it_goes_to_its_end_without_a_host_that_is_away(lab, cluster, newer, running, upgrade):
    away = lab.group("slurm_compute")[-1]
    before = cluster.started()
    others = [daemon for daemon in cluster.daemons if daemon != (away, "slurmd")]

    with cut_off(away):
        code, said = upgrade("-e", f"without={away}")

    assert code == 0, said
    started, versions = cluster.started(), cluster.versions()
    assert sorted(started[daemon] for daemon in others) == [started[daemon] for daemon in others]
    assert started[away, "slurmd"] == before[away, "slurmd"]
    assert {
        one for host in versions if host != away for one in versions[host] if SUFFIX not in one
    } == set()


def test_it_goes_on_where_it_ended_and_jobs_neither_end_nor_wait(
    lab, cluster, grid, newer, running, upgrade
):
    customer, number, home = running
    before = cluster.started()
    broken = lab.group("slurm_compute")[-1]
    lab.sh(broken, "rm /var/tmp/broken")

    ended = []
    thread = threading.Thread(target=lambda: ended.extend(upgrade()))
    thread.start()
    wait_until(
        lambda: cluster.started()[broken, "slurmd"] != before[broken, "slurmd"] or ended,
        timeout=PATIENCE_S,
    )
    meanwhile = grid.submit(customer, "echo meanwhile")
    thread.join()

    code, said = ended
    assert code == 0, said
    started = cluster.started()
    assert [daemon for daemon in cluster.daemons if started[daemon] != before[daemon]] == [
        (broken, "slurmd")
    ]
    assert {
        one for versions in cluster.versions().values() for one in versions if SUFFIX not in one
    } == set()
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

    code, said = upgrade()

    assert code == 0, said
    assert "Every host runs the newest Slurm that its apt offers." in said
    assert set(re.findall(r"changed=(\d+)", said)) == {"0"}
    assert (cluster.started(), cluster.versions()) == before
