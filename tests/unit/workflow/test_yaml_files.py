# SPDX-License-Identifier: Apache-2.0
"""Workflow files in the style of DeepSquare's clients: scalars, anchors, and keys with ``x-``."""

from __future__ import annotations

import pytest
from tests.unit.workflow.strategies import problems_of

from gridstead.workflow.parse import check_workflow, parse_workflow

RESOURCES = "resources: {tasks: 2, cpusPerTask: 2, memPerCpu: 100}\n"
STEPS = "steps:\n- run:\n    command: echo hello\n"


def warnings_of(text, *, strict=False):
    """Return the warnings of a valid workflow."""
    return [str(warning) for warning in check_workflow(text, strict=strict).warnings]


@pytest.mark.parametrize(
    "source",
    ["1.10", "yes", "true", "True", "0400", "08", "0x1F", "1_000", "1e3", "2024-01-01", "-5", ".5"],
)
def test_an_unquoted_scalar_in_a_text_field_is_its_source_text(source):
    text = (
        f"env: [{{key: A, value: {source}}}]\n{RESOURCES}steps:\n"
        f"- name: {source}\n  for: {{parallel: false, items: [{source}], steps: [{{}}]}}\n"
    )

    workflow = parse_workflow(text)

    assert workflow.env[0].value == source
    assert workflow.steps[0].name == source
    assert workflow.steps[0].for_.items == (source,)
    assert warnings_of(text) == []


@pytest.mark.parametrize("source", ["", "~", "null"])
def test_a_required_text_without_a_value_is_empty(source):
    workflow = parse_workflow(RESOURCES + f"env:\n- key: A\n  value: {source}\n" + STEPS)

    assert workflow.env[0].value == ""


@pytest.mark.parametrize(("source", "value"), [("yes", True), ("on", True), ("no", False)])
def test_a_field_that_is_true_or_false_accepts_the_words_of_yaml_1_1(source, value):
    workflow = parse_workflow(RESOURCES + f"enableLogging: {source}\n" + STEPS)

    assert workflow.enable_logging is value


@pytest.mark.parametrize(
    ("source", "value"), [("2.0", 2), ("1e1", 10), ("0x10", 16), ("0o10", 8), ("1_0", 10)]
)
def test_a_whole_number_may_be_written_as_in_yaml_1_1_and_1_2(source, value):
    text = RESOURCES.replace("tasks: 2", f"tasks: {source}") + STEPS

    assert parse_workflow(text).resources.tasks == value
    assert warnings_of(text) == []


@pytest.mark.parametrize(
    ("source", "value", "read_as", "hint"),
    [
        ("0400", 256, "octal, which is 256", "Write 256 or 0o400."),
        ("010", 8, "octal, which is 8", "Write 8 or 0o10."),
        ("09", 9, "decimal, which is 9", "Write 9 or 0o11."),
    ],
)
def test_a_number_with_a_leading_zero_is_octal_with_a_warning(source, value, read_as, hint):
    text = RESOURCES + f"inputMode: {source}\n" + STEPS

    checked = check_workflow(text, strict=True)

    assert checked.workflow.input_mode == value
    (warning,) = checked.warnings
    reason = f"has a leading zero; {source} is read as {read_as}"
    assert str(warning) == f"line 2: inputMode: {reason}"
    assert warning.hint == hint


def test_a_condition_whose_exclamation_mark_is_a_tag_causes_a_warning():
    """Without the quotation marks, the condition means the opposite."""
    text = RESOURCES + "steps:\n- if: ! -e done\n- if: '! -e done'\n"

    checked = check_workflow(text, strict=True)

    assert [step.if_ for step in checked.workflow.steps] == ["-e done", "! -e done"]
    (warning,) = checked.warnings
    reason = "starts with the tag !, which is not part of the value"
    assert str(warning) == f"line 3: steps[0].if: {reason}"
    assert warning.hint == "Put the whole value in quotation marks, such as if: '! -e file'."


def test_keys_with_x_are_ignored_with_a_warning_that_names_their_line():
    text = (
        "x-env: &env [{key: A, value: 1.10}]\n"
        + RESOURCES
        + "env: *env\nsteps:\n- x-note: [1]\n  run:\n    command: 'true'\n    env: *env\n"
    )

    workflow = parse_workflow(text)

    assert workflow.env[0].value == workflow.steps[0].run.env[0].value == "1.10"
    reason = "is ignored, because the name starts with x-"
    expected = [f"line 1: x-env: {reason}", f"line 5: steps[0].x-note: {reason}"]
    assert warnings_of(text) == warnings_of(text, strict=True) == expected


def test_keys_with_x_may_be_next_to_job():
    text = (
        "x-r: &r {tasks: 1, cpusPerTask: 1, memPerCpu: 9}\njob:\n  resources: *r\n  steps: [{}]\n"
    )

    assert parse_workflow(text).resources.mem_per_cpu == 9
    expected = ["line 1: x-r: is ignored, because the name starts with x-"]
    assert warnings_of(text) == warnings_of(text, strict=True) == expected


def test_merge_keys_may_define_steps():
    text = (
        RESOURCES
        + "steps:\n- &s\n  name: a\n  run: &r {command: x, shell: /bin/bash}\n"
        + "- <<: *s\n  name: b\n- run:\n    <<: *r\n    command: y\n"
    )

    steps = parse_workflow(text).steps

    assert [step.name for step in steps] == ["a", "b", None]
    assert [step.run.command for step in steps] == ["x", "x", "y"]
    assert {step.run.shell for step in steps} == {"/bin/bash"}


def test_a_second_document_is_a_warning():
    text = RESOURCES + STEPS + "---\nsteps: 5\n"

    assert parse_workflow(text) == parse_workflow(RESOURCES + STEPS)
    expected = ["line 5: workflow: has a second document, which is ignored"]
    assert warnings_of(text) == warnings_of(text, strict=True) == expected


def test_an_error_in_an_alias_names_the_field_and_the_line_of_the_anchor():
    text = RESOURCES + "x-run: &run\n  command: [1]\nsteps:\n- run: *run\n"

    (problem,) = problems_of(check_workflow, text)

    assert str(problem) == "line 3: steps[0].run.command: must be text, not a list"
