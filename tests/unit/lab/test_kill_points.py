# SPDX-License-Identifier: Apache-2.0
"""Kill points of a run, which are chosen from the log of an earlier run."""

from random import Random

import pytest

from gridstead_lab import kill_points
from gridstead_lab.kill_points import KillPoint, Task

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


def test_a_log_without_a_completed_run_has_no_tasks():
    assert kill_points.tasks(LOG.split("PLAY RECAP", maxsplit=1)[0]) == []


def test_tasks_are_read_from_the_longest_completed_run():
    assert kill_points.tasks(LOG) == RUN


@pytest.mark.parametrize("seed", range(20))
def test_each_kill_point_is_in_a_different_interval_and_in_its_task(seed):
    chosen = kill_points.choose(RUN, 5, Random(seed))

    tasks = {}
    for task in RUN:
        tasks[task.banner, task.count] = task
    intervals = []
    for moment in chosen:
        task = tasks[moment.banner, moment.count]
        assert 0 <= moment.after_s <= task.length_s
        # The run takes 10 s, so each of five intervals takes 2 s.
        intervals.append(int((task.start_s + moment.after_s) // 2))
    assert intervals == [0, 1, 2, 3, 4]


def test_the_same_seed_chooses_the_same_kill_points():
    assert kill_points.choose(RUN, 5, Random("7")) == kill_points.choose(RUN, 5, Random("7"))
    assert kill_points.choose(RUN, 5, Random("7")) != kill_points.choose(RUN, 5, Random("8"))


def test_a_single_kill_point_is_in_the_only_interval():
    class FixedRandom(Random):
        def random(self):
            return 0.31

    # The run takes 10 s. The moment at 3.1 s is 0.1 s after the start of the second task.
    assert kill_points.choose(RUN, 1, FixedRandom()) == [
        KillPoint(banner=RUN[1].banner, count=1, after_s=pytest.approx(0.1))
    ]
