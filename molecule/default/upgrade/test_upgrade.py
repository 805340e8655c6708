# SPDX-License-Identifier: Apache-2.0
"""upgrade.yml on a cluster that runs, under a paid job: what it says before, where it stops, how it goes on.

The newer Slurm is the installed one in packages of a higher revision, because there is no other. For the lab of another
name: ``GRIDSTEAD_LAB_NAME=NAME pytest molecule/default/upgrade``.
"""

import contextlib
import os
import re
import subprocess
import threading
from pathlib import Path

import pytest
from tests.e2e import crowd
from tests.e2e.conftest import Grid, Lab, wait_until

CHECKOUT = Path(__file__).resolve().parents[3]
REPACK = (Path(__file__).parent / "repack.sh").read_text()
NAME = os.environ.get("GRIDSTEAD_LAB_NAME", "molecule-default")
ENVIRONMENT = os.environ | {"GRIDSTEAD_LAB_NAME": NAME, "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg")}
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


class Cluster(Lab):
    """A lab whatever its hosts are named."""

    def __init__(self, folder):
        super().__init__(folder)
        self.members = self._state()["members"]
        self.controller = self.members["slurm_controller"][0]

    def run(self, host, *argv, **options):
        """Run a command on a host; the controller is whoever has that part."""
        return super().run(self.controller if host == "controller" else host, *argv, **options)

    @property
    def daemons(self):
        """Slurm's daemons, as pairs of host and unit, in the order of an upgrade."""
        units = zip(STAGES, (["slurmdbd"], ["slurmctld", "slurmrestd"], ["slurmd"], ["sackd"]), strict=True)
        return [(host, unit) for stage, names in units for host in self.members[stage] for unit in names]

    def started(self):
        """Return when each daemon was started, by host and unit. Units: microseconds of the one clock of all hosts."""
        ask = "systemctl show --property=ActiveEnterTimestampMonotonic --value"
        return {(host, unit): int(self.sh(host, f"{ask} {unit}")) for host, unit in self.daemons}

    def versions(self):
        """Return the versions of Slurm's packages on each host."""
        ask = "dpkg-query --show --showformat='${Version}\\n' 'slurm*' libslurm-dev | sort --unique"
        return {host: self.sh(host, ask).split() for host in {host for host, _ in self.daemons}}


@pytest.fixture(scope="module")
def cluster():
    return Cluster(CHECKOUT / ".lab" / NAME)


@pytest.fixture(scope="module")
def grid(cluster):
    with contextlib.closing(Grid(cluster)) as one:
        yield one


@pytest.fixture(scope="module")
def newer(cluster):
    """Packages with a higher revision, as the only ones that each host's apt knows."""
    script = f"{REPACK.partition('set -euo')[2]}"
    cluster.sh(cluster.controller, f"set -- {FOLDER} {SUFFIX}\nset -euo{script}")
    archive = cluster.folder / "newer.tar"
    ssh = ["ssh", "-F", str(cluster.folder / "ssh_config")]
    with archive.open("wb") as out:
        subprocess.run([*ssh, cluster.controller, f"tar -c -C {FOLDER} ."], check=True, stdout=out)
    for host in cluster.versions():
        with archive.open("rb") as packages:
            subprocess.run([*ssh, host, SOURCE], check=True, stdin=packages)
    archive.unlink()


@pytest.fixture(scope="module")
def running(grid):
    """A paid job that runs until a file tells it to go on; then it has another step."""
    customer = grid.customer("upgraded")
    home = f"/home/ldap-users/{customer.address}"
    workflow = crowd.one_step('until test -e "$HOME/enough"; do sleep 0.5; done')
    workflow["steps"].append({"run": {"command": "echo another step"}})
    with contextlib.closing(crowd.join(customer)) as member:
        (number,) = member.submit([workflow])
    grid.wait(customer, number, "RUNNING")
    return customer, number, home


def play(*words):
    """Run upgrade.yml and return its exit code and what it says, on one line."""
    argv = ["ansible-playbook", "playbooks/upgrade.yml", *words]
    done = subprocess.run(argv, cwd=CHECKOUT, check=False, capture_output=True, text=True, env=ENVIRONMENT)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_a_check_tells_what_is_newer_and_changes_nothing(cluster, newer, running):
    before = cluster.started(), cluster.versions()

    code, said = play("--check")

    assert code == 0, said
    hosts = ", ".join(sorted(cluster.versions()))
    assert re.search(rf"slurmd 24\S+ -> 24\S+{re.escape(SUFFIX)}: {hosts}'", said), said
    assert set(re.findall(r"changed=(\d+)", said)) == {"0"}
    assert (cluster.started(), cluster.versions()) == before


def test_a_host_that_fails_ends_the_run_and_leaves_the_later_ones(cluster, newer, running):
    before = cluster.started()
    broken = cluster.members["slurm_compute"][-1]
    cluster.sh(broken, "touch /var/tmp/broken")

    code, said = play()

    assert code != 0
    assert f'{broken} was not upgraded: "Ensure Slurm\'s packages are the newer ones"' in said
    after = cluster.started()
    place = cluster.daemons.index((broken, "slurmd"))
    assert [daemon for daemon in cluster.daemons if after[daemon] != before[daemon]] == cluster.daemons[:place]
    assert not [one for host in cluster.members["slurm_login"] for one in cluster.versions()[host] if SUFFIX in one]


def test_it_goes_on_where_it_ended_and_jobs_neither_end_nor_wait(cluster, grid, newer, running):
    customer, number, home = running
    before = cluster.started()
    broken = cluster.members["slurm_compute"][-1]
    cluster.sh(broken, "rm /var/tmp/broken")

    ended = []
    upgrade = threading.Thread(target=lambda: ended.extend(play()))
    upgrade.start()
    wait_until(lambda: cluster.started()[broken, "slurmd"] != before[broken, "slurmd"] or ended, timeout=300)
    meanwhile = grid.submit(customer, "echo meanwhile")
    upgrade.join()

    code, said = ended
    assert code == 0, said
    started = cluster.started()
    assert sorted(started.values()) == [started[daemon] for daemon in cluster.daemons]
    assert {one for versions in cluster.versions().values() for one in versions if SUFFIX not in one} == set()
    grid.wait(customer, meanwhile, "FINISHED")
    cluster.sh("infra", f"touch {home}/enough")
    grid.wait(customer, number, "FINISHED")
    for job in (number, meanwhile):
        grid.check_money(customer, job)
        (record,) = cluster.sacct(f"0x{job:064x}")
        reports = cluster.run("controller", "python3", "-c", REPORTS, record["jobid"]).stdout
        assert int(reports) == 1


def test_a_second_run_changes_nothing(cluster, newer):
    before = cluster.started(), cluster.versions()

    code, said = play()

    assert code == 0, said
    assert "Every host has the newest Slurm that its apt knows, and runs it." in said
    assert set(re.findall(r"changed=(\d+)", said)) == {"0"}
    assert (cluster.started(), cluster.versions()) == before
