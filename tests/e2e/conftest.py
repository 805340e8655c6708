# SPDX-License-Identifier: Apache-2.0
"""Fixtures for a running lab and for the grid that runs on the lab.

$GRIDSTEAD_LAB_NAME names the lab; the default is "default". The lab must have been configured by
site.yml. Each test restores the former state of the lab, even if the test fails.

tools/e2e runs the tests in three rounds: first the groups ``chain``, ``slurm`` and ``hosts``, then
the groups ``jobs``, ``steps`` and ``site``, then all tests without a group. The groups of a round
run at the same time. pyproject.toml describes the groups. A test of a group must not affect the
parts of the grid that the other groups of the round use.
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

from gridstead.cli.client import job_to_json
from gridstead.cli.job import history_event_to_json

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "tools"))

import lab_users  # noqa: E402

CREDIT = 10**18
# The final states, called cold: a job in one of these states has ended and never changes its state.
COLD = {"CANCELLED", "FINISHED", "FAILED", "OUT_OF_CREDITS", "PANICKED"}
SLOWDOWN = 3  # factor of the timeouts, for a machine that shares its hardware with others
# Prints what a Slurm job has left on a node: files, sockets, mounts and processes. The names of
# slurmd's files are for example job00042 and compute1_42.0. Empty cgroups of version 1 are ignored,
# because Slurm sometimes does not remove them.
PRINT_LEFTOVERS = """
find /tmp /dev/shm -maxdepth 1 -name '*{name}*' -o -name 'gridstead.*'
find /var/lib/slurm -maxdepth 3 -regextype posix-extended \\
  -regex '.*/(job0*|[a-z0-9_]+_)?{id}([.].*)?'
grep -E 'job_container/[^/]+/{id}(/| )' /proc/self/mounts || test $? = 1
grep -lsE '/job_{id}/' /proc/[0-9]*/cgroup || test $? -le 2
grep -lszx SLURM_JOB_ID={id} /proc/[0-9]*/environ || test $? -le 2
"""
# Prints a job's folders on the shared storage. Runs on the storage host, because root on the nodes
# cannot list the users' folders.
PRINT_FOLDERS = "find /opt/cache/shared -maxdepth 2 -name '*{name}*'"

# Prints the state of a Slurm job, its accounting records and the last log lines, for a failed test.
JOB_REPORT = """
squeue --name={name} --steps --states=all
scontrol show job --details | grep -A 40 {name} || test $? = 1
sacct --allusers --duplicates --starttime=now-1days --name={name} \\
  --format=jobid,state%20,exitcode,start,end
