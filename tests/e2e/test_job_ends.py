# SPDX-License-Identifier: Apache-2.0
"""Each way a job can end: the right state, exit code and money. Jobs that do not disturb each other
run together.
"""

import base64
import re
import secrets

import pytest
from tests import billing_oracle
from tests.e2e import many_customers
from tests.e2e import secret_search as hunts
from tests.e2e import store as stores

REGISTRY = "192.0.2.1:5000"  # answers nobody
# The one place for secrets beside the job's own: slurmctld's file of the environment of a job that
# it knows.
ENVIRONMENT = re.compile(r"/var/lib/slurm/slurmctld/hash\.\d/job\.(\d+)/environment")
TOKEN = r"tr '\0' '\n' </var/lib/slurm/slurmctld/hash.*/job.{0}/environment | sed -n 's/^GRIDSTEAD_LOG_[T]OKEN=//p'"
DATABASE = "mariadb-dump --single-transaction slurm_acct_db"


@pytest.fixture(scope="module")
def someone(grid):
    return grid.customer("ends")


@pytest.fixture(scope="module")
def store(lab):
    with stores.running(lab.gateway) as one:
        one.put("in/word", b"hello")
        yield one


@pytest.fixture(scope="module")
def secret(store):
    """Secrets of every kind that a workflow has, by name, and one that a careless job tells
    everybody.
    """
    keys = {name: base64.b64encode(secrets.token_bytes(32)).decode() for name in ("tunnel", "peer")}
    words = {
        name: secrets.token_urlsafe(24) for name in ("registry user", "registry password", "told")
    }
    keys["log token"] = (
        "GRIDSTEAD_LOG_TOKEN="  # in processes; the tokens themselves are known once the jobs are
    )
    return {"store key": store.key, "store secret": store.secret, **keys, **words}


@pytest.fixture(scope="module")
def secret_search(lab, secret):
    """Who looks for the secrets while the jobs run."""
    one = hunts.Hunt(lab, secret)
    with one.watching():
        yield one


def step(command, **fields):
    return {"run": {"command": command, "shell": "/bin/bash"}, **fields}


def with_secrets(store, secret, name, command):
    """Return a workflow that has a secret of every kind, and ends as its last step does."""
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
    return {
        "enableLogging": True,
        "input": store.s3("/in/"), "output": store.s3(f"/{name}/"), "continuousOutputSync": True,
        "steps": [
            {"run": {"command": "true", "network": "pasta", "customNetworkInterfaces": [tunnel]}, "catch": done},
            {"run": {"command": "true", "container": image}, "catch": done},
            step(f'cp "$DEEPSQUARE_INPUT/word" "$DEEPSQUARE_OUTPUT"; touch ~/{name}.started; {command}',
                 **{"finally": [step(f"sleep 1; touch ~/{name}.finally")]}),  # other nodes have long forgotten the job
        ],
    }  # fmt: skip


def careless(secret):
    """Return a workflow that shows its secret wherever it can."""
    command = """printf %s "$TOLD" | base64 >~/told; logger -- "$TOLD"; /bin/sh -c 'sleep 2; :' "$TOLD" """
    return {
        "env": [{"key": "TOLD", "value": secret["told"]}],
        "steps": [step(command, name=secret["told"])],
    }


def in_a_launch():
    """Return a workflow with steps that come last in what runs beside another step."""
    alone = {"resources": {"tasks": 1}}
    last = {"finally": [{"steps": [step("sleep 1")], "finally": [step("touch ~/beside.finally")]}]}
    beside = {"run": {"command": "touch ~/beside.started; sleep 300", **alone}, **last}
    return {"steps": [{"launch": {"steps": [beside]}}, {"run": {"command": "sleep 300", **alone}}]}


