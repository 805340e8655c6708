# SPDX-License-Identifier: Apache-2.0
"""A standing lab and the grid on it, as fixtures.

The lab is the one that $GRIDSTEAD_LAB_NAME names, else the default one; site.yml has run on it.
Tests leave it as they found it: what a test breaks it mends, also when it fails.

tools/e2e runs the files of three groups (marks ``chain``, ``slurm``, ``hosts``) at the same time. A
group is named after what its files use and disturb. A file belongs in a group only if it leaves
alone what the other groups use. Only ``chain`` submits paid jobs, because all customers get their
credits from one wallet. The files without a group run afterwards.
"""

import contextlib
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests import billing_oracle
from tests.e2e import many_customers

from gridstead.cli.client import to_json
from gridstead.cli.job import to_record

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "tools"))

import lab_users  # noqa: E402

CREDIT = 10**18
COLD = {"CANCELLED", "FINISHED", "FAILED", "OUT_OF_CREDITS", "PANICKED"}
SLOWER = (
    3  # a machine that its own host lends to others: how much longer than by itself it may take
)
# What may be left of a Slurm job on a node: files, sockets, mounts, processes. An empty control
# group of version 1 sometimes stays when Slurm has removed those in it; nothing is in it.
TRACES = """
find /tmp /dev/shm -maxdepth 1 -name '*{name}*' -o -name 'gridstead.*'
find /var/lib/slurm -maxdepth 3 -regextype posix-extended -regex '.*/(job0*|[a-z0-9_]+_)?{id}([.].*)?'
grep -E 'job_container/[^/]+/{id}(/| )' /proc/self/mounts || test $? = 1
grep -lsE '/job_{id}/' /proc/[0-9]*/cgroup || test $? -le 2
grep -lszx SLURM_JOB_ID={id} /proc/[0-9]*/environ || test $? -le 2
"""
FOLDERS = "find /opt/cache/shared -maxdepth 2 -name '*{name}*'"  # where the shared storage is: it hides them from nodes' root

# Why a job did not get where it should: what the cluster has of it, and what was last done for it.
STORY = """
squeue --name={name} --steps --states=all; scontrol show job --details | grep -A 40 {name} || test $? = 1
sacct --allusers --duplicates --starttime=now-1days --name={name} --format=jobid,state%20,exitcode,start,end
journalctl --quiet --no-pager --lines=40 --unit=gridstead-agent --unit=slurmctld
"""
# What a node's slurmd, and those that it starts for each step, complained of lately.
COMPLAINTS = "journalctl --quiet --no-pager --lines=20 --grep='error|fatal' -t slurmd -t slurmstepd || test $? = 1"


