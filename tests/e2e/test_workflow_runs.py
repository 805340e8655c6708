# SPDX-License-Identifier: Apache-2.0
"""Tests of every kind of step in paid jobs: effects, order and clean-up of the steps.

The jobs run at the same time. Each job writes its observations to its output and uploads the output
to a store in the test process.
"""

import io
import tarfile
import textwrap

import pytest
import yaml
from tests.e2e import many_customers
from tests.e2e import store as stores

pytestmark = pytest.mark.steps

APPEND_TO_OUTPUT = '>>"$DEEPSQUARE_OUTPUT/said"'
# The pattern of grep finds the paths in the output of ldd, such as /lib/x/libc.so.6 in
# "libc.so.6 => /lib/x/libc.so.6 (0x7f)", and /lib64/ld.so.2 in "/lib64/ld.so.2 (0x7f)".
CREATE_IMAGE = textwrap.dedent(r"""
    set -e
    mkdir -p "$STORAGE_PATH"/image/{bin,dev,etc,proc,sys,tmp,var/tmp,deepsquare}
    libraries=$(ldd /bin/sh /bin/cat | grep -o ' /[^ ]*\|^\s*/[^ :]* ')
    for file in /bin/sh /bin/cat $libraries; do
      install -D -m 755 "$file" "$STORAGE_PATH/image$file"
    done
    echo 'root:x:0:0::/:/bin/sh' >"$STORAGE_PATH/image/etc/passwd"
    echo 'root:x:0:' >"$STORAGE_PATH/image/etc/group"
    mksquashfs "$STORAGE_PATH/image" "$STORAGE_PATH/small.sqsh" -quiet -no-progress -all-root
""")


def run(command, **fields):
    return {"run": {"command": command, "shell": "/bin/bash", **fields}}


def append(text):
    return run(f"echo {text} {APPEND_TO_OUTPUT}")


def in_container(command, **fields):
    container = {"image": "/small.sqsh", "apptainer": True, **fields}
    return {"run": {"command": command, "container": container}}


def steps_with_signal(number):
    """Return a step with two inner steps, which tests that a launched step receives a signal.

    The first inner step is launched in the background and sets a trap for the signal. The second
    inner step waits until the trap is set. When the second inner step ends, the script sends the
    signal to the first. srun must not end the first inner step before its trap has run.
    """
    command_with_trap = (
        f"trap 'echo signal {number} {APPEND_TO_OUTPUT}; exit 0' {number}; touch at.{number}; "
        "while true; do sleep 0.1; done"
    )
    launch_with_signal = {"signalOnParentStepExit": number, "steps": [run(command_with_trap)]}
    return {
        "steps": [
            {"launch": launch_with_signal},
            run(f"for i in {{1..100}}; do [ -e at.{number} ] && exit; sleep 0.1; done; exit 9"),
        ]
    }


