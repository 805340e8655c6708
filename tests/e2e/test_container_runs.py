# SPDX-License-Identifier: Apache-2.0
"""Tests of steps in containers on the lab's Slurm.

The images are in a registry or on the node. Host compute1 has Apptainer, which the role installed.
During these tests, compute2 has no Apptainer, but a substitute for Enroot. The substitute records
its arguments and runs the command outside of any container.
"""

import ast

import pytest
from tests.e2e import registry as registries
from tests.e2e.conftest import wait_until
from tests.e2e.slurm_jobs import NODES, SlurmJobs, operator_access
from tests.unit.workflow.runtimes import ENROOT

pytestmark = pytest.mark.slurm

X11 = "/tmp/.X11-unix"
NODE_IMAGE_FOLDER = "/opt/software/registry-1.docker.io/tests/hosted:1"
# ENROOT writes its record to the folder in variable home.
ENROOT_SUBSTITUTE = f"#!/usr/bin/python3 -IS\nimport os\nhome = os.path.expanduser('~')\n{ENROOT}"
TRAP_SIGNAL = "trap 'echo trapped; exit 0' 2; echo . >\"$READY\"; while true; do sleep 0.1; done"
WAIT_FOR_TRAP = (
    "i=0; until [ -e $READY ]; do sleep 0.1; i=$((i + 1)); [ $i -lt 300 ] || exit 9; done"
)
# The output of the steps of job "environment", in order. The image sets OF_THE_IMAGE=yes.
EXPECTED_OUTPUT = """\
{user.uid} {user.gid} / yes a,b 'c' $d
/deepsquare/output
from inside
compute1
read-only
from a mount
from home
no home
writable
read-only
entry point: a b c $HOME
"""
CREATE_IMAGE = r"""
    mkdir -p "$1"/{bin,dev,etc,proc,sys,tmp,var/tmp}
    for file in /bin/sh $(ldd /bin/sh | grep -o '/[^ ]*'); do
      install -D -m 755 "$file" "$1$file"
    done
    echo hosted >"$1/etc/hosted"
    echo root:x:0:0::/:/bin/sh >"$1/etc/passwd"; echo root:x:0: >"$1/etc/group"
"""


# The private directories of jobs on a node, which Slurm creates and removes.
PRIVATE_FOLDERS = "/var/lib/slurm/job_container"


def run(command, **fields):
    return {"run": {"command": command, **fields}}


@pytest.fixture(scope="module")
def jobs(lab, tmp_path_factory):
    jobs = SlurmJobs(lab, operator_access(lab, tmp_path_factory.mktemp("ssh")), f"0x{'ab' * 20}")
    yield jobs
    jobs.close()


@pytest.fixture(scope="module")
def trust_lab_ca(lab):
    """Make the nodes trust the lab's CA, as at a site with private registries."""
    for host in NODES:
        lab.run(host, "cp", "/etc/gridstead/pki/ca.crt", "/etc/ssl/certs/tests.pem")
    yield
    for host in NODES:
        lab.run(host, "rm", "/etc/ssl/certs/tests.pem")


@pytest.fixture(scope="module")
def runtimes(lab):
    """Set up the container runtimes of the nodes, and an unpacked image on compute1."""
    lab.run(
        "compute2",
        "install",
        "-m",
        "755",
        "/dev/stdin",
        "/usr/local/bin/enroot",
        input=ENROOT_SUBSTITUTE,
    )
    lab.sh("compute2", "mv /usr/bin/apptainer /usr/bin/apptainer.away")
    lab.run("compute1", "bash", "-euc", CREATE_IMAGE, "bash", NODE_IMAGE_FOLDER)
    yield
    lab.sh("compute2", "rm /usr/local/bin/enroot; mv /usr/bin/apptainer.away /usr/bin/apptainer")
    lab.sh("compute1", "rm -r /opt/software")


@pytest.fixture(scope="module")
def public_registry(lab, trust_lab_ca, tmp_path_factory):
    folder = tmp_path_factory.mktemp("open") / "registry"
    with registries.run_registry(lab, folder, requires_login=False) as server:
        yield server


