# SPDX-License-Identifier: Apache-2.0
"""Tests of how long a run takes if each step takes as long as it may."""

import pytest

from gridstead.domain.benchmarks import run, schedule
from gridstead.domain.benchmarks.equipment import Equipment
from gridstead.domain.benchmarks.site import MeasuredSite, Mode, Node, Options, Step
from gridstead.domain.labels.keys import STORAGE

JOBS_AT_ONCE = 64  # the default of the settings


def step(name, *nodes, limit_s=10):
    return Step(name=name, nodes=nodes, tasks_per_node=1, script="true", limit_s=limit_s)


def test_a_step_waits_for_the_earlier_steps_on_its_nodes():
    steps = [step("a", "n1", limit_s=5), step("b", "n2"), step("c", "n1", "n2"), step("d", "n3")]

    starts = schedule.latest_starts(steps, jobs_at_once=4)

    assert starts == {"a": 0, "b": 0, "c": 10, "d": 0}
    assert schedule.longest_run_s(steps, jobs_at_once=4) == 20


def test_a_step_waits_until_fewer_jobs_are_submitted():
    steps = [step("a", "n1", limit_s=5), step("b", "n2"), step("c", "n3"), step("d", "n4")]

    assert schedule.latest_starts(steps, jobs_at_once=2) == {"a": 0, "b": 0, "c": 5, "d": 10}


def whole_site(nodes, mode, **options):
    """Return a site on which everything is measured, with a directory for each key."""
    return MeasuredSite(
        nodes=tuple(
            Node(name=f"n{n:03}", cores=64, memory_mib=2**18, gpus=4) for n in range(nodes)
        ),
        options=Options(
            mode=mode,
            directories={key: f"/{key}" for key in STORAGE},
            gpu_command="xhpl-ai",
            internet="librespeed",
            **options,
        ),
        equipment=Equipment(has_osu=True),
    )


@pytest.mark.parametrize(("nodes", "limit_s"), [(1, 5 * 60), (2, 10 * 60), (100, 20 * 60)])
def test_quick_mode_measures_everything_in_time(nodes, limit_s):
    steps = run.steps(whole_site(nodes, Mode.QUICK))

    assert schedule.longest_run_s(steps, jobs_at_once=JOBS_AT_ONCE) <= limit_s


@pytest.mark.parametrize("mode", [Mode.QUICK, Mode.LAB])
def test_the_pairs_of_any_even_number_of_nodes_run_in_two_rounds(mode):
    sites = [whole_site(nodes, mode) for nodes in (4, 100)]
    four, hundred = (schedule.longest_run_s(run.steps(site), jobs_at_once=1000) for site in sites)

    assert four == hundred


def test_shared_directories_are_measured_one_at_a_time():
    steps = [each for each in run.steps(whole_site(3, Mode.QUICK)) if "shared" in each.name]

    starts = schedule.latest_starts(steps, jobs_at_once=JOBS_AT_ONCE)

    assert len(set(starts.values())) == len(steps) == 2
