# SPDX-License-Identifier: Apache-2.0
"""Tests of the state, the exit code and the payment of a job for each way in which a job can end.

Jobs that do not affect each other run at the same time, to save time.
"""

import base64
import re
import secrets

import pytest
from tests import billing_oracle
from tests.e2e import many_customers
from tests.e2e import store as stores
from tests.e2e.conftest import slurm_job_name
from tests.e2e.secret_search import SecretSearch

pytestmark = pytest.mark.jobs

REGISTRY = "192.0.2.1:5000"  # an address that does not answer
# The file in which slurmctld stores the environment of a job. No other file outside of the job may
# contain secrets.
ENVIRONMENT_FILE = re.compile(r"/var/lib/slurm/slurmctld/hash\.\d/job\.(\d+)/environment")
# The secret search looks for GRIDSTEAD_LOG_TOKEN= in processes. With the brackets, it does not find
# this command.
PRINT_LOG_TOKEN = (
    r"tr '\0' '\n' </var/lib/slurm/slurmctld/hash.*/job.{0}/environment | "
    "sed -n 's/^GRIDSTEAD_LOG_[T]OKEN=//p'"
)
DUMP_DATABASE = "mariadb-dump --single-transaction slurm_acct_db"


@pytest.fixture(scope="module")
def customer(grid):
    return grid.customer("ends")


@pytest.fixture(scope="module")
def store(lab):
    with stores.run_store(lab.gateway) as server:
        server.put("in/word", b"hello")
        yield server


@pytest.fixture(scope="module")
def secret_texts(store):
    """Return the secrets of each kind that a workflow can have, by name.

    A job discloses the secret with name "disclosed" on purpose.
    """
    keys = {name: base64.b64encode(secrets.token_bytes(32)).decode() for name in ("tunnel", "peer")}
    names = ("registry user", "registry password", "disclosed")
    words = {name: secrets.token_urlsafe(24) for name in names}
    # The log tokens do not exist yet. Until a later test adds the values of the tokens, the search
    # looks for the assignment of the token's variable in processes.
    keys["log token"] = "GRIDSTEAD_LOG_TOKEN="
    return {"store key": store.key, "store secret": store.secret, **keys, **words}


@pytest.fixture(scope="module")
def secret_search(lab, secret_texts):
    """Search for the secrets in processes while the jobs run."""
    search = SecretSearch(lab, secret_texts)
    with search.watching():
        yield search


def step(command, **fields):
    return {"run": {"command": command, "shell": "/bin/bash"}, **fields}


def workflow_with_secrets(store, secret_texts, name, command):
    """Return a workflow with a secret of each kind, whose last step runs a command."""
    peer = {
        "publicKey": base64.b64encode(secrets.token_bytes(32)).decode(),
        "preSharedKey": secret_texts["peer"],
    }
    tunnel = {
        "wireguard": {
            "privateKey": secret_texts["tunnel"],
            "address": ["10.9.0.1/24"],
            "peers": [peer],
        }
    }
    image = {"image": "private/image", "registry": REGISTRY, "apptainer": True}
    image |= {
        "username": secret_texts["registry user"],
        "password": secret_texts["registry password"],
    }
    no_op = [step("true")]
    # The pause lets the tasks on the other nodes of the job end first.
    last_steps = [step(f"sleep 1; touch ~/{name}.finally")]
    return {
        "enableLogging": True,
        "input": store.s3("/in/"), "output": store.s3(f"/{name}/"), "continuousOutputSync": True,
        "steps": [
            {"run": {"command": "true", "network": "pasta", "customNetworkInterfaces": [tunnel]},
             "catch": no_op},
            {"run": {"command": "true", "container": image}, "catch": no_op},
            step(f'cp "$DEEPSQUARE_INPUT/word" "$DEEPSQUARE_OUTPUT"; '
                 f"touch ~/{name}.started; {command}",
                 **{"finally": last_steps}),
        ],
    }  # fmt: skip


def disclosing_workflow(secret_texts):
    """Return a workflow that writes a secret to each kind of place that the search covers."""
    command = (
        'printf %s "$DISCLOSED" | base64 >~/disclosed; logger -- "$DISCLOSED"; '
        "/bin/sh -c 'sleep 2; :' \"$DISCLOSED\""
    )
    return {
        "env": [{"key": "DISCLOSED", "value": secret_texts["disclosed"]}],
        "steps": [step(command, name=secret_texts["disclosed"])],
    }


