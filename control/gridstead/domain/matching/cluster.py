# SPDX-License-Identifier: Apache-2.0
"""The occupation of one provider: its jobs, the room for further jobs, and a reservation.

The occupation is an estimate from the chain (``packing.py``). A job occupies its place from the
match until the chain records its end (``forecast.py``).

A *reservation* is the time at which a pending job is expected to have room. While it exists,
another job is matched to the provider only if it is expected to end before this time, or if it uses
nodes that the pending job does not need then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from gridstead.domain.jobs.billing import PERCENT, Resources
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Provider
from gridstead.domain.labels.benchmark_age import age_s, benchmark_time
from gridstead.domain.matching.forecast import Forecast, PlacedJob, Reservation
from gridstead.domain.matching.packing import Nodes, Placement
from gridstead.domain.matching.reputation import NEUTRAL, Standing

_SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """What the jobs of a cluster do not show.

    Attributes:
        provider: The provider.
        version: The version of the occupation.
        change: The last change.
        reservation: The reservation, if there is one.
        placements: The jobs that have nodes, and their nodes.
        has_new_jobs: Whether jobs must be placed.
    """

    provider: Provider
    version: int
    change: str
    reservation: Reservation | None
    placements: tuple[tuple[JobId, Placement], ...]
    has_new_jobs: bool


class Cluster:
    """The occupation of a provider.

    Args:
        provider: The provider.
        queue_allowance: How many matched jobs may wait for room.
        standing: How the reputation of the provider influences the matching.

    Attributes:
        provider: The provider.
        standing: How the reputation of the provider influences the matching.
        price_factor: 100 plus the risk in percent, by which prices are multiplied.
        position: The position of the provider on the ring that decides between equal prices.
        version: Increases with each change of the occupation.
        change: The last change except those by ``match``, as a text for the log.
        reservation: The reservation, if there is one.
    """

    def __init__(
        self, provider: Provider, *, queue_allowance: int = 0, standing: Standing = NEUTRAL
    ) -> None:
        self.provider = provider
        self._measured_at = benchmark_time(provider.labels)
        self.set_standing(standing)
        self.position = ring_position(provider.address)
        self.version = 0
        self.change = ""
        self.reservation: Reservation | None = None
        self._queue_allowance = queue_allowance
        self._empty = Nodes(provider.hardware)
        self._free = self._empty.copy()
        self._jobs: dict[JobId, PlacedJob] = {}
        self._placements: dict[JobId, Placement] = {}
        self._unplaced: list[PlacedJob] = []  # the jobs without a placement
        self._has_new_jobs = False
        # The forecast for a version and a time, Unix seconds.
        self._forecast: tuple[int, int, Forecast] | None = None

    def snapshot(self) -> ClusterSnapshot:
        """Return the values that ``restore`` needs."""
        return ClusterSnapshot(
            provider=self.provider,
            version=self.version,
            change=self.change,
            reservation=self.reservation,
            placements=tuple(self._placements.items()),
            has_new_jobs=self._has_new_jobs,
        )

    def restore(self, snapshot: ClusterSnapshot) -> None:
        """Restore the occupation. The jobs must have been set before."""
        self.version = snapshot.version
        self.change = snapshot.change
        self.reservation = snapshot.reservation
        self._free = self._empty.copy()
        self._placements = dict(snapshot.placements)
        for job_id, placement in snapshot.placements:
            self._free.use(self._jobs[job_id].resources, placement)
        self._unplaced = [job for job in self._jobs.values() if job.job_id not in self._placements]
        self._has_new_jobs = snapshot.has_new_jobs
        self._forecast = None

    @property
    def job_count(self) -> int:
        """The number of jobs that are matched and have not ended."""
        return len(self._jobs)

    def set_standing(self, standing: Standing) -> None:
        """Replace the standing. The caller must then compute the candidates again."""
        self.standing = standing
        self.price_factor = PERCENT + standing.risk_percent

    @property
    def is_resting(self) -> bool:
        """Whether the provider gets no further job now because of its faults."""
        job_limit = self.standing.job_limit
        return job_limit is not None and self.job_count >= job_limit

    def benchmark_age_h(self, now: int) -> int | None:
        """Return the age of the provider's benchmarks in whole hours. None if it is unknown.

        Args:
            now: Unix seconds.
        """
        age = age_s(self._measured_at, now=now)
        return None if age is None else age // _SECONDS_PER_HOUR

    def weighted_price(self, price_per_min: int) -> int:
        """Return a price times (100 + risk in percent). Providers are compared by this price."""
        return price_per_min * self.price_factor

    def plain_price(self, weighted_price: int) -> int:
        """Return the price per minute of a weighted price, wei."""
        return weighted_price // self.price_factor

    @property
    def empty(self) -> Nodes:
        """The provider's nodes without jobs. The caller must not change them."""
        return self._empty

    @property
    def free(self) -> Nodes:
        """What is free now. The caller must not change it."""
        if self._has_new_jobs:
            self._place_jobs()
        return self._free

    @property
    def waiting_count(self) -> int:
        """The number of matched jobs that wait for room.

        Jobs that do not fit on the empty nodes, because the provider has fewer nodes than before,
        do not count.
        """
        if self._has_new_jobs:
            self._place_jobs()
        if not self._unplaced:
            return 0
        return sum(self.can_run(job.resources) for job in self._unplaced)

    @property
    def room(self) -> Nodes | None:
        """The nodes on which a further job must have room. None if there can be no further job.

        With a queue allowance, these are the empty nodes. The caller must not change them.
        """
        if self._unplaced:
            waiting_count = self.waiting_count
            if waiting_count:
                return self._empty if waiting_count < self._queue_allowance else None
        return self._empty if self._queue_allowance else self._free

    def can_run(self, resources: Resources) -> bool:
        """Return whether the provider's nodes have room for a job when they are empty."""
        return self._empty.has_room(resources)

    def set_provider(self, provider: Provider) -> None:
        """Replace the provider's record. If its nodes change, all jobs are placed again."""
        if provider.hardware != self.provider.hardware:
            self._empty = Nodes(provider.hardware)
            self._free = self._empty.copy()
            self._placements.clear()
            self._unplaced = list(self._jobs.values())
            self._changed("its nodes changed")
        self.provider = provider
        self._measured_at = benchmark_time(provider.labels)

    def set_job(self, job: PlacedJob) -> None:
        """Add a job, or replace its values. Its resources never change."""
        old_job = self._jobs.get(job.job_id)
        if old_job == job:
            return
        self._jobs[job.job_id] = job
        if job.job_id not in self._placements:
            self._unplaced = [other for other in self._unplaced if other.job_id != job.job_id]
            self._unplaced.append(job)
        self._changed(f"job {job.job_id} was matched" if old_job is None else _change(old_job, job))

    def remove_job(self, job_id: JobId) -> None:
        """Remove a job that ended or came back."""
        job = self._jobs.pop(job_id, None)
        if job is None:
            return
        placement = self._placements.pop(job_id, None)
        if placement is not None:
            self._free.release(job.resources, placement)
        self._unplaced = [other for other in self._unplaced if other.job_id != job_id]
        self._changed(f"job {job_id} left")

    def has_room(self, resources: Resources) -> bool:
        """Return whether a job can start now, or may wait in the provider's queue.

        If a matched job already waits for room, only the queue allowance counts.
        """
        room = self.room
        return room is not None and room.has_room(resources)

    def admits(self, resources: Resources, *, job_id: JobId, paid_s: int, now: int) -> bool:
        """Return whether the reservation permits the match of a job for which there is room.

        Args:
            resources: The resources of the job.
            job_id: The job.
            paid_s: How long its escrow pays for it at this provider, seconds.
            now: Unix seconds.
        """
        reservation = self.reservation
        if reservation is None or reservation.job_id == job_id:
            return True
        if now + paid_s <= reservation.start_at:
            return True
        return self._forecast_at(now).spare_nodes(reservation).has_room(resources)

    def match(self, job: PlacedJob, *, now: int) -> None:
        """Add a job that is matched now and that the cluster admits."""
        nodes = self.free
        reservation = self.reservation
        is_other_job = reservation is not None and reservation.job_id != job.job_id
        if reservation is not None and is_other_job and job.ends_at(now) > reservation.start_at:
            nodes = self._forecast_at(now).spare_nodes(reservation)
        placement = nodes.find(job.resources)
        self._jobs[job.job_id] = job
        if placement is None:
            self._unplaced.append(job)
        else:
            self._placements[job.job_id] = placement
            self._free.use(job.resources, placement)
        self.version += 1

    def earliest_start(self, resources: Resources, *, now: int) -> int:
        """Return when a job is expected to have room, Unix seconds.

        The provider's nodes must have room for it when they are empty.
        """
        job = self.last_obstacle(resources, now=now)
        return now if job is None else job.ends_at(now)

    def last_obstacle(self, resources: Resources, *, now: int) -> PlacedJob | None:
        """Return the job whose end completes the room for another job. None if it has room now."""
        return self._forecast_at(now).last_obstacle(resources)

    def jobs_ending_by(self, time: int, *, now: int) -> tuple[PlacedJob, ...]:
        """Return the jobs that are expected to end by a time, Unix seconds."""
        return self._forecast_at(now).ending_by(time)

    def latest_of(self, jobs: Iterable[PlacedJob], *, now: int) -> PlacedJob | None:
        """Return the job that is expected to end last, of those that have not left."""
        present_jobs = [self._jobs[job.job_id] for job in jobs if job.job_id in self._jobs]
        return max(present_jobs, key=lambda job: (job.ends_at(now), job.order), default=None)

    def estimated_start(self, resources: Resources, *, now: int) -> int:
        """Return a quick estimate of ``earliest_start``, from the sums over all nodes.

        It is never later than ``earliest_start``, unless matched jobs wait for room.
        """
        return self._forecast_at(now).estimated_start(resources, self._empty)

    def expected_start(self, resources: Resources, *, now: int, exact: bool) -> int:
        """Return when a job is expected to start if it is matched now, Unix seconds.

        The provider's nodes must have room for the job when they are empty. If matched jobs wait
        for room, their CPU time is added to the estimate.

        Args:
            resources: The resources of the job.
            now: Unix seconds.
            exact: Whether to search for the start as ``earliest_start`` does. Otherwise the result
                may be too early, as that of ``estimated_start``.
        """
        if self.waiting_count:
            waiting_jobs = [job for job in self._unplaced if self.can_run(job.resources)]
            cpu_s = sum(job.resources.cpus * job.paid_s for job in waiting_jobs)
            return self.estimated_start(resources, now=now) + cpu_s // self._empty.free_cpus
        if self._free.has_room(resources):
            return now
        find_start = self.earliest_start if exact else self.estimated_start
        return find_start(resources, now=now)

    def _forecast_at(self, now: int) -> Forecast:
        free = self.free  # places new jobs
        if self._forecast is None or self._forecast[:2] != (self.version, now):
            forecast = Forecast(self._jobs.values(), self._placements, free, now=now)
            self._forecast = (self.version, now, forecast)
        return self._forecast[2]

    def _place_jobs(self) -> None:
        """Place the jobs without a placement, in the order of their matches."""
        self._has_new_jobs = False
        unplaced_jobs = []
        for job in sorted(self._unplaced, key=lambda job: job.order):
            placement = self._free.find(job.resources)
            if placement is None:
                unplaced_jobs.append(job)
            else:
                self._placements[job.job_id] = placement
                self._free.use(job.resources, placement)
        self._unplaced = unplaced_jobs

    def _changed(self, change: str) -> None:
        self.version += 1
        self.change = change
        self._has_new_jobs = bool(self._unplaced)


def _change(old_job: PlacedJob, job: PlacedJob) -> str:
    if job.paid_s > old_job.paid_s:
        return f"credits were added to job {job.job_id}"
    return f"job {job.job_id} was changed"


def ring_position(text: str) -> int:
    """Return the first 8 bytes of the SHA-256 of a text, as an integer."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
