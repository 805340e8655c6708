# SPDX-License-Identifier: Apache-2.0
"""Modules of workflows, as the rendered script runs them, and what is told of wrong ones."""

from __future__ import annotations

import pytest
from tests.fakes.definitions import MemoryModules
from tests.unit.workflow.node import command, steps
from tests.unit.workflow.runtimes import APPTAINER, ENROOT, install, told
from tests.unit.workflow.strategies import refusal

from gridstead.errors import InvalidInput, ModuleUnavailable
from gridstead.workflow.modules import MAX_DEPTH, MAX_MODULES, check_module
from gridstead.workflow.parse import check_workflow, from_graphql, parse_workflow
from gridstead.workflow.render import render, secrets_of

HEAD = """\
name: A module
description: For tests.
minimumResources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}
"""
GREET = (
    HEAD
    + """\
inputs:
- {key: WHO, description: Whom to greet., default: World}
- {key: HOW, description: How.}
outputs:
- {key: RESULT, description: The greeting.}
steps:
- run: {command: 'echo "RESULT=Hello $WHO$HOW" >>"$DEEPSQUARE_ENV"; echo OWN=1 >>"$DEEPSQUARE_ENV"'}
- run: {command: 'echo "inside: $RESULT $OWN"'}
"""
)


def use(source="git.x/a/greet@v1", **fields):
    return {"use": {"source": source, **fields}}


def args(**values):
    return [{"key": key, "value": value} for key, value in values.items()]


def workflow(*some, texts=None, **fields):
    """A workflow of these steps, with its modules."""
    mapping = {
        "resources": {"tasks": 4, "cpusPerTask": 1, "memPerCpu": 100}, "steps": [command(step) for step in some],
        **fields,
    }  # fmt: skip
    return from_graphql(mapping, modules=MemoryModules({"git.x/a/greet@v1": GREET, **(texts or {})}).text)


def one(text, *others, **fields):
    """A workflow that uses a module of this text as its first step."""
    return workflow(use("git.x/a/m"), *others, texts={"git.x/a/m": HEAD + text}, **fields)


def problems(act):
    return [str(problem) for problem in refusal(act)]


class TestRuns:
    def test_inputs_are_variables_and_outputs_have_their_beginning(self, node):
        job = workflow(use(args=args(WHO="me"), exportEnvAs="HI"), 'echo "after: $HI_RESULT|$RESULT|$OWN|$HI_OWN|$WHO"')

        assert node.run(job) == (0, "inside: Hello me 1\nafter: Hello me|||||\n".replace("|||||", "||||"))
        assert node.left == []

    def test_inputs_have_defaults(self, node):
        assert node.run(workflow(use()))[1] == "inside: Hello World 1\n"

    def test_without_a_beginning_all_that_was_written_is_seen(self, node):
        assert node.run(workflow(use(), 'echo "$RESULT $OWN"'))[1].endswith("Hello World 1\n")

    def test_argument_stands_over_the_job_and_over_what_earlier_steps_wrote(self, node):
        job = workflow(
            'echo WHO=earlier >>"$DEEPSQUARE_ENV"', use(args=args(WHO="argument")), "echo $WHO",
            env=args(WHO="job", HOW="?"),
        )  # fmt: skip

        assert node.run(job)[1] == "inside: Hello argument 1\nearlier\n"

    def test_step_of_a_module_sees_what_an_earlier_one_of_it_wrote_over_the_argument(self, node):
        text = """\
inputs: [{key: A, description: x}]
steps:
- run: {command: 'echo A=new >>"$DEEPSQUARE_ENV"'}
- run: {command: echo $A}
"""

        job = workflow(use("git.x/a/m", args=args(A="old")), texts={"git.x/a/m": HEAD + text})

        assert node.run(job)[1] == "new\n"

    @pytest.mark.parametrize(
        "value", ["a b", "x'y\"$HOME`id`\\ ,;:", "$(touch owned)", "one\ntwo\n#SBATCH x", "@/etc/passwd"]
    )
    def test_arguments_reach_the_steps_as_they_are(self, node, value):
        text = 'inputs: [{key: A, description: x}]\nsteps:\n- run: {command: \'printf "<%s>" "$A"\'}\n'

        job = workflow(use("git.x/a/m", args=args(A=value)), texts={"git.x/a/m": HEAD + text})

        assert node.run(job) == (0, f"<{value}>")
        assert not list(node.root.rglob("owned"))

    def test_failure_in_a_module_is_that_of_the_step(self, node):
        job = one("steps: [{run: {command: exit 7}}, {run: {command: echo never}}]\n", "echo never")
        caught = one("steps: [{run: {command: exit 7}}]\n")
        handled = caught.model_copy(
            update={"steps": (caught.steps[0].model_copy(update={"catch": job_steps("echo $DEEPSQUARE_ERROR_CODE")}),)}
        )

        assert node.run(job) == (7, "")
        assert node.run(handled) == (0, "7\n")

    def test_module_in_a_loop_has_its_own_file_in_each_round(self, node):
        loop = {"for": {"parallel": True, "items": ["a", "b", "c"], "steps": [use("git.x/a/m", exportEnvAs="OUT")]}}
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

    def test_variable_of_a_loop_gives_way_to_an_input_of_its_name(self, node):
        text = "inputs: [{key: item, description: x, default: mine}]\nsteps: [{run: {command: echo $item}}]\n"
        loop = {"for": {"parallel": False, "items": ["theirs"], "steps": [use("git.x/a/m")]}}

        assert node.run(workflow(loop, texts={"git.x/a/m": HEAD + text}))[1] == "mine\n"

    def test_module_may_hold_loops_launches_and_handlers_of_its_own(self, node):
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

    def test_modules_in_modules(self, node):
        middle = """\
outputs: [{key: ALL, description: all}]
steps:
- use: {source: git.x/a/greet@v1, args: [{key: WHO, value: inner}], exportEnvAs: IN}
- run: {command: 'echo "ALL=<$IN_RESULT>" >>"$DEEPSQUARE_ENV"'}
"""
        job = workflow(use("git.x/a/m", exportEnvAs="OUT"), "echo $OUT_ALL", texts={"git.x/a/m": HEAD + middle})

        assert node.run(job) == (0, "inside: Hello inner 1\n<Hello inner>\n")

    def test_steps_given_to_a_module_stand_where_it_wants_them(self, node):
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
    def test_container_in_a_module_finds_the_modules_file(self, node, runtime):
        install(node, runtime, APPTAINER if runtime == "apptainer" else ENROOT)
        text = "steps: [{run: {command: 'echo \"$DEEPSQUARE_ENV\"', container: {image: 'debian:12'}}}]\n"

        code, output = node.run(
            one(text, {"run": {"command": "echo $DEEPSQUARE_ENV", "container": {"image": "debian:12"}}})
        )

        assert code == 0
        inside, after = output.splitlines()[-2:]
        assert inside.startswith("/deepsquare/env.")
        assert after == "/deepsquare/env"

    def test_image_of_a_module_is_fetched_with_its_secrets(self, node):
        install(node, "apptainer", APPTAINER)
        text = "steps: [{run: {command: 'true', container: {image: a, registry: r.x, username: me, password: hush}}}]\n"
        job = one(text)

        assert list(secrets_of(job)) == ["GRIDSTEAD_REGISTRY_1"]
        assert "hush" not in render(job)
        assert node.run(job)[0] == 0
        assert told(node, "apptainer", "pull")[0]["access"]["APPTAINER_DOCKER_PASSWORD"] == "hush"


