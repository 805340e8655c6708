# SPDX-License-Identifier: Apache-2.0
"""Misplaced fields, which have no effect. Published workflows have such fields and run."""

from __future__ import annotations

import copy

import pytest
from tests.unit.workflow.all_fields import STORED, WEB
from tests.unit.workflow.at_random import text_of
from tests.unit.workflow.fields import fields, mappings_in, value_at
from tests.unit.workflow.strategies import refusal
from tests.unit.workflow.yaml_file import written

from gridstead.workflow.field_paths import fields_of, name_of, valid_places
from gridstead.workflow.parse import check_workflow, parse_workflow
from gridstead.workflow.schema import Module

RESOURCES = "resources: {tasks: 2, cpusPerTask: 2, memPerCpu: 100}\n"
STEPS = "steps:\n- run:\n    command: echo hello\n"
GOOD = RESOURCES + STEPS
UNDER_JOB = "job:\n" + "".join(f"  {line}\n" for line in GOOD.splitlines())
# The fields of a workflow. A module is a separate file.
NAMES = {
    name for kind, name in fields() if valid_places(name) and not kind.startswith(name_of(Module))
}

# The first two occur in the files of the reference implementation.
MISPLACED = {
    "network of a step": (
        GOOD + "  network: slirp4netns\n",
        "line 5: steps[0].network",
        "steps[].run.network",
    ),
    "GPUs of tasks in the job": (
        GOOD.replace("}", ", gpusPerTask: 1}"),
        "line 1: resources.gpusPerTask",
        "steps[].run.resources.gpusPerTask",
    ),
    "image of a step": (
        GOOD.replace("run:", "image: x\n  run:"),
        "line 3: steps[0].image",
        "steps[].run.container.image",
    ),
    "command of the job": (GOOD + "command: x\n", "line 5: command", "steps[].run.command"),
    "name of a command": (
        GOOD + "    name: x\n",
        "line 5: steps[0].run.name",
        "virtualNetworks[].name or steps[].name or steps[].run.customNetworkInterfaces[].vnet.name",
    ),
    "logging of a command": (
        GOOD + "    enableLogging: true\n",
        "line 5: steps[0].run.enableLogging",
        "enableLogging",
    ),
    "tasks of a command": (
        GOOD + "    tasks: 2\n",
        "line 5: steps[0].run.tasks",
        "resources.tasks or steps[].run.resources.tasks",
    ),
    "handle of a command": (
        GOOD + "    handleName: 5\n",
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


@pytest.mark.parametrize("kind", MISPLACED)
def test_a_misplaced_field_is_a_warning_with_its_line_and_its_valid_places(kind):
    text, where, right = MISPLACED[kind]
    checked = check_workflow(text)

    assert checked.workflow == parse_workflow(GOOD)
    (warning,) = checked.warnings
    assert str(warning) == f"{where}: is in a wrong place and has no effect"
    assert warning.hint == f"It belongs in {right}."


@pytest.mark.parametrize("kind", MISPLACED)
def test_a_misplaced_field_is_an_error_with_strict(kind):
    text, where, right = MISPLACED[kind]

    (problem,) = refusal(lambda: check_workflow(text, strict=True))

    assert str(problem).startswith(f"{where}: ")
    assert right in problem.hint


def test_a_misplaced_field_is_reported_with_other_errors_only_with_strict():
    text = GOOD + "network: x\nextra: 1\n"

    assert len(refusal(check_workflow, text)) == 1
    assert len(refusal(lambda: check_workflow(text, strict=True))) == 2


@pytest.mark.parametrize("mapping", [WEB, STORED], ids=["web", "store"])
def test_each_misplaced_field_in_each_mapping_is_reported(mapping):
    """One file has all misplaced fields, and the workflow is the same as without them."""
    changed = copy.deepcopy(mapping)
    seen = set()
    for path, model, _ in mappings_in(mapping):
        if model in seen:
            continue
        seen.add(model)
        wrong = NAMES - set(fields_of(model))
        value_at(changed, path).update(dict.fromkeys(wrong, 5))
    text = written(changed)

    checked = check_workflow(text, modules=text_of)

    assert checked.workflow == check_workflow(written(mapping), modules=text_of).workflow
    places = {warning.path.rpartition(".")[2] for warning in checked.warnings}
    assert places == NAMES
    assert all(
        warning.line and warning.hint.startswith("It belongs in ") for warning in checked.warnings
    )
    strict = refusal(lambda: check_workflow(text, strict=True))
    assert len(strict) == 101
    assert strict[-1].reason == f"breaks {len(checked.warnings) - 100} more rules"
