# SPDX-License-Identifier: Apache-2.0
"""Test that rotate.yml exchanges every secret while twenty jobs run.

Every job is billed for the time it ran, and no old secret is accepted afterwards.
"""

import contextlib
import hashlib
import secrets
import subprocess
from collections import defaultdict
from dataclasses import dataclass

import pytest
from tests.e2e import many_customers
from tests.e2e.conftest import wait_until

JOBS = 20
STEP_S = 8
STEPS = (3, 20)  # number of steps of the shortest and of the longest job
STARTED_WITHIN_S = 600
SETTLED_WITHIN_S = 600
# slurmd repeats the message of a job's end after this time if slurmctld has not received it.
REPEATED_S = 20
SECRETS = (
    "munge_key",
    "slurm_jwt_key",
    "slurmdbd_password",
    "directory-connector",
    "directory-sssd",
)
WAIT = "until test -e {}; do sleep 1; done"
JWT = """\
import base64, hashlib, hmac, json, sys, time
def part(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=")
claims = {"iat": int(time.time()), "exp": int(time.time()) + 60, "sun": "slurm"}
head = part(b'{"alg":"HS256","typ":"JWT"}') + b"." + part(json.dumps(claims).encode())
signature = hmac.new(sys.stdin.read().encode(), head, hashlib.sha256).digest()
print((head + b"." + part(signature)).decode())
"""
QUERY = (
    "curl --silent --unix-socket /run/slurmrestd/slurmrestd.socket "
    "--header X-SLURM-USER-NAME:slurm --header @- http://slurmrestd/slurm/v0.0.42/diag/"
)
BIND = "ldapwhoami -x -H ldaps://{} -D uid=sssd,ou=services,dc=gridstead,dc=internal -y /dev/stdin"
SEAL = """
umask 077; d=$(mktemp -d); chown munge: $d; trap 'kill $(cat $d/pid); rm -rf $d' EXIT
install -o munge -m 400 /dev/stdin $d/key
runuser -u munge -- munged --force --key-file $d/key --socket $d/socket --pid-file $d/pid \\
  --log-file $d/log --seed-file $d/seed
munge --no-input --socket $d/socket | unmunge --output=/dev/null"""
LOG_IN = """
IFS= read -r MYSQL_PWD; export MYSQL_PWD
mariadb --user=slurm slurm_acct_db --execute='select 1'"""
# The exchange takes most of the time, and longer on a busy machine.
pytestmark = pytest.mark.timeout(1800)


def secret(lab, name):
    return (lab.secrets / name).read_text().strip()


def workflow(folder, number):
    """Return a workflow of many steps and the number of times that it writes to its file.

    Each step needs slurmctld and slurmd. The workflow waits until all jobs run, and does not wait
    any longer once all secrets are exchanged. Every second workflow has a step after that moment.
    """
    steps = STEPS[0] + number * (STEPS[1] - STEPS[0]) // (JOBS - 1)
    write_time = f"date +%s >>~/{folder}/{number}"
    middle = [f"test -e ~/{folder}/exchanged || sleep {STEP_S}"] * (steps - 2)
    if number % 2:
        middle[-1] = WAIT.format(f"~/{folder}/exchanged")
    first = f"mkdir -p ~/{folder}; {write_time}; {WAIT.format(f'~/{folder}/begun')}"
    commands = [first, *middle, "true"]
    resources = {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 64, "gpus": 0}
    run = []
    for command in commands:
        script = f"{command}; {write_time}"
        run.append({"run": {"command": script}})
    return {"enableLogging": False, "resources": resources, "steps": run}, steps + 1


def times_of(record):
    """Return the start, the end and the duration of an accounting record, in seconds."""
    return int(record["start"]), int(record["end"]), int(record["elapsedraw"])


def evidence(record):
    """Return the hash that a provider publishes with a bill for this accounting record.

    See docs/explanation/billing.md.
    """
    start, end, elapsed = times_of(record)
    code, signal = map(int, record["exitcode"].split(":"))
    texts = [record[name] for name in ("admincomment", "jobid", "user", "state", "submit")]
    fields = [*texts, start, end, end - start - elapsed, code << 8 | signal]
    return "0x" + hashlib.sha256("|".join(map(str, fields)).encode()).hexdigest()


def as_billed(record, bill):
    """Return the record of a bill: this record, or an older version of it with an earlier end.

    A restarted slurmctld sends the end of each job in its list to slurmdbd again, and slurmdbd
    overwrites the old end. The billed record may therefore no longer exist, but the bill has its
    hash. Return None if no possible record has this hash.
    """
    start, end, elapsed = times_of(record)
    for less in range(end - start + 1):
        earlier = record | {"end": str(end - less), "elapsedraw": str(elapsed - less)}
        if evidence(earlier) == bill.evidence:
            return earlier
    return None


