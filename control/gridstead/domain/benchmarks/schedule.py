# SPDX-License-Identifier: Apache-2.0
"""How long a run takes if each step takes as long as it may.

Slurm starts the steps in their order: a step waits for all earlier steps that use one of its nodes.
The time that Slurm needs to start and end a job is not counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from gridstead.domain.benchmarks.site import Step


def latest_starts(steps: Sequence[Step], *, jobs_at_once: int) -> Mapping[str, int]:
    """Return when each step starts at the latest, in seconds after the start of the run.

    Args:
        steps: The steps, in the order in which they are submitted.
        jobs_at_once: How many jobs Slurm has at the same time. At least 1.
    """
    starts: dict[str, int] = {}
    free_at: defaultdict[str, int] = defaultdict(int)  # by node
    ends: list[int] = []  # of the jobs that Slurm has, as a heap
    submitted_at = 0
    for step in steps:
        if len(ends) == jobs_at_once:
            submitted_at = max(submitted_at, heappop(ends))
        start = max([submitted_at, *(free_at[node] for node in step.nodes)])
        starts[step.name] = start
        heappush(ends, start + step.limit_s)
        for node in step.nodes:
            free_at[node] = start + step.limit_s
    return starts


def longest_run_s(steps: Sequence[Step], *, jobs_at_once: int) -> int:
    """Return how long a run of some steps takes at the longest, in seconds."""
    starts = latest_starts(steps, jobs_at_once=jobs_at_once)
    return max(starts[step.name] + step.limit_s for step in steps)
