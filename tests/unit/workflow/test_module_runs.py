# SPDX-License-Identifier: Apache-2.0
"""Tests of modules in rendered scripts. A module is a published list of steps with inputs."""

from __future__ import annotations

import pytest
from tests.unit.workflow.module_texts import (
    MODULE_HEADER,
    args,
    use,
    workflow,
    workflow_with_module,
)
from tests.unit.workflow.node import steps
from tests.unit.workflow.runtimes import APPTAINER, ENROOT, calls, install

from gridstead.workflow.render import render, secrets_of


def test_a_step_after_a_module_with_a_prefix_reads_the_outputs_with_the_prefix(node):
    job = workflow(
        use(args=args(WHO="me"), exportEnvAs="HI"),
        'echo "after: $HI_RESULT|$RESULT|$OWN|$HI_OWN|$WHO"',
    )

    # After the module, only the output with the prefix is set: HI_RESULT.
    assert node.run(job) == (0, "inside: Hello me 1\nafter: Hello me||||\n")
    assert node.leftover_files == []


def test_an_input_without_an_argument_has_its_default(node):
    assert node.run(workflow(use()))[1] == "inside: Hello World 1\n"


def test_a_step_after_a_module_without_a_prefix_reads_all_variables_of_the_module(node):
    _, output = node.run(workflow(use(), 'echo "$RESULT $OWN"'))

    assert output.endswith("Hello World 1\n")


def test_an_argument_replaces_variables_of_the_same_name_inside_the_module(node):
    job = workflow(
        'echo WHO=earlier >>"$DEEPSQUARE_ENV"',
        use(args=args(WHO="argument")),
        "echo $WHO",
        env=args(WHO="job", HOW="?"),
    )

    assert node.run(job)[1] == "inside: Hello argument 1\nearlier\n"


def test_a_variable_that_a_module_writes_replaces_the_argument_of_that_name(node):
    text = """\
inputs: [{key: A, description: x}]
steps:
- run: {command: 'echo A=new >>"$DEEPSQUARE_ENV"'}
- run: {command: echo $A}
"""

    job = workflow(use("git.x/a/m", args=args(A="old")), texts={"git.x/a/m": MODULE_HEADER + text})

    assert node.run(job)[1] == "new\n"


@pytest.mark.parametrize(
    "value",
    ["a b", "x'y\"$HOME`id`\\ ,;:", "$(touch owned)", "one\ntwo\n#SBATCH x", "@/etc/passwd"],
)
def test_arguments_reach_the_steps_unchanged(node, value):
    text = 'inputs: [{key: A, description: x}]\nsteps:\n- run: {command: \'printf "<%s>" "$A"\'}\n'

    job = workflow(use("git.x/a/m", args=args(A=value)), texts={"git.x/a/m": MODULE_HEADER + text})

    assert node.run(job) == (0, f"<{value}>")
    assert not list(node.root.rglob("owned"))


def test_a_failure_in_a_module_fails_the_step(node):
    job = workflow_with_module(
        "steps: [{run: {command: exit 7}}, {run: {command: echo never}}]\n", "echo never"
    )
    (failing_step,) = workflow_with_module("steps: [{run: {command: exit 7}}]\n").steps
    catch_steps = workflow("echo $DEEPSQUARE_ERROR_CODE").steps
    step_with_catch = failing_step.model_copy(update={"catch": catch_steps})
    job_with_catch = job.model_copy(update={"steps": (step_with_catch,)})

    assert node.run(job) == (7, "")
    assert node.run(job_with_catch) == (0, "7\n")


def test_a_module_in_a_loop_has_a_separate_file_in_each_iteration(node):
    loop = {
        "for": {
            "parallel": True,
            "items": ["a", "b", "c"],
            "steps": [use("git.x/a/m", exportEnvAs="OUT")],
        }
    }
    text = """\
inputs: [{key: X, description: x, default: x}]
outputs: [{key: R, description: r}]
steps:
- run: {command: 'echo "R=$item" >>"$DEEPSQUARE_ENV"'}
- run: {command: 'echo "$R is $item"'}
"""
    job = workflow(loop, "env | grep ^OUT_R", texts={"git.x/a/m": MODULE_HEADER + text})

    code, output = node.run(job)

    assert code == 0
    assert sorted(output.splitlines()[:3]) == ["a is a", "b is b", "c is c"]
    assert output.splitlines()[3] in ("OUT_R=a", "OUT_R=b", "OUT_R=c")


