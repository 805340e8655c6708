# SPDX-License-Identifier: Apache-2.0
"""Modules of workflows: what their templates see, and what is told of wrong ones."""

from __future__ import annotations

import pytest
from tests.fakes.definitions import MemoryModules
from tests.unit.workflow.module_texts import GREET, HEAD, args, one, use, workflow
from tests.unit.workflow.node import steps
from tests.unit.workflow.strategies import refusal

from gridstead.errors import InvalidInput, ModuleUnavailable
from gridstead.workflow.modules import MAX_DEPTH, MAX_MODULES, check_module
from gridstead.workflow.parse import check_workflow, from_graphql, parse_workflow
from gridstead.workflow.render import render


def problems(act):
    return [str(problem) for problem in refusal(act)]


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

        assert (
            "which is not offered"
            in problems(lambda: one('steps: [{name: {{ env "SECRET" }}}]\n'))[0]
        )

    def test_text_of_the_user_is_no_template_and_no_yaml_of_the_module(self):
        """What a module quotes stays a text, whatever it holds."""
        hostile = 'x"}}}\nsteps: [{name: {{ env "HOME" }}}]\n- a'
        text = "steps:\n{{- range .Step.Use.Args }}\n- run: {command: {{ .Value | quote }}}\n{{- end }}\n"
        inputs = "inputs: [{key: A, description: x}]\n"

        job = workflow(
            use("git.x/a/m", args=args(A=hostile)), texts={"git.x/a/m": HEAD + inputs + text}
        )

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

        assert (
            problem
            == "steps[0].use.source: cannot use git.x/a/none (there is no such tag or commit)"
        )

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
            "{tasks: 1, cpusPerTask: 1, memPerCpu: 1}",
            "{tasks: 5, cpusPerTask: 1, memPerCpu: 1, gpus: 1}",
        )

        assert problems(lambda: workflow(use("git.x/a/m"), texts={"git.x/a/m": text})) == [
            "steps[0].use.source: is a module that needs tasks of 5; the job has 4",
            "steps[0].use.source: is a module that needs gpus of 1; the job has 0",
        ]

    def test_steps_of_a_module_have_to_fit_into_the_job(self):
        problem, _ = problems(lambda: one("steps: [{run: {command: x, resources: {tasks: 5}}}]\n"))

        assert problem.startswith(
            "steps[0].use.module.steps[0].run.resources: takes 5 CPU threads, more than the 4"
        )

    def test_handles_of_a_module_are_its_own(self):
        outer = {"launch": {"handleName": "h", "steps": steps("true")}}
        text = "steps: [{dependsOn: [h], run: {command: x}}]\n"

        (problem,) = problems(
            lambda: workflow(outer, use("git.x/a/m"), texts={"git.x/a/m": HEAD + text})
        )

        assert "is the handle of no step that is launched before" in problem

    def test_module_that_uses_itself_ends(self):
        modules = {"git.x/a/m": HEAD + "steps: [{use: {source: git.x/a/m}}]\n"}

        (problem,) = problems(lambda: workflow(use("git.x/a/m"), texts=modules))

        assert f"is a module in a module, more than {MAX_DEPTH} deep" in problem

    def test_modules_are_not_very_many(self):
        asked = MemoryModules(
            {"git.x/a/m": HEAD + "steps:\n" + "- use: {source: git.x/a/m}\n" * 200}
        )
        mapping = {
            "resources": {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 1},
            "steps": [use("git.x/a/m")],
        }

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
