# SPDX-License-Identifier: Apache-2.0
"""The number of simultaneous rounds of parallel loops."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from tests.unit.workflow.node import steps, workflow
from tests.unit.workflow.random_workflows import DIVISOR, random_mapping

from gridstead.workflow.checks import _Checker
from gridstead.workflow.handles import find_launches
from gridstead.workflow.parse import from_graphql
from gridstead.workflow.rounds import rounds_at_once


def step_with(tasks=1, cpus=1, mem=1, gpus=0):
    resources = {"tasks": tasks, "cpusPerTask": cpus, "memPerCpu": mem, "gpusPerTask": gpus}
    return {"run": {"command": "x", "resources": resources}}


def loop(rounds, *body):
    numbers = {"begin": 1, "end": rounds}
    return {"for": {"parallel": True, "range": numbers, "steps": steps(*body)}}


def launch(*body, handle=None):
    fields = {"handleName": handle} if handle else {}
    return {"launch": {**fields, "steps": steps(*body)}}


def at_once(*some_steps, gpus=2):
    """Return the numbers of simultaneous rounds of all parallel loops, in the order of the file.

    The job has 8 CPU threads, 800 MB and 2 GPUs.
    """
    resources = {"tasks": 8, "cpusPerTask": 1, "memPerCpu": 100, "gpus": gpus}
    job = workflow(*some_steps, resources=resources)
    rounds = rounds_at_once(job, find_launches(job.steps))
    return [rounds[path] for path in sorted(rounds, key=str)]


WAIT = {"dependsOn": ["a"], **step_with(tasks=8)}


@pytest.mark.parametrize(
    ("some_steps", "expected"),
    [
        pytest.param([loop(8, "x")], [8], id="all rounds fit"),
        pytest.param([loop(9, "x")], [8], id="more rounds than CPU threads"),
        pytest.param([loop(9, step_with(mem=300))], [2], id="memory limits"),
        pytest.param([loop(9, step_with(gpus=1))], [2], id="GPUs limit"),
        pytest.param([loop(9, step_with(tasks=3))], [2], id="a round has several tasks"),
        pytest.param([loop(9, "x", step_with(tasks=4), "x")], [2], id="the widest step counts"),
        pytest.param([loop(9, launch(step_with(tasks=3)), "x")], [2], id="a launch in a round"),
        pytest.param([loop(9, {})], [8], id="a round counts as one CPU thread"),
        pytest.param([loop(0, "x")], [1], id="no rounds"),
        pytest.param([loop(2, loop(4, "x"))], [2, 4], id="all rounds of nested loops fit"),
        pytest.param([loop(2, loop(9, "x"))], [2, 4], id="the inner loop shares the rest"),
        pytest.param([loop(9, loop(9, "x"))], [8, 1], id="the outer loop comes first"),
        pytest.param([loop(9, "x"), loop(9, "x")], [8, 8], id="one loop after the other"),
        pytest.param([launch(step_with(tasks=5)), loop(9, "x")], [3], id="during a launch"),
        pytest.param([launch("x", handle="a"), WAIT, loop(9, "x")], [8], id="after a launch"),
        pytest.param([launch(loop(9, "x")), step_with(tasks=5)], [3], id="a loop in a launch"),
        pytest.param(
            [launch(loop(2, "x")), loop(9, "x")], [2, 6], id="a loop during a loop that fits"
        ),
        pytest.param([launch(loop(9, "x")), loop(9, "x")], [7, 1], id="the earlier loop is first"),
        pytest.param(
            [launch(loop(9, "x"), handle="a"), "x", WAIT], [7], id="a launch until a step waits"
        ),
        pytest.param(
            [{"steps": [launch(loop(9, "x"), handle="a")]}, step_with(tasks=6), WAIT],
            [2],
            id="a launch that outlives its group",
        ),
        pytest.param(
            [{"steps": steps(launch(loop(9, "x")), "x")}, step_with(tasks=8)],
            [7],
            id="a launch that ends with its group",
        ),
        pytest.param(
            [{**loop(9, "x"), "catch": [loop(9, "x")], "finally": [loop(9, step_with(tasks=4))]}],
            [8, 8, 2],
            id="handlers run after the loop",
        ),
    ],
)
def test_as_many_rounds_run_at_once_as_fit_into_the_job(some_steps, expected):
    assert at_once(*some_steps) == expected


def test_at_most_1024_rounds_run_at_once():
    resources = {"tasks": 2000, "cpusPerTask": 1, "memPerCpu": 1}
    job = workflow(loop(100_000, "x"), resources=resources)

    assert rounds_at_once(job, find_launches(job.steps)) == {("steps", 0): 1024}


@dataclass(slots=True)
class _CheckerOfRounds(_Checker):
    """Checks that all simultaneous rounds fit into the job, instead of one round of each loop."""

    numbers: dict = field(default_factory=dict)
    limited_count: int = 0

    def _loop_needs(self, loop, path):
        needs = _Checker._loop_needs(self, loop, path)
        if not loop.parallel:
            return needs
        self.limited_count += self.numbers[path] < loop.count
        return needs.times(self.numbers[path])


@pytest.mark.parametrize("is_small", [False, True])
def test_as_many_rounds_of_random_workflows_run_at_once_as_fit_into_the_job(is_small):
    limited_count = 0
    for seed in range(1000 // DIVISOR):
        random = Random(seed)
        mapping = random_mapping(random, host_only=True)
        if is_small:
            _shrink(mapping, random)
        job = from_graphql(mapping)
        launches = find_launches(job.steps)

        checker = _CheckerOfRounds(job, launches, numbers=rounds_at_once(job, launches))
        checker.check_steps(job.steps, ("steps",), {})

        assert checker.problems == [], seed
        limited_count += checker.limited_count
    if is_small:
        assert limited_count > 0
    else:
        assert limited_count == 0, "a random workflow has more resources than it needs"


def _shrink(mapping, random):
    """Replace the resources of a random job by at most three times of what its steps need."""
    resources = mapping["resources"]
    resources["memPerCpu"] = max(resources["memPerCpu"], 4)  # no random step needs more
    job = from_graphql(mapping)
    checker = _Checker(job, find_launches(job.steps))
    needs = checker.check_steps(job.steps, ("steps",), {})
    for round_needs in checker.needs.per_round.values():
        needs = needs.maximum(round_needs)
    factor = random.choice([1, 1, 2, 3])
    resources["tasks"] = max(1, -(-needs.cpus * factor // resources["cpusPerTask"]))
    if needs.gpus:
        resources["gpus"] = needs.gpus * factor
