# SPDX-License-Identifier: Apache-2.0
"""Test that rotate.yml exchanges every secret while twenty jobs run.

Afterwards each job is billed for its run time, and no service accepts an old secret.
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
MIN_STEPS, MAX_STEPS = 3, 20  # number of steps of the shortest and of the longest job
START_TIMEOUT_S = 600
SETTLEMENT_TIMEOUT_S = 600
# slurmd repeats the message about the end of a job after this time if slurmctld did not receive it.
SLURMD_RETRY_S = 20
SECRETS = (
    "munge_key",
    "slurm_jwt_key",
    "slurmdbd_password",
    "directory-connector",
    "directory-sssd",
)
WAIT_FOR_FILE = "until test -e {}; do sleep 1; done"
CREATE_JWT = """\
import base64, hashlib, hmac, json, sys, time
def part(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=")
claims = {"iat": int(time.time()), "exp": int(time.time()) + 60, "sun": "slurm"}
head = part(b'{"alg":"HS256","typ":"JWT"}') + b"." + part(json.dumps(claims).encode())
signature = hmac.new(sys.stdin.read().encode(), head, hashlib.sha256).digest()
print((head + b"." + part(signature)).decode())
"""
# curl reads the header with the token from stdin.
CALL_SLURMRESTD = (
    "curl --silent --unix-socket /run/slurmrestd/slurmrestd.socket "
    "--header X-SLURM-USER-NAME:slurm --header @- http://slurmrestd/slurm/v0.0.42/diag/"
)
BIND_AS_SSSD = (
    "ldapwhoami -x -H ldaps://{} -D uid=sssd,ou=services,dc=gridstead,dc=internal -y /dev/stdin"
)
# This script starts a second munged with a key from stdin, and creates a credential with it. The
# host's own munged must decode this credential.
SEAL_AND_UNSEAL = """
umask 077; d=$(mktemp -d); chown munge: $d; trap 'kill $(cat $d/pid); rm -rf $d' EXIT
install -o munge -m 400 /dev/stdin $d/key
runuser -u munge -- munged --force --key-file $d/key --socket $d/socket --pid-file $d/pid \\
  --log-file $d/log --seed-file $d/seed
munge --no-input --socket $d/socket | unmunge --output=/dev/null"""
LOG_IN_TO_DATABASE = """
IFS= read -r MYSQL_PWD; export MYSQL_PWD
mariadb --user=slurm slurm_acct_db --execute='select 1'"""
# The exchange takes most of the time.
pytestmark = pytest.mark.timeout(1800)


def secret(lab, name):
    return (lab.secrets / name).read_text().strip()


def workflow(folder, number):
    """Return a workflow of many steps, and the number of lines that it writes to its file.

    Each step needs slurmctld and slurmd. The first step waits until all jobs run. Before the end of
    the exchange of the secrets, each of the middle steps takes STEP_S. After the exchange, it takes
    no time. In every second workflow, one step waits for the end of the exchange.
    """
    # MIN_STEPS for the first job, MAX_STEPS for the last job
    steps = MIN_STEPS + number * (MAX_STEPS - MIN_STEPS) // (JOBS - 1)
    write_time = f"date +%s >>~/{folder}/{number}"
    middle_commands = [f"test -e ~/{folder}/exchanged || sleep {STEP_S}"] * (steps - 2)
    if number % 2:
        middle_commands[-1] = WAIT_FOR_FILE.format(f"~/{folder}/exchanged")
    wait_for_begin = WAIT_FOR_FILE.format(f"~/{folder}/begun")
    first_command = f"mkdir -p ~/{folder}; {write_time}; {wait_for_begin}"
    workflow_steps = []
    for command in (first_command, *middle_commands, "true"):
        script = f"{command}; {write_time}"
        workflow_steps.append({"run": {"command": script}})
    resources = {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 64, "gpus": 0}
    definition = {"enableLogging": False, "resources": resources, "steps": workflow_steps}
    return definition, steps + 1  # the first step writes two lines


def start_end_and_duration(record):
    """Return the start, the end and the duration of an accounting record, in seconds."""
    return int(record["start"]), int(record["end"]), int(record["elapsedraw"])


def evidence(record):
    """Return the hash that a provider publishes with a bill for this accounting record.

    See docs/explanation/billing.md.
    """
    start, end, elapsed = start_end_and_duration(record)
    code, signal = map(int, record["exitcode"].split(":"))
    fields = [record["admincomment"], record["jobid"], record["user"], record["state"]]
    # The last two fields are the suspended seconds and the wait status, as in waitpid(2).
    fields += [record["submit"], start, end, end - start - elapsed, code << 8 | signal]
    return "0x" + hashlib.sha256("|".join(map(str, fields)).encode()).hexdigest()


def billed_record(record, bill):
    """Return the accounting record that a bill is based on.

    After a restart, slurmctld again reports to slurmdbd the end of each job in its list. slurmdbd
    then overwrites the end in its record with a later time. The bill is based on ``record`` or on
    an older version of it, and contains the hash of this version. The function therefore tries all
    earlier ends. It returns None if no version has the hash.
    """
    start, end, elapsed = start_end_and_duration(record)
    for reduction_s in range(end - start + 1):
        earlier_record = record | {
            "end": str(end - reduction_s),
            "elapsedraw": str(elapsed - reduction_s),
        }
        if evidence(earlier_record) == bill.evidence:
            return earlier_record
    return None


class SiteSecrets:
    """A reader of the secrets of a site, which also checks whether a service accepts a secret."""

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
            "munge_key": self._is_munge_key,
            "slurm_jwt_key": self._is_jwt_key,
            "slurmdbd_password": self._is_database_password,
            "directory-sssd": self._is_directory_password,
        }
        return checks[name](text)

    def _is_munge_key(self, key):
        return self._succeeds(self.database, "bash", SEAL_AND_UNSEAL, key)

    def _is_jwt_key(self, key):
        token = subprocess.run(
            ["python3", "-c", CREATE_JWT], input=key, capture_output=True, text=True, check=True
        ).stdout
        header = f"X-SLURM-USER-TOKEN:{token}"
        answer = self.lab.run(self.lab.controller, "sh", "-c", CALL_SLURMRESTD, input=header).stdout
        return '"statistics"' in answer and '"error_number"' not in answer

    def _is_database_password(self, password):
        return self._succeeds(self.database, "bash", LOG_IN_TO_DATABASE, password + "\n")

    def _is_directory_password(self, password):
        script = f"LDAPTLS_CACERT=/etc/gridstead/pki/ca.crt {BIND_AS_SSSD.format(self.directory)}"
        return self._succeeds(self.directory, "sh", script, password)

    def _succeeds(self, host, shell, script, text):
        """Return whether a script that reads a text from its stdin exits with 0."""
        return self.lab.run(host, shell, "-c", script, input=text, check=False).returncode == 0


@pytest.fixture(scope="module")
def site_secrets(lab):
    return SiteSecrets(lab)


@pytest.fixture(scope="module")
def customer(grid):
    return grid.customer("rotating", credits_=10_000)


@pytest.fixture(scope="module")
def connected_customer(customer):
    with contextlib.closing(many_customers.connect(customer)) as connection:
        yield connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """A run of rotate.yml while jobs run.

    Attributes:
        before: The old secrets and the hashes of the old certificates.
        code: The exit code of the playbook.
        output: The output of the playbook.
        still_running: The number of jobs that were running when the playbook ended.
        jobs: The settled jobs, by number.
        writes: The number of lines that each job writes to its file, by job number.
        home: The folder of the files.
    """

    before: dict
    code: int
    output: str
    still_running: int
    jobs: dict
    writes: dict
    home: str


def states_of(connected_customer, numbers):
    return [job.state.name for job in connected_customer.jobs(numbers).values()]


@pytest.fixture(scope="module")
def rotation(lab, customer, connected_customer, site_secrets, run_playbook):
    """Start jobs, exchange every secret while they run, and wait until all are settled."""
    name = f"rotated-{secrets.token_hex(4)}"
    home = f"/home/ldap-users/{customer.address}/{name}"
    workflows, writes = [], []
    for number in range(JOBS):
        definition, count = workflow(name, number)
        workflows.append(definition)
        writes.append(count)
    before = {"secrets": site_secrets.secrets(), "certificates": site_secrets.certificates()}
    numbers = connected_customer.submit(workflows, credits_=200)
    wait_until(
        lambda: states_of(connected_customer, numbers) == ["RUNNING"] * JOBS,
        timeout=START_TIMEOUT_S,
    )
    # Each job creates a file in its first step. The first job also creates the folder of the files,
    # so search from the parent of this folder.
    list_files = f"find {home.removesuffix(name)} -path '{home}/*'"
    wait_until(
        lambda: len(lab.sh(site_secrets.storage, list_files).split()) == JOBS,
        timeout=START_TIMEOUT_S,
    )
    lab.run(site_secrets.storage, "touch", f"{home}/begun")

    code, output = run_playbook("rotate")

    (lab.folder / "rotate.log").write_text(output)
    still_running = states_of(connected_customer, numbers).count("RUNNING")
    lab.run(site_secrets.storage, "touch", f"{home}/exchanged")
    return Rotation(
        before=before,
        code=code,
        output=output,
        still_running=still_running,
        jobs=connected_customer.wait_cold(numbers, timeout=SETTLEMENT_TIMEOUT_S),
        writes=dict(zip(numbers, writes, strict=True)),
        home=home,
    )


def test_secrets_are_exchanged_while_jobs_run(rotation):
    assert rotation.code == 0, rotation.output
    # Every second job waits for the end of the exchange.
    assert rotation.still_running >= JOBS // 2


def write_times(lab, site_secrets, rotation):
    """Return the Unix times that the jobs wrote, by the name of the file."""
    output = lab.sh(site_secrets.storage, f"cd {rotation.home}; grep -r '^[0-9]'")
    times_by_file = defaultdict(list)
    for line in output.splitlines():
        file, time = line.split(":")
        times_by_file[file].append(int(time))
    return times_by_file


def test_every_job_ends_once_and_is_billed_for_its_time(
    lab, grid, customer, connected_customer, site_secrets, rotation
):
    records = many_customers.records_of(lab, rotation.jobs)
    times_by_file = write_times(lab, site_secrets, rotation)
    excess_s = []
    for index, (number, job) in enumerate(rotation.jobs.items()):
        (record,) = records[number]
        (bill,) = connected_customer.end_events(number)
        billed_run = billed_record(record, bill)
        assert billed_run, f"no version of {record} has the hash of {bill}"
        paid = grid.check_money(customer, number, seconds=lab.billed_seconds(billed_run))
        assert paid["state"] == "FINISHED"
        assert job.exit_code == 0
        times = times_by_file[str(index)]
        assert len(times) == rotation.writes[number]
        # the time from the last write of the job to the end of the billed time
        excess_s.append(int(record["start"]) + bill.numbers["billedSeconds"] - times[-1])
    print("seconds billed after each job's last write to its file:", sorted(excess_s))
    assert min(excess_s) >= 0
    assert max(excess_s) <= SLURMD_RETRY_S


@pytest.mark.parametrize(
    "name", ["munge_key", "slurm_jwt_key", "slurmdbd_password", "directory-sssd"]
)
def test_the_new_secret_is_accepted_and_the_old_secret_is_refused(rotation, site_secrets, name):
    assert site_secrets.is_accepted(name, secret(site_secrets.lab, name))
    assert not site_secrets.is_accepted(name, rotation.before["secrets"][name])


def test_every_secret_and_every_certificate_with_its_key_is_new(rotation, site_secrets):
    now = {"secrets": site_secrets.secrets(), "certificates": site_secrets.certificates()}

    for kind, values in now.items():
        for name, value in values.items():
            assert value != rotation.before[kind][name], f"{name} is unchanged"


@pytest.mark.usefixtures("rotation")
def test_the_exchange_leaves_no_files_with_old_or_new_secrets(lab):
    suffixes = {path.suffix for path in lab.secrets.iterdir()}
    assert suffixes.isdisjoint({".old", ".new"})
    for host in lab.hosts:
        assert lab.sh(host, "find /etc/munge /etc/gridstead -name '*.next' -o -name '*.new'") == ""


def test_no_secret_is_in_ansibles_output(rotation, site_secrets):
    for value in (*rotation.before["secrets"].values(), *site_secrets.secrets().values()):
        assert value not in rotation.output