class SiteSecrets:
    """Read the secrets of a site and check whether a secret is accepted."""

    def __init__(self, lab):
        self.lab = lab
        self.database = lab.group("slurm_accounting")[0]
        self.storage = lab.group("storage")[0]
        self.directory = lab.group("directory")[0]

    def secrets(self):
        values = {}
        for name in SECRETS:
            values[name] = secret(self.lab, name)
        return values

    def certificates(self):
        """Return the hashes of the keys and certificates of all hosts, by host and file."""
        script = "cd /etc/gridstead/pki; find . -name '*.key' -o -name '*.crt' | xargs sha256sum"
        hashes = {}
        for host in self.lab.hosts:
            for line in self.lab.sh(host, script).splitlines():
                digest, file = line.split()
                if file != "./ca.crt":
                    hashes[host, file] = digest
        return hashes

    def is_accepted(self, name, text):
        """Return whether the service of a secret accepts a text as this secret."""
        checks = {
            "munge_key": self._seals,
            "slurm_jwt_key": self._signs,
            "slurmdbd_password": self._logs_in,
            "directory-sssd": self._binds,
        }
        return checks[name](text)

    def _seals(self, key):
        return self._succeeds(self.database, "bash", SEAL, key)

    def _signs(self, key):
        token = subprocess.run(
            ["python3", "-c", JWT], input=key, capture_output=True, text=True, check=True
        ).stdout
        header = f"X-SLURM-USER-TOKEN:{token}"
        answer = self.lab.run(self.lab.controller, "sh", "-c", QUERY, input=header).stdout
        return '"statistics"' in answer and '"error_number"' not in answer

    def _logs_in(self, password):
        return self._succeeds(self.database, "bash", LOG_IN, password + "\n")

    def _binds(self, password):
        script = f"LDAPTLS_CACERT=/etc/gridstead/pki/ca.crt {BIND.format(self.directory)}"
        return self._succeeds(self.directory, "sh", script, password)

    def _succeeds(self, host, shell, script, text):
        """Return whether a script exits with 0 when it reads a text from its input."""
        return self.lab.run(host, shell, "-c", script, input=text, check=False).returncode == 0


@pytest.fixture(scope="module")
def site(lab):
    return SiteSecrets(lab)


@pytest.fixture(scope="module")
def customer(grid):
    return grid.customer("rotating", credits_=10_000)


@pytest.fixture(scope="module")
def member(customer):
    with contextlib.closing(many_customers.join(customer)) as joined:
        yield joined


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of rotate.yml under jobs.

    ``before`` has the old secrets and hashes of certificates. ``writes`` is job number -> number of
    times that the job writes to its file in the folder ``home``.
    """

    before: dict
    code: int
    output: str
    still_running: int
    jobs: dict
    writes: dict
    home: str


def states_of(member, numbers):
    return [job.state.name for job in member.jobs(numbers).values()]


@pytest.fixture(scope="module")
def run(lab, customer, member, site, play):
    """Start jobs, exchange every secret while they run, and wait until the last is settled."""
    name = f"rotated-{secrets.token_hex(4)}"
    home = f"/home/ldap-users/{customer.address}/{name}"
    workflows, writes = [], []
    for number in range(JOBS):
        definition, count = workflow(name, number)
        workflows.append(definition)
        writes.append(count)
    before = {"secrets": site.secrets(), "certificates": site.certificates()}
    numbers = member.submit(workflows, credits_=200)
    wait_until(lambda: states_of(member, numbers) == ["RUNNING"] * JOBS, timeout=STARTED_WITHIN_S)
    begun = f"find {home.removesuffix(name)} -path '{home}/*'"
    wait_until(lambda: len(lab.sh(site.storage, begun).split()) == JOBS, timeout=STARTED_WITHIN_S)
    lab.run(site.storage, "touch", f"{home}/begun")

    code, output = play("rotate")

    (lab.folder / "rotate.log").write_text(output)
    still_running = states_of(member, numbers).count("RUNNING")
    lab.run(site.storage, "touch", f"{home}/exchanged")
    return Run(
        before=before,
        code=code,
        output=output,
        still_running=still_running,
        jobs=member.wait_cold(numbers, timeout=SETTLED_WITHIN_S),
        writes=dict(zip(numbers, writes, strict=True)),
        home=home,
    )


def test_secrets_are_exchanged_while_jobs_run(run):
    assert run.code == 0, run.output
    assert run.still_running >= JOBS // 2


def test_every_job_ends_once_and_is_billed_for_its_time(lab, grid, customer, member, site, run):
    records = many_customers.records_of(lab, run.jobs)
    lines = lab.sh(site.storage, f"cd {run.home}; grep -r '^[0-9]'").splitlines()
    times_by_file = defaultdict(list)
    for line in lines:
        file, time = line.split(":")
        times_by_file[file].append(int(time))
    excess_s = []
    for index, (number, job) in enumerate(run.jobs.items()):
        (record,) = records[number]
        (bill,) = member.ends(number)
        billed = as_billed(record, bill)
        assert billed, f"no version of {record} has the hash of {bill}"
        paid = grid.check_money(customer, number, seconds=lab.billed_seconds(billed))
        assert (paid["state"], job.exit_code) == ("FINISHED", 0)
        times = times_by_file[str(index)]
        assert len(times) == run.writes[number]
        excess_s.append(int(record["start"]) + bill.numbers["billedSeconds"] - times[-1])
    print("seconds billed after each job's last write to its file:", sorted(excess_s))
    assert 0 <= min(excess_s) <= max(excess_s) <= REPEATED_S


@pytest.mark.parametrize(
    "name", ["munge_key", "slurm_jwt_key", "slurmdbd_password", "directory-sssd"]
)
def test_the_new_secret_is_accepted_and_the_old_secret_is_refused(run, site, name):
    assert site.is_accepted(name, secret(site.lab, name))
    assert not site.is_accepted(name, run.before["secrets"][name])


def test_every_secret_and_every_certificate_with_its_key_is_new(run, site):
    now = {"secrets": site.secrets(), "certificates": site.certificates()}

    for kind, values in now.items():
        for name, value in values.items():
            assert value != run.before[kind][name], f"{name} is unchanged"


@pytest.mark.usefixtures("run")
def test_the_exchange_leaves_no_files(lab):
    assert [path.name for path in lab.secrets.iterdir() if path.suffix in {".old", ".new"}] == []
    for host in lab.hosts:
        assert lab.sh(host, "find /etc/munge /etc/gridstead -name '*.next' -o -name '*.new'") == ""


def test_no_secret_is_in_ansibles_output(run, site):
    values = [*run.before["secrets"].values(), *site.secrets().values()]
    assert [value for value in values if value in run.output] == []
