# SPDX-License-Identifier: Apache-2.0
"""Every secret is exchanged while twenty jobs run: all settle for what they took, and no old secret
is good.
"""

import contextlib
import hashlib
import secrets
import subprocess

import pytest
from tests.e2e import many_customers
from tests.e2e.conftest import wait_until

JOBS = 20
STEP_S = 8
STEPS = (3, 20)  # of the shortest job and of the longest
STARTED_WITHIN_S = 600
SETTLED_WITHIN_S = 600
# Slurm tells slurmctld of a job's end again after this time, if it was not heard.
UNHEARD_S = 20
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
ASK = "curl --silent --unix-socket /run/slurmrestd/slurmrestd.socket --header X-SLURM-USER-NAME:slurm --header @- {}"
SLURM = "http://slurmrestd/slurm/v0.0.42/diag/"
BIND = "ldapwhoami -x -H ldaps://{} -D uid=sssd,ou=services,dc=gridstead,dc=internal -y /dev/stdin"
# Of which most is the exchange; it takes as long as the machine is busy.
pytestmark = pytest.mark.timeout(1800)


def secret(lab, name):
    return (lab.secrets / name).read_text().strip()


def workflow(folder, number):
    """Return a job of many steps, each of which asks slurmctld and its node, and how often it looks
    at the clock.

    It begins when all jobs run, and hurries to its end when all is exchanged. Half of the jobs have
    a step after that.
    """
    steps = STEPS[0] + number * (STEPS[1] - STEPS[0]) // (JOBS - 1)
    look = f"date +%s >>~/{folder}/{number}"
    middle = [f"test -e ~/{folder}/exchanged || sleep {STEP_S}"] * (steps - 2)
    if number % 2:
        middle[-1] = WAIT.format(f"~/{folder}/exchanged")
    commands = [f"mkdir -p ~/{folder}; {look}; {WAIT.format(f'~/{folder}/begun')}", *middle, "true"]
    resources = {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 64, "gpus": 0}
    run = [{"run": {"command": f"{command}; {look}"}} for command in commands]
    return {"enableLogging": False, "resources": resources, "steps": run}, steps + 1


def evidence(record):
    """Return what a provider commits itself to when it bills by this record:
    docs/explanation/billing.md.
    """
    start, end, elapsed = (int(record[name]) for name in ("start", "end", "elapsedraw"))
    code, signal = map(int, record["exitcode"].split(":"))
    told = [record[name] for name in ("admincomment", "jobid", "user", "state", "submit")]
    fields = [*told, start, end, end - start - elapsed, code << 8 | signal]
    return "0x" + hashlib.sha256("|".join(map(str, fields)).encode()).hexdigest()


def as_billed(record, bill):
    """Return the record that a bill rests on: this one, or the one with an earlier end that
    slurmdbd had before.

    A slurmctld that starts anew tells slurmdbd again when each job ended that it still lists, and
    slurmdbd writes that over what it had, so the record that was billed may be gone. The bill has
    its hash. None if no record fits.
    """
    start, end, elapsed = (int(record[name]) for name in ("start", "end", "elapsedraw"))
    earlier = (
        record | {"end": str(end - less), "elapsedraw": str(elapsed - less)}
        for less in range(end - start + 1)
    )
    return next((one for one in earlier if evidence(one) == bill.evidence), None)


class Site:
    """What a site has of secrets, and whether one is good."""

    def __init__(self, lab):
        self.lab = lab
        self.database = lab.group("slurm_accounting")[0]
        self.storage = lab.group("storage")[0]
        self.directory = lab.group("directory")[0]

    def secrets(self):
        names = (
            "munge_key",
            "slurm_jwt_key",
            "slurmdbd_password",
            "directory-connector",
            "directory-sssd",
        )
        return {name: secret(self.lab, name) for name in names}

    def certificates(self):
        """Return what the hosts have of keys and certificates, by host and file, as hashes."""
        look = "cd /etc/gridstead/pki; find . -name '*.key' -o -name '*.crt' | xargs sha256sum"
        hosts = {host: self.lab.sh(host, look) for host in self.lab.hosts}
        return {
            (host, file): digest
            for host, said in hosts.items()
            for digest, file in map(str.split, said.splitlines())
            if file != "./ca.crt"
        }

    def is_good(self, name, text):
        """Return whether a secret opens what it is for."""
        return {
            "munge_key": self._seals,
            "slurm_jwt_key": self._signs,
            "slurmdbd_password": self._logs_in,
            "directory-sssd": self._binds,
        }[name](text)

    def _seals(self, key):
        script = """
        umask 077; d=$(mktemp -d); chown munge: $d; trap 'kill $(cat $d/pid); rm -rf $d' EXIT
        install -o munge -m 400 /dev/stdin $d/key
        runuser -u munge -- munged --force --key-file $d/key --socket $d/socket --pid-file $d/pid --log-file $d/log \
          --seed-file $d/seed
        munge --no-input --socket $d/socket | unmunge --output=/dev/null"""
        return (
            self.lab.run(self.database, "bash", "-c", script, input=key, check=False).returncode
            == 0
        )

    def _signs(self, key):
        token = subprocess.run(
            ["python3", "-c", JWT], input=key, capture_output=True, text=True, check=True
        ).stdout
        asked = f"X-SLURM-USER-TOKEN:{token}"
        said = self.lab.run(self.lab.controller, "sh", "-c", ASK.format(SLURM), input=asked).stdout
        return '"statistics"' in said and '"error_number"' not in said

    def _logs_in(self, password):
        ask = "IFS= read -r MYSQL_PWD; export MYSQL_PWD; mariadb --user=slurm slurm_acct_db --execute='select 1'"
        return (
            self.lab.run(
                self.database, "bash", "-c", ask, input=password + "\n", check=False
            ).returncode
            == 0
        )

    def _binds(self, password):
        ask = f"LDAPTLS_CACERT=/etc/gridstead/pki/ca.crt {BIND.format(self.directory)}"
        return (
            self.lab.run(self.directory, "sh", "-c", ask, input=password, check=False).returncode
            == 0
        )