@pytest.fixture(scope="module")
def private_registry(lab, trust_lab_ca, tmp_path_factory):
    folder = tmp_path_factory.mktemp("locked") / "registry"
    with registries.run_registry(lab, folder, requires_login=True) as server:
        yield server


@pytest.fixture(scope="module")
def submitted_jobs(jobs, runtimes, public_registry, private_registry):
    """Submit the jobs and return them."""

    def in_container(command, *, registry=public_registry, container=None, **fields):
        return run(command, container=registry.container(**(container or {})), **fields)

    home = [{"hostDir": jobs.home, "containerDir": "/mine", "options": "rw"}]
    etc = [{"hostDir": "/etc", "containerDir": "/mnt", "options": "ro"}]
    access = {"username": registries.USER, "password": registries.PASSWORD}
    wrong_access = {**access, "password": "other"}
    own_variable = [{"key": "OWN", "value": "a,b 'c' $d"}]
    image_on_node = {"image": "tests/hosted:1", "deepsquareHosted": True}
    ids = 'echo "$(id -u) $(id -g)"'
    # 2>&- hides the error message of the failed write.
    write_etc = "echo . 2>&- >/mnt/hostname || echo read-only"
    read_only_root = in_container("echo . 2>&- >/written", container={"readOnlyRootFS": True})
    jobs_by_name = {
        "environment": jobs.submit(
            in_container('echo "$(id -u) $(id -g) $PWD $OF_THE_IMAGE $OWN"', env=own_variable),
            in_container('echo "$PWD"; echo from inside >"$DEEPSQUARE_OUTPUT/file"',
                         workDir="/deepsquare/output"),
            run('cat "$DEEPSQUARE_OUTPUT/file"'),
            in_container(f"cat /mnt/hostname; {write_etc}", container={"mounts": etc}),
            in_container("echo from a mount >/mine/from-a-mount", container={"mounts": home}),
            in_container('echo from home >"$HOME/from-home"', container={"mountHome": True}),
            run("cat ~/from-a-mount ~/from-home"),
            in_container(f"ls {jobs.home} 2>&- || echo no home"),
            in_container("echo . >/written && echo writable"),
            {**read_only_root, "catch": [run("echo read-only")]},
            in_container("a 'b c' $HOME", shell="ENTRYPOINT"),
        ),
        "user ids and X11": jobs.submit(
            in_container(ids, mapUid=0, mapGid=0),
            run(ids, mapUid=5, mapGid=6),
            run(f"mkdir -p {X11} && echo . >{X11}/X0"),
            in_container(f"ls {X11}", container={"x11": True}),
            in_container(f"ls {X11} 2>&- || echo no screen"),
        ),
        "image on the node": jobs.submit(
            run("read -r it </etc/hosted; echo $it", container=image_on_node)
        ),
        "private image": jobs.submit(
            in_container("echo opened", registry=private_registry, container=access), run("env")
        ),
        "wrong password": jobs.submit(
            in_container("echo never", registry=private_registry, container=wrong_access)
        ),
        "enroot": jobs.submit(
            in_container('echo "$PWD $OWN"', registry=private_registry,
                         container={**access, "mounts": etc}, workDir="/usr", env=own_variable),
            nodes="compute2",
        ),
        "disk": jobs.submit(
            run('stat -c "%a %u" "$DEEPSQUARE_DISK_TMP"; echo . >"$DEEPSQUARE_DISK_WORLD_TMP/file"',
                resources={"tasks": 2}),
            nodes="compute1,compute2",
        ),
        "killed": jobs.submit(
            in_container('echo . >/written; echo . >/tmp/written; echo . >"$HOME/runs"; sleep 300',
                         container={"mountHome": True}),
        ),
        "no apptainer": jobs.submit(
            in_container("echo never", container={"apptainer": True}), nodes="compute2"
        ),
    }  # fmt: skip
    for node in NODES:
        trap = in_container(TRAP_SIGNAL, container={"mountHome": True})
        jobs_by_name[f"signal on {node}"] = jobs.submit(
            {"launch": {"steps": [trap], "signalOnParentStepExit": 2}},
            run(WAIT_FOR_TRAP),
            nodes=node,
            env=[{"key": "READY", "value": f"{jobs.home}/{node}"}],
        )
    return jobs_by_name


