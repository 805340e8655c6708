# SPDX-License-Identifier: Apache-2.0
"""Rules that concern several steps."""

from __future__ import annotations

import pytest
from tests.unit.workflow.node import steps, workflow
from tests.unit.workflow.strategies import refusal


def problems(*some_steps, **fields):
    return [str(problem) for problem in refusal(lambda: workflow(*some_steps, **fields))]


def loop(number, *body):
    return {"for": {"parallel": True, "range": {"begin": 1, "end": number}, "steps": steps(*body)}}


def launch(*body, handle=None):
    return {"launch": {"steps": steps(*body), **({"handleName": handle} if handle else {})}}


def taking(tasks):
    return {"run": {"command": "x", "resources": {"tasks": tasks}}}


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (
            {"run": {"command": "x"}, "steps": steps("y")},
            "steps[0]: has both steps and run; only one of them is allowed",
        ),
        (
            {"for": {"parallel": True, "steps": steps("y")}},
            "steps[0].for: needs either items or range",
        ),
        (
            {
                "for": {
                    "parallel": True,
                    "items": [],
                    "range": {"begin": 1, "end": 1},
                    "steps": steps("y"),
                }
            },
            "steps[0].for: needs either items or range",
        ),
        ({"for": {"items": ["a"], "steps": steps("y")}}, "steps[0].for.parallel: is required"),
        (
            {"for": {"parallel": True, "items": ["a"], "steps": []}},
            "steps[0].for.steps: must not be empty",
        ),
        (
            launch("x", handle="a-b"),
            "steps[0].launch.handleName: is not a handle: A-Z, a-z, 0-9 and _; it is 'a-b'",
        ),
        (
            {"launch": {"signalOnParentStepExit": 99, "steps": steps("x")}},
            (
                "steps[0].launch.signalOnParentStepExit: "
                "must be a signal, 1 to 31, or 0 for none; it is 99"
            ),
        ),
        (
            {"if": "a\0b"},
            "steps[0].if: contains a character that cannot be passed to a program; it is 'a�b'",
        ),
        ({"if": "x" * 5000}, "steps[0].if: has more than 4096 characters: 5000"),
        (
            {"dependsOn": ["a"]},
            "steps[0].dependsOn[0]: is not the handle of an earlier launched step",
        ),
    ],
)
def test_rules_of_a_step(step, expected):
    assert problems(step) == [expected]


def test_parallel_iterations_must_fit_into_the_job():
    together = "steps[0].for: its 5 parallel iterations together need"
    assert problems(loop(4, "x")) == []
    assert problems(loop(5, "x")) == [
        f"{together} 5 CPU threads, but the job has 4",
        f"{together} 500 MB of memory, but the job has 400",
    ]


def test_the_gpus_of_parallel_iterations_must_fit_into_the_job():
    body = {"run": {"command": "x", "resources": {"gpusPerTask": 1}}}
    resources = {"tasks": 4, "cpusPerTask": 1, "memPerCpu": 1, "gpus": 2}

    assert problems(loop(2, body), resources=resources) == []
    assert problems(loop(3, body), resources=resources) == [
        "steps[0].for: its 3 parallel iterations together need 3 GPUs, but the job has 2"
    ]


def test_a_sequential_loop_needs_the_resources_of_one_iteration():
    sequential = {
        "for": {"parallel": False, "range": {"begin": 1, "end": 1000}, "steps": steps(taking(4))}
    }

    assert problems(sequential, sequential) == []


def test_nested_parallel_loops_multiply():
    assert problems(loop(2, loop(2, "x"))) == []
    outer, *_ = problems(loop(2, loop(3, "x")))
    assert outer.startswith("steps[0].for: its 2 parallel iterations together need 6 CPU")
    inner, *_ = problems(loop(2, loop(5, "x")))
    assert inner.startswith("steps[0].for.steps[0].for: its 5 parallel iterations")


def test_launched_steps_use_resources_until_a_step_waits_for_them():
    wait = {"dependsOn": ["a"], **taking(4)}

    assert problems(launch(taking(2), handle="a"), taking(2), wait) == []
    first, *_ = problems(launch(taking(2), handle="a"), taking(3))
    assert first.startswith(
        "steps[1]: with earlier launched steps that still run, it needs 5 CPU threads"
    )
    assert problems({"steps": steps(launch(taking(4)))}, taking(4)) == []


def test_a_step_that_is_too_large_is_reported_once():
    assert len(problems(loop(2, launch({"run": {"command": "x", "resources": {"tasks": 5}}})))) == 2


def test_a_handle_is_known_in_its_list_and_in_nested_lists():
    launched = launch("x", handle="A")
    wait = {"dependsOn": ["a"]}
    nested = {"steps": steps(wait)}
    loop_of_wait = {"for": {"parallel": False, "items": [], "steps": [wait]}}

    assert problems(launched, wait, nested, loop_of_wait) == []
    assert problems({"steps": steps(launched)}, wait) == [
        "steps[1].dependsOn[0]: is not the handle of an earlier launched step"
    ]


@pytest.mark.parametrize(
    "around", [lambda step: loop(1, step), launch, lambda step: {**launch("x"), "catch": [step]}]
)
def test_a_parallel_step_cannot_wait_for_an_outer_handle(around):
    (problem,) = problems(launch("x", handle="a"), around({"dependsOn": ["a"]}))

    assert "is launched outside this parallel loop or launch" in problem


def test_a_duplicate_handle_is_refused():
    assert problems(launch("x", handle="a"), launch("x", handle="A")) == [
        "steps[1].launch.handleName: is already the handle of another step"
    ]


def test_the_number_of_steps_and_of_parallel_iterations_is_limited():
    assert problems({"steps": steps(*["x"] * 250)}, *[{"steps": steps(*["x"] * 250)}] * 4) == [
        "steps: has 1255 steps in total, more than 1024"
    ]
    assert problems(loop(2000, {}), tasks=4) == [
        "steps[0].for: has 2000 parallel iterations, more than 1024"
    ]
