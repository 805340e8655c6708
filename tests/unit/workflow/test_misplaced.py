# SPDX-License-Identifier: Apache-2.0
"""Fields of the language in a place where they do nothing: published workflows have such, and run."""

from __future__ import annotations

import copy

import pytest
from tests.unit.workflow.all_fields import STORED, WEB
from tests.unit.workflow.at_random import text_of
from tests.unit.workflow.fields import at, fields, mappings_in
from tests.unit.workflow.strategies import refusal
from tests.unit.workflow.yaml_file import written

from gridstead.workflow.field_paths import fields_of, homes, name_of
from gridstead.workflow.parse import check_workflow, parse_workflow
from gridstead.workflow.schema import Module

RESOURCES = "resources: {tasks: 2, cpusPerTask: 2, memPerCpu: 100}\n"
STEPS = "steps:\n- run:\n    command: echo hello\n"
GOOD = RESOURCES + STEPS
UNDER_JOB = "job:\n" + "".join(f"  {line}\n" for line in GOOD.splitlines())
# What a file may say; a module is a file of its own.
NAMES = {name for kind, name in fields() if homes(name) and not kind.startswith(name_of(Module))}

# The first two are those that the reference's own files have.
MISPLACED = {
    "network of a step": (GOOD + "  network: slirp4netns\n", "line 5: steps[0].network", "steps[].run.network"),
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
    "logging of a command": (GOOD + "    enableLogging: true\n", "line 5: steps[0].run.enableLogging", "enableLogging"),
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
    "under job": (UNDER_JOB + "  network: host\n", "line 6: job.network", "job.steps[].run.network"),
    "beside job": (UNDER_JOB + "enableLogging: true\n", "line 6: enableLogging", "job.enableLogging"),
}  # fmt: skip


@pytest.mark.parametrize("kind", MISPLACED)
def test_it_does_nothing_and_is_told_with_its_line_and_the_right_place(kind):
    text, where, right = MISPLACED[kind]
    checked = check_workflow(text)

    assert checked.workflow == parse_workflow(GOOD)
    (warning,) = checked.warnings
    assert str(warning) == f"{where}: stands in a wrong place, where it does nothing"
    assert warning.hint == f"Its place is {right}."


@pytest.mark.parametrize("kind", MISPLACED)
def test_it_is_an_error_where_that_is_wanted(kind):
    text, where, right = MISPLACED[kind]

    (problem,) = refusal(lambda: check_workflow(text, strict=True))

    assert str(problem).startswith(f"{where}: ")
    assert right in problem.hint


def test_it_is_told_beside_errors_only_where_it_is_one():
    text = GOOD + "network: x\nextra: 1\n"

    assert len(refusal(check_workflow, text)) == 1
    assert len(refusal(lambda: check_workflow(text, strict=True))) == 2


@pytest.mark.parametrize("mapping", [WEB, STORED], ids=["web", "store"])
def test_each_field_in_each_mapping_that_has_none_of_its_name_is_told(mapping):
    """All of them at once in one file: as many warnings as fields, and a workflow as if none were
    there.
    """
    changed = copy.deepcopy(mapping)
    seen = set()
    for path, model, _ in mappings_in(mapping):
        if model in seen:
            continue
        seen.add(model)
        wrong = NAMES - set(fields_of(model))
        at(changed, path).update(dict.fromkeys(wrong, 5))
    text = written(changed)

    checked = check_workflow(text, modules=text_of)

    assert checked.workflow == check_workflow(written(mapping), modules=text_of).workflow
    places = {warning.path.rpartition(".")[2] for warning in checked.warnings}
    assert places == NAMES
    assert all(
        warning.line and warning.hint.startswith("Its place is ") for warning in checked.warnings
    )
    strict = refusal(lambda: check_workflow(text, strict=True))
    assert len(strict) == 101
    assert strict[-1].reason == f"breaks {len(checked.warnings) - 100} more rules"