@pytest.fixture(scope="module")
def started(someone, store, secret, secret_search):
    """Submit the jobs that may run side by side and return their numbers."""
    assert secret_search

    def ends(name, command, **resources):
        return sized(with_secrets(store, secret, name, command), **resources)

    return many_customers.submit_named(someone, {
        # 100 credits pay for one minute of 100 CPU threads.
        "over its time": ends("late", "sleep 600", tasks=2, cpus=50, memory_mb=32),
        "cancelled": ends("cancelled", "sleep 300"),
        "cancelled beside": sized(in_a_launch(), tasks=2),
        "exits 0": ends("good", "true"),
        "exits 3": ends("bad", "sleep 2; exit 3"),
        "heeds nobody": ends("deaf", "trap '' TERM INT; while true; do sleep 1; done"),
        "too much memory": many_customers.one_step("python3 -c 'x = bytearray(400 << 20)'"),
        "careless": sized(careless(secret)),
    })  # fmt: skip


def sized(workflow, *, tasks=1, cpus=1, memory_mb=256):
    return workflow | {
        "resources": {"tasks": tasks, "cpusPerTask": cpus, "memPerCpu": memory_mb, "gpus": 0}
    }


def wait_for(lab, who, name):
    """Wait for a file in a customer's home."""
    lab.sh(
        "infra",
        f"for i in $(seq 240); do [ -e /home/ldap-users/{who.address}/{name} ] && exit; sleep 0.5; done; exit 1",
    )


def in_home(lab, who, name):
    """Return whether a job has left a file in its customer's home."""
    return not lab.run(
        "infra", "test", "-e", f"/home/ldap-users/{who.address}/{name}", check=False
    ).returncode


def test_a_job_cancelled_while_it_runs_is_billed_for_what_ran(grid, lab, someone, started, store):
    number = started["cancelled"]
    wait_for(lab, someone, "cancelled.started")
    grid.wait(someone, number, "RUNNING")  # until the chain knows, a cancel costs nothing
    someone.run("job", "cancel", str(number))
    grid.wait(someone, number, "CANCELLED")

    job = grid.check_money(someone, number)
    assert job["cost_wei"] > 0
    lab.check_nothing_is_left(job["number"])
    assert in_home(lab, someone, "cancelled.finally")
    assert store.get("cancelled/word") == b"hello"


def test_what_comes_last_in_a_launch_runs_to_its_end_in_a_cancelled_job(
    grid, lab, someone, started
):
    number = started["cancelled beside"]
    wait_for(lab, someone, "beside.started")
    someone.run("job", "cancel", str(number))
    grid.wait(someone, number, "CANCELLED")

    lab.check_nothing_is_left(number)
    assert in_home(lab, someone, "beside.finally")


def test_a_job_that_exits_3_has_failed_with_3(grid, lab, someone, started, store):
    grid.wait(someone, started["exits 3"], "FAILED")

    job = grid.check_money(someone, started["exits 3"])
    assert job["exit_code"] == 3
    lab.check_nothing_is_left(job["number"])
    assert in_home(lab, someone, "bad.finally")
    assert store.get("bad/word") == b"hello"


def test_a_job_that_uses_too_much_memory_has_failed(grid, someone, started):
    job = grid.wait(someone, started["too much memory"], "FAILED")

    # The step is what the kernel ends; the batch script fails with it, and which of the two Slurm
    # names is a race.
    assert job["last_error"] in {"Slurm reports OUT_OF_MEMORY", "Slurm reports FAILED"}
    grid.check_money(someone, started["too much memory"])


def test_a_job_that_does_well_leaves_nothing(grid, lab, someone, started, store):
    job = grid.wait(someone, started["exits 0"], "FINISHED")

    lab.check_nothing_is_left(job["number"])
    assert in_home(lab, someone, "good.finally")
    assert store.get("good/word") == b"hello"


def test_a_job_that_slurm_has_to_kill_leaves_nothing(grid, lab, someone, started):
    number = started["heeds nobody"]
    wait_for(lab, someone, "deaf.started")
    someone.run("job", "cancel", str(number))

    job = grid.wait(someone, number, "CANCELLED")

    # At the end of such a job slurmstepd may wait for itself (24.11.5) for UnkillableStepTimeout,
    # 150 s on any machine.
    lab.check_nothing_is_left(job["number"], timeout=70)


