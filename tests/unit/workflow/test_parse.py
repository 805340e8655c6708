# SPDX-License-Identifier: Apache-2.0
"""Parsing of workflows, and the messages about invalid ones."""

from __future__ import annotations

import textwrap

import pytest
import yaml
from hypothesis import given, settings
from tests.unit.workflow.strategies import problems_of, yaml_values
from tests.unit.workflow.yaml_file import to_yaml

from gridstead.errors import InvalidInput, InvalidWorkflow
from gridstead.workflow.parse import check_workflow, from_graphql, parse_workflow
from gridstead.workflow.reading import MAX_PROBLEMS

RESOURCES = "resources: {tasks: 2, cpusPerTask: 2, memPerCpu: 100}\n"
STEPS = "steps:\n- run:\n    command: echo hello\n"


def problems(text):
    """Parse an invalid workflow and return its problems."""
    with pytest.raises(InvalidWorkflow) as caught:
        parse_workflow(text)
    return [str(problem) for problem in caught.value.problems]


def problems_in_run(text):
    """Return the problems of a workflow whose only step has these lines in its ``run``."""
    return problems(RESOURCES + "steps:\n- run:\n" + text)


def test_a_minimal_workflow_has_the_defaults():
    workflow = parse_workflow(RESOURCES + STEPS)

    assert not workflow.enable_logging
    assert workflow.env == ()
    assert workflow.resources.gpus == 0
    run = workflow.steps[0].run
    assert (run.shell, run.env, run.work_dir) == ("/bin/sh", (), None)
    resources = run.resources
    assert (resources.tasks, resources.cpus_per_task, resources.gpus_per_task) == (1, None, 0)


def test_a_job_may_be_under_the_key_job():
    under_job = textwrap.indent(RESOURCES + STEPS, "  ")

    assert parse_workflow(f"job:\n{under_job}") == parse_workflow(RESOURCES + STEPS)


def test_an_unknown_key_next_to_job_is_a_warning():
    under_job = textwrap.indent(RESOURCES + STEPS, "  ")
    text = f"job:\n{under_job}stepz: 1\n"

    (warning,) = check_workflow(text).warnings

    assert str(warning) == "line 6: stepz: is next to job and has no effect"
    assert warning.hint == "Did you mean steps?"
    with pytest.raises(InvalidWorkflow):
        check_workflow(text, strict=True)


def test_a_field_without_a_value_counts_as_absent():
    with_empty_fields = RESOURCES + "env:\nenableLogging: ~\n" + STEPS

    assert parse_workflow(with_empty_fields) == parse_workflow(RESOURCES + STEPS)


def test_all_errors_are_reported_at_once_in_the_order_of_the_file():
    text = """\
enableLogging: 1
resources: {tasks: -1, cpusPerTask: 1.5, gpus: yes}
env:
- {key: PATH, value: [5]}
steps:
- name: one
  run:
    command: [5]
    shel: x
- nome: two
- 5
- ~
extra: 1
resources: {}
"""
    assert problems(text) == [
        "line 1: enableLogging: must be true or false, not a number",
        "line 2: resources.tasks: must be at least 1, not -1",
        "line 2: resources.cpusPerTask: must be a whole number, not a number with a fraction",
        "line 2: resources.memPerCpu: is required",
        "line 2: resources.gpus: must be a whole number, not text",
        "line 4: env[0].key: cannot be set by a workflow; it is 'PATH'",
        "line 4: env[0].value: must be text, not a list",
        "line 8: steps[0].run.command: must be text, not a list",
        "line 11: steps[2]: must be a mapping, not a number",
        "line 12: steps[3]: must be a mapping, not nothing",
        "line 14: resources: is a duplicate key",
    ]


@pytest.mark.parametrize("text", ["5", "[1]", "x", "~", "job: 5", "{}"])
def test_a_text_without_a_job_is_refused(text):
    assert problems(text)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("    command: ''", "has an empty command"),
        ("    command: {a: 1}", "must be text, not a mapping"),
        ('    command: "a\\0b"', "contains a character that cannot be passed to a program"),
        (f"    command: {'x' * 102_401}", "is longer than 100 KiB"),
        (
            "    command: x\n    shell: /bin/zsh",
            "must be /bin/sh, /bin/bash, /bin/ash or ENTRYPOINT",
        ),
        (
            "    command: x\n    shell: ENTRYPOINT",
            "has the shell ENTRYPOINT, which is allowed only in a container",
        ),
        ("    command: x\n    mpi: pmix", "must be 'none', 'pmix_v4' or 'pmi2'"),
        ("    command: x\n    mapUid: -1", "must be at least 0, not -1"),
        ("    command: x\n    workDir: here", "must be an absolute path"),
        ('    command: x\n    workDir: "/a\\nb"', "cannot be printed"),
        ("    command: x\n    env: {A: b}", "must be a list, not a mapping"),
        ("    command: x\n    env: [{key: PATH, value: x}]", "cannot be set by a workflow"),
        (
            "    command: x\n    env: [{key: LD_LIBRARY_PATH, value: x}]",
            "cannot be set by a workflow",
        ),
        ("    command: x\n    env: [{key: UID, value: x}]", "belongs to the shell"),
        ("    command: x\n    resources: {tasks: 0}", "must be at least 1, not 0"),
        (
            "    command: x\n    resources: {tasks: 3}",
            "needs 6 CPU threads, but the job has 4",
        ),
        (
            "    command: x\n    resources: {memPerCpu: 201}",
            "needs 402 MB of memory, but the job has 400",
        ),
        ("    command: x\n    resources: {gpusPerTask: 1}", "needs 1 GPUs, but the job has 0"),
    ],
)
def test_an_invalid_step_is_refused(lines, expected):
    problem, *_ = problems_in_run(lines)

    assert expected in problem


