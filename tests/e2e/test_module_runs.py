# SPDX-License-Identifier: Apache-2.0
"""Steps from modules that the Job Definition service fetches from a local Git server."""

import json
import re
import subprocess
import time

import pytest
from tests.adapters.modules.git_server import GitServer, Repository
from tests.e2e import store as stores
from tests.e2e.registry import issue_certificate

from gridstead.rpc.tls import TlsFiles

pytestmark = pytest.mark.chain

TAG = f"v{time.time_ns()}"  # unique, because the service caches modules by tag
PORT = 8450  # the lab's inventory allows modules from this port
APPEND = '>>"$DEEPSQUARE_OUTPUT/said"'

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
    command: |
      echo "after, $DEEP_RESULT" >>"$DEEPSQUARE_OUTPUT/said"
      echo LEFT=said >>"$DEEPSQUARE_ENV"
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
EXPECTED = """\
4 pears for 2
,
before x
between x
after, 3 apples for 2
said
"""


def append(text):
    return {"run": {"command": f"echo {text} {APPEND}"}}


@pytest.fixture(scope="module")
def customer(grid):
    return grid.customer("constructs")


@pytest.fixture(scope="module")
def source(lab, tmp_path_factory):
    """The prefix of module sources on a Git server with the repositories ``me/count``,
    ``me/around`` and ``me/greet``.
    """
    root = tmp_path_factory.mktemp("git")
    certificate, key = issue_certificate(lab, root)
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


def submit(user, *steps, tasks=2, **fields):
    resources = {"tasks": tasks, "cpusPerTask": 1, "memPerCpu": 64, "gpus": 0}
    return subprocess.run(
        user.command("submit", "-", "--credits", "100", "--name", "modules", "--json"),
        env=user.environment, input=json.dumps({"resources": resources, "steps": steps, **fields}),
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_modules_receive_inputs_and_set_outputs(grid, lab, customer, source):
    args = [{"key": "MANY", "value": "4"}, {"key": "UNIT", "value": "pears"}]
    with stores.run_store(lab.gateway) as store:
        done = submit(
            customer,
            {"use": {"source": f"{source}/count@{TAG}", "args": args, "exportEnvAs": "FIRST"}},
            append('"$FIRST_RESULT"'),
            append('"$RESULT,$FIRST_OTHER$OTHER"'),
            {"for": {"parallel": False, "items": ["x"], "steps": [{"use": {
                "source": f"{source}/around@{TAG}", "steps": [append("between $item")]}}]}},
            append('"$LEFT"'),
            output={"http": {"url": f"{store.url}/said"}},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        grid.wait(customer, json.loads(done.stdout)["number"], "FINISHED")

        assert store.files["/said"].decode() == EXPECTED


def test_the_module_template_runs_with_our_module(grid, customer, source, tmp_path):
    file = tmp_path / "module.yaml"
    customer.run("workflow", "init", "--template", "module", "--output", str(file))
    text = re.sub(r"source: \S+", f"source: {source}/greet@{TAG}", file.read_text())
    file.write_text(text)

    answer = customer.run("submit", str(file), "--credits", "100", "--json").stdout
    number = json.loads(answer)["number"]

    grid.wait(customer, number, "FINISHED")
    assert customer.run("job", "logs", str(number)).stdout == "hello me\n"


def test_all_unusable_modules_are_reported_at_once(customer, source):
    names = (
        f"{source}/count@{TAG}",
        f"{source}/count",
        f"{source}/count@v9",
        f"{source}/none",
        "github.com/me/count",
    )

    done = submit(customer, *({"use": {"source": name}} for name in names), tasks=1)

    assert done.returncode != 0
    reasons = (
        "is a module that needs tasks of 2; the job has 1",
        "is an invalid module",
        "there is no such tag or commit",
        "there is no such public repository",
        "host github.com is not allowed",
    )
    problems = json.loads(done.stderr)["error"]["problems"]
    for number, reason in enumerate(reasons):
        path = f"steps[{number}].use.source"
        assert any(p["path"] == path and reason in p["reason"] for p in problems), problems
