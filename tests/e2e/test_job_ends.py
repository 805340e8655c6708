# SPDX-License-Identifier: Apache-2.0
"""Each way in which a job can end: state, exit code and payment. Independent jobs run together."""

import base64
import re
import secrets

import pytest
from tests import billing_oracle
from tests.e2e import many_customers
from tests.e2e import store as stores
from tests.e2e.secret_search import SecretSearch

pytestmark = pytest.mark.jobs

REGISTRY = "192.0.2.1:5000"  # an address that does not answer
# The only file outside of the job that may contain secrets: slurmctld's file with the environment
# of a job.
ENVIRONMENT = re.compile(r"/var/lib/slurm/slurmctld/hash\.\d/job\.(\d+)/environment")
TOKEN = (
    r"tr '\0' '\n' </var/lib/slurm/slurmctld/hash.*/job.{0}/environment | "
    "sed -n 's/^GRIDSTEAD_LOG_[T]OKEN=//p'"
)
DATABASE = "mariadb-dump --single-transaction slurm_acct_db"


@pytest.fixture(scope="module")
def someone(grid):
    return grid.customer("ends")


@pytest.fixture(scope="module")
def store(lab):
    with stores.running(lab.gateway) as server:
        server.put("in/word", b"hello")
        yield server


@pytest.fixture(scope="module")
def secret(store):
    """The secrets of each kind that a workflow can have, by name, and a secret that a careless job
    discloses ("disclosed").
    """
    keys = {name: base64.b64encode(secrets.token_bytes(32)).decode() for name in ("tunnel", "peer")}
    names = ("registry user", "registry password", "disclosed")
    words = {name: secrets.token_urlsafe(24) for name in names}
    # Finds the variable in processes. A later test adds the tokens themselves.
    keys["log token"] = "GRIDSTEAD_LOG_TOKEN="
    return {"store key": store.key, "store secret": store.secret, **keys, **words}


@pytest.fixture(scope="module")
def secret_search(lab, secret):
    """A search for the secrets in processes while the jobs run."""
    search = SecretSearch(lab, secret)
    with search.watching():
        yield search


def step(command, **fields):
    return {"run": {"command": command, "shell": "/bin/bash"}, **fields}


def with_secrets(store, secret, name, command):
    """Return a workflow with a secret of each kind. Its last step decides how the job ends."""
    peer = {
        "publicKey": base64.b64encode(secrets.token_bytes(32)).decode(),
        "preSharedKey": secret["peer"],
    }
    tunnel = {
        "wireguard": {"privateKey": secret["tunnel"], "address": ["10.9.0.1/24"], "peers": [peer]}
    }
    image = {"image": "private/image", "registry": REGISTRY, "apptainer": True}
    image |= {"username": secret["registry user"], "password": secret["registry password"]}
    done = [step("true")]
    # The pause lets the other nodes end the job first.
    last = [step(f"sleep 1; touch ~/{name}.finally")]
    return {
        "enableLogging": True,
        "input": store.s3("/in/"), "output": store.s3(f"/{name}/"), "continuousOutputSync": True,
        "steps": [
            {"run": {"command": "true", "network": "pasta", "customNetworkInterfaces": [tunnel]},
             "catch": done},
            {"run": {"command": "true", "container": image}, "catch": done},
            step(f'cp "$DEEPSQUARE_INPUT/word" "$DEEPSQUARE_OUTPUT"; '
                 f"touch ~/{name}.started; {command}",
                 **{"finally": last}),
        ],
    }  # fmt: skip


def careless(secret):
    """Return a workflow that discloses its secret in every kind of place."""
    command = (
        'printf %s "$DISCLOSED" | base64 >~/disclosed; logger -- "$DISCLOSED"; '
        "/bin/sh -c 'sleep 2; :' \"$DISCLOSED\""
    )
    return {
        "env": [{"key": "DISCLOSED", "value": secret["disclosed"]}],
        "steps": [step(command, name=secret["disclosed"])],
    }