def step_output(result):
    """Return the output of a job's steps, without the messages of gridstead and srun."""
    lines = result.output.splitlines(keepends=True)
    messages = ("gridstead: fetching", "srun: error")
    return "".join(line for line in lines if not line.startswith(messages))


def test_a_container_from_a_registry_has_the_right_environment(jobs, submitted_jobs):
    result = jobs.wait(submitted_jobs["environment"])

    assert result.code == 0
    assert step_output(result) == EXPECTED_OUTPUT.format(user=jobs.user)
    assert result.output.count("fetching") == 1


def test_user_ids_are_mapped_and_x11_is_mounted(jobs, submitted_jobs):
    result = jobs.wait(submitted_jobs["user ids and X11"])

    assert result.code == 0
    assert step_output(result) == "0 0\n5 6\nX0\nno screen\n"


def test_an_image_on_the_node_starts(jobs, submitted_jobs):
    assert jobs.wait(submitted_jobs["image on the node"]) == (0, "hosted\n")


def test_a_protected_image_needs_the_right_password(jobs, submitted_jobs):
    right_result = jobs.wait(submitted_jobs["private image"])
    wrong_result = jobs.wait(submitted_jobs["wrong password"])

    assert right_result.code == 0
    assert step_output(right_result).splitlines()[0] == "opened"
    assert registries.PASSWORD not in right_result.output
    assert wrong_result.code == 255
    assert "never" not in wrong_result.output
    assert "authentication required" in wrong_result.output


def test_a_node_with_enroot_uses_enroot(lab, jobs, submitted_jobs, private_registry):
    result = jobs.wait(submitted_jobs["enroot"])

    assert result.code == 0
    assert step_output(result) == "/usr a,b 'c' $d\n"
    log = lab.run("infra", "cat", f"{jobs.home}/enroot").stdout
    calls = [ast.literal_eval(line) for line in log.splitlines()]
    fetch = next(call for call in calls if private_registry.host in call["words"][-1])
    assert (
        fetch["words"][-1]
        == f"docker://{registries.USER}@{private_registry.host}#{registries.IMAGE}"
    )
    machine = private_registry.host.partition(":")[0]
    netrc = f"machine {machine} login {registries.USER} password {registries.PASSWORD}\n"
    assert fetch["access"] == netrc
    starts = [call["words"] for call in calls if call["words"][0] == "start"]
    start = next(words for words in starts if "/etc:/mnt:ro" in words)
    assert "--rw" in start


def test_a_step_fails_on_a_node_without_apptainer(jobs, submitted_jobs):
    result = jobs.wait(submitted_jobs["no apptainer"])

    assert result == (127, "gridstead: this node has no apptainer\n")


@pytest.mark.parametrize("node", NODES)
def test_a_signal_reaches_the_command_in_a_container(jobs, submitted_jobs, node):
    result = jobs.wait(submitted_jobs[f"signal on {node}"])

    assert result.code == 0
    assert step_output(result) == "trapped\n"


def test_a_step_has_a_directory_on_the_disk_of_each_node(jobs, submitted_jobs):
    assert jobs.wait(submitted_jobs["disk"]) == (0, f"700 {jobs.user.uid}\n" * 2)


def test_what_a_container_wrote_is_removed_after_kill_9(lab, jobs, submitted_jobs):
    """The files of a container can belong to other users, if the node maps further users."""
    job = submitted_jobs["killed"]
    folder = f"{PRIVATE_FOLDERS}/compute1/{job.slurm_job_id}"
    wait_until(
        lambda: lab.run("infra", "test", "-e", f"{jobs.home}/runs", check=False).returncode == 0,
        timeout=60,
    )
    find = f"find {folder} -name written -type f"

    assert len(lab.sh("compute1", f"{find} -exec chown 100005 {{}} + -print").splitlines()) == 2
    lab.run("controller", "scancel", "--signal=KILL", "--full", str(job.slurm_job_id))

    jobs.wait(job)
    wait_until(lambda: lab.sh("compute1", f"ls -d {folder} || :") == "", timeout=30)


def test_ended_jobs_leave_nothing(jobs, submitted_jobs):
    for job in submitted_jobs.values():
        jobs.wait(job)

    assert jobs.leftovers() == ""
