# SPDX-License-Identifier: Apache-2.0
"""When the jobs of a provider are expected to end, and what is free then.

A job is expected to run as long as its escrow pays, so it may end earlier. A job that has not
started yet is expected to start now. A job that is late by some time is expected to need the same
time again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, takewhile

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.matching.packing import Nodes, Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedJob:
    """A job that is matched to the provider and has not ended.

    Attributes:
        job_id: The job.
        resources: Its resources.
        matched_block: The block of the match.
        started_at: Unix seconds. 0 if it has not started.
        paid_s: How long its escrow pays for it, seconds.
    """

    job_id: JobId
    resources: Resources
    matched_block: int
    started_at: int
    paid_s: int

    def ends_at(self, now: int) -> int:
        """Return the expected end, Unix seconds."""
        end = (self.started_at or now) + self.paid_s
        return end if end >= now else now + (now - end)

    @property
    def order(self) -> tuple[int, int]:
        """The order in which the jobs are placed."""
        return self.matched_block, self.job_id.request_order


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The room that a provider keeps for a pending job.

    Attributes:
        job_id: The pending job.
        resources: Its resources.
        start_at: When the room is expected to be free, Unix seconds.
        version: The version of the occupation from which the time was computed.
        awaited: The jobs that were expected to end by then, as they were at that version.
    """

    job_id: JobId
    resources: Resources
    start_at: int
    version: int
    awaited: tuple[PlacedJob, ...] = ()


class Forecast:
    """What is expected of a provider if no further job is matched to it.

    Args:
        jobs: The jobs of the provider.
        placements: The nodes of the jobs that have room.
        free: What is free now.
        now: Unix seconds.
    """

    def __init__(
        self,
        jobs: Iterable[PlacedJob],
        placements: Mapping[JobId, Placement],
        free: Nodes,
        *,
        now: int,
    ) -> None:
        self._jobs = sorted(jobs, key=lambda job: (job.ends_at(now), job.order))
        self._placements = placements
        self._free = free
        self._now = now
        # Item i is the sum of the jobs 0 to i.
        self._cpus = list(accumulate(job.resources.cpus for job in self._jobs))
        self._gpus = list(accumulate(job.resources.gpus for job in self._jobs))
        self._obstacles: dict[Resources, PlacedJob | None] = {}
        self._spare: tuple[Reservation, Nodes] | None = None

    def last_obstacle(self, resources: Resources) -> PlacedJob | None:
        """Return the job whose end completes the room for another job. None if it has room now."""
        if resources not in self._obstacles:
            self._obstacles[resources] = self._find_obstacle(resources)
        return self._obstacles[resources]

    def ending_by(self, time: int) -> tuple[PlacedJob, ...]:
        """Return the jobs that are expected to end by a time, Unix seconds."""
        return tuple(takewhile(lambda job: job.ends_at(self._now) <= time, self._jobs))

    def estimated_start(self, resources: Resources, empty: Nodes) -> int:
        """Return a quick estimate of when a job has room, Unix seconds.

        Only the sums over all nodes are compared, so the estimate is never too late, unless matched
        jobs wait for room.

        Args:
            resources: The resources of the job.
            empty: The nodes of the provider when they are empty.
        """
        start = self._now
        needs = (
            (resources.cpus - empty.free_cpus, self._cpus),
            (resources.gpus - empty.free_gpus, self._gpus),
        )
        for needed_beyond_empty, freed in needs:
            missing = needed_beyond_empty + freed[-1] if freed else 0
            if missing > 0:
                index = min(bisect_left(freed, missing), len(freed) - 1)
                start = max(start, self._jobs[index].ends_at(self._now))
        return start

    def spare_nodes(self, reservation: Reservation) -> Nodes:
        """Return what is free now and not needed by the reserved job when it starts."""
        if self._spare is None or self._spare[0] != reservation:
            self._spare = (reservation, self._find_spare(reservation))
        return self._spare[1]

    def _find_obstacle(self, resources: Resources) -> PlacedJob | None:
        nodes = self._free.copy()
        last_job = None
        for job in self._jobs:
            if nodes.has_room(resources):
                break
            self._release(job, nodes)
            last_job = job
        return last_job

    def _find_spare(self, reservation: Reservation) -> Nodes:
        nodes = self._free.copy()
        for job in self._jobs:
            # Jobs that end later count only if the reserved job has no room before.
            is_late = job.ends_at(self._now) > reservation.start_at
            if is_late and nodes.has_room(reservation.resources):
                break
            self._release(job, nodes)
        placement = nodes.find(reservation.resources)
        if placement is not None:
            nodes.use(reservation.resources, placement)
        return nodes.minimum(self._free)

    def _release(self, job: PlacedJob, nodes: Nodes) -> None:
        """Free the nodes of a job, if it has room."""
        placement = self._placements.get(job.job_id)
        if placement is not None:
            nodes.release(job.resources, placement)