def job_steps(text):
    return workflow(text).steps


class TestTemplate:
    def test_job_and_step_are_told(self):
        text = (
            "steps: [{run: {command: 'echo {{ .Job.Resources.Tasks }} {{ .Step.Name }}', "
            "resources: {tasks: {{ .Job.Resources.Tasks }}}}}]\n"
        )
        named = workflow({**use("git.x/a/m"), "name": "mine"}, texts={"git.x/a/m": HEAD + text})

        run = named.steps[0].use.module.steps[0].run
        assert (run.command, run.resources.tasks) == ("echo 4 mine", 4)

    def test_secrets_of_the_job_are_not_told(self):
        store = {
            "region": "r", "bucketUrl": "s3://b", "path": "/p", "accessKeyId": "hush1", "secretAccessKey": "hush2",
            "endpointUrl": "https://s",
        }  # fmt: skip
        private = {"image": "a", "registry": "r", "username": "hush3", "password": "hush4"}
        text = "steps:\n- run:\n    command: {{ toYaml .Job | quote }}\n"

        job = one(
            text, {"run": {"command": "x", "container": private}}, input={"http": {"url": "https://hush5/"}},
            output={"s3": store},
        )  # fmt: skip

        said = job.steps[0].use.module.steps[0].run.command
        assert "bucketUrl" in said
        assert "hush" not in said

    def test_environment_of_the_service_is_not_told(self, monkeypatch):
        monkeypatch.setenv("SECRET", "hush")

        assert "which is not offered" in problems(lambda: one('steps: [{name: {{ env "SECRET" }}}]\n'))[0]

    def test_text_of_the_user_is_no_template_and_no_yaml_of_the_module(self):
        """What a module quotes stays a text, whatever it holds."""
        hostile = 'x"}}}\nsteps: [{name: {{ env "HOME" }}}]\n- a'
        text = "steps:\n{{- range .Step.Use.Args }}\n- run: {command: {{ .Value | quote }}}\n{{- end }}\n"
        inputs = "inputs: [{key: A, description: x}]\n"

        job = workflow(use("git.x/a/m", args=args(A=hostile)), texts={"git.x/a/m": HEAD + inputs + text})

        assert [step.run.command for step in job.steps[0].use.module.steps] == [hostile]


