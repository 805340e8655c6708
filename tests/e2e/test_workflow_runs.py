# SPDX-License-Identifier: Apache-2.0
"""Every kind of step in a paid job on the lab's Slurm: its effects, its order and its clean-up.

The jobs run at the same time. Each job writes its observations to its output, which it uploads to a
store in the test process.
"""

import io
import tarfile
import textwrap

import pytest
import yaml
from tests.e2e import many_customers
from tests.e2e import store as stores

pytestmark = pytest.mark.jobs

APPEND = '>>"$DEEPSQUARE_OUTPUT/said"'
IMAGE = textwrap.dedent(r"""
    set -e
    mkdir -p "$STORAGE_PATH"/image/{bin,dev,etc,proc,sys,tmp,var/tmp,deepsquare}
    for file in /bin/sh /bin/cat $(ldd /bin/sh /bin/cat | grep -o ' /[^ ]*\|^\s*/[^ :]* '); do
      install -D -m 755 "$file" "$STORAGE_PATH/image$file"
    done
    echo 'root:x:0:0::/:/bin/sh' >"$STORAGE_PATH/image/etc/passwd"
    echo 'root:x:0:' >"$STORAGE_PATH/image/etc/group"
    mksquashfs "$STORAGE_PATH/image" "$STORAGE_PATH/small.sqsh" -quiet -no-progress -all-root
""")


def run(command, **fields):
    return {"run": {"command": command, "shell": "/bin/bash", **fields}}


def append(text):
    return run(f"echo {text} {APPEND}")


def in_container(command, **fields):
    container = {"image": "/small.sqsh", "apptainer": True, **fields}
    return {"run": {"command": command, "container": container}}


def signalled(number):
    """Return steps that end a launched step with a signal. The launched step traps the signal.

    srun itself would end the step before its trap runs.
    """
    waiting = (
        f"trap 'echo signal {number} {APPEND}; exit 0' {number}; touch at.{number}; "
        "while true; do sleep 0.1; done"
    )
    launched = {"signalOnParentStepExit": number, "steps": [run(waiting)]}
    return {
        "steps": [
            {"launch": launched},
            run(f"for i in {{1..100}}; do [ -e at.{number} ] && exit; sleep 0.1; done; exit 9"),
        ]
    }


SET_LATER = 'echo LATER=set >>"$DEEPSQUARE_ENV"'
MEET = """\
touch "met.$item"
for i in {1..100}; do [ -e met.a -a -e met.b ] && exit; sleep 0.1; done; exit 9"""
CONSTRUCTS = [
    {"name": "environment", **run(f'echo "$GREETING, $OWN" {APPEND}; {SET_LATER}',
                                  env=[{"key": "OWN", "value": "a,b 'c' $d"}])},
    append('"later $LATER"'),
    run(f'cat "$DEEPSQUARE_INPUT"/folder/inside {APPEND}'),
    {"for": {"parallel": False, "items": ["x,y", "it's"], "steps": [
        {"for": {"parallel": False, "range": {"begin": 2, "end": 0, "increment": -1}, "steps": [
            append('"loop $item $index"')]}}]}},
    {"for": {"parallel": True, "items": ["a", "b"], "steps": [run(MEET)]}},
    {**run("exit 7"), "catch": [append('"caught $DEEPSQUARE_ERROR_CODE"')],
     "finally": [append("finally")]},
    {"if": "1 -eq 2", **append("never")},
    {"launch": {"handleName": "first", "steps": [run(f"sleep 1; echo launched {APPEND}")]}},
    {"dependsOn": ["first"], **append("depends")},
    *(signalled(number) for number in (1, 2, 15)),
    run('echo "task $SLURM_PROCID of $SLURM_NTASKS" >"task.$SLURM_PROCID"', resources={"tasks": 2}),
    run(f"cat task.0 task.1 {APPEND}"),
]  # fmt: skip
EXPECTED = """\
hello, a,b 'c' $d
later set
from the web
loop x,y 2
loop x,y 1
loop x,y 0
loop it's 2
loop it's 1
loop it's 0
caught 7
finally
launched
depends
signal 1
signal 2
signal 15
task 0 of 2
task 1 of 2
"""

# Words in the output of each template of `gridstead workflow init`. test_module_runs.py tests the
# template of a module.
TEMPLATES = {
    "hello-world": ["Hello, world! I am 0x"],
    "for-loop": ["red has 3 ", "green has 5 ", "blue has 4 "],
    "gpu": ["this node has no NVIDIA driver"],
    "mpi": [f"I am process {number} of 4" for number in range(4)],
    "s3": ["gridstead: sending the output"],
}


@pytest.fixture(scope="module")
def someone(grid):
    return grid.customer("constructs")


