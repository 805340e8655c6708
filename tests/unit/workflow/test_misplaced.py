# SPDX-License-Identifier: Apache-2.0
"""Tests of misplaced fields: valid fields of the workflow language at a wrong place.

A misplaced field has no effect and causes only a warning, because published workflows contain
misplaced fields.
"""

from __future__ import annotations

import copy

import pytest
from tests.unit.workflow.all_fields import HTTP_WORKFLOW, S3_WORKFLOW
from tests.unit.workflow.fields import fields, mappings_in, value_at
from tests.unit.workflow.random_workflows import fetch_module
from tests.unit.workflow.strategies import problems_of
from tests.unit.workflow.yaml_file import to_yaml

from gridstead.workflow.field_paths import fields_of, name_of, valid_paths
from gridstead.workflow.parse import check_workflow, parse_workflow
from gridstead.workflow.schema import Module

RESOURCES = "resources: {tasks: 2, cpusPerTask: 2, memPerCpu: 100}\n"
STEPS = "steps:\n- run:\n    command: echo hello\n"
VALID = RESOURCES + STEPS
UNDER_JOB = "job:\n" + "".join(f"  {line}\n" for line in VALID.splitlines())


def _workflow_field_names():
    """Return the names of all fields that can be misplaced.

    Fields of modules are omitted, because a module is a separate file.
    """
    names = set()
    for mapping_name, name in fields():
        if valid_paths(name) and not mapping_name.startswith(name_of(Module)):
            names.add(name)
    return names


NAMES = _workflow_field_names()

# A workflow, the line and path of its misplaced field, and the valid paths of the field. The first
# two cases occur in DeepSquare's workflows.
MISPLACED = {
    "network of a step": (
        VALID + "  network: slirp4netns\n",
        "line 5: steps[0].network",
        "steps[].run.network",
    ),
    "GPUs of tasks in the job": (
        VALID.replace("}", ", gpusPerTask: 1}"),
        "line 1: resources.gpusPerTask",
        "steps[].run.resources.gpusPerTask",
    ),
    "image of a step": (
        VALID.replace("run:", "image: x\n  run:"),
        "line 3: steps[0].image",
        "steps[].run.container.image",
    ),
    "command of the job": (VALID + "command: x\n", "line 5: command", "steps[].run.command"),
    "name of a command": (
        VALID + "    name: x\n",
        "line 5: steps[0].run.name",
        "virtualNetworks[].name or steps[].name or steps[].run.customNetworkInterfaces[].vnet.name",
    ),
    "logging of a command": (
        VALID + "    enableLogging: true\n",
        "line 5: steps[0].run.enableLogging",
        "enableLogging",
    ),
    "tasks of a command": (
        VALID + "    tasks: 2\n",
        "line 5: steps[0].run.tasks",
        "resources.tasks or steps[].run.resources.tasks",
    ),
    "handle of a command": (
        VALID + "    handleName: 5\n",
        "line 5: steps[0].run.handleName",
        "steps[].launch.handleName",
    ),
    "under job": (
        UNDER_JOB + "  network: host\n",
        "line 6: job.network",
        "job.steps[].run.network",
    ),
    "next to job": (
        UNDER_JOB + "enableLogging: true\n",
        "line 6: enableLogging",
        "job.enableLogging",
    ),
}


@pytest.mark.parametrize("case", MISPLACED)
def test_a_misplaced_field_is_a_warning_with_its_line_and_its_valid_places(case):
    text, location, expected_paths = MISPLACED[case]

    checked_workflow = check_workflow(text)

    assert checked_workflow.workflow == parse_workflow(VALID)
    (warning,) = checked_workflow.warnings
    assert str(warning) == f"{location}: is in a wrong place and has no effect"
    assert warning.hint == f"It belongs in {expected_paths}."


@pytest.mark.parametrize("case", MISPLACED)
def test_a_misplaced_field_is_an_error_if_the_check_is_strict(case):
    text, location, expected_paths = MISPLACED[case]

    (problem,) = problems_of(lambda: check_workflow(text, strict=True))

    assert str(problem).startswith(f"{location}: ")
    assert expected_paths in problem.hint


def test_errors_include_misplaced_fields_only_if_the_check_is_strict():
    text = VALID + "network: x\nenv: 1\n"

    assert len(problems_of(check_workflow, text)) == 1
    assert len(problems_of(lambda: check_workflow(text, strict=True))) == 2


def with_all_misplaced_fields(mapping):
    """Return a copy of a workflow with every possible misplaced field.

    For each model, all fields that the model does not have are added to its first mapping.
    """
    changed_mapping = copy.deepcopy(mapping)
    changed_models = set()
    for path, model, _ in mappings_in(mapping):
        if model not in changed_models:
            changed_models.add(model)
            misplaced_names = NAMES - set(fields_of(model))
            value_at(changed_mapping, path).update(dict.fromkeys(misplaced_names, 5))
    return changed_mapping


@pytest.mark.parametrize("mapping", [HTTP_WORKFLOW, S3_WORKFLOW], ids=["http", "s3"])
def test_each_misplaced_field_in_each_mapping_is_reported(mapping):
    text = to_yaml(with_all_misplaced_fields(mapping))

    checked = check_workflow(text, fetch_module=fetch_module)

    assert checked.workflow == check_workflow(to_yaml(mapping), fetch_module=fetch_module).workflow
    names = {warning.path.rpartition(".")[2] for warning in checked.warnings}
    assert names == NAMES
    for warning in checked.warnings:
        assert warning.line
        assert warning.hint.startswith("It belongs in ")
    problems = problems_of(lambda: check_workflow(text, strict=True))
    # 100 problems, and one line that counts the further problems.
    assert len(problems) == 101
    assert problems[-1].reason == f"breaks {len(checked.warnings) - 100} more rules"