class TestRules:
    def test_place_and_line_of_what_is_wrong_are_told(self):
        text = """\
resources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}
steps:
- steps:
  - use:
      source: git.x/a/m
"""
        modules = MemoryModules({"git.x/a/m": HEAD + "steps:\n- run:\n    comand: x\n"})

        place = "line 5: steps[0].steps[0].use.source: is a module that is wrong:"
        assert problems(lambda: check_workflow(text, modules=modules.text)) == [
            f"{place} line 5: steps[0].run.command: is required",
            f"{place} line 6: steps[0].run.comand: is not a known field",
        ]

    @pytest.mark.parametrize(
        ("source", "reason"),
        [
            ("https://git.x/a/b", "is no module"), ("git.x/a", "is no module"), ("git.x/a/../b", "is no module"),
            ("git.x/a/b@--x", "is no module"), ("file:///etc/passwd", "is no module"),
        ],
    )  # fmt: skip
    def test_source_that_is_none(self, source, reason):
        (problem,) = problems(lambda: workflow(use(source)))

        assert reason in problem

    def test_module_that_is_not_there(self):
        (problem,) = problems(lambda: workflow(use("git.x/a/none")))

        assert problem == "steps[0].use.source: cannot use git.x/a/none (there is no such tag or commit)"

    def test_host_that_does_not_answer_is_not_the_users_fault(self):
        modules = MemoryModules(unavailable=True)
        mapping = {"resources": {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 1}, "steps": [use()]}

        with pytest.raises(ModuleUnavailable):
            from_graphql(mapping, modules=modules.text)

    def test_argument_that_is_no_input(self):
        assert problems(lambda: workflow(use(args=args(WOH="x")))) == [
            "steps[0].use.args[0].key: is no input of the module: it has WHO"
        ]

    def test_job_that_is_too_small(self):
        text = GREET.replace(
            "{tasks: 1, cpusPerTask: 1, memPerCpu: 1}", "{tasks: 5, cpusPerTask: 1, memPerCpu: 1, gpus: 1}"
        )

        assert problems(lambda: workflow(use("git.x/a/m"), texts={"git.x/a/m": text})) == [
            "steps[0].use.source: is a module that needs tasks of 5; the job has 4",
            "steps[0].use.source: is a module that needs gpus of 1; the job has 0",
        ]

    def test_steps_of_a_module_have_to_fit_into_the_job(self):
        problem, _ = problems(lambda: one("steps: [{run: {command: x, resources: {tasks: 5}}}]\n"))

        assert problem.startswith("steps[0].use.module.steps[0].run.resources: takes 5 CPU threads, more than the 4")

    def test_handles_of_a_module_are_its_own(self):
        outer = {"launch": {"handleName": "h", "steps": steps("true")}}
        text = "steps: [{dependsOn: [h], run: {command: x}}]\n"

        (problem,) = problems(lambda: workflow(outer, use("git.x/a/m"), texts={"git.x/a/m": HEAD + text}))

        assert "is the handle of no step that is launched before" in problem

    def test_module_that_uses_itself_ends(self):
        modules = {"git.x/a/m": HEAD + "steps: [{use: {source: git.x/a/m}}]\n"}

        (problem,) = problems(lambda: workflow(use("git.x/a/m"), texts=modules))

        assert f"is a module in a module, more than {MAX_DEPTH} deep" in problem

    def test_modules_are_not_very_many(self):
        asked = MemoryModules({"git.x/a/m": HEAD + "steps:\n" + "- use: {source: git.x/a/m}\n" * 200})
        mapping = {"resources": {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 1}, "steps": [use("git.x/a/m")]}

        found = problems(lambda: from_graphql(mapping, modules=asked.text))

        assert any(f"is one more than {MAX_MODULES} modules" in problem for problem in found)
        assert len(asked.asked) <= MAX_MODULES

    def test_module_comes_with_a_job_only_from_where_the_caller_says(self):
        """A workflow cannot bring the module's text along."""
        (problem,) = problems(lambda: workflow(use(module={"name": "x", "steps": []})))

        assert "steps[0].use.module: is not a known field" in problem

    def test_without_modules_a_workflow_is_checked_but_not_rendered(self):
        text = "resources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}\nsteps: [{use: {source: git.x/a/m}}]\n"

        with pytest.raises(InvalidInput, match=r"cannot render the module git\.x/a/m"):
            render(parse_workflow(text))

    def test_wire_has_the_use_and_not_the_module(self):
        job = workflow(use(args=args(WHO="me")))

        assert job.to_graphql()["steps"] == [use(args=args(WHO="me"))]

    def test_step_is_a_use_or_something_else(self):
        (problem,) = problems(lambda: workflow({**use(), "run": {"command": "x"}}))

        assert "has both run and use; a step is one of them" in problem

    def test_module_by_itself_is_checked(self):
        assert problems(lambda: check_module({"name": "x", "steps": []})) == [
            "description: is required", "minimumResources: is required", "steps: must not be empty",
        ]  # fmt: skip