journalctl --quiet --no-pager --lines=40 --unit=gridstead-agent --unit=slurmctld
"""
# Reads the Slurm job id, start and end of records, and prints the ends that the nodes reported.
PRINT_REPORTED_ENDS = """
import json, sqlite3, sys
database = sqlite3.connect("file:/var/lib/gridstead/agent/reports.db?mode=ro", uri=True)
query = (
    "SELECT MAX(at) FROM report WHERE event = 'end' AND slurm_job_id = ? AND at BETWEEN ? AND ?"
)
print(json.dumps([database.execute(query, row).fetchone()[0] for row in json.load(sys.stdin)]))
"""
# Prints the last errors of a node's slurmd and slurmstepd.
NODE_ERRORS = (
    "journalctl --quiet --no-pager --lines=20 --grep='error|fatal' -t slurmd -t slurmstepd "
    "|| test $? = 1"
)


class Lab:
    """The hosts of the running lab, with SSH access as root."""

    def __init__(self, folder):
        self.folder = folder
        self.secrets = folder / "secrets"
        self.hosts = tuple(self._state()["hosts"])

    def group(self, name):
        """Return the hosts of a group."""
        return self._state()["members"][name]

    @property
    def controller(self):
        """The name of the host that runs slurmctld."""
        return self.group("slurm_controller")[0]

    @property
    def gateway(self):
        """The address of this machine in the lab's network."""
        return self._state()["gateway"]

    def address(self, host):
        """Return the address of a host."""
        return self._state()["hosts"][host]["address"]

    def _state(self):
        return json.loads((self.folder / "state.json").read_text())

    def run(self, host, *argv, check=True, input=None, timeout=120):  # noqa: A002
        """Run a command on a host. The parameters after ``argv`` are those of subprocess.run."""
        ssh = ["ssh", "-F", str(self.folder / "ssh_config")]
        ssh += ["-o", "ControlMaster=auto", "-o", "ControlPersist=60"]
        ssh += ["-o", f"ControlPath={self.folder}/e2e-%C", host, shlex.join(argv)]
        # Do not pass our stdin to ssh. ssh makes it non-blocking, which Ansible refuses.
        stdin = {"input": input} if input is not None else {"stdin": subprocess.DEVNULL}
        return subprocess.run(
            ssh, check=check, capture_output=True, text=True, timeout=timeout, **stdin
        )

    def sh(self, host, script, **options):
        """Run a shell script on a host and return its output."""
        return self.run(host, "bash", "-euo", "pipefail", "-c", script, **options).stdout

    def tool(self, *argv):
        """Run a command of the lab tool: kill HOST, start HOST, status."""
        subprocess.run(
            [str(CHECKOUT / "molecule/lab/lab.py"), *argv],
            check=True,
            capture_output=True,
            text=True,
        )

    def sacct(self, name):
        """Return the slurmdbd records of all jobs with a name, as dictionaries."""
        return self._records("-S now-1days", f"--name={name}")

    def records_since(self, time_s):
        """Return the slurmdbd records of the jobs that were submitted since a time (Unix time)."""
        records = self._records(f"-S uts{int(time_s)}", "-E now+1day")
        return [record for record in records if int(record["submit"]) >= int(time_s)]

    def _records(self, *filters):
        """Return the slurmdbd records that match the options of sacct. Times are Unix seconds."""
        fields = "jobid,jobname,user,state,exitcode,elapsedraw,submit,start,end,admincomment"
        listing = self.sh(
            self.controller,
            "TZ=UTC SLURM_TIME_FORMAT=%s sacct -a -n -X -D --parsable2 "
            f"{' '.join(filters)} -o {fields}",
        )
        field_names = fields.split(",")
        records = []
        for line in listing.splitlines():
            record = dict(zip(field_names, line.split("|"), strict=True))
            records.append(record)
        return records

    def check_no_leftovers(self, number, *, timeout=20):
        """Assert that an ended job soon has no leftovers on the nodes and the storage."""
        name = slurm_job_name(number)
        script = PRINT_LEFTOVERS.format(name=name, id=self.sacct(name)[-1]["jobid"])
        deadline = time.monotonic() + SLOWDOWN * timeout
        folders = PRINT_FOLDERS.format(name=name)
        while True:
            leftovers = self.sh("compute1", script) + self.sh("compute2", script)
            leftovers += self.sh("infra", folders)
            if not leftovers:
                return
            assert time.monotonic() < deadline, leftovers
            time.sleep(0.5)

    def billed_seconds(self, record):
        """Return the billed seconds of an accounting record of an ended job.

        The billed time ends when the job ended according to slurmdbd or according to the node,
        whichever is earlier.
        """
        (seconds,) = self.billed_seconds_of([record])
        return seconds

    def billed_seconds_of(self, records):
        """Return the billed seconds of the accounting records of ended jobs, in their order."""
        rows = [[record["jobid"], record["start"], record["end"]] for record in records]
        argv = ["python3", "-c", PRINT_REPORTED_ENDS]
        reported_ends = json.loads(self.run(self.controller, *argv, input=json.dumps(rows)).stdout)
        seconds = []
        for record, reported_end in zip(records, reported_ends, strict=True):
            start = record["start"]
            if not start.isdigit():
                seconds.append(0)
                continue
            node_seconds = int(reported_end or record["end"]) - int(start)
            seconds.append(min(int(record["elapsedraw"]), node_seconds))
        return seconds

    def wait_ended(self, name, *, timeout=60):
        """Wait until slurmdbd has records of ended jobs with a name, and return these records."""

        def ended_records():
            return list(filter(has_ended, self.sacct(name)))

        return wait_until(ended_records, timeout=timeout)


def slurm_job_name(number):
    """Return the name of the Slurm job for the grid job with this number."""
    return f"0x{number:064x}"


def script_hash(record):
    """Return the batch location hash of the grid job to which an accounting record belongs.

    The AdminComment of the Slurm job is CHAIN/CONTRACT/NUMBER/HASH.
    """
    return record["admincomment"].split("/")[-1]


def has_ended(record):
    """Return whether a slurmdbd record is about a job that has ended."""
    return record["end"].isdigit() and record["state"] not in {"RUNNING", "PENDING"}


