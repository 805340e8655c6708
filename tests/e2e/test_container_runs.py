# SPDX-License-Identifier: Apache-2.0
"""Steps in containers on the lab's Slurm: images of a registry and of the node, and the
container's environment.

Host compute1 has Apptainer, which the role installed. During these tests, compute2 has no
Apptainer. Its Enroot is a substitute, which runs the command without a container and records its
arguments.
"""

import json

import pytest
from tests.e2e import registry as registries
from tests.e2e.slurm_jobs import NODES, SlurmJobs, operator
from tests.unit.workflow.runtimes import ENROOT

pytestmark = pytest.mark.slurm

X11 = "/tmp/.X11-unix"
HOSTED = "/opt/software/registry-1.docker.io/tests/hosted:1"
ENROOT_HERE = f"#!/usr/bin/python3 -IS\nimport os\nhome = os.path.expanduser('~')\n{ENROOT}"
TRAPPED = "trap 'echo trapped; exit 0' 2; echo . >\"$READY\"; while true; do sleep 0.1; done"
WAITING = "i=0; until [ -e $READY ]; do sleep 0.1; i=$((i + 1)); [ $i -lt 300 ] || exit 9; done"
EXPECTED = """\
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
UNPACKED = r"""
    mkdir -p "$1"/{bin,dev,etc,proc,sys,tmp,var/tmp}
    for file in /bin/sh $(ldd /bin/sh | grep -o '/[^ ]*'); do
      install -D -m 755 "$file" "$1$file"
    done
    echo hosted >"$1/etc/hosted"
    echo root:x:0:0::/:/bin/sh >"$1/etc/passwd"; echo root:x:0: >"$1/etc/group"
"""


def run(command, **fields):
    return {"run": {"command": command, **fields}}


@pytest.fixture(scope="module")
def jobs(lab, tmp_path_factory):
    jobs = SlurmJobs(lab, operator(lab, tmp_path_factory.mktemp("ssh")), f"0x{'ab' * 20}")
    yield jobs
    jobs.close()


@pytest.fixture(scope="module")
def trusted(lab):
    """The nodes trust the lab's CA, as at a site with private registries."""
    for host in NODES:
        lab.run(host, "cp", "/etc/gridstead/pki/ca.crt", "/etc/ssl/certs/tests.pem")
    yield
    for host in NODES:
        lab.run(host, "rm", "/etc/ssl/certs/tests.pem")


@pytest.fixture(scope="module")
def runtimes(lab):
    """The container runtimes of the nodes, and an unpacked image on compute1."""
    lab.run(
        "compute2", "install", "-m", "755", "/dev/stdin", "/usr/local/bin/enroot", input=ENROOT_HERE
    )
    lab.sh("compute2", "mv /usr/bin/apptainer /usr/bin/apptainer.away")
    lab.run("compute1", "bash", "-euc", UNPACKED, "bash", HOSTED)
    yield
    lab.sh("compute2", "rm /usr/local/bin/enroot; mv /usr/bin/apptainer.away /usr/bin/apptainer")
    lab.sh("compute1", "rm -r /opt/software")