SET_LATER = 'echo LATER=set >>"$DEEPSQUARE_ENV"'
WAIT_FOR_OTHER_ITEM = """\
touch "met.$item"
for i in {1..100}; do [ -e met.a -a -e met.b ] && exit; sleep 0.1; done; exit 9"""
COUNT_DOWN = {
    "for": {
        "parallel": False,
        "range": {"begin": 2, "end": 0, "increment": -1},
        "steps": [append('"loop $item $index"')],
    }
}
CONSTRUCTS = [
    {"name": "environment", **run(f'echo "$GREETING, $OWN" {APPEND_TO_OUTPUT}; {SET_LATER}',
                                  env=[{"key": "OWN", "value": "a,b 'c' $d"}])},
    append('"later $LATER"'),
    run(f'cat "$DEEPSQUARE_INPUT"/folder/inside {APPEND_TO_OUTPUT}'),
    {"for": {"parallel": False, "items": ["x,y", "it's"], "steps": [COUNT_DOWN]}},
    {"for": {"parallel": True, "items": ["a", "b"], "steps": [run(WAIT_FOR_OTHER_ITEM)]}},
    {**run("exit 7"), "catch": [append('"caught $DEEPSQUARE_ERROR_CODE"')],
     "finally": [append("finally")]},
    {"if": "1 -eq 2", **append("never")},
    {"launch": {"handleName": "first",
                "steps": [run(f"sleep 1; echo launched {APPEND_TO_OUTPUT}")]}},
    {"dependsOn": ["first"], **append("depends")},
    *(steps_with_signal(number) for number in (1, 2, 15)),
    run('echo "task $SLURM_PROCID of $SLURM_NTASKS" >"task.$SLURM_PROCID"', resources={"tasks": 2}),
    run(f"cat task.0 task.1 {APPEND_TO_OUTPUT}"),
]  # fmt: skip
EXPECTED_OUTPUT = """\
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

# The root of the container is writable, and the container does not contain the home directories.
CONTAINER_COMMANDS = (
    f'echo "in a container: $GREETING" {APPEND_TO_OUTPUT}',
    "read -r line </etc/passwd",
    f'echo "$line" {APPEND_TO_OUTPUT}',
    f"echo . >/written && test ! -e /home && echo writable {APPEND_TO_OUTPUT}",
)
# The finally step creates a file in the home directory, where the test can find it after the job.
FAILING_STEP = {**run("exit 5"), "finally": [run('cp "$STORAGE_PATH/env" ~/finally-ran')]}

# Words in the output of each template of `gridstead workflow init`. test_module_runs.py tests the
# template of a module.
WORDS_OF_TEMPLATES = {
    "hello-world": ["Hello, world! I am 0x"],
    "for-loop": ["red has 3 ", "green has 5 ", "blue has 4 "],
    "gpu": ["this node has no NVIDIA driver"],
    "mpi": [f"I am process {number} of 4" for number in range(4)],
    "s3": ["gridstead: sending the output"],
}


@pytest.fixture(scope="module")
def customer(grid):
    return grid.customer("constructs")


@pytest.fixture(scope="module")
def store(lab):
    with stores.run_store(lab.gateway) as server:
        server.files["/in.tar.gz"] = archive_with("folder/inside", b"from the web\n")
        server.put("in/number", b"41")
        server.put("in/below/unit", b"apples")
        server.put("input/poem", b"one\ntwo\n")
        yield server


@pytest.fixture(scope="module")
def submitted_jobs(customer, store):
    """Submit the jobs and return their numbers."""

    def web(name):
        return {"http": {"url": f"{store.url}/{name}"}}

    return many_customers.submit_named(customer, {
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
            run(CREATE_IMAGE),
            in_container("; ".join(CONTAINER_COMMANDS)),
            {**in_container("echo . >/written", readOnlyRootFS=True),
             "catch": [append("read-only")]},
            in_container(f'while read -r line; do echo "mounted $line" {APPEND_TO_OUTPUT}; done '
                         "</mnt/os-release",
                         mounts=[{"hostDir": "/usr/lib", "containerDir": "/mnt", "options": "ro"}]),
            output=web("container"), env=[{"key": "GREETING", "value": "$x 'y'"}],
        ),
        "fails": workflow(FAILING_STEP, append("never")),
    })  # fmt: skip


@pytest.fixture(scope="module")
def template_jobs(customer, store, tmp_path_factory):
    """Submit every template and return the numbers of the jobs.

    The submitted workflows differ from the templates in the store's address and keys.
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
    for name in WORDS_OF_TEMPLATES:
        file = folder / f"{name}.yaml"
        customer.run("workflow", "init", "--template", name, "--output", str(file))
        text = file.read_text()
        for example, value in replacements.items():
            text = text.replace(example, str(value))
        workflows[name] = yaml.safe_load(text)
    return many_customers.submit_named(customer, workflows)


def archive_with(name, content):
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


def test_steps_run_in_the_order_of_the_workflow(grid, lab, customer, store, submitted_jobs):
    grid.wait(customer, submitted_jobs["constructs"], "FINISHED")

    assert store.files["/constructs"].decode() == EXPECTED_OUTPUT
    lab.check_no_leftovers(submitted_jobs["constructs"])


def test_input_and_output_use_an_s3_store(grid, lab, customer, store, submitted_jobs):
    grid.wait(customer, submitted_jobs["store"], "FINISHED")

    assert store.get("out/count of all") == b"42 apples\n"
    lab.check_no_leftovers(submitted_jobs["store"])


def test_a_container_starts_from_an_image_that_the_job_built(
    grid, lab, customer, store, submitted_jobs
):
    grid.wait(customer, submitted_jobs["container"], "FINISHED")

    lines = store.files["/container"].decode().splitlines()
    assert lines[:4] == ["in a container: $x 'y'", "root:x:0:0::/:/bin/sh", "writable", "read-only"]
    assert 'mounted NAME="Debian GNU/Linux"' in lines
    lab.check_no_leftovers(submitted_jobs["container"])


def test_a_failed_step_ends_the_job_after_its_finally_steps(grid, lab, customer, submitted_jobs):
    job = grid.wait(customer, submitted_jobs["fails"], "FAILED")

    assert job["exit_code"] == 5
    assert job["last_error"] == "exit 5 in step 1"
    file = f"/home/ldap-users/{customer.address}/finally-ran"
    lab.run("login", "runuser", "-u", customer.address, "--", "test", "-e", file)
    lab.check_no_leftovers(submitted_jobs["fails"])


@pytest.mark.parametrize("name", WORDS_OF_TEMPLATES)
def test_the_job_of_a_template_prints_expected_words(grid, customer, store, template_jobs, name):
    grid.wait(customer, template_jobs[name], "FINISHED")

    output = customer.run("job", "logs", str(template_jobs[name])).stdout
    for words in WORDS_OF_TEMPLATES[name]:
        assert words in output
    if name == "s3":
        assert store.get("output/lines.txt").startswith(b"2 ")