def test_an_input_replaces_a_loop_variable_of_the_same_name(node):
    text = (
        "inputs: [{key: item, description: x, default: mine}]\n"
        "steps: [{run: {command: echo $item}}]\n"
    )
    loop = {"for": {"parallel": False, "items": ["theirs"], "steps": [use("git.x/a/m")]}}

    assert node.run(workflow(loop, texts={"git.x/a/m": MODULE_HEADER + text}))[1] == "mine\n"


def test_a_module_can_have_loops_launches_and_handlers(node):
    text = """\
steps:
- launch: {handleName: h, steps: [{run: {command: echo launched}}]}
- dependsOn: [h]
  for: {parallel: false, items: [x, y], steps: [{run: {command: echo $item}}]}
- steps: [{run: {command: exit 3}}]
  catch: [{run: {command: 'echo caught $DEEPSQUARE_ERROR_CODE'}}]
  finally: [{run: {command: echo last}}]
"""
    # The handle h of the workflow is independent of the handle h of the module.
    outer = {"launch": {"handleName": "h", "steps": steps("true")}}

    job = workflow(
        outer, use("git.x/a/m"), {"dependsOn": ["h"]}, texts={"git.x/a/m": MODULE_HEADER + text}
    )

    assert node.run(job) == (0, "launched\nx\ny\ncaught 3\nlast\n")


def test_a_module_can_use_a_module(node):
    middle = """\
outputs: [{key: ALL, description: all}]
steps:
- use: {source: git.x/a/greet@v1, args: [{key: WHO, value: inner}], exportEnvAs: IN}
- run: {command: 'echo "ALL=<$IN_RESULT>" >>"$DEEPSQUARE_ENV"'}
"""
    job = workflow(
        use("git.x/a/m", exportEnvAs="OUT"),
        "echo $OUT_ALL",
        texts={"git.x/a/m": MODULE_HEADER + middle},
    )

    assert node.run(job) == (0, "inside: Hello inner 1\n<Hello inner>\n")


def test_a_module_inserts_the_steps_of_its_caller(node):
    text = """\
steps:
- run: {command: echo before}
{{- .Step.Use.Steps | toYaml | nindent 0 }}
- run: {command: echo after}
"""
    given_steps = steps('echo "it\'s {{ .Job }} $HOME" | tr -d /')

    job = workflow(use("git.x/a/m", steps=given_steps), texts={"git.x/a/m": MODULE_HEADER + text})

    before, given, *_, after = node.run(job)[1].splitlines()
    assert before == "before"
    assert given.startswith("it's {{ .Job }} ")
    assert after == "after"


@pytest.mark.parametrize("runtime", ["apptainer", "enroot"])
def test_a_container_in_a_module_has_a_separate_file_of_variables(node, runtime):
    install(node, runtime, APPTAINER if runtime == "apptainer" else ENROOT)
    text = (
        "steps: [{run: {command: 'echo \"$DEEPSQUARE_ENV\"', container: {image: 'debian:12'}}}]\n"
    )

    code, output = node.run(
        workflow_with_module(
            text, {"run": {"command": "echo $DEEPSQUARE_ENV", "container": {"image": "debian:12"}}}
        )
    )

    assert code == 0
    inside, after = output.splitlines()[-2:]
    assert inside.startswith("/deepsquare/env.")
    assert after == "/deepsquare/env"


def test_an_image_of_a_module_is_fetched_with_the_password_of_the_image(node):
    install(node, "apptainer", APPTAINER)
    text = (
        "steps: [{run: {command: 'true',"
        " container: {image: a, registry: r.x, username: me, password: hush}}}]\n"
    )
    job = workflow_with_module(text)

    assert list(secrets_of(job)) == ["GRIDSTEAD_REGISTRY_1"]
    assert "hush" not in render(job)
    assert node.run(job)[0] == 0
    (record,) = calls(node, "apptainer", "pull")
    assert record["access"]["APPTAINER_DOCKER_PASSWORD"] == "hush"