@pytest.fixture(scope="module")
def registry(lab, trusted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("open") / "registry"
    with registries.running(lab, folder, locked=False) as server:
        yield server


@pytest.fixture(scope="module")
def locked(lab, trusted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("locked") / "registry"
    with registries.running(lab, folder, locked=True) as server:
        yield server


@pytest.fixture(scope="module")
def started(jobs, runtimes, registry, locked):
    """Submit the jobs and return them."""

    def inside(command, *, of=registry, container=None, **fields):
        return run(command, container=of.container(**(container or {})), **fields)

    home = [{"hostDir": jobs.home, "containerDir": "/mine", "options": "rw"}]
    etc = [{"hostDir": "/etc", "containerDir": "/mnt", "options": "ro"}]
    access = {"username": registries.USER, "password": registries.PASSWORD}
    wrong_access = {**access, "password": "other"}
    own = [{"key": "OWN", "value": "a,b 'c' $d"}]
    hosted = {"image": "tests/hosted:1", "deepsquareHosted": True}
    ids = 'echo "$(id -u) $(id -g)"'
    write_etc = "echo . 2>&- >/mnt/hostname || echo read-only"
    read_only_root = inside("echo . 2>&- >/written", container={"readOnlyRootFS": True})
    submitted = {
        "sees": jobs.submit(
            inside('echo "$(id -u) $(id -g) $PWD $OF_THE_IMAGE $OWN"', env=own),
            inside('echo "$PWD"; echo from inside >"$DEEPSQUARE_OUTPUT/file"',
                   workDir="/deepsquare/output"),
            run('cat "$DEEPSQUARE_OUTPUT/file"'),
            inside(f"cat /mnt/hostname; {write_etc}", container={"mounts": etc}),
            inside("echo from a mount >/mine/from-a-mount", container={"mounts": home}),
            inside('echo from home >"$HOME/from-home"', container={"mountHome": True}),
            run("cat ~/from-a-mount ~/from-home"),
            inside(f"ls {jobs.home} 2>&- || echo no home"),
            inside("echo . >/written && echo writable"),
            {**read_only_root, "catch": [run("echo read-only")]},
            inside("a 'b c' $HOME", shell="ENTRYPOINT"),
        ),
        "seems": jobs.submit(
            inside(ids, mapUid=0, mapGid=0),
            run(ids, mapUid=5, mapGid=6),
            run(f"mkdir -p {X11} && echo . >{X11}/X0"),
            inside(f"ls {X11}", container={"x11": True}),
            inside(f"ls {X11} 2>&- || echo no screen"),
        ),
        "hosted": jobs.submit(run("read -r it </etc/hosted; echo $it", container=hosted)),
        "locked": jobs.submit(inside("echo opened", of=locked, container=access), run("env")),
        "refused": jobs.submit(inside("echo never", of=locked, container=wrong_access)),
        "enroot": jobs.submit(
            inside('echo "$PWD $OWN"', of=locked, container={**access, "mounts": etc},
                   workDir="/usr", env=own),
            nodes="compute2",
        ),
        "missing": jobs.submit(
            inside("echo never", container={"apptainer": True}), nodes="compute2"
        ),
    }  # fmt: skip
    for node in NODES:
        trap = inside(TRAPPED, container={"mountHome": True})
        submitted[f"signal on {node}"] = jobs.submit(
            {"launch": {"steps": [trap], "signalOnParentStepExit": 2}},
            run(WAITING),
            nodes=node,
            env=[{"key": "READY", "value": f"{jobs.home}/{node}"}],
        )
    return submitted


def step_output(ended):
    """Return the output of a job's steps, without messages of gridstead and srun."""
    lines = ended.output.splitlines(keepends=True)
    messages = ("gridstead: fetching", "srun: error")
    return "".join(line for line in lines if not line.startswith(messages))


def test_a_container_from_a_registry_has_the_right_environment(jobs, started):
    ended = jobs.wait(started["sees"])

    assert (ended.code, step_output(ended)) == (0, EXPECTED.format(user=jobs.user))
    assert ended.output.count("fetching") == 1


def test_user_ids_are_mapped_and_x11_is_mounted(jobs, started):
    ended = jobs.wait(started["seems"])

    assert (ended.code, step_output(ended)) == (0, "0 0\n5 6\nX0\nno screen\n")


def test_an_image_on_the_node_starts(jobs, started):
    assert jobs.wait(started["hosted"]) == (0, "hosted\n")


def test_a_protected_image_needs_the_right_password(jobs, started):
    right, wrong = jobs.wait(started["locked"]), jobs.wait(started["refused"])

    assert (right.code, step_output(right).splitlines()[0]) == (0, "opened")
    assert registries.PASSWORD not in right.output
    assert (wrong.code, "never" in wrong.output) == (255, False)
    assert "authentication required" in wrong.output


def test_a_node_with_enroot_uses_enroot(lab, jobs, started, locked):
    ended = jobs.wait(started["enroot"])

    assert (ended.code, step_output(ended)) == (0, "/usr a,b 'c' $d\n")
    log = lab.run("infra", "cat", f"{jobs.home}/enroot").stdout
    calls = [json.loads(line) for line in log.splitlines()]
    fetched = next(call for call in calls if locked.host in call["words"][-1])
    assert fetched["words"][-1] == f"docker://{registries.USER}@{locked.host}#{registries.IMAGE}"
    machine = locked.host.partition(":")[0]
    netrc = f"machine {machine} login {registries.USER} password {registries.PASSWORD}\n"
    assert fetched["access"] == netrc
    starts = [call["words"] for call in calls if call["words"][0] == "start"]
    start = next(words for words in starts if "/etc:/mnt:ro" in words)
    assert "--rw" in start


def test_a_step_fails_on_a_node_without_apptainer(jobs, started):
    assert jobs.wait(started["missing"]) == (127, "gridstead: this node has no apptainer\n")


@pytest.mark.parametrize("node", NODES)
def test_a_signal_reaches_the_command_in_a_container(jobs, started, node):
    ended = jobs.wait(started[f"signal on {node}"])

    assert (ended.code, step_output(ended)) == (0, "trapped\n")


def test_ended_jobs_leave_nothing(lab, jobs, started):
    for job in started.values():
        jobs.wait(job)

    assert jobs.left() == ""