class Lab:
    """The hosts of the standing lab, over ssh as root."""

    def __init__(self, folder):
        self.folder = folder
        self.secrets = folder / "secrets"
        self.hosts = tuple(self._state()["hosts"])

    def group(self, name):
        """Return the hosts of a group."""
        return self._state()["members"][name]

    @property
    def controller(self):
        """Name of slurmctld's host."""
        return self.group("slurm_controller")[0]

    @property
    def gateway(self):
        """Address of this machine in the lab's network."""
        return self._state()["gateway"]

    def address(self, host):
        """Return the address of a host."""
        return self._state()["hosts"][host]["address"]

    def _state(self):
        return json.loads((self.folder / "state.json").read_text())

    def run(self, host, *argv, check=True, input=None, timeout=120):  # noqa: A002 - as subprocess.run has it
        """Run a command on a host."""
        ssh = [
            "ssh",
            "-F",
            str(self.folder / "ssh_config"),
            "-o",
            "ControlMaster=auto",
            "-o",
            "ControlPersist=60",
        ]
        ssh += ["-o", f"ControlPath={self.folder}/e2e-%C", host, shlex.join(argv)]
        # Not our own input, which ssh would make one that does not block, as Ansible beside it
        # refuses.
        fed = {"input": input} if input is not None else {"stdin": subprocess.DEVNULL}
        return subprocess.run(
            ssh, check=check, capture_output=True, text=True, timeout=timeout, **fed
        )

    def sh(self, host, script, **options):
        """Run a shell script on a host and return what it prints."""
        return self.run(host, "bash", "-euo", "pipefail", "-c", script, **options).stdout

    def tool(self, *argv):
        """Run the lab's own tool: kill HOST, start HOST, status."""
        subprocess.run(
            [str(CHECKOUT / "molecule/lab/lab.py"), *argv],
            check=True,
            capture_output=True,
            text=True,
        )

    def sacct(self, name):
        """Return slurmdbd's records under a job name, duplicates included, as dictionaries."""
        fields = "jobid,user,state,exitcode,elapsedraw,submit,start,end,admincomment"
        text = self.sh(
            self.controller,
            f"TZ=UTC SLURM_TIME_FORMAT=%s sacct -a -n -X -D --parsable2 -S now-1days --name={name} -o {fields}",
        )
        return [
            dict(zip(fields.split(","), line.split("|"), strict=True)) for line in text.splitlines()
        ]

    def check_nothing_is_left(self, number, *, timeout=20):
        """Assert that nothing of an ended job is on the compute nodes, a moment after its end."""
        name = f"0x{number:064x}"
        script = TRACES.format(name=name, id=self.sacct(name)[-1]["jobid"])
        end = time.monotonic() + SLOWER * timeout
        folders = FOLDERS.format(name=name)
        while (
            found := self.sh("compute1", script)
            + self.sh("compute2", script)
            + self.sh("infra", folders)
        ):
            assert time.monotonic() < end, found
            time.sleep(0.5)

    def worth(self, record):
        """Return the seconds that an ended record is billed: what slurmdbd has, less if the node
        saw its end sooner.
        """
        query = "SELECT MAX(at) FROM report WHERE event = 'end' AND slurm_job_id = ? AND at BETWEEN ? AND ?"
        opened = "sqlite3.connect('file:/var/lib/gridstead/agent/reports.db?mode=ro', uri=True)"
        script = f"import sqlite3, sys; print({opened}.execute({query!r}, sys.argv[1:]).fetchone()[0] or '')"
        start, end = record["start"], record["end"]
        if not start.isdigit():
            return 0
        seen = self.run(
            self.controller, "python3", "-c", script, record["jobid"], start, end
        ).stdout.strip()
        return min(int(record["elapsedraw"]), int(seen or end) - int(start))

    def wait_ended(self, name, *, timeout=60):
        """Return slurmdbd's ended records of a job name, once there is one."""
        return wait_until(
            lambda: [
                r
                for r in self.sacct(name)
                if r["end"].isdigit() and r["state"] not in {"RUNNING", "PENDING"}
            ],
            timeout=timeout,
        )


