# SPDX-License-Identifier: Apache-2.0
"""Tests of modules: the values that templates read, and messages about invalid modules."""

from __future__ import annotations

import json

import pytest
from tests.fakes.definitions import MemoryModules
from tests.unit.workflow.module_texts import (
    GREETING_MODULE,
    MODULE_HEADER,
    args,
    use,
    workflow,
    workflow_with_module,
)
from tests.unit.workflow.node import steps
from tests.unit.workflow.strategies import problems_of

from gridstead.errors import InvalidInput, ModuleUnavailable
from gridstead.workflow.modules import MAX_DEPTH, MAX_MODULES, check_module
from gridstead.workflow.parse import check_workflow, from_graphql, parse_workflow
from gridstead.workflow.render import render


def problems(function):
    """Call a function that reports problems, and return the problems as text."""
    return [str(problem) for problem in problems_of(function)]


class TestTemplate:
    def test_a_template_reads_the_job_and_the_step(self):
        text = (
            "steps: [{run: {command: 'echo {{ .Job.Resources.Tasks }} {{ .Step.Name }}', "
            "resources: {tasks: {{ .Job.Resources.Tasks }}}}}]\n"
        )
        named_workflow = workflow(
            {**use("git.x/a/m"), "name": "mine"}, texts={"git.x/a/m": MODULE_HEADER + text}
        )

        run = named_workflow.steps[0].use.module.steps[0].run
        assert (run.command, run.resources.tasks) == ("echo 4 mine", 4)

    def test_a_template_does_not_read_secrets_of_the_job(self):
        store = {
            "region": "r", "bucketUrl": "s3://b", "path": "/p", "accessKeyId": "hush1",
            "secretAccessKey": "hush2", "endpointUrl": "https://s",
        }  # fmt: skip
        private_image = {"image": "a", "registry": "r", "username": "hush3", "password": "hush4"}
        text = "steps:\n- run:\n    command: {{ toYaml .Job | quote }}\n"

        job = workflow_with_module(
            text,
            {"run": {"command": "x", "container": private_image}},
            input={"http": {"url": "https://hush5/"}},
            output={"s3": store},
        )

        expanded_command = job.steps[0].use.module.steps[0].run.command
        assert "bucketUrl" in expanded_command
        assert "hush" not in expanded_command

    def test_a_comment_of_a_module_can_print_the_whole_job(self):
        """Ends of lines in the job do not end the comment."""
        text = "# {{ .Job }} {{ .Step }}\nsteps: [{run: {command: x}}]\n"

        job = workflow_with_module(text, {"run": {"command": "echo a\necho b"}})

        assert [step.run.command for step in job.steps[0].use.module.steps] == ["x"]

    def test_a_template_does_not_read_the_environment_of_the_service(self, monkeypatch):
        monkeypatch.setenv("SECRET", "hush")

        problem, *_ = problems(
            lambda: workflow_with_module('steps: [{name: {{ env "SECRET" }}}]\n')
        )
        assert "which is not available" in problem

    def test_a_quoted_argument_is_neither_expanded_nor_parsed(self):
        argument = 'x"}}}\nsteps: [{name: {{ env "HOME" }}}]\n- a'
        text = (
            "steps:\n{{- range .Step.Use.Args }}\n"
            "- run: {command: {{ .Value | quote }}}\n{{- end }}\n"
        )
        inputs = "inputs: [{key: A, description: x}]\n"

        job = workflow(
            use("git.x/a/m", args=args(A=argument)),
            texts={"git.x/a/m": MODULE_HEADER + inputs + text},
        )

        assert [step.run.command for step in job.steps[0].use.module.steps] == [argument]


