# SPDX-License-Identifier: Apache-2.0
"""Rules about resources, handles and the number of steps in a whole workflow.

A ``launch`` runs steps in the background. A later step can wait for these launched steps by the
handle of the launch.
"""

from __future__ import annotations

import pytest
from tests.unit.workflow.node import steps, workflow
from tests.unit.workflow.strategies import problems_of


def problems(*some_steps, **fields):
    """Return the problems of a workflow with these steps.

    The job has 4 CPU threads, 400 MB and no GPUs, unless ``fields`` contains other resources.
    """
    return [str(problem) for problem in problems_of(lambda: workflow(*some_steps, **fields))]


def parallel_loop(rounds, *body):
    numbers = {"begin": 1, "end": rounds}
    return {"for": {"parallel": True, "range": numbers, "steps": steps(*body)}}


def launch(*body, handle=None):
    fields = {"steps": steps(*body)}
    if handle:
        fields["handleName"] = handle
    return {"launch": fields}


def step_with_tasks(tasks):
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
def test_a_step_that_breaks_a_rule_is_refused(step, expected):
    assert problems(step) == [expected]


def test_a_parallel_loop_may_have_more_rounds_than_fit_into_the_job():
    assert problems(parallel_loop(100_000, step_with_tasks(3))) == []
    assert problems(parallel_loop(2, parallel_loop(5, "x"))) == []


def test_one_round_of_a_parallel_loop_must_fit_into_the_job():
    path = "steps[0].for.steps[0].run.resources"
    assert problems(parallel_loop(2, step_with_tasks(5))) == [
        f"{path}: needs 5 CPU threads, but the job has 4",
        f"{path}: needs 500 MB of memory, but the job has 400",
    ]


def test_the_gpus_of_one_round_must_fit_into_the_job():
    body = {"run": {"command": "x", "resources": {"gpusPerTask": 3}}}
    resources = {"tasks": 4, "cpusPerTask": 1, "memPerCpu": 1, "gpus": 2}

    assert problems(parallel_loop(1, body), resources=resources) == [
        "steps[0].for.steps[0].run.resources: needs 3 GPUs, but the job has 2"
    ]


def test_one_round_must_fit_into_the_job_with_launched_steps():
    assert problems(launch(step_with_tasks(2)), parallel_loop(9, step_with_tasks(2))) == []
    problem, *_ = problems(launch(step_with_tasks(2)), parallel_loop(9, step_with_tasks(3)))
    assert problem.startswith(
        "steps[1]: with earlier launched steps that still run, it needs 5 CPU threads"
    )


def test_a_sequential_loop_needs_the_resources_of_one_iteration():
    sequential = {
        "for": {
            "parallel": False,
            "range": {"begin": 1, "end": 1000},
            "steps": steps(step_with_tasks(4)),
        }
    }

    assert problems(sequential, sequential) == []


def test_launched_steps_use_resources_until_a_step_waits_for_them():
    waiting_step = {"dependsOn": ["a"], **step_with_tasks(4)}

    assert problems(launch(step_with_tasks(2), handle="a"), step_with_tasks(2), waiting_step) == []
    problem, *_ = problems(launch(step_with_tasks(2), handle="a"), step_with_tasks(3))
    assert problem.startswith(
        "steps[1]: with earlier launched steps that still run, it needs 5 CPU threads"
    )
    # The job waits for launched steps at the end of the list of steps that contains the launch.
    assert problems({"steps": steps(launch(step_with_tasks(4)))}, step_with_tasks(4)) == []


def test_a_step_that_is_too_large_is_reported_once():
    too_large = launch(step_with_tasks(5))

    # One problem is about CPU threads, the second about memory. The loop causes no third problem.
    assert len(problems(parallel_loop(2, too_large))) == 2


def test_a_step_can_wait_for_a_handle_of_the_same_list_or_an_enclosing_list():
    launch_step = launch("x", handle="A")
    wait = {"dependsOn": ["a"]}
    nested_step = {"steps": steps(wait)}
    loop_of_wait = {"for": {"parallel": False, "items": [], "steps": [wait]}}

    assert problems(launch_step, wait, nested_step, loop_of_wait) == []


def test_a_step_can_wait_for_a_launch_in_an_earlier_group():
    group = {"steps": steps({"steps": steps(launch("x", handle="A"))})}
    wait = {"dependsOn": ["a"]}

    assert problems(group, wait, {"steps": steps(wait)}) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"catch": [{}]},
        {"finally": [{}]},
    ],
)
def test_a_step_cannot_wait_for_a_launch_in_a_group_with_handlers(fields):
    group = {"steps": steps(launch("x", handle="a")), **fields}

    assert problems(group, {"dependsOn": ["a"]}) == [
        "steps[1].dependsOn[0]: is not the handle of an earlier launched step"
    ]


def test_a_step_cannot_wait_for_a_launch_in_an_earlier_loop():
    loop = {"for": {"parallel": False, "items": ["a"], "steps": [launch("x", handle="a")]}}

    assert problems(loop, {"dependsOn": ["a"]}) == [
        "steps[1].dependsOn[0]: is not the handle of an earlier launched step"
    ]


def test_a_launch_uses_resources_after_its_group_if_a_later_step_waits_for_it():
    group = {"steps": steps({"steps": steps(launch(step_with_tasks(2), handle="a"))}, "x")}
    wait = {"dependsOn": ["a"], **step_with_tasks(4)}

    assert problems(group, step_with_tasks(2), wait) == []
    assert problems(group, step_with_tasks(3)) == []
    handled = {"steps": [group, wait], "catch": [{}]}
    assert problems(handled, step_with_tasks(4)) == []
    problem, *_ = problems(group, step_with_tasks(3), wait)
    assert problem.startswith("steps[1]: with earlier launched steps that still run, it needs 5")


@pytest.mark.parametrize(
    "make_parallel_step",
    [lambda step: parallel_loop(1, step), launch, lambda step: {**launch("x"), "catch": [step]}],
)
def test_a_parallel_step_cannot_wait_for_a_launch_outside_it(make_parallel_step):
    parallel_step = make_parallel_step({"dependsOn": ["a"]})

    (problem,) = problems(launch("x", handle="a"), parallel_step)

    assert "is launched outside this parallel loop or launch" in problem


def test_a_handle_can_be_used_again():
    wait = {"dependsOn": ["a"]}

    assert problems(launch("x", handle="a"), wait, launch("x", handle="A"), wait) == []


def test_a_launched_step_whose_handle_is_used_again_still_uses_resources():
    launches = [launch(step_with_tasks(2), handle="a"), launch(step_with_tasks(1), handle="a")]

    assert problems(*launches, {"dependsOn": ["a"]}, step_with_tasks(2)) == []
    problem, *_ = problems(*launches, {"dependsOn": ["a"]}, step_with_tasks(3))
    assert problem.startswith("steps[3]: with earlier launched steps that still run, it needs 5")


def test_the_total_number_of_steps_is_limited():
    group = {"steps": steps(*["x"] * 250)}

    # The five groups are steps too, and each contains 250 steps: 5 + 5 * 250 steps.
    assert problems(*[group] * 5) == ["steps: has 1255 steps in total, more than 1024"]
