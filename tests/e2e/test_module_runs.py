# SPDX-License-Identifier: Apache-2.0
"""Steps out of modules, which the grid's Job Definition service fetches from a git server on this
machine.
"""

import json
import re
import subprocess
import time

import pytest
from tests.adapters.modules.git_server import GitServer, Repository
from tests.e2e import store as stores
from tests.e2e.registry import certify

from gridstead.rpc.tls import TlsFiles

pytestmark = pytest.mark.chain

TAG = f"v{time.time_ns()}"  # the service remembers what it fetched under another run's
PORT = 8450  # the lab's inventory lets modules come from here
TELL = '>>"$DEEPSQUARE_OUTPUT/said"'

COUNT = """\
name: Count
description: Counts.
minimumResources: {tasks: 2, cpusPerTask: 1, memPerCpu: 64}
inputs:
- {key: UNIT, description: Of what., default: apples}
- {key: MANY, description: How many.}
outputs:
- {key: RESULT, description: Number and unit.}
steps:
- run:
    command: |
      echo "RESULT=$MANY $UNIT for {{ .Job.Resources.Tasks }}" >>"$DEEPSQUARE_ENV"
      echo OTHER=hidden >>"$DEEPSQUARE_ENV"
"""
AROUND = """\
name: Around
description: Runs steps between two of its own.
minimumResources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}
steps:
- run: {command: echo before $item >>"$DEEPSQUARE_OUTPUT/said"}
{{- .Step.Use.Steps | toYaml | nindent 0 }}
- use: {source: "HOST/me/count/deep@TAG", args: [{key: MANY, value: "3"}], exportEnvAs: DEEP}
- run:
    command: echo "after, $DEEP_RESULT" >>"$DEEPSQUARE_OUTPUT/said"; echo LEFT=said >>"$DEEPSQUARE_ENV"
"""
GREET = """\
name: Greet
description: Greets.
minimumResources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}
inputs: [{key: WHO, description: Whom.}]
outputs: [{key: RESULT, description: The greeting.}]
steps:
- run: {command: 'echo "RESULT=hello $WHO" >>"$DEEPSQUARE_ENV"'}
"""
SAID = """\
4 pears for 2
,
before x
between x
after, 3 apples for 2
said
"""


def tell(text):
    return {"run": {"command": f"echo {text} {TELL}"}}


@pytest.fixture(scope="module")
def someone(grid):
    return grid.customer("constructs")


@pytest.fixture(scope="module")
def source(lab, tmp_path_factory):
    """A git server with repositories ``me/count``, ``me/around`` and ``me/greet``; what a source
    begins with.
    """
    root = tmp_path_factory.mktemp("git")
    certificate, key = certify(lab, root)
    server = GitServer(
        root, TlsFiles(certificate=certificate, key=key), address=lab.gateway, port=PORT
    )
    count = Repository(root, "me/count", {"module.yaml": COUNT, "deep/module.yaml": COUNT})
    count.commit({}, tag=TAG)
    count.commit({}, tag=f"deep/{TAG}")
    count.commit({"module.yaml": "later: broken"})
    around = AROUND.replace("HOST", server.host).replace("TAG", TAG)
    Repository(root, "me/around", {"module.yaml": around}).commit({}, tag=TAG)
    Repository(root, "me/greet", {"module.yaml": GREET}).commit({}, tag=TAG)
    yield f"{server.host}/me"
    server.stop()


def submit(who, *steps, tasks=2, **fields):
    resources = {"tasks": tasks, "cpusPerTask": 1, "memPerCpu": 64, "gpus": 0}
    return subprocess.run(
        who.command("submit", "-", "--credits", "100", "--name", "modules", "--json"),
        env=who.environment, input=json.dumps({"resources": resources, "steps": steps, **fields}),
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_modules_run_with_their_inputs_and_leave_their_outputs(grid, lab, someone, source):
    args = [{"key": "MANY", "value": "4"}, {"key": "UNIT", "value": "pears"}]
    with stores.running(lab.gateway) as store:
        done = submit(
            someone,
            {"use": {"source": f"{source}/count@{TAG}", "args": args, "exportEnvAs": "FIRST"}},
            tell('"$FIRST_RESULT"'),
            tell('"$RESULT,$FIRST_OTHER$OTHER"'),
            {"for": {"parallel": False, "items": ["x"], "steps": [
                {"use": {"source": f"{source}/around@{TAG}", "steps": [tell("between $item")]}}]}},
            tell('"$LEFT"'),
            output={"http": {"url": f"{store.url}/said"}},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        grid.wait(someone, json.loads(done.stdout)["number"], "FINISHED")

        assert store.files["/said"].decode() == SAID


def test_template_of_init_runs_with_a_module_of_ours(grid, someone, source, tmp_path):
    file = tmp_path / "module.yaml"
    someone.run("workflow", "init", "--template", "module", "--output", str(file))
    text = re.sub(r"source: \S+", f"source: {source}/greet@{TAG}", file.read_text())
    file.write_text(text)

    number = json.loads(someone.run("submit", str(file), "--credits", "100", "--json").stdout)[
        "number"
    ]

    grid.wait(someone, number, "FINISHED")
    assert someone.run("job", "logs", str(number)).stdout == "hello me\n"


def test_modules_that_cannot_be_used_are_told_all_at_once(someone, source):
    names = (
        f"{source}/count@{TAG}",
        f"{source}/count",
        f"{source}/count@v9",
        f"{source}/none",
        "github.com/me/count",
    )

    done = submit(someone, *({"use": {"source": each}} for each in names), tasks=1)

    assert done.returncode != 0
    for number, reason in enumerate(
        (
            "is a module that needs tasks of 2; the job has 1",
            "is an invalid module",
            "there is no such tag or commit",
            "there is no such public repository",
            "host github.com is not allowed for modules",
        )
    ):
        assert re.search(rf"steps\[{number}\].use.source: .*{reason}", done.stderr), done.stderr
