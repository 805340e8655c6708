# SPDX-License-Identifier: Apache-2.0
"""Modules of workflows, as the rendered script runs them."""

from __future__ import annotations

import pytest
from tests.unit.workflow.module_texts import HEAD, args, one, use, workflow
from tests.unit.workflow.node import steps
from tests.unit.workflow.runtimes import APPTAINER, ENROOT, install, told

from gridstead.workflow.render import render, secrets_of


def test_inputs_are_variables_and_outputs_have_their_beginning(node):
    job = workflow(
        use(args=args(WHO="me"), exportEnvAs="HI"),
        'echo "after: $HI_RESULT|$RESULT|$OWN|$HI_OWN|$WHO"',
    )

    assert node.run(job) == (
        0,
        "inside: Hello me 1\nafter: Hello me|||||\n".replace("|||||", "||||"),
    )
    assert node.left == []


def test_inputs_have_defaults(node):
    assert node.run(workflow(use()))[1] == "inside: Hello World 1\n"


def test_without_a_beginning_all_that_was_written_is_seen(node):
    assert node.run(workflow(use(), 'echo "$RESULT $OWN"'))[1].endswith("Hello World 1\n")


def test_argument_stands_over_the_job_and_over_what_earlier_steps_wrote(node):
    job = workflow(
        'echo WHO=earlier >>"$DEEPSQUARE_ENV"', use(args=args(WHO="argument")), "echo $WHO",
        env=args(WHO="job", HOW="?"),
    )  # fmt: skip

    assert node.run(job)[1] == "inside: Hello argument 1\nearlier\n"


def test_step_of_a_module_sees_what_an_earlier_one_of_it_wrote_over_the_argument(node):
    text = """\
inputs: [{key: A, description: x}]
steps:
- run: {command: 'echo A=new >>"$DEEPSQUARE_ENV"'}
- run: {command: echo $A}
"""

    job = workflow(use("git.x/a/m", args=args(A="old")), texts={"git.x/a/m": HEAD + text})

    assert node.run(job)[1] == "new\n"


@pytest.mark.parametrize(
    "value",
    ["a b", "x'y\"$HOME`id`\\ ,;:", "$(touch owned)", "one\ntwo\n#SBATCH x", "@/etc/passwd"],
)
def test_arguments_reach_the_steps_as_they_are(node, value):
    text = 'inputs: [{key: A, description: x}]\nsteps:\n- run: {command: \'printf "<%s>" "$A"\'}\n'

    job = workflow(use("git.x/a/m", args=args(A=value)), texts={"git.x/a/m": HEAD + text})

    assert node.run(job) == (0, f"<{value}>")
    assert not list(node.root.rglob("owned"))


def test_failure_in_a_module_is_that_of_the_step(node):
    job = one("steps: [{run: {command: exit 7}}, {run: {command: echo never}}]\n", "echo never")
    caught = one("steps: [{run: {command: exit 7}}]\n")
    handled = caught.model_copy(
        update={
            "steps": (
                caught.steps[0].model_copy(
                    update={"catch": workflow("echo $DEEPSQUARE_ERROR_CODE").steps}
                ),
            )
        }
    )

    assert node.run(job) == (7, "")
    assert node.run(handled) == (0, "7\n")


def test_module_in_a_loop_has_its_own_file_in_each_round(node):
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
    job = workflow(loop, "env | grep ^OUT_R", texts={"git.x/a/m": HEAD + text})

    code, output = node.run(job)

    assert code == 0
    assert sorted(output.splitlines()[:3]) == ["a is a", "b is b", "c is c"]
    assert output.splitlines()[3] in ("OUT_R=a", "OUT_R=b", "OUT_R=c")


def test_variable_of_a_loop_gives_way_to_an_input_of_its_name(node):
    text = "inputs: [{key: item, description: x, default: mine}]\nsteps: [{run: {command: echo $item}}]\n"
    loop = {"for": {"parallel": False, "items": ["theirs"], "steps": [use("git.x/a/m")]}}

    assert node.run(workflow(loop, texts={"git.x/a/m": HEAD + text}))[1] == "mine\n"


def test_module_may_hold_loops_launches_and_handlers_of_its_own(node):
    text = """\
steps:
- launch: {handleName: h, steps: [{run: {command: echo launched}}]}
- dependsOn: [h]
  for: {parallel: false, items: [x, y], steps: [{run: {command: echo $item}}]}
- steps: [{run: {command: exit 3}}]
  catch: [{run: {command: 'echo caught $DEEPSQUARE_ERROR_CODE'}}]
  finally: [{run: {command: echo last}}]
"""
    outer = {"launch": {"handleName": "h", "steps": steps("true")}}

    job = workflow(outer, use("git.x/a/m"), {"dependsOn": ["h"]}, texts={"git.x/a/m": HEAD + text})

    assert node.run(job) == (0, "launched\nx\ny\ncaught 3\nlast\n")


def test_modules_in_modules(node):
    middle = """\
outputs: [{key: ALL, description: all}]
steps:
- use: {source: git.x/a/greet@v1, args: [{key: WHO, value: inner}], exportEnvAs: IN}
- run: {command: 'echo "ALL=<$IN_RESULT>" >>"$DEEPSQUARE_ENV"'}
"""
    job = workflow(
        use("git.x/a/m", exportEnvAs="OUT"), "echo $OUT_ALL", texts={"git.x/a/m": HEAD + middle}
    )

    assert node.run(job) == (0, "inside: Hello inner 1\n<Hello inner>\n")


def test_steps_given_to_a_module_stand_where_it_wants_them(node):
    text = """\
steps:
- run: {command: echo before}
{{- .Step.Use.Steps | toYaml | nindent 0 }}
- run: {command: echo after}
"""
    given = steps('echo "it\'s {{ .Job }} $HOME" | tr -d /')

    job = workflow(use("git.x/a/m", steps=given), texts={"git.x/a/m": HEAD + text})

    output = node.run(job)[1].splitlines()
    assert (output[0], output[-1]) == ("before", "after")
    assert output[1].startswith("it's {{ .Job }} ")


@pytest.mark.parametrize("runtime", ["apptainer", "enroot"])
def test_container_in_a_module_finds_the_modules_file(node, runtime):
    install(node, runtime, APPTAINER if runtime == "apptainer" else ENROOT)
    text = (
        "steps: [{run: {command: 'echo \"$DEEPSQUARE_ENV\"', container: {image: 'debian:12'}}}]\n"
    )

    code, output = node.run(
        one(text, {"run": {"command": "echo $DEEPSQUARE_ENV", "container": {"image": "debian:12"}}})
    )

    assert code == 0
    inside, after = output.splitlines()[-2:]
    assert inside.startswith("/deepsquare/env.")
    assert after == "/deepsquare/env"


def test_image_of_a_module_is_fetched_with_its_secrets(node):
    install(node, "apptainer", APPTAINER)
    text = "steps: [{run: {command: 'true', container: {image: a, registry: r.x, username: me, password: hush}}}]\n"
    job = one(text)

    assert list(secrets_of(job)) == ["GRIDSTEAD_REGISTRY_1"]
    assert "hush" not in render(job)
    assert node.run(job)[0] == 0
    assert told(node, "apptainer", "pull")[0]["access"]["APPTAINER_DOCKER_PASSWORD"] == "hush"
