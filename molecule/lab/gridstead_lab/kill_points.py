# SPDX-License-Identifier: Apache-2.0
"""Moments of a run of Ansible, chosen from the log of an earlier one. Pure.

A moment is a task and the seconds that the run has been in it, not a time since the start: a run
that finds things done gets to the same task sooner.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from random import Random

BANNER = re.compile(r"(?:TASK|RUNNING HANDLER) \[.*\]")
_LOGGED = re.compile(r"(?P<time>[\d-]+ [\d:,]+) p=(?P<run>\d+) .*?\| (?P<text>.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The ``count``-th time (from 1) that the task with this banner begins, and ``after_s`` seconds
    more.
    """

    banner: str
    count: int
    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task of a run that has ended: when it began, in seconds since the run's first, and how long
    it took.
    """

    banner: str
    count: int
    start_s: float
    length_s: float


def tasks(log: str) -> list[Task]:
    """Return the tasks of the longest run in an Ansible log that came to its recap; none if there
    is no such run.
    """
    runs: dict[str, list[tuple[datetime, str]]] = defaultdict(list)
    for line in log.splitlines():
        if not (match := _LOGGED.match(line)):
            continue
        if banner := BANNER.match(match["text"]) or re.match("PLAY RECAP", match["text"]):
            time = datetime.strptime(match["time"], "%Y-%m-%d %H:%M:%S,%f")  # noqa: DTZ007  # only compared with its like
            runs[match["run"]].append((time, banner[0]))
    begun = max((run for run in runs.values() if run[-1][1] == "PLAY RECAP"), key=len, default=[])
    count: Counter[str] = Counter()
    found = []
    for (time, banner_text), (next_time, _) in pairwise(begun):
        count[banner_text] += 1
        found.append(
            Task(
                banner=banner_text,
                count=count[banner_text],
                start_s=(time - begun[0][0]).total_seconds(),
                length_s=(next_time - time).total_seconds(),
            )
        )
    return found


def choose(run: Sequence[Task], number: int, random: Random) -> list[Moment]:
    """Return moments of a run, in order, one at random in each of as many stretches of equal
    length.
    """
    stretch_s = (run[-1].start_s + run[-1].length_s) / number
    times = [stretch_s * (place + random.random()) for place in range(number)]
    within = [next(task for task in reversed(run) if task.start_s <= time) for time in times]
    return [
        Moment(banner=task.banner, count=task.count, after_s=time - task.start_s)
        for time, task in zip(times, within, strict=True)
    ]