class TestRules:
    def test_a_problem_in_a_module_has_its_path_and_line(self):
        text = """\
resources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}
steps:
- steps:
  - use:
      source: git.x/a/m
"""
        # "comand" is misspelled on purpose.
        modules = MemoryModules({"git.x/a/m": MODULE_HEADER + "steps:\n- run:\n    comand: x\n"})

        prefix = "line 5: steps[0].steps[0].use.source: is an invalid module:"
        assert problems(lambda: check_workflow(text, fetch_module=modules.text)) == [
            f"{prefix} line 5: steps[0].run.command: is required",
            f"{prefix} line 6: steps[0].run.comand: is not a known field (Did you mean command?)",
        ]

    def test_unknown_keys_of_a_module_and_of_its_inputs_are_warnings(self):
        text = """\
job:
  resources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}
  steps:
  - use: {source: git.x/a/m}
"""
        inputs = "inputs: [{key: A, despcription: x}]\n"
        body = "steps:\n- {run: {command: x}, container: {image: a}}\nauthor: me\n"
        modules = MemoryModules({"git.x/a/m": MODULE_HEADER + inputs + body})

        checked_workflow = check_workflow(text, fetch_module=modules.text, strict=True)

        prefix = (
            "line 4: job.steps[0].use.source: is a module with a field that has no effect: line"
        )
        misplaced = "steps[0].container: is in a wrong place and has no effect"
        fields = "name, description, minimumResources, inputs, outputs, steps"
        assert list(map(str, checked_workflow.warnings)) == [
            f"{prefix} 4: inputs[0].despcription: is not a known field (Did you mean description?)",
            f"{prefix} 6: {misplaced} (It belongs in steps[].run.container.)",
            f"{prefix} 7: author: is not a known field (Known fields here: {fields}.)",
        ]
        module = checked_workflow.workflow.steps[0].use.module
        assert [step.run.command for step in module.steps] == ["x"]

    def test_an_unknown_key_in_a_step_of_a_module_is_a_warning(self):
        resources = {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 1}
        mapping = {"resources": resources, "steps": [use("git.x/a/m")]}
        body = "steps:\n- run: {command: x, containr: {image: a}}\n"
        modules = MemoryModules({"git.x/a/m": MODULE_HEADER + body})

        checked_workflow = check_workflow(json.dumps(mapping), fetch_module=modules.text)

        (warning,) = checked_workflow.warnings
        reason = "line 5: steps[0].run.containr: is not a known field (Did you mean container?)"
        assert str(warning).endswith(reason)
        workflow = from_graphql(mapping, fetch_module=modules.text)
        assert workflow == checked_workflow.workflow

    def test_descriptions_of_a_module_are_optional(self):
        text = """\
name: A module
minimumResources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}
inputs: [{key: A}]
outputs: [{key: B}]
steps: [{run: {command: x}}]
"""
        job = workflow(use("git.x/a/m"), texts={"git.x/a/m": text})

        assert job.steps[0].use.module.inputs[0].description == ""

    def test_a_module_that_is_left_out_is_not_checked(self):
        text = (
            "resources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}\n"
            "steps: [{use: {source: git.x/a/m}}, {use: {source: git.x/a/greet}}]\n"
        )
        texts = {"git.x/a/m": None, "git.x/a/greet": GREETING_MODULE}

        checked_workflow = check_workflow(text, fetch_module=lambda source: texts[str(source)])

        left_out, resolved = (step.use for step in checked_workflow.workflow.steps)
        assert not hasattr(left_out, "module")
        assert resolved.module.name == "A module"

    @pytest.mark.parametrize(
        "source",
        [
            "https://git.x/a/b",
            "git.x/a",
            "git.x/a/../b",
            "git.x/a/b@--x",
            "file:///etc/passwd",
        ],
    )
    def test_an_invalid_source_is_refused(self, source):
        (problem,) = problems(lambda: workflow(use(source)))

        assert "is not a module" in problem

    def test_a_missing_module_is_refused(self):
        assert problems(lambda: workflow(use("git.x/a/none"))) == [
            "steps[0].use.source: cannot use git.x/a/none (there is no such tag or commit)"
        ]

    def test_a_host_that_does_not_answer_raises_module_unavailable(self):
        modules = MemoryModules(unavailable=True)
        mapping = {"resources": {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 1}, "steps": [use()]}

        with pytest.raises(ModuleUnavailable):
            from_graphql(mapping, fetch_module=modules.text)

    def test_an_unknown_argument_is_refused_with_the_known_inputs(self):
        assert problems(lambda: workflow(use(args=args(WOH="x")))) == [
            "steps[0].use.args[0].key: is not an input of the module: it has WHO"
        ]

    def test_a_job_with_too_few_resources_for_a_module_is_refused(self):
        text = GREETING_MODULE.replace(
            "{tasks: 1, cpusPerTask: 1, memPerCpu: 1}",
            "{tasks: 5, cpusPerTask: 1, memPerCpu: 1, gpus: 1}",
        )

        assert problems(lambda: workflow(use("git.x/a/m"), texts={"git.x/a/m": text})) == [
            "steps[0].use.source: is a module that needs tasks=5, but the job has 4",
            "steps[0].use.source: is a module that needs gpus=1, but the job has 0",
        ]

    def test_the_steps_of_a_module_must_fit_into_the_job(self):
        problem, _ = problems(
            lambda: workflow_with_module("steps: [{run: {command: x, resources: {tasks: 5}}}]\n")
        )

        assert problem.startswith(
            "steps[0].use.module.steps[0].run.resources: needs 5 CPU threads, but the job has 4"
        )

    def test_a_module_cannot_use_handles_of_the_workflow(self):
        outer = {"launch": {"handleName": "h", "steps": steps("true")}}
        text = "steps: [{dependsOn: [h], run: {command: x}}]\n"

        (problem,) = problems(
            lambda: workflow(outer, use("git.x/a/m"), texts={"git.x/a/m": MODULE_HEADER + text})
        )

        assert "is not the handle of an earlier launched step" in problem

    def test_a_module_that_uses_itself_is_refused(self):
        modules = {"git.x/a/m": MODULE_HEADER + "steps: [{use: {source: git.x/a/m}}]\n"}

        (problem,) = problems(lambda: workflow(use("git.x/a/m"), texts=modules))

        assert f"nested more than {MAX_DEPTH} levels deep" in problem

    def test_the_number_of_modules_is_limited(self):
        modules = MemoryModules(
            {"git.x/a/m": MODULE_HEADER + "steps:\n" + "- use: {source: git.x/a/m}\n" * 200}
        )
        mapping = {
            "resources": {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 1},
            "steps": [use("git.x/a/m")],
        }

        reported_problems = problems(lambda: from_graphql(mapping, fetch_module=modules.text))

        assert f"exceeds the limit of {MAX_MODULES} modules" in " ".join(reported_problems)
        assert len(modules.requested) <= MAX_MODULES

    def test_a_workflow_cannot_contain_the_text_of_a_module(self):
        (problem,) = problems(lambda: workflow(use(module={"name": "x", "steps": []})))

        assert "steps[0].use.module: is not a known field" in problem

    def test_a_workflow_without_its_modules_is_not_rendered(self):
        text = (
            "resources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}\n"
            "steps: [{use: {source: git.x/a/m}}]\n"
        )

        with pytest.raises(InvalidInput, match=r"cannot render the module git\.x/a/m"):
            render(parse_workflow(text))

    def test_the_wire_format_of_a_step_does_not_contain_the_text_of_its_module(self):
        job = workflow(use(args=args(WHO="me")))

        assert job.to_graphql()["steps"] == [use(args=args(WHO="me"))]

    def test_a_step_with_both_use_and_run_is_refused(self):
        (problem,) = problems(lambda: workflow({**use(), "run": {"command": "x"}}))

        assert "has both run and use; only one of them is allowed" in problem

    def test_a_module_can_be_checked_without_a_workflow(self):
        assert problems(lambda: check_module({"name": "x", "steps": []})) == [
            "minimumResources: is required",
            "steps: must not be empty",
        ]
