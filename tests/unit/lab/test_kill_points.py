# SPDX-License-Identifier: Apache-2.0
"""Moments of a run, chosen from the log of an earlier one."""

from random import Random

import pytest

from gridstead_lab import kill_points
from gridstead_lab.kill_points import Moment, Task

LOG = """\
2026-01-02 10:00:00,000 p=7 u=root n=ansible INFO| PLAY [Make the hosts] ***
2026-01-02 10:00:00,500 p=7 u=root n=ansible INFO| TASK [Make the hosts] ***
2026-01-02 10:00:09,500 p=7 u=root n=ansible INFO| PLAY RECAP ***
2026-01-02 10:00:10,000 p=8 u=root n=ansible INFO| TASK [base : Have files] ***
2026-01-02 10:00:12,500 p=8 u=root n=ansible INFO| changed: [control] => (item=TASK [none])
2026-01-02 10:00:13,000 p=8 u=root n=ansible INFO| RUNNING HANDLER [base : Reload] ***
2026-01-02 10:00:13,250 p=8 u=root n=ansible INFO| TASK [base : Have files] ***
2026-01-02 10:00:20,000 p=8 u=root n=ansible INFO| PLAY RECAP ***
2026-01-02 10:00:20,000 p=8 u=root n=ansible INFO| control : ok=3
2026-01-02 10:01:00,000 p=9 u=root n=ansible INFO| TASK [one] ***
2026-01-02 10:01:01,000 p=9 u=root n=ansible INFO| TASK [two] ***
2026-01-02 10:01:02,000 p=9 u=root n=ansible INFO| TASK [three] ***
2026-01-02 10:01:03,000 p=9 u=root n=ansible INFO| TASK [four] ***
"""
RUN = [
    Task(banner="TASK [base : Have files]", count=1, start_s=0, length_s=3),
    Task(banner="RUNNING HANDLER [base : Reload]", count=1, start_s=3, length_s=0.25),
    Task(banner="TASK [base : Have files]", count=2, start_s=3.25, length_s=6.75),
]


def test_a_log_without_a_run_that_ended_has_no_tasks():
    assert kill_points.tasks(LOG.split("PLAY RECAP", maxsplit=1)[0]) == []


def test_the_tasks_are_those_of_the_longest_run_that_ended():
    assert kill_points.tasks(LOG) == RUN


@pytest.mark.parametrize("seed", range(20))
def test_each_moment_is_in_another_stretch_and_within_its_task(seed):
    chosen = kill_points.choose(RUN, 5, Random(seed))

    tasks = {(task.banner, task.count): task for task in RUN}
    within = [(tasks[moment.banner, moment.count], moment.after_s) for moment in chosen]
    assert [int((task.start_s + after_s) // 2) for task, after_s in within] == [0, 1, 2, 3, 4]
    assert all(0 <= after_s <= task.length_s for task, after_s in within)


def test_a_seed_chooses_the_same_moments_again():
    assert kill_points.choose(RUN, 5, Random("7")) == kill_points.choose(RUN, 5, Random("7"))
    assert kill_points.choose(RUN, 5, Random("7")) != kill_points.choose(RUN, 5, Random("8"))


def test_a_moment_in_the_one_stretch_there_is():
    class Middle(Random):
        def random(self):
            return 0.31

    assert kill_points.choose(RUN, 1, Middle()) == [
        Moment(banner=RUN[1].banner, count=1, after_s=pytest.approx(0.1))
    ]
