# SPDX-License-Identifier: Apache-2.0
"""Tests of unknown keys: warnings in a file, and errors in a request.

DeepSquare's clients drop unknown keys when they read a file. DeepSquare's GraphQL service refuses
them.
"""

from __future__ import annotations

import copy

import pytest
from tests.unit.workflow.all_fields import HTTP_WORKFLOW, S3_WORKFLOW
from tests.unit.workflow.fields import mappings_in, value_at
from tests.unit.workflow.random_workflows import fetch_module
from tests.unit.workflow.strategies import problems_of
from tests.unit.workflow.yaml_file import to_yaml

from gridstead.errors import InvalidWorkflow
from gridstead.workflow.field_paths import fields_of, valid_paths
from gridstead.workflow.ignored_keys import _DISPLAY_FIELDS, changes_run
from gridstead.workflow.parse import check_workflow, from_graphql, parse_workflow

VALID = """\
resources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}
steps:
- run:
    command: x
"""


def with_misspelled_key(mapping, path, field):
    """Return a copy of the workflow with another key, which is almost the name of a field."""
    changed_mapping = copy.deepcopy(mapping)
    value_at(changed_mapping, path)[f"{field}Z"] = 1
    return changed_mapping


@pytest.mark.parametrize("mapping", [HTTP_WORKFLOW, S3_WORKFLOW], ids=["http", "s3"])
def test_a_misspelled_key_of_each_mapping_is_a_warning_that_names_the_field(mapping):
    workflow = check_workflow(to_yaml(mapping), fetch_module=fetch_module).workflow
    for path, model, _ in mappings_in(mapping):
        field = fields_of(model)[-1]
        changed_mapping = with_misspelled_key(mapping, path, field)

        checked = check_workflow(to_yaml(changed_mapping), fetch_module=fetch_module)

        assert checked.workflow == workflow
        assert checked.warnings
        # A mapping that occurs several times in the file causes several warnings.
        for warning in checked.warnings:
            assert warning.path.endswith(f"{field}Z")
            assert warning.hint == f"Did you mean {field}?"
            assert warning.line
            assert warning.changes_run == changes_run(field)
        rules = {problem.rule for problem in problems_of(from_graphql, changed_mapping)}
        assert rules == {"known"}


def test_the_job_runs_the_same_if_an_unknown_key_without_a_similar_field_is_ignored():
    (warning,) = check_workflow(VALID + "author: me\n").warnings

    assert str(warning) == "line 5: author: is not a known field"
    assert warning.hint.startswith("Known fields here: enableLogging, disableLogMarkers, ")
    assert not warning.changes_run


def test_an_unknown_key_is_an_error_if_the_check_is_strict():
    (problem,) = problems_of(lambda: check_workflow(VALID + "author: me\n", strict=True))

    assert str(problem) == "line 5: author: is not a known field"


def test_a_misspelled_required_field_is_an_error_with_a_warning_that_names_it():
    text = VALID.replace("command", "comand")

    with pytest.raises(InvalidWorkflow) as caught:
        check_workflow(text)

    (problem,) = caught.value.problems
    (warning,) = caught.value.warnings
    assert warning.hint == "Did you mean command?"
    assert str(problem) == "line 3: steps[0].run.command: is required"


@pytest.mark.parametrize("value", ["5", "[a, {b: c}]", "{command: {a: [1]}}", "'x'", "0400"])
def test_the_value_of_an_unknown_key_is_not_read(value):
    checked = check_workflow(f"{VALID}author: {value}\n")

    assert checked.workflow == parse_workflow(VALID)
    assert [warning.path for warning in checked.warnings] == ["author"]


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        ("    container: {image: x}\n  container: {image: x}\n", "steps[0].container"),
        ("    resources: {gpus: 1}\n", "steps[0].run.resources.gpus"),
        ("    if: x\n", "steps[0].run.if"),
        ("  network: pasta\n", "steps[0].network"),
        ("  mapUid: 0\n", "steps[0].mapUid"),
        ("    dns: [10.0.0.1]\n", "steps[0].run.dns"),
        ("    containr: {image: x}\n", "steps[0].run.containr"),
        # Misspelled and in a wrong place.
        ("  contaner: {image: x}\n", "steps[0].contaner"),
        ("    resources: {gpu: 1}\n", "steps[0].run.resources.gpu"),
        # In upper case, and with a capital.
        ("  IF: x\n", "steps[0].IF"),
        ("  Container: {image: x}\n", "steps[0].Container"),
    ],
)
def test_the_job_runs_differently_if_a_key_of_the_language_is_ignored(lines, key):
    checked = check_workflow(VALID + lines)

    (warning,) = checked.warnings
    assert warning.path == key
    assert warning.changes_run


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (VALID + "  Containers: {image: x}\n", "It belongs in steps[].run.container."),
        (
            "job:\n  " + VALID.replace("\n", "\n  ") + "\nContainer: {image: x}\n",
            "It belongs in job.steps[].run.container.",
        ),
    ],
)
def test_a_misspelled_key_in_a_wrong_place_has_a_hint_to_the_right_place(text, hint):
    (warning,) = check_workflow(text).warnings

    assert warning.hint == f"Did you mean container? {hint}"


@pytest.mark.parametrize(
    "lines",
    [
        "continuousOutputSync: true\n",
        "name: a job\n",
        "    enableLogging: true\n",
        "    disableLogMarkers: true\n",
        "author: me\n",
        "version: 1\n",
        "  description: a step\n",
        "  Names: a step\n",
        "x-container: {image: x}\n",
        "---\n",
    ],
)
def test_the_job_runs_the_same_if_another_key_is_ignored(lines):
    (warning,) = check_workflow(VALID + lines).warnings

    assert not warning.changes_run


@pytest.mark.parametrize("field", _DISPLAY_FIELDS)
def test_the_display_fields_are_fields_of_the_language(field):
    assert valid_paths(field)