@pytest.fixture(scope="module")
def site(lab):
    return Site(lab)


@pytest.fixture(scope="module")
def customer(grid):
    return grid.customer("rotating", credits_=10_000)


@pytest.fixture(scope="module")
def member(customer):
    with contextlib.closing(many_customers.join(customer)) as one:
        yield one


@pytest.fixture(scope="module")
def run(lab, customer, member, site, play):
    """Have jobs run, exchange everything meanwhile, and wait until the last is settled."""
    name = f"rotated-{secrets.token_hex(4)}"
    home = f"/home/ldap-users/{customer.address}/{name}"
    asked = [workflow(name, number) for number in range(JOBS)]
    before = {"secrets": site.secrets(), "certificates": site.certificates()}
    numbers = member.submit([one for one, _ in asked], credits_=200)

    def states():
        return [
            job.state.name
            for job in member.ledger.jobs(numbers, at_block=member.ledger.head()).values()
        ]

    wait_until(lambda: states() == ["RUNNING"] * JOBS, timeout=STARTED_WITHIN_S)
    begun = f"find {home.removesuffix(name)} -path '{home}/*'"
    wait_until(lambda: len(lab.sh(site.storage, begun).split()) == JOBS, timeout=STARTED_WITHIN_S)
    lab.run(site.storage, "touch", f"{home}/begun")

    done = play("rotate")

    (lab.folder / "rotate.log").write_text(done[1])
    still = states().count("RUNNING")
    lab.run(site.storage, "touch", f"{home}/exchanged")
    jobs = member.wait_cold(numbers, timeout=SETTLED_WITHIN_S)
    looks = dict(zip(numbers, (looks for _, looks in asked), strict=True))
    return before, done, still, jobs, looks, home


def test_it_is_exchanged_while_jobs_run(run):
    _, (code, said), still, *_ = run

    assert code == 0, said
    assert still >= JOBS // 2


def test_every_job_ends_well_once_and_is_paid_for_what_it_took(
    lab, grid, customer, member, site, run
):
    *_, jobs, looks, home = run
    records = many_customers.records_of(lab, jobs)
    seen = [
        line.split(":")
        for line in lab.sh(site.storage, f"cd {home}; grep -r '^[0-9]'").splitlines()
    ]
    late = []
    for at, (number, job) in enumerate(jobs.items()):
        (record,) = records[number]
        (bill,) = member.ends(number)
        billed = as_billed(record, bill)
        assert billed, f"{bill} rests on nothing like {record}"
        paid = grid.check_money(customer, number, seconds=lab.billed_seconds(billed))
        assert (paid["state"], job.exit_code) == ("FINISHED", 0)
        times = [int(time) for name, time in seen if name == str(at)]
        assert len(times) == looks[number]
        late.append(int(record["start"]) + bill.numbers["billedSeconds"] - times[-1])
    print("seconds billed beyond each job's last look at the clock:", sorted(late))
    assert 0 <= min(late) <= max(late) <= UNHEARD_S


@pytest.mark.parametrize(
    "name", ["munge_key", "slurm_jwt_key", "slurmdbd_password", "directory-sssd"]
)
def test_the_new_secret_is_good_and_the_old_one_is_not(run, site, name):
    before, *_ = run

    assert site.is_good(name, secret(site.lab, name))
    assert not site.is_good(name, before["secrets"][name])


def test_every_secret_and_every_certificate_with_its_key_is_new(run, site):
    before, *_ = run
    now = {"secrets": site.secrets(), "certificates": site.certificates()}

    for kind, things in now.items():
        assert {name for name, thing in things.items() if thing == before[kind][name]} == set()


@pytest.mark.usefixtures("run")
def test_nothing_of_the_exchange_is_left(lab):
    assert [path.name for path in lab.secrets.iterdir() if path.suffix in {".old", ".new"}] == []
    for host in lab.hosts:
        assert lab.sh(host, "find /etc/munge /etc/gridstead -name '*.next' -o -name '*.new'") == ""


def test_no_secret_is_in_what_ansible_said(run, site):
    before, (_, said), *_ = run

    known = [*before["secrets"].values(), *site.secrets().values()]
    assert [text for text in known if text in said] == []
