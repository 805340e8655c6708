# SPDX-License-Identifier: Apache-2.0
"""Chooses random kill points at which to kill a run of Ansible, from the log of an earlier run.

A kill point is a task and a number of seconds since the start of that task. A time since the start
of the run would not be useful, because a run with fewer changes reaches the same task earlier.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from random import Random

BANNER = re.compile(r"(?:TASK|RUNNING HANDLER) \[.*\]")
_RECAP = "PLAY RECAP"
# A line such as "2026-11-21 01:00:00,123 p=4711 u=root n=ansible INFO| TASK [Install MariaDB] ***".
_LOGGED = re.compile(r"(?P<time>[\d-]+ [\d:,]+) p=(?P<run>\d+) .*?\| (?P<text>.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class KillPoint:
    """A kill point in a run: ``after_s`` seconds after the ``count``-th start of a task.

    ``banner`` is the text of the task in the log, such as ``TASK [Install MariaDB]``. ``count``
    starts at 1.
    """

    banner: str
    count: int
    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task of a finished run. ``start_s`` is the time since the start of the first task."""

    banner: str
    count: int
    start_s: float
    length_s: float


def tasks(log: str) -> list[Task]:
    """Return the tasks of the longest finished run in an Ansible log.

    The list is empty if the log contains no finished run.
    """
    starts = _longest_run(log)
    count: Counter[str] = Counter()
    result = []
    for (time, banner), (next_time, _) in pairwise(starts):
        count[banner] += 1
        result.append(
            Task(
                banner=banner,
                count=count[banner],
                start_s=(time - starts[0][0]).total_seconds(),
                length_s=(next_time - time).total_seconds(),
            )
        )
    return result


def _longest_run(log: str) -> list[tuple[datetime, str]]:
    """Return start and banner of each task of the longest finished run, and of its recap."""
    runs: dict[str, list[tuple[datetime, str]]] = defaultdict(list)
    for line in log.splitlines():
        match = _LOGGED.match(line)
        if match is None:
            continue
        banner = BANNER.match(match["text"]) or re.match(_RECAP, match["text"])
        if banner is not None:
            # Only the differences between the times matter, so they need no time zone.
            time = datetime.strptime(match["time"], "%Y-%m-%d %H:%M:%S,%f")  # noqa: DTZ007
            runs[match["run"]].append((time, banner[0]))
    finished_runs = [run for run in runs.values() if run[-1][1] == _RECAP]
    return max(finished_runs, key=len, default=[])


def choose(run: Sequence[Task], number: int, random: Random) -> list[KillPoint]:
    """Return ``number`` random kill points of a run, in order.

    The run is divided into ``number`` parts of the same length. Each part contains one kill point.
    """
    part_s = (run[-1].start_s + run[-1].length_s) / number
    points = []
    for index in range(number):
        time_s = part_s * (index + random.random())
        task = _task_at(run, time_s)
        points.append(
            KillPoint(banner=task.banner, count=task.count, after_s=time_s - task.start_s)
        )
    return points


def _task_at(run: Sequence[Task], time_s: float) -> Task:
    """Return the task that runs at a time, in seconds since the run's first task."""
    return next(task for task in reversed(run) if task.start_s <= time_s)