class GridClient:
    """A client of the lab's grid. Each method acts as the user that the caller passes."""

    def __init__(self, lab):
        self.lab = lab
        self.lab_grid = lab_users.LabGrid(folder=lab.folder)
        self._connections = {}
        self.admin = lab_users.administrator(self.lab_grid)
        self.provider = self._approve_provider()

    def _approve_provider(self):
        def joined_provider():
            for provider in json.loads(self.admin.run("provider", "list", "--json").stdout):
                # The state is "waits for approval" or "joined, change waits".
                if "waits" in provider["state"]:
                    self.admin.run("provider", "approve", provider["address"])
                if provider["state"].startswith("joined"):
                    return provider["address"]
            return None

        return wait_until(joined_provider, timeout=300)

    def customer(self, name, credits_=10_000):
        """Return a customer with a wallet that has at least ``credits_`` credits."""
        return lab_users.customer(self.lab_grid, name, credits_=credits_)

    def customers(self, names, credits_=10_000):
        """Return several customers, as ``customer`` does."""
        return lab_users.customers(self.lab_grid, names, credits_=credits_)

    def close(self):
        """Close the connections to the chain."""
        for connection in self._connections.values():
            connection.close()

    def _connection_of(self, user):
        """Return a user's connection to the grid.

        The methods use connections because a `gridstead` command for each call would be too slow.
        """
        settings = user.settings.read_text()
        if settings not in self._connections:
            self._connections[settings] = many_customers.connect(user)
        return self._connections[settings]

    def balance(self, address):
        """Return a wallet's credits, in wei."""
        return self._connection_of(self.admin).customer.balance(address)

    def submit(self, user, command, *, credits_=100, tasks=1, cpus=1, memory_mb=64, logging=False):
        """Submit a one-step workflow and return the job's number."""
        workflow = many_customers.one_step(command, memory_mb=memory_mb, cpus=cpus)
        workflow["enableLogging"] = logging
        workflow["resources"]["tasks"] = tasks
        (number,) = self._connection_of(user).submit([workflow], credits_=credits_)
        return number

    def job(self, user, number):
        """Return a job with the fields of `gridstead job get --json`."""
        return job_to_json(self._connection_of(user).jobs([number])[number])

    def wait(self, user, number, *states, timeout=90):
        """Wait until the job is in one of the ``states`` and return the job.

        The test fails if the job ends in a state that is not in ``states``.
        """

        def job_in_state():
            job = self.job(user, number)
            if job["state"] in states:
                return job
            assert job["state"] not in COLD, (
                f"job {number} ended as {job['state']}: {job['last_error']}"
            )
            return None

        try:
            return wait_until(job_in_state, timeout=timeout)
        except AssertionError as error:
            report = JOB_REPORT.format(name=slurm_job_name(number))
            error.add_note(self.lab.sh(self.lab.controller, report, check=False))
            raise

    def history(self, user, number):
        """Return the events of `gridstead job history --json`, oldest first."""
        return [
            history_event_to_json(event)
            for event in self._connection_of(user).customer.job_history(number)
        ]

    def check_money(self, user, number, *, seconds=None):
        """Assert that the cost and the fee of an ended job match the billed time.

        Args:
            seconds: The billed time. The default is the billed time of the last accounting record.
        """
        job = self.job(user, number)
        history = self.history(user, number)
        end_events = [event for event in history if event["event"] in {"JobSettled", "JobRefunded"}]
        assert len(end_events) == 1, end_events
        end_event = end_events[0]
        if end_event["event"] == "JobRefunded":
            assert job["cost_wei"] == 0
            return job
        if seconds is None:
            seconds = self.lab.billed_seconds(self.lab.wait_ended(job["id"])[-1])
        if job["state"] == "PANICKED":  # such a job costs nothing
            seconds = 0
        bill = billing_oracle.bill(job["escrow_wei"], seconds, job["price_per_min_wei"])
        assert job["cost_wei"] == bill.cost, f"the cost does not match {seconds} s: {history}"
        assert end_event["cost"] == bill.cost, f"the cost does not match {seconds} s: {history}"
        assert end_event["fee"] == bill.fee
        return job


def wait_until(probe, *, timeout, every=0.5):
    """Call a probe until it returns a true value, and return this value.

    Args:
        timeout: The longest time on an idle machine, in seconds. The test fails after ``SLOWDOWN``
            times this time.
        every: The time between two calls, in seconds.
    """
    deadline = time.monotonic() + SLOWDOWN * timeout
    while True:
        answer = probe()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"no answer after {timeout} s; last answer {answer!r}"
        time.sleep(every)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Add the errors of the nodes' slurmd to the report of a failed test."""
    report = yield
    lab = item.funcargs.get("lab")
    if not report.failed or not lab:
        return report
    for node in lab.group("slurm_compute"):
        # The node does not answer if its failure is the reason for the failed test.
        with contextlib.suppress(subprocess.TimeoutExpired):
            errors = lab.sh(node, NODE_ERRORS, check=False, timeout=20)
            report.sections.append((f"errors on {node}", errors))
    return report


@pytest.fixture(scope="session")
def lab():
    """Return the running lab."""
    folder = lab_users.lab_grid().folder
    if not (folder / "state.json").exists():
        pytest.fail(f"no lab in {folder}; run `make up` first")
    return Lab(folder)


@pytest.fixture(scope="session")
def grid(lab):
    """Return a client of the grid on the running lab, which has an approved provider."""
    with contextlib.closing(GridClient(lab)) as client:
        yield client


@pytest.fixture
def stop_unit(lab):
    """Return a context manager that stops a unit of a host, and starts the unit at the end."""

    @contextlib.contextmanager
    def unit_stopped(host, unit):
        lab.run(host, "systemctl", "stop", unit)
        try:
            yield
        finally:
            lab.run(host, "systemctl", "start", unit)

    return unit_stopped
