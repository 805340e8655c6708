# SPDX-License-Identifier: Apache-2.0
"""Rules that several steps take part in."""

from __future__ import annotations

import pytest
from tests.unit.workflow.node import steps, workflow
from tests.unit.workflow.strategies import refusal


def problems(*some, **fields):
    return [str(problem) for problem in refusal(lambda: workflow(*some, **fields))]


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
            "steps[0]: has both steps and run; a step is one of them",
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
            "steps[0].launch.handleName: is not a handle: letters, digits and _; it is 'a-b'",
        ),
        (
            {"launch": {"signalOnParentStepExit": 99, "steps": steps("x")}},
            "steps[0].launch.signalOnParentStepExit: must be a signal, 1 to 31, or 0 for none; it is 99",
        ),
        (
            {"if": "a\0b"},
            "steps[0].if: holds a character that no program can be given; it is 'a�b'",
        ),
        ({"if": "x" * 5000}, "steps[0].if: has more than 4096 characters: 5000"),
        (
            {"dependsOn": ["a"]},
            "steps[0].dependsOn[0]: is the handle of no step that is launched before",
        ),
    ],
)
def test_rules_of_a_step(step, expected):
    assert problems(step) == [expected]


def test_steps_at_once_have_to_fit_into_the_job():
    assert problems(loop(4, "x")) == []
    assert problems(loop(5, "x")) == [
        "steps[0].for: its 5 parallel rounds together take 5 CPU threads, more than the 4 of the job",
        "steps[0].for: its 5 parallel rounds together take 500 MB of memory, more than the 400 of the job",
    ]


def test_gpus_of_steps_at_once_have_to_fit_into_the_job():
    body = {"run": {"command": "x", "resources": {"gpusPerTask": 1}}}
    resources = {"tasks": 4, "cpusPerTask": 1, "memPerCpu": 1, "gpus": 2}

    assert problems(loop(2, body), resources=resources) == []
    assert problems(loop(3, body), resources=resources) == [
        "steps[0].for: its 3 parallel rounds together take 3 GPUs, more than the 2 of the job"
    ]


def test_loops_one_after_the_other_need_no_more_than_a_round():
    sequential = {
        "for": {"parallel": False, "range": {"begin": 1, "end": 1000}, "steps": steps(taking(4))}
    }

    assert problems(sequential, sequential) == []


def test_loops_in_loops_multiply():
    assert problems(loop(2, loop(2, "x"))) == []
    assert problems(loop(2, loop(3, "x")))[0].startswith(
        "steps[0].for: its 2 parallel rounds together take 6 CPU"
    )
    assert problems(loop(2, loop(5, "x")))[0].startswith(
        "steps[0].for.steps[0].for: its 5 parallel rounds"
    )


def test_launched_steps_take_their_part_until_they_are_awaited():
    wait = {"dependsOn": ["a"], **taking(4)}

    assert problems(launch(taking(2), handle="a"), taking(2), wait) == []
    found = problems(launch(taking(2), handle="a"), taking(3))
    assert found[0].startswith(
        "steps[1]: with what was launched before and still runs, it takes 5 CPU threads"
    )
    assert problems({"steps": steps(launch(taking(4)))}, taking(4)) == []


def test_too_large_step_is_told_once():
    assert len(problems(loop(2, launch({"run": {"command": "x", "resources": {"tasks": 5}}})))) == 2


def test_handle_is_known_in_its_list_and_in_those_within():
    known = launch("x", handle="A")
    wait = {"dependsOn": ["a"]}

    assert (
        problems(
            known,
            wait,
            {"steps": steps(wait)},
            {"for": {"parallel": False, "items": [], "steps": [wait]}},
        )
        == []
    )
    assert problems({"steps": steps(known)}, wait) == [
        "steps[1].dependsOn[0]: is the handle of no step that is launched before"
    ]


@pytest.mark.parametrize(
    "around", [lambda step: loop(1, step), launch, lambda step: {**launch("x"), "catch": [step]}]
)
def test_handle_cannot_be_waited_for_from_a_branch_beside(around):
    (problem,) = problems(launch("x", handle="a"), around({"dependsOn": ["a"]}))

    assert problem.endswith(
        "is launched outside of this parallel loop or launch; the step around it can wait for it"
    )


def test_handle_stands_once():
    assert problems(launch("x", handle="a"), launch("x", handle="A")) == [
        "steps[1].launch.handleName: is the handle of another step already"
    ]


def test_bounds_of_the_whole():
    assert problems({"steps": steps(*["x"] * 250)}, *[{"steps": steps(*["x"] * 250)}] * 4) == [
        "steps: has 1255 steps in all, more than 1024"
    ]
    assert problems(loop(2000, {}), tasks=4) == [
        "steps[0].for: has 2000 parallel rounds, more than 1024"
    ]