def in_a_launch():
    """Return a workflow whose launched step has nested finally steps."""
    one_task = {"resources": {"tasks": 1}}
    end = [step("touch ~/launched.finally")]
    last = {"finally": [{"steps": [step("sleep 1")], "finally": end}]}
    launched = {"run": {"command": "touch ~/launched.started; sleep 300", **one_task}, **last}
    other = {"run": {"command": "sleep 300", **one_task}}
    return {"steps": [{"launch": {"steps": [launched]}}, other]}


@pytest.fixture(scope="module")
def started(someone, store, secret, secret_search):
    """Submit the jobs that may run at the same time and return their numbers."""
    assert secret_search

    def ends(name, command, **resources):
        return sized(with_secrets(store, secret, name, command), **resources)

    return many_customers.submit_named(someone, {
        # 100 credits pay for one minute of 100 CPU threads.
        "over its time": ends("late", "sleep 600", tasks=2, cpus=50, memory_mb=32),
        "cancelled": ends("cancelled", "sleep 300"),
        "cancelled launch": sized(in_a_launch(), tasks=2),
        "exits 0": ends("good", "true"),
        "exits 3": ends("bad", "sleep 2; exit 3"),
        "ignores signals": ends("deaf", "trap '' TERM INT; while true; do sleep 1; done"),
        "too much memory": many_customers.one_step("python3 -c 'x = bytearray(400 << 20)'"),
        "careless": sized(careless(secret)),
    })  # fmt: skip


def sized(workflow, *, tasks=1, cpus=1, memory_mb=256):
    return workflow | {
        "resources": {"tasks": tasks, "cpusPerTask": cpus, "memPerCpu": memory_mb, "gpus": 0}
    }


def wait_for(lab, user, name):
    """Wait for a file in a customer's home."""
    file = f"/home/ldap-users/{user.address}/{name}"
    lab.sh("infra", f"for i in $(seq 240); do [ -e {file} ] && exit; sleep 0.5; done; exit 1")


def in_home(lab, user, name):
    """Return whether a file exists in a customer's home."""
    file = f"/home/ldap-users/{user.address}/{name}"
    return lab.run("infra", "test", "-e", file, check=False).returncode == 0


def test_a_job_cancelled_while_it_runs_is_billed_for_its_run_time(
    grid, lab, someone, started, store
):
    number = started["cancelled"]
    wait_for(lab, someone, "cancelled.started")
    grid.wait(someone, number, "RUNNING")  # a cancelled job costs nothing before this state
    someone.run("job", "cancel", str(number))
    grid.wait(someone, number, "CANCELLED")

    job = grid.check_money(someone, number)
    assert job["cost_wei"] > 0
    lab.check_nothing_is_left(job["number"])
    assert in_home(lab, someone, "cancelled.finally")
    assert store.get("cancelled/word") == b"hello"


def test_finally_steps_of_a_launch_run_to_their_end_in_a_cancelled_job(grid, lab, someone, started):
    number = started["cancelled launch"]
    wait_for(lab, someone, "launched.started")
    someone.run("job", "cancel", str(number))
    grid.wait(someone, number, "CANCELLED")

    lab.check_nothing_is_left(number)
    assert in_home(lab, someone, "launched.finally")


def test_a_job_that_exits_with_3_fails_with_exit_code_3(grid, lab, someone, started, store):
    grid.wait(someone, started["exits 3"], "FAILED")

    job = grid.check_money(someone, started["exits 3"])
    assert job["exit_code"] == 3
    lab.check_nothing_is_left(job["number"])
    assert in_home(lab, someone, "bad.finally")
    assert store.get("bad/word") == b"hello"


def test_a_job_that_uses_too_much_memory_fails(grid, someone, started):
    job = grid.wait(someone, started["too much memory"], "FAILED")

    # The kernel ends the step, and the batch script fails afterwards. Slurm reports either of the
    # two states.
    assert job["last_error"] in {"Slurm reports OUT_OF_MEMORY", "Slurm reports FAILED"}
    grid.check_money(someone, started["too much memory"])


def test_a_finished_job_leaves_nothing(grid, lab, someone, started, store):
    job = grid.wait(someone, started["exits 0"], "FINISHED")

    lab.check_nothing_is_left(job["number"])
    assert in_home(lab, someone, "good.finally")
    assert store.get("good/word") == b"hello"


