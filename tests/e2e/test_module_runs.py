# SPDX-License-Identifier: Apache-2.0
"""Tests of steps from modules that the Job Definition service fetches from a Git server."""

import json
import re
import subprocess
import time

import pytest
from tests.adapters.modules.git_server import GitServer, Repository
from tests.e2e import store as stores
from tests.e2e.registry import issue_certificate

from gridstead.rpc.tls import TlsFiles

pytestmark = pytest.mark.steps

TAG = f"v{time.time_ns()}"  # unique, because the service caches modules by tag
PORT = 8450  # the lab's inventory allows modules from this port
APPEND_TO_OUTPUT = '>>"$DEEPSQUARE_OUTPUT/said"'

COUNT_MODULE = """\
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
AROUND_MODULE = """\
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
GREET_MODULE = """\
name: Greet
description: Greets.
minimumResources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}
inputs: [{key: WHO, description: Whom.}]
outputs: [{key: RESULT, description: The greeting.}]
steps:
- run: {command: 'echo "RESULT=hello $WHO" >>"$DEEPSQUARE_ENV"'}
"""
# The line "," shows that RESULT, FIRST_OTHER and OTHER are not set.
EXPECTED_OUTPUT = """\
4 pears for 2
,
before x
between x
after, 3 apples for 2
said
"""


def append(text):
    return {"run": {"command": f"echo {text} {APPEND_TO_OUTPUT}"}}


@pytest.fixture(scope="module")
def customer(grid):
    return grid.customer("constructs")


@pytest.fixture(scope="module")
def module_source(lab, tmp_path_factory):
    """Return the prefix of module sources on a Git server.

    The server has the repositories ``me/count``, ``me/around`` and ``me/greet``.
    """
    root = tmp_path_factory.mktemp("git")
    certificate, key = issue_certificate(lab, root)
    server = GitServer(
        root, TlsFiles(certificate=certificate, key=key), address=lab.gateway, port=PORT
    )
    count = Repository(
        root, "me/count", {"module.yaml": COUNT_MODULE, "deep/module.yaml": COUNT_MODULE}
    )
    count.commit({}, tag=TAG)
    count.commit({}, tag=f"deep/{TAG}")
    count.commit({"module.yaml": "later: broken"})
    around = AROUND_MODULE.replace("HOST", server.host).replace("TAG", TAG)
    Repository(root, "me/around", {"module.yaml": around}).commit({}, tag=TAG)
    Repository(root, "me/greet", {"module.yaml": GREET_MODULE}).commit({}, tag=TAG)
    yield f"{server.host}/me"
    server.stop()


def submit(user, *steps, tasks=2, **fields):
    resources = {"tasks": tasks, "cpusPerTask": 1, "memPerCpu": 64, "gpus": 0}
    return subprocess.run(
        user.command("submit", "-", "--credits", "100", "--name", "modules", "--json"),
        env=user.environment,
        input=json.dumps({"resources": resources, "steps": steps, **fields}),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_modules_receive_inputs_and_set_outputs(grid, lab, customer, module_source):
    arguments = [{"key": "MANY", "value": "4"}, {"key": "UNIT", "value": "pears"}]
    with stores.run_store(lab.gateway) as store:
        count = {"source": f"{module_source}/count@{TAG}", "args": arguments}
        around = {"source": f"{module_source}/around@{TAG}", "steps": [append("between $item")]}
        result = submit(
            customer,
            {"use": count | {"exportEnvAs": "FIRST"}},
            append('"$FIRST_RESULT"'),
            append('"$RESULT,$FIRST_OTHER$OTHER"'),
            {"for": {"parallel": False, "items": ["x"], "steps": [{"use": around}]}},
            append('"$LEFT"'),
            output={"http": {"url": f"{store.url}/said"}},
        )
        assert result.returncode == 0, result.stderr
        grid.wait(customer, json.loads(result.stdout)["number"], "FINISHED")

        assert store.files["/said"].decode() == EXPECTED_OUTPUT


def test_a_job_of_the_module_template_prints_its_output(grid, customer, module_source, tmp_path):
    file = tmp_path / "module.yaml"
    customer.run("workflow", "init", "--template", "module", "--output", str(file))
    text = re.sub(r"source: \S+", f"source: {module_source}/greet@{TAG}", file.read_text())
    file.write_text(text)

    answer = customer.run("submit", str(file), "--credits", "100", "--json").stdout
    number = json.loads(answer)["number"]

    grid.wait(customer, number, "FINISHED")
    assert customer.run("job", "logs", str(number)).stdout == "hello me\n"


def test_all_unusable_modules_are_reported_together(customer, module_source):
    names = (
        f"{module_source}/count@{TAG}",
        f"{module_source}/count",
        f"{module_source}/count@v9",
        f"{module_source}/none",
        "github.com/me/count",
    )

    result = submit(customer, *({"use": {"source": name}} for name in names), tasks=1)

    assert result.returncode != 0
    reasons = (
        "is a module that needs tasks=2, but the job has 1",
        "is an invalid module",
        "there is no such tag or commit",
        "there is no such public repository",
        "host github.com is not allowed",
    )
    problems = json.loads(result.stderr)["error"]["problems"]
    for number, reason in enumerate(reasons):
        path = f"steps[{number}].use.source"
        reasons_of_path = [problem["reason"] for problem in problems if problem["path"] == path]
        assert reason in "\n".join(reasons_of_path), problems