def test_a_job_over_its_paid_time_is_out_of_credits(grid, lab, someone, started, store):
    number = started["over its time"]
    job = grid.wait(someone, number, "OUT_OF_CREDITS", timeout=180)

    paid_seconds = billing_oracle.paid_seconds(job["escrow_wei"], job["price_per_min_wei"])
    elapsed = int(lab.wait_ended(job["id"])[-1]["elapsedraw"])
    grid.check_money(someone, number, seconds=min(elapsed, paid_seconds))
    lab.check_nothing_is_left(job["number"])
    assert in_home(lab, someone, "late.finally")
    assert store.get("late/word") == b"hello"


def test_no_secret_of_a_job_is_seen_but_where_it_has_to_be(
    lab, someone, started, secret, secret_search
):
    """The careless job's secret is found in every kind of place, so that one that is not found is
    not there.
    """
    for name in ("cancelled", "heeds nobody"):
        someone.run("job", "cancel", str(started[name]), check=False)  # unless that was done before
    member = many_customers.join(someone)
    member.wait_cold(started.values(), timeout=400)
    member.close()
    ids = [lab.sacct(f"0x{number:064x}")[-1]["jobid"] for number in started.values()]

    for each in ids:
        for token in lab.sh("controller", TOKEN.format(each)).splitlines():
            secret_search.add("log token", token)
    for each in ids:
        secret_search.look_at("script", "controller", f"scontrol write batch_script {each} -")
    for host in lab.hosts:
        secret_search.look_at("journal", host, "journalctl --all --output=export --since=-1h")
    secret_search.look_at("database", "db", DATABASE)
    secret_search.look_at_files()

    told = {one.kind for one in secret_search.sightings if one.secret == "told"}
    assert told == {"environ", "cmdline", "script", "journal", "database", "file"}
    kept = {
        one.secret
        for one in secret_search.sightings
        if one.kind == "file" and ENVIRONMENT.fullmatch(one.place)
    }
    assert kept >= secret.keys() - {"told"}
    assert [
        one for one in sorted(secret_search.sightings) if one.secret != "told" and not may_be(one)
    ] == []


def may_be(one):
    """Return whether a secret has to be there: in what slurmctld will start, and in what it has
    started of that.
    """
    if one.kind == "environ":
        return one.place.endswith("/batch")
    return one.host == "controller" and bool(ENVIRONMENT.fullmatch(one.place))


def test_a_job_cancelled_while_it_waits_in_slurm_costs_nothing(grid, lab, someone):
    whole_cluster = {"tasks": 2, "cpus": 64, "memory_mb": 32, "credits_": 1000}
    blocker = grid.submit(someone, "sleep 400", **whole_cluster)
    grid.wait(someone, blocker, "RUNNING")
    number = grid.submit(someone, "sleep 300", **whole_cluster)
    grid.wait(someone, number, "SCHEDULED")
    lab.sh(
        "controller",
        f"for i in $(seq 60); do squeue -h -n 0x{number:064x} | grep . && exit; sleep 0.5; done; exit 1",
    )
    someone.run("job", "cancel", str(number))
    someone.run("job", "cancel", str(blocker))
    grid.wait(someone, number, "CANCELLED")
    grid.wait(someone, blocker, "CANCELLED")

    assert grid.check_money(someone, number)["cost_wei"] == 0
    (record,) = lab.wait_ended(f"0x{number:064x}")
    assert record["state"].startswith("CANCELLED")


def test_a_job_whose_host_dies_is_panicked_and_costs_nothing(grid, lab, someone):
    number = grid.submit(someone, "sleep 300")
    grid.wait(someone, number, "RUNNING")
    host = lab.sh("controller", f"squeue -h -n 0x{number:064x} -o %N").strip()
    lab.tool("kill", host)
    try:
        grid.wait(someone, number, "PANICKED", timeout=180)
    finally:
        lab.tool("start", host)
    lab.sh(
        "controller",
        f"for i in $(seq 240); do sinfo -h -n {host} -o %t | grep -qx idle && exit; sleep 0.5; done; exit 1",
    )

    assert grid.check_money(someone, number)["cost_wei"] == 0