def test_a_job_that_slurm_kills_leaves_nothing(grid, lab, someone, started):
    number = started["ignores signals"]
    wait_for(lab, someone, "deaf.started")
    someone.run("job", "cancel", str(number))

    job = grid.wait(someone, number, "CANCELLED")

    # At the end of such a job, slurmstepd 24.11.5 may wait for its own process until
    # UnkillableStepTimeout (150 s) ends.
    lab.check_nothing_is_left(job["number"], timeout=70)


def test_a_job_that_exceeds_its_paid_time_is_out_of_credits(grid, lab, someone, started, store):
    number = started["over its time"]
    job = grid.wait(someone, number, "OUT_OF_CREDITS", timeout=180)

    paid_seconds = billing_oracle.paid_seconds(job["escrow_wei"], job["price_per_min_wei"])
    elapsed = int(lab.wait_ended(job["id"])[-1]["elapsedraw"])
    grid.check_money(someone, number, seconds=min(elapsed, paid_seconds))
    lab.check_nothing_is_left(job["number"])
    assert in_home(lab, someone, "late.finally")
    assert store.get("late/word") == b"hello"


def test_secrets_of_a_job_are_only_in_allowed_places(lab, someone, started, secret, secret_search):
    """The search finds the careless job's secret in each kind of place, which proves that the
    search works.
    """
    for name in ("cancelled", "ignores signals"):
        someone.run("job", "cancel", str(started[name]), check=False)  # may be cancelled already
    member = many_customers.join(someone)
    member.wait_cold(started.values(), timeout=400)
    member.close()
    ids = [lab.sacct(f"0x{number:064x}")[-1]["jobid"] for number in started.values()]

    for slurm_id in ids:
        for token in lab.sh("controller", TOKEN.format(slurm_id)).splitlines():
            secret_search.add("log token", token)
    for slurm_id in ids:
        script = f"scontrol write batch_script {slurm_id} -"
        secret_search.search_output("script", "controller", script)
    for host in lab.hosts:
        journal = "journalctl --all --output=export --since=-1h"
        secret_search.search_output("journal", host, journal)
    secret_search.search_output("database", "db", DATABASE)
    secret_search.search_files()

    sightings = sorted(secret_search.sightings)
    disclosed = {sighting.kind for sighting in sightings if sighting.secret == "disclosed"}
    assert disclosed == {"environ", "cmdline", "script", "journal", "database", "file"}
    stored = set()
    for sighting in sightings:
        if sighting.kind == "file" and ENVIRONMENT.fullmatch(sighting.place):
            stored.add(sighting.secret)
    assert stored >= secret.keys() - {"disclosed"}
    others = [sighting for sighting in sightings if sighting.secret != "disclosed"]
    assert [sighting for sighting in others if not is_allowed(sighting)] == []


def is_allowed(sighting):
    """Return whether a secret may be in a place: in a batch process or in slurmctld's files."""
    if sighting.kind == "environ":
        return sighting.place.endswith("/batch")
    return sighting.host == "controller" and bool(ENVIRONMENT.fullmatch(sighting.place))


def test_a_job_cancelled_while_it_waits_in_slurm_costs_nothing(grid, lab, someone):
    whole_cluster = {"tasks": 2, "cpus": 64, "memory_mb": 32, "credits_": 1000}
    blocker = grid.submit(someone, "sleep 400", **whole_cluster)
    grid.wait(someone, blocker, "RUNNING")
    number = grid.submit(someone, "sleep 300", **whole_cluster)
    grid.wait(someone, number, "SCHEDULED")
    listed = f"squeue -h -n 0x{number:064x} | grep ."
    lab.sh("controller", f"for i in $(seq 60); do {listed} && exit; sleep 0.5; done; exit 1")
    someone.run("job", "cancel", str(number))
    someone.run("job", "cancel", str(blocker))
    grid.wait(someone, number, "CANCELLED")
    grid.wait(someone, blocker, "CANCELLED")

    assert grid.check_money(someone, number)["cost_wei"] == 0
    (record,) = lab.wait_ended(f"0x{number:064x}")
    assert record["state"].startswith("CANCELLED")