def launch_with_finally_steps():
    """Return a workflow whose launched step has nested finally steps."""
    one_task = {"resources": {"tasks": 1}}
    end = [step("touch ~/launched.finally")]
    last = {"finally": [{"steps": [step("sleep 1")], "finally": end}]}
    launched_step = {"run": {"command": "touch ~/launched.started; sleep 300", **one_task}, **last}
    other_step = {"run": {"command": "sleep 300", **one_task}}
    return {"steps": [{"launch": {"steps": [launched_step]}}, other_step]}


@pytest.fixture(scope="module")
def submitted_jobs(customer, store, secret_texts, secret_search):
    """Submit the jobs that may run at the same time and return their numbers."""
    assert secret_search, "the search must run before the jobs start"

    def with_secrets(name, command, **resources):
        return with_resources(
            workflow_with_secrets(store, secret_texts, name, command), **resources
        )

    return many_customers.submit_named(customer, {
        # 100 credits pay for one minute of 100 CPU threads.
        "over its time": with_secrets("late", "sleep 600", tasks=2, cpus=50, memory_mb=32),
        "cancelled": with_secrets("cancelled", "sleep 300"),
        "cancelled launch": with_resources(launch_with_finally_steps(), tasks=2),
        "exits 0": with_secrets("good", "true"),
        "exits 3": with_secrets("bad", "sleep 2; exit 3"),
        "ignores signals": with_secrets("deaf", "trap '' TERM INT; while true; do sleep 1; done"),
        "too much memory": many_customers.one_step("python3 -c 'x = bytearray(400 << 20)'"),
        "careless": with_resources(disclosing_workflow(secret_texts)),
    })  # fmt: skip


def with_resources(workflow, *, tasks=1, cpus=1, memory_mb=256):
    return workflow | {
        "resources": {"tasks": tasks, "cpusPerTask": cpus, "memPerCpu": memory_mb, "gpus": 0}
    }


def wait_for_file(lab, user, name):
    """Wait until a file exists in a customer's home directory."""
    file = f"/home/ldap-users/{user.address}/{name}"
    lab.sh("infra", f"for i in $(seq 240); do [ -e {file} ] && exit; sleep 0.5; done; exit 1")


def is_in_home(lab, user, name):
    """Return whether a file exists in a customer's home directory."""
    file = f"/home/ldap-users/{user.address}/{name}"
    return lab.run("infra", "test", "-e", file, check=False).returncode == 0


def test_a_running_job_that_is_cancelled_is_billed_for_its_run_time(
    grid, lab, customer, submitted_jobs, store
):
    number = submitted_jobs["cancelled"]
    wait_for_file(lab, customer, "cancelled.started")
    grid.wait(customer, number, "RUNNING")  # a job costs nothing if it is cancelled earlier
    customer.run("job", "cancel", str(number))
    grid.wait(customer, number, "CANCELLED")

    job = grid.check_money(customer, number)
    assert job["cost_wei"] > 0
    lab.check_no_leftovers(job["number"])
    assert is_in_home(lab, customer, "cancelled.finally")
    assert store.get("cancelled/word") == b"hello"


def test_finally_steps_of_a_launch_run_to_their_end_in_a_cancelled_job(
    grid, lab, customer, submitted_jobs
):
    number = submitted_jobs["cancelled launch"]
    wait_for_file(lab, customer, "launched.started")
    customer.run("job", "cancel", str(number))
    grid.wait(customer, number, "CANCELLED")

    lab.check_no_leftovers(number)
    assert is_in_home(lab, customer, "launched.finally")


def test_a_job_that_exits_with_3_fails_with_exit_code_3(grid, lab, customer, submitted_jobs, store):
    grid.wait(customer, submitted_jobs["exits 3"], "FAILED")

    job = grid.check_money(customer, submitted_jobs["exits 3"])
    assert job["exit_code"] == 3
    assert job["last_error"].startswith("exit 3 in step ")
    lab.check_no_leftovers(job["number"])
    assert is_in_home(lab, customer, "bad.finally")
    assert store.get("bad/word") == b"hello"


def test_a_job_that_uses_too_much_memory_fails(grid, customer, submitted_jobs):
    job = grid.wait(customer, submitted_jobs["too much memory"], "FAILED")

    # The kernel kills the step, and the batch script then fails. Slurm reports either the state
    # OUT_OF_MEMORY, or the state FAILED and the derived exit code 0:125.
    assert job["last_error"] == "killed: memory limit 64 MiB"
    grid.check_money(customer, submitted_jobs["too much memory"])


def test_a_finished_job_has_no_leftovers(grid, lab, customer, submitted_jobs, store):
    job = grid.wait(customer, submitted_jobs["exits 0"], "FINISHED")

    lab.check_no_leftovers(job["number"])
    assert is_in_home(lab, customer, "good.finally")
    assert store.get("good/word") == b"hello"


