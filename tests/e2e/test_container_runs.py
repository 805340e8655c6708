# SPDX-License-Identifier: Apache-2.0
"""Steps in containers on the lab's Slurm: images of a registry and of the node, and what a
container sees.

Host compute1 has Apptainer, as the role left it. While these tests run, compute2 has a stand-in for
Enroot, which runs the command without a container and keeps what it was told, and no Apptainer.
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
SEEN = """\
{user.uid} {user.gid} / yes a,b 'c' $d
/deepsquare/output
from inside
compute1
only to read
from a mount
from home
no home
writable
read-only
entry point: a b c $HOME
"""
UNPACKED = r"""
    mkdir -p "$1"/{bin,dev,etc,proc,sys,tmp,var/tmp}
    for file in /bin/sh $(ldd /bin/sh | grep -o '/[^ ]*'); do install -D -m 755 "$file" "$1$file"; done
    echo hosted >"$1/etc/hosted"; echo root:x:0:0::/:/bin/sh >"$1/etc/passwd"; echo root:x:0: >"$1/etc/group"
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
    """The nodes believe whom the lab's authority vouches for, as they would at a site with
    registries of its own.
    """
    for host in NODES:
        lab.run(host, "cp", "/etc/gridstead/pki/ca.crt", "/etc/ssl/certs/tests.pem")
    yield
    for host in NODES:
        lab.run(host, "rm", "/etc/ssl/certs/tests.pem")


@pytest.fixture(scope="module")
def runtimes(lab):
    """What the nodes run containers with, and an image that lies unpacked on them."""
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
    with registries.running(lab, tmp_path_factory.mktemp("open") / "registry", locked=False) as one:
        yield one


@pytest.fixture(scope="module")
def locked(lab, trusted, tmp_path_factory):
    with registries.running(
        lab, tmp_path_factory.mktemp("locked") / "registry", locked=True
    ) as one:
        yield one


@pytest.fixture(scope="module")
def started(jobs, runtimes, registry, locked):
    """Submit the jobs and return them."""

    def inside(command, *, of=registry, container=None, **fields):
        return run(command, container=of.container(**(container or {})), **fields)

    home = [{"hostDir": jobs.home, "containerDir": "/mine", "options": "rw"}]
    etc = [{"hostDir": "/etc", "containerDir": "/mnt", "options": "ro"}]
    access = {"username": registries.USER, "password": registries.PASSWORD}
    return {
        "sees": jobs.submit(
            inside('echo "$(id -u) $(id -g) $PWD $OF_THE_IMAGE $OWN"', env=[{"key": "OWN", "value": "a,b 'c' $d"}]),
            inside('echo "$PWD"; echo from inside >"$DEEPSQUARE_OUTPUT/file"', workDir="/deepsquare/output"),
            run('cat "$DEEPSQUARE_OUTPUT/file"'),
            inside("cat /mnt/hostname; echo . 2>&- >/mnt/hostname || echo only to read", container={"mounts": etc}),
            inside("echo from a mount >/mine/from-a-mount", container={"mounts": home}),
            inside('echo from home >"$HOME/from-home"', container={"mountHome": True}),
            run("cat ~/from-a-mount ~/from-home"),
            inside(f"ls {jobs.home} 2>&- || echo no home"),
            inside("echo . >/written && echo writable"),
            {**inside("echo . 2>&- >/written", container={"readOnlyRootFS": True}), "catch": [run("echo read-only")]},
            inside("a 'b c' $HOME", shell="ENTRYPOINT"),
        ),
        "seems": jobs.submit(
            inside('echo "$(id -u) $(id -g)"', mapUid=0, mapGid=0),
            run('echo "$(id -u) $(id -g)"', mapUid=5, mapGid=6),
            run(f"mkdir -p {X11} && echo . >{X11}/X0"),
            inside(f"ls {X11}", container={"x11": True}),
            inside(f"ls {X11} 2>&- || echo no screen"),
        ),
        "hosted": jobs.submit(
            run("read -r it </etc/hosted; echo $it", container={"image": "tests/hosted:1", "deepsquareHosted": True})
        ),
        "locked": jobs.submit(inside("echo opened", of=locked, container=access), run("env")),
        "refused": jobs.submit(inside("echo never", of=locked, container={**access, "password": "other"})),
        "enroot": jobs.submit(
            inside('echo "$PWD $OWN"', of=locked, container={**access, "mounts": etc}, workDir="/usr",
                   env=[{"key": "OWN", "value": "a,b 'c' $d"}]),
            nodes="compute2",
        ),
        "missing": jobs.submit(inside("echo never", container={"apptainer": True}), nodes="compute2"),
        **{
            f"signal on {node}": jobs.submit(
                {"launch": {"steps": [inside(TRAPPED, container={"mountHome": True})], "signalOnParentStepExit": 2}},
                run(WAITING), nodes=node, env=[{"key": "READY", "value": f"{jobs.home}/{node}"}],
            )
            for node in NODES
        },
    }  # fmt: skip


def said(ended):
    """What the steps of a job said."""
    lines = ended.output.splitlines(keepends=True)
    return "".join(
        line for line in lines if not line.startswith(("gridstead: fetching", "srun: error"))
    )


def test_a_container_of_a_registry_sees_what_it_should(jobs, started):
    ended = jobs.wait(started["sees"])

    assert (ended.code, said(ended)) == (0, SEEN.format(user=jobs.user))
    assert ended.output.count("fetching") == 1


def test_a_command_may_seem_to_be_another_and_see_the_screen(jobs, started):
    ended = jobs.wait(started["seems"])

    assert (ended.code, said(ended)) == (0, "0 0\n5 6\nX0\nno screen\n")


def test_an_image_that_lies_on_the_node_starts(jobs, started):
    assert jobs.wait(started["hosted"]) == (0, "hosted\n")


def test_an_image_with_a_password_comes_only_with_the_right_one(jobs, started):
    right, wrong = jobs.wait(started["locked"]), jobs.wait(started["refused"])

    assert (right.code, said(right).splitlines()[0]) == (0, "opened")
    assert registries.PASSWORD not in right.output
    assert (wrong.code, "never" in wrong.output) == (255, False)
    assert "authentication required" in wrong.output


def test_a_node_with_enroot_uses_it(lab, jobs, started, locked):
    ended = jobs.wait(started["enroot"])

    assert (ended.code, said(ended)) == (0, "/usr a,b 'c' $d\n")
    told = [
        json.loads(line)
        for line in lab.run("infra", "cat", f"{jobs.home}/enroot").stdout.splitlines()
    ]
    fetched = next(one for one in told if locked.host in one["words"][-1])
    assert fetched["words"][-1] == f"docker://{registries.USER}@{locked.host}#{registries.IMAGE}"
    machine = locked.host.partition(":")[0]
    assert (
        fetched["access"]
        == f"machine {machine} login {registries.USER} password {registries.PASSWORD}\n"
    )
    start = next(
        one["words"]
        for one in told
        if one["words"][0] == "start" and "/etc:/mnt:ro" in one["words"]
    )
    assert "--rw" in start


def test_a_node_without_apptainer_says_so(jobs, started):
    assert jobs.wait(started["missing"]) == (127, "gridstead: this node has no apptainer\n")


@pytest.mark.parametrize("node", NODES)
def test_a_signal_reaches_the_command_in_a_container(jobs, started, node):
    ended = jobs.wait(started[f"signal on {node}"])

    assert (ended.code, said(ended)) == (0, "trapped\n")


def test_nothing_is_left(lab, jobs, started):
    for job in started.values():
        jobs.wait(job)

    assert jobs.left() == ""