class Grid:
    """The grid as its users see it."""

    def __init__(self, lab):
        self.lab = lab
        self.where = lab_users.LabGrid(folder=lab.folder)
        self._connected = {}
        self.admin = lab_users.administrator(self.where)
        self.provider = self._approved()

    def _approved(self):
        def joined():
            for one in json.loads(self.admin.run("provider", "list", "--json").stdout):
                if "waits" in one["state"]:
                    self.admin.run("provider", "approve", one["address"])
                if one["state"].startswith("joined"):
                    return one["address"]
            return None

        return wait_until(joined, timeout=90)

    def customer(self, name, credits_=10_000):
        """Return a person with a wallet and so many credits."""
        return lab_users.customer(self.where, name, credits_=credits_)

    def close(self):
        """Let go of the chain."""
        for member in self._connected.values():
            member.close()

    def _as(self, who):
        """Return a person connected to the grid: a command for each question would take more than
        the grid does.
        """
        settings = who.settings.read_text()
        if settings not in self._connected:
            self._connected[settings] = many_customers.join(who)
        return self._connected[settings]

    def balance(self, address):
        """Return a wallet's credits, wei."""
        return self._as(self.admin).customer.balance(address)

    def submit(self, who, command, *, credits_=100, tasks=1, cpus=1, memory_mb=64, logging=False):
        """Submit a one-step workflow and return the job's number."""
        workflow = many_customers.one_step(command, memory_mb=memory_mb, cpus=cpus) | {
            "enableLogging": logging
        }
        workflow["resources"]["tasks"] = tasks
        (number,) = self._as(who).submit([workflow], credits_=credits_)
        return number

    def job(self, who, number):
        """Return a job as `gridstead job get --json` has it."""
        ledger = self._as(who).ledger
        return to_json(ledger.jobs([number], at_block=ledger.head())[number])

    def wait(self, who, number, *states, timeout=90):
        """Wait until the job is in one of these states and return it; a cold state that is not
        asked for fails.
        """

        def reached():
            job = self.job(who, number)
            if job["state"] in states:
                return job
            assert job["state"] not in COLD, (
                f"job {number} ended as {job['state']}: {job['last_error']}"
            )
            return None

        try:
            return wait_until(reached, timeout=timeout)
        except AssertionError as error:
            error.add_note(
                self.lab.sh(self.lab.controller, STORY.format(name=f"0x{number:064x}"), check=False)
            )
            raise

    def history(self, who, number):
        """Return what happened to a job as `gridstead job history --json` has it, oldest first."""
        return [to_record(step) for step in self._as(who).customer.job_history(number)]

    def check_money(self, who, number, *, seconds=None):
        """Assert that a cold job's bill is right: by Slurm's own start and end, and divided without
        rest.

        Args:
            seconds: What must be billed; what the last accounting record is worth if None.
        """
        job = self.job(who, number)
        steps = self.history(who, number)
        ends = [step for step in steps if step["event"] in {"JobSettled", "JobRefunded"}]
        assert len(ends) == 1, ends
        if ends[0]["event"] == "JobRefunded":
            assert job["cost_wei"] == 0
            return job
        if seconds is None:
            seconds = self.lab.worth(self.lab.wait_ended(job["id"])[-1])
        if job["state"] == "PANICKED":
            seconds = 0
        bill = billing_oracle.bill(job["escrow_wei"], seconds, job["price_per_min_wei"])
        billed = (job["cost_wei"], ends[0]["cost"])
        assert billed == (bill.cost, bill.cost), f"{seconds} s are not what this bills: {steps}"
        assert ends[0]["fee"] == bill.fee
        return job


def wait_until(probe, *, timeout, every=0.5):
    """Return the probe's first true answer; fail when there is none in what a machine by itself
    takes at most, s.
    """
    end = time.monotonic() + SLOWER * timeout
    while True:
        answer = probe()
        if answer:
            return answer
        assert time.monotonic() < end, f"nothing after {timeout} s; last answer {answer!r}"
        time.sleep(every)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Add to what has failed what the nodes complain of."""
    report = yield
    if report.failed and (lab := item.funcargs.get("lab")):
        for node in lab.group("slurm_compute"):
            with contextlib.suppress(
                subprocess.TimeoutExpired
            ):  # a silent host may be what has failed
                report.sections.append(
                    (f"complaints on {node}", lab.sh(node, COMPLAINTS, check=False, timeout=20))
                )
    return report


@pytest.fixture(scope="session")
def lab():
    """The standing lab."""
    folder = lab_users.lab_grid().folder
    if not (folder / "state.json").exists():
        pytest.fail(f"no lab stands in {folder}; run `make up` first")
    return Lab(folder)


@pytest.fixture(scope="session")
def grid(lab):
    """The grid on the standing lab, with its provider approved."""
    with contextlib.closing(Grid(lab)) as one:
        yield one


@pytest.fixture
def stopped(lab):
    """A context manager factory: a unit of a host is stopped inside and started again afterwards."""

    @contextlib.contextmanager
    def unit_stopped(host, unit):
        lab.run(host, "systemctl", "stop", unit)
        try:
            yield
        finally:
            lab.run(host, "systemctl", "start", unit)

    return unit_stopped
