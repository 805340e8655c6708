# SPDX-License-Identifier: Apache-2.0
"""The pending jobs of a customer, grouped by what they need, the oldest of each group first."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import NamedTuple

from gridstead.domain.jobs.ids import JobId
from gridstead.domain.matching.candidates import JobClass


class JobKind(NamedTuple):
    """What decides which providers are suitable. Jobs of one kind are interchangeable.

    Attributes:
        job_class: The requirements.
        escrow: The escrow, wei. It decides for how long the job is paid at each provider.
        only_job: The job, if it has limits of its own or a reservation. Then it is the only job of
            its kind. None for all other jobs.
    """

    job_class: JobClass
    escrow: int
    only_job: JobId | None = None


class PendingJob(NamedTuple):
    """A pending job. An older job is less than a newer one.

    Attributes:
        order: The position in the order of the requests.
        job_id: The job.
        kind: Its kind.
    """

    order: int
    job_id: JobId
    kind: JobKind


class CustomerQueue:
    """The pending jobs of one customer.

    Attributes:
        searched_kinds: The kinds that cannot start now, and are not searched again before the other
            kinds were searched (``turn.py``).
    """

    __slots__ = ("_heaps", "_kinds", "searched_kinds")

    def __init__(self) -> None:
        self.searched_kinds: set[JobKind] = set()
        self._kinds: dict[JobId, JobKind] = {}
        # The jobs of each kind as a heap. It may contain jobs that are not pending any more.
        self._heaps: dict[JobKind, list[PendingJob]] = {}

    @property
    def kinds(self) -> Mapping[JobId, JobKind]:
        """The kind of each pending job."""
        return self._kinds

    def __len__(self) -> int:
        """Return the number of pending jobs."""
        return len(self._kinds)

    def add(self, job_id: JobId, kind: JobKind) -> None:
        """Add a job."""
        self._kinds[job_id] = kind
        heap = self._heaps.setdefault(kind, [])
        heapq.heappush(heap, PendingJob(job_id.request_order, job_id, kind))

    def remove(self, job_id: JobId) -> None:
        """Remove a job. No effect if it is not in the queue."""
        self._kinds.pop(job_id, None)

    def oldest(self) -> list[PendingJob]:
        """Return the oldest job of each kind that may be searched now."""
        kinds = [kind for kind in self._heaps if kind not in self.searched_kinds]
        jobs = [self.oldest_of(kind) for kind in kinds]
        return [job for job in jobs if job is not None]

    def oldest_of(self, kind: JobKind) -> PendingJob | None:
        """Return the oldest job of a kind. None if there is no such job."""
        heap = self._heaps[kind]
        while heap:
            if self._kinds.get(heap[0].job_id) == kind:
                return heap[0]
            heapq.heappop(heap)
        del self._heaps[kind]
        return None
