# SPDX-License-Identifier: Apache-2.0
"""Choose moments at which to kill a run of Ansible, from the log of an earlier run. Pure.

A moment is a task and a number of seconds since that task began. It is not a time since the start
of the run, because a run with fewer changes reaches the same task earlier.
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
_LOGGED = re.compile(r"(?P<time>[\d-]+ [\d:,]+) p=(?P<run>\d+) .*?\| (?P<text>.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """``after_s`` seconds after the ``count``-th start, from 1, of the task with this banner."""

    banner: str
    count: int
    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task of a finished run: its start, in seconds since the first task, and its duration."""

    banner: str
    count: int
    start_s: float
    length_s: float


def tasks(log: str) -> list[Task]:
    """Return the tasks of the longest run in an Ansible log that reached its recap.

    The list is empty if no run did.
    """
    begun = _longest_run(log)
    count: Counter[str] = Counter()
    result = []
    for (time, banner), (next_time, _) in pairwise(begun):
        count[banner] += 1
        result.append(
            Task(
                banner=banner,
                count=count[banner],
                start_s=(time - begun[0][0]).total_seconds(),
                length_s=(next_time - time).total_seconds(),
            )
        )
    return result


def _longest_run(log: str) -> list[tuple[datetime, str]]:
    """Return the start and the banner of each task of the run, with its recap as the last one."""
    runs: dict[str, list[tuple[datetime, str]]] = defaultdict(list)
    for line in log.splitlines():
        match = _LOGGED.match(line)
        if match is None:
            continue
        banner = BANNER.match(match["text"]) or re.match(_RECAP, match["text"])
        if banner is not None:
            # Times of one log are compared with each other only, so they need no time zone.
            time = datetime.strptime(match["time"], "%Y-%m-%d %H:%M:%S,%f")  # noqa: DTZ007
            runs[match["run"]].append((time, banner[0]))
    finished = [run for run in runs.values() if run[-1][1] == _RECAP]
    return max(finished, key=len, default=[])


def choose(run: Sequence[Task], number: int, random: Random) -> list[Moment]:
    """Return ``number`` moments of a run, in order.

    The run is divided into ``number`` stretches of equal length. Each moment is at random in one of
    them.
    """
    stretch_s = (run[-1].start_s + run[-1].length_s) / number
    moments = []
    for index in range(number):
        time = stretch_s * (index + random.random())
        task = _task_at(run, time)
        moments.append(Moment(banner=task.banner, count=task.count, after_s=time - task.start_s))
    return moments


def _task_at(run: Sequence[Task], time_s: float) -> Task:
    """Return the task that runs at a time, in seconds since the run's first task."""
    return next(task for task in reversed(run) if task.start_s <= time_s)