@pytest.fixture(scope="module")
def store(lab):
    with stores.running(lab.gateway) as server:
        server.files["/in.tar.gz"] = packed("folder/inside", b"from the web\n")
        server.put("in/number", b"41")
        server.put("in/below/unit", b"apples")
        server.put("input/poem", b"one\ntwo\n")
        yield server


@pytest.fixture(scope="module")
def started(someone, store):
    """Submit the jobs and return their numbers."""

    def web(name):
        return {"http": {"url": f"{store.url}/{name}"}}

    return many_customers.submit_named(someone, {
        "constructs": workflow(
            *CONSTRUCTS, input=web("in.tar.gz"), output=web("constructs"),
            env=[{"key": "GREETING", "value": "hello"}],
        ),
        "store": workflow(
            run('cd "$DEEPSQUARE_INPUT"; '
                'count="$(($(cat number) + 1)) $(cat below/unit)"; '
                'echo "$count" >"$DEEPSQUARE_OUTPUT/count of all"'),
            input=store.s3("/in/"), output=store.s3("/out/"), continuousOutputSync=True,
        ),
        "container": workflow(
            run(IMAGE),
            in_container(f'echo "in a container: $GREETING" {APPEND}; '
                         f'read -r line </etc/passwd; echo "$line" {APPEND}; '
                         f"echo . >/written && test ! -e /home && echo writable {APPEND}"),
            {**in_container("echo . >/written", readOnlyRootFS=True),
             "catch": [append("read-only")]},
            in_container(f'while read -r line; do echo "mounted $line" {APPEND}; done '
                         "</mnt/os-release",
                         mounts=[{"hostDir": "/usr/lib", "containerDir": "/mnt", "options": "ro"}]),
            output=web("container"), env=[{"key": "GREETING", "value": "$x 'y'"}],
        ),
        "fails": workflow(
            {**run("exit 5"), "finally": [run('cp "$STORAGE_PATH/env" ~/finally-ran')]},
            append("never"),
        ),
    })  # fmt: skip


@pytest.fixture(scope="module")
def templates(someone, store, tmp_path_factory):
    """Submit every template, unchanged except for the store's address and keys, and return the
    jobs' numbers.
    """
    location = store.s3("")["s3"]
    replacements = {
        "us-east-1": location["region"],
        "s3://my-bucket": location["bucketUrl"],
        "MY-KEY": location["accessKeyId"],
        "my/secret/key": location["secretAccessKey"],
        "https://s3.example.com": location["endpointUrl"],
    }
    folder, workflows = tmp_path_factory.mktemp("templates"), {}
    for name in TEMPLATES:
        file = folder / f"{name}.yaml"
        someone.run("workflow", "init", "--template", name, "--output", str(file))
        text = file.read_text()
        for placeholder, value in replacements.items():
            text = text.replace(placeholder, str(value))
        workflows[name] = yaml.safe_load(text)
    return many_customers.submit_named(someone, workflows)


def packed(name, content):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def workflow(*steps, **fields):
    return {
        "resources": {"tasks": 2, "cpusPerTask": 1, "memPerCpu": 256, "gpus": 0},
        "steps": steps,
        **fields,
    }


def test_steps_run_in_the_workflows_order(grid, lab, someone, store, started):
    grid.wait(someone, started["constructs"], "FINISHED")

    assert store.files["/constructs"].decode() == EXPECTED
    lab.check_nothing_is_left(started["constructs"])


def test_input_and_output_use_an_s3_store(grid, lab, someone, store, started):
    grid.wait(someone, started["store"], "FINISHED")

    assert store.get("out/count of all") == b"42 apples\n"
    lab.check_nothing_is_left(started["store"])


def test_a_container_starts_from_an_image_that_the_job_built(grid, lab, someone, store, started):
    grid.wait(someone, started["container"], "FINISHED")

    lines = store.files["/container"].decode().splitlines()
    assert lines[:4] == ["in a container: $x 'y'", "root:x:0:0::/:/bin/sh", "writable", "read-only"]
    assert 'mounted NAME="Debian GNU/Linux"' in lines
    lab.check_nothing_is_left(started["container"])


def test_a_failed_step_ends_the_job_after_its_finally_steps(grid, lab, someone, started):
    job = grid.wait(someone, started["fails"], "FAILED")

    assert job["exit_code"] == 5
    file = f"/home/ldap-users/{someone.address}/finally-ran"
    lab.run("login", "runuser", "-u", someone.address, "--", "test", "-e", file)
    lab.check_nothing_is_left(started["fails"])


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_workflow_template_runs_unchanged(grid, someone, store, templates, name):
    grid.wait(someone, templates[name], "FINISHED")

    output = someone.run("job", "logs", str(templates[name])).stdout
    assert [words for words in TEMPLATES[name] if words not in output] == []
    if name == "s3":
        assert store.get("output/lines.txt").startswith(b"2 ")
