# SPDX-License-Identifier: Apache-2.0
"""Finds the providers that can run a job, for all jobs with equal requirements at once.

Jobs with equal resources, labels and conditions form a *class*. The providers that can run the jobs
of a class are its candidates. They are sorted by *weighted price*: the price of one minute of a
job, multiplied by 100 plus the risk of the provider in percent (``reputation.py``).

Candidates with equal weighted prices are on a ring: each has a position, which is a hash of its
address. A job takes the first suitable candidate after its own position, which is a hash of its
number. So jobs are spread over equal providers. If one of them is full, only its jobs go to the
next one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Self
from weakref import WeakValueDictionary

from gridstead.domain.jobs.billing import Resources, price_per_minute
from gridstead.domain.jobs.job import Affinity, Job, Label
from gridstead.domain.matching.cluster import Cluster
from gridstead.domain.matching.labels import satisfies_all

_Labels = tuple[tuple[Label, ...], tuple[Affinity, ...]]
_position = attrgetter("position")


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class JobClass:
    """What jobs of one class require of a provider. Equal classes are the same object."""

    resources: Resources
    uses: tuple[Label, ...]
    affinity: tuple[Affinity, ...]


class PricedClusters:
    """Providers, sorted by weighted price and by position.

    Args:
        prices: The weighted price of the job at each provider.
        clusters: The providers, in the same order.
    """

    __slots__ = ("_clusters", "_prices")

    def __init__(self, prices: list[int], clusters: list[Cluster]) -> None:
        self._prices = prices
        self._clusters = clusters

    def __len__(self) -> int:
        """Return the number of providers."""
        return len(self._clusters)

    def __iter__(self) -> Iterator[tuple[int, Cluster]]:
        """Yield each provider with its weighted price, the cheapest first."""
        return zip(self._prices, self._clusters, strict=True)

    def copy(self) -> Self:
        """Return an independent copy."""
        return type(self)(self._prices.copy(), self._clusters.copy())

    def from_position(self, position: int, *, min_price: int = 0) -> Iterator[tuple[int, Cluster]]:
        """Yield the providers with their weighted prices, the cheapest first, from a price on.

        Providers with equal prices are in the order of the ring, from a position on. The caller may
        remove the provider that was yielded last.
        """
        first = bisect_left(self._prices, min_price)
        while first < len(self._clusters):
            price = self._prices[first]
            end = bisect_right(self._prices, price, lo=first)
            index = bisect_left(self._clusters, position, lo=first, hi=end, key=_position)
            for _ in range(end - first):
                if index >= end:
                    index = first
                cluster = self._clusters[index]
                count = len(self._clusters)
                yield price, cluster
                if len(self._clusters) < count:
                    end -= 1
                else:
                    index += 1
            first = end

    def add(self, price: int, cluster: Cluster) -> None:
        """Add a provider. No effect if it is there."""
        index = self._index(price, cluster)
        if index == len(self._clusters) or self._clusters[index] is not cluster:
            self._prices.insert(index, price)
            self._clusters.insert(index, cluster)

    def remove(self, price: int, cluster: Cluster) -> None:
        """Remove a provider."""
        index = self._index(price, cluster)
        del self._prices[index]
        del self._clusters[index]

    def _index(self, price: int, cluster: Cluster) -> int:
        first = bisect_left(self._prices, price)
        end = bisect_right(self._prices, price, lo=first)
        return bisect_left(self._clusters, cluster.position, lo=first, hi=end, key=_position)


class Candidates:
    """The candidates of a class of jobs.

    Args:
        job_class: The class.
        labelled: The providers that accept jobs, and satisfy the labels and conditions.
        freed: Lists the providers that may have got room.

    Attributes:
        all: All candidates.
    """

    __slots__ = ("_first_unread", "_freed", "_job_class", "_labelled", "_open", "all")

    def __init__(
        self, job_class: JobClass, labelled: frozenset[Cluster], freed: FreedClusters
    ) -> None:
        self._job_class = job_class
        self._labelled = labelled
        self._freed = freed
        self._open: PricedClusters | None = None
        self._first_unread = 0
        candidates = []
        for cluster in labelled:
            price = self.price_of(cluster)
            if price is not None:
                candidates.append((cluster.weighted_price(price), cluster.position, cluster))
        candidates.sort()
        prices = [price for price, _, _ in candidates]
        self.all = PricedClusters(prices, [cluster for _, _, cluster in candidates])

    def price_of(self, cluster: Cluster) -> int | None:
        """Return the price of one minute of a job, wei. None if it is not a candidate."""
        resources = self._job_class.resources
        if cluster not in self._labelled or not cluster.can_run(resources):
            return None
        return price_per_minute(resources, cluster.provider.prices)

    def open(self) -> PricedClusters:
        """Return the candidates that may have room now.

        The caller removes each candidate that has no room from the result. Later calls leave it
        out until one of its jobs ends or comes back.
        """
        if self._open is None or self._first_unread < self._freed.first:
            self._open = self.all.copy()
        else:
            for cluster in self._freed.since(self._first_unread):
                price = self.price_of(cluster)
                if price is not None:
                    self._open.add(cluster.weighted_price(price), cluster)
        self._first_unread = self._freed.end
        return self._open


class FreedClusters:
    """The providers that may have got room, in the order of the changes.

    Args:
        max_length: How many changes are kept.

    Attributes:
        first: The number of the oldest change that is kept.
    """

    def __init__(self, max_length: int = 10_000) -> None:
        self.first = 0
        self._clusters: list[Cluster] = []
        self._max_length = max_length

    @property
    def end(self) -> int:
        """The number of the next change."""
        return self.first + len(self._clusters)

    def add(self, cluster: Cluster) -> None:
        """Add a change."""
        if len(self._clusters) == self._max_length:
            self.first = self.end
            self._clusters.clear()
        self._clusters.append(cluster)

    def since(self, number: int) -> list[Cluster]:
        """Return the providers of all changes from a number on."""
        return self._clusters[number - self.first :]


class CandidateCache:
    """The candidates of the classes for which they were computed last.

    Args:
        clusters: All providers, by address. The caller adds further providers to this dict.
        max_classes: How many classes are kept. A class that was dropped is computed again.
    """

    def __init__(self, clusters: Mapping[str, Cluster], *, max_classes: int = 8192) -> None:
        self._clusters = clusters
        self._max_classes = max_classes
        self._candidates: dict[JobClass, Candidates] = {}
        self._classes: WeakValueDictionary[tuple[Resources, _Labels], JobClass]
        self._classes = WeakValueDictionary()
        self._freed = FreedClusters()
        # The providers that accept jobs, and satisfy the labels and conditions.
        self._labelled: dict[_Labels, frozenset[Cluster]] = {}

    def class_of(self, job: Job) -> JobClass:
        """Return the class of a job."""
        requirements = (job.resources, (job.uses, job.affinity))
        job_class = self._classes.get(requirements)
        if job_class is None:
            job_class = JobClass(job.resources, job.uses, job.affinity)
            self._classes[requirements] = job_class
        return job_class

    def has(self, job_class: JobClass) -> bool:
        """Return whether the candidates of a class are kept."""
        return job_class in self._candidates

    def get(self, job_class: JobClass) -> Candidates:
        """Return the candidates of a class."""
        candidates = self._candidates.get(job_class)
        if candidates is None:
            labelled = self._with_labels((job_class.uses, job_class.affinity))
            candidates = Candidates(job_class, labelled, self._freed)
            _make_room(self._candidates, self._max_classes)
            self._candidates[job_class] = candidates
        return candidates

    def add_freed(self, cluster: Cluster) -> None:
        """Note that a provider may have got room."""
        self._freed.add(cluster)

    def clear(self) -> None:
        """Forget all candidates. Must be called after a change of a provider's record or risk."""
        self._candidates.clear()
        self._labelled.clear()

    def _with_labels(self, labels: _Labels) -> frozenset[Cluster]:
        clusters = self._labelled.get(labels)
        if clusters is None:
            uses, affinity = labels
            suitable = []
            for cluster in self._clusters.values():
                provider = cluster.provider
                if provider.is_joined and satisfies_all(
                    provider.labels, uses=uses, affinity=affinity
                ):
                    suitable.append(cluster)
            clusters = frozenset(suitable)
            _make_room(self._labelled, self._max_classes)
            self._labelled[labels] = clusters
        return clusters


def _make_room(cache: dict[Any, Any], max_size: int) -> None:
    """If a cache is full, remove its oldest entry."""
    if len(cache) >= max_size:
        del cache[next(iter(cache))]