def test_a_job_that_ignores_signals_has_no_leftovers(grid, lab, customer, submitted_jobs):
    number = submitted_jobs["ignores signals"]
    wait_for_file(lab, customer, "deaf.started")
    customer.run("job", "cancel", str(number))

    job = grid.wait(customer, number, "CANCELLED")

    # At the end of such a job, slurmstepd 24.11.5 may wait for its own process for up to
    # UnkillableStepTimeout (150 s).
    lab.check_no_leftovers(job["number"], timeout=70)


def test_a_job_that_exceeds_its_paid_time_is_out_of_credits(
    grid, lab, customer, submitted_jobs, store
):
    number = submitted_jobs["over its time"]
    job = grid.wait(customer, number, "OUT_OF_CREDITS", timeout=180)

    assert job["last_error"] == "time limit"
    paid_seconds = billing_oracle.paid_seconds(job["escrow_wei"], job["price_per_min_wei"])
    elapsed_s = int(lab.wait_ended(job["id"])[-1]["elapsedraw"])
    grid.check_money(customer, number, seconds=min(elapsed_s, paid_seconds))
    lab.check_no_leftovers(job["number"])
    assert is_in_home(lab, customer, "late.finally")
    assert store.get("late/word") == b"hello"


def test_secrets_of_a_job_are_not_found_outside_of_the_allowed_places(
    lab, customer, submitted_jobs, secret_texts, secret_search
):
    """The search must find the disclosed secret in each kind of place.

    This shows that the search would also find the other secrets there.
    """
    for name in ("cancelled", "ignores signals"):
        # An earlier test may have cancelled the job, so the command may fail.
        customer.run("job", "cancel", str(submitted_jobs[name]), check=False)
    connection = many_customers.connect(customer)
    connection.wait_cold(submitted_jobs.values(), timeout=400)
    connection.close()
    slurm_ids = [
        lab.sacct(slurm_job_name(number))[-1]["jobid"] for number in submitted_jobs.values()
    ]

    search_everywhere(lab, secret_search, slurm_ids)

    sightings = sorted(secret_search.sightings)
    disclosed_kinds = {sighting.kind for sighting in sightings if sighting.secret == "disclosed"}
    assert disclosed_kinds == {"environ", "cmdline", "script", "journal", "database", "file"}
    secrets_in_environment_file = set()
    for sighting in sightings:
        if sighting.kind == "file" and ENVIRONMENT_FILE.fullmatch(sighting.place):
            secrets_in_environment_file.add(sighting.secret)
    assert secrets_in_environment_file >= secret_texts.keys() - {"disclosed"}
    for sighting in sightings:
        if sighting.secret != "disclosed":
            assert is_allowed(sighting), sighting


def search_everywhere(lab, secret_search, slurm_ids):
    """Search scripts, journals, the database and files for the secrets and the jobs' log tokens."""
    for slurm_id in slurm_ids:
        for token in lab.sh("controller", PRINT_LOG_TOKEN.format(slurm_id)).splitlines():
            secret_search.add("log token", token)
    for slurm_id in slurm_ids:
        script = f"scontrol write batch_script {slurm_id} -"
        secret_search.search_output("script", "controller", script)
    for host in lab.hosts:
        journal = "journalctl --all --output=export --since=-1h"
        secret_search.search_output("journal", host, journal)
    secret_search.search_output("database", "db", DUMP_DATABASE)
    secret_search.search_files()


def is_allowed(sighting):
    """Return whether a secret may be in a place: in a batch process or in a file of slurmctld."""
    if sighting.kind == "environ":
        return sighting.place.endswith("/batch")
    return sighting.host == "controller" and bool(ENVIRONMENT_FILE.fullmatch(sighting.place))


def test_a_job_that_is_cancelled_in_the_queue_of_slurm_costs_nothing(grid, lab, customer):
    whole_cluster = {"tasks": 2, "cpus": 64, "memory_mb": 32, "credits_": 1000}
    blocker = grid.submit(customer, "sleep 400", **whole_cluster)
    grid.wait(customer, blocker, "RUNNING")
    number = grid.submit(customer, "sleep 300", **whole_cluster)
    grid.wait(customer, number, "SCHEDULED")
    is_listed = f"squeue -h -n {slurm_job_name(number)} | grep ."
    lab.sh("controller", f"for i in $(seq 60); do {is_listed} && exit; sleep 0.5; done; exit 1")
    customer.run("job", "cancel", str(number))
    customer.run("job", "cancel", str(blocker))
    grid.wait(customer, number, "CANCELLED")
    grid.wait(customer, blocker, "CANCELLED")

    assert grid.check_money(customer, number)["cost_wei"] == 0
    (record,) = lab.wait_ended(slurm_job_name(number))
    assert record["state"].startswith("CANCELLED")