def test_a_name_that_is_too_long_is_one_error():
    (problem,) = problems(RESOURCES + f"steps:\n- name: {'x' * 200_000}\n  run: {{command: x}}\n")
    assert problem == "line 3: steps[0].name: has more than 128 characters: 200000"

    (problem,) = problems(RESOURCES + f"steps:\n- name: {'x' * 1_000_000}\n  run: {{command: x}}\n")
    assert problem == "workflow: is larger than 256 KiB"


def test_a_name_must_be_printable():
    problem, *_ = problems(RESOURCES + 'steps:\n- name: "a\\eb"\n  run: {command: x}\n')

    assert "cannot be printed" in problem


def test_the_number_of_steps_is_limited():
    assert problems(RESOURCES + "steps: []") == ["line 2: steps: must not be empty"]
    assert problems(RESOURCES + "steps:\n" + "- run: {command: x}\n" * 257) == [
        "line 2: steps: has more than 256 entries: 257"
    ]


@pytest.mark.parametrize("target", ["", "output: {http: {url: 'https://a/b'}}\n"])
def test_a_continuous_output_without_an_output_to_s3_is_a_warning(target):
    text = RESOURCES + target + "continuousOutputSync: true\n" + STEPS

    (warning,) = check_workflow(text).warnings

    assert str(warning) == (
        f"line {3 if target else 2}: continuousOutputSync: has no effect without an output to s3;"
        " the output is sent at the end of the job"
    )
    with pytest.raises(InvalidWorkflow, match="has no effect without an output to s3"):
        check_workflow(text, strict=True)


@pytest.mark.parametrize(("blank", "shown"), [(" ", " "), ("\\t", "�"), ("\\n \\t", "� �")])
def test_a_condition_must_not_be_blank(blank, shown):
    assert problems(RESOURCES + STEPS + f'  if: "{blank}"\n') == [
        f"line 5: steps[0].if: must not be blank; it is '{shown}'"
    ]


def test_messages_quote_the_value_unless_it_is_a_secret():
    container = "{image: A, registry: 'a b', username: 'u s', password: 'a secret'}"
    reported_problems = problems_in_run(
        f"    command: x\n    mpi: pmix\n    container: {container}\n"
    )

    quoted_values = []
    for problem in reported_problems:
        _, path, reason = problem.split(": ", 2)
        quoted_values.append((path, reason.partition("; it is ")[2]))
    assert quoted_values == [
        ("steps[0].run.mpi", "'pmix'"),
        ("steps[0].run.container.image", "'A'"),
        ("steps[0].run.container.registry", "'a b'"),
        ("steps[0].run.container.username", ""),
        ("steps[0].run.container.password", ""),
    ]


def test_a_deeply_nested_value_from_the_wire_is_refused():
    steps = [{}]
    for _ in range(1000):
        steps = [{"steps": steps}]

    (problem,) = problems_of(from_graphql, {**yaml.safe_load(RESOURCES), "steps": steps})

    assert problem.reason == "is nested deeper than 32 levels"


def test_a_lone_surrogate_from_the_wire_is_refused():
    (problem,) = problems_of(
        from_graphql, {**yaml.safe_load(RESOURCES), "steps": [{"name": "a\ud800"}]}
    )

    assert problem.path == "steps[0].name"
    assert problem.reason.startswith("contains a character that cannot be passed to a program")
    assert problem.reason.endswith("it is 'a�'")


def test_the_number_of_reported_problems_is_limited():
    text = RESOURCES + "steps: [" + "[]," * 5000 + "]\n"

    reported = problems(text)

    assert len(reported) == MAX_PROBLEMS + 1
    assert reported[-1] == "workflow: breaks 4900 more rules"


def test_a_similar_field_name_is_suggested():
    (warning,) = check_workflow(RESOURCES + STEPS + "enableLoging: true\n").warnings

    assert warning.hint == "Did you mean enableLogging?"


def test_a_number_in_place_of_text_from_the_wire_has_a_hint():
    with pytest.raises(InvalidWorkflow) as caught:
        from_graphql(yaml.safe_load(RESOURCES + "env: [{key: A, value: 1}]\n" + STEPS))

    assert caught.value.hint == "Put it in quotes to make it text."


def test_an_invalid_workflow_is_a_user_error():
    with pytest.raises(InvalidInput) as caught:
        parse_workflow("steps: 5\nenv: 1\n")

    assert caught.value.code == "invalid-workflow"
    assert caught.value.exit_code == 65
    assert str(caught.value).startswith("workflow breaks 3 rules (line 1: ")


def test_problems_of_a_workflow_from_the_wire_have_no_lines():
    with pytest.raises(InvalidWorkflow) as caught:
        from_graphql({"steps": []})

    assert [str(problem) for problem in caught.value.problems] == [
        "resources: is required",
        "steps: must not be empty",
    ]


def test_text_that_looks_like_a_yaml_1_2_number_is_parsed_as_text():
    workflow = from_graphql({**yaml.safe_load(RESOURCES), "steps": [{"run": {"command": "0E0"}}]})

    assert parse_workflow(to_yaml(workflow.to_graphql())) == workflow


@given(yaml_values)
@settings(max_examples=100)
def test_any_value_is_parsed_or_refused(value):
    problems_of(parse_workflow, yaml.safe_dump(value))
    mapping = value if isinstance(value, dict) else {"steps": value}
    problems_of(from_graphql, mapping)
