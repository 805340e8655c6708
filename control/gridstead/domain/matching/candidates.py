# SPDX-License-Identifier: Apache-2.0
"""Finds the providers that can run a job, for all jobs with equal requirements at once.

Jobs with equal resources, labels and conditions form a *class*. The providers that can run the jobs
of a class are its candidates. They are sorted by *weighted price*: the price of one minute of a
job, multiplied by 100 plus the risk of the provider in percent (``reputation.py``).

Candidates with equal weighted prices are on a ring: each has a position, which is a hash of its
address. A job takes the first suitable candidate after its own position, which is a hash of its
number. So jobs are spread over equal providers. If one of them is full, only its jobs go to the
next one.

Providers with equal prices and equal risk form a group (``groups.py``), and a class sorts only the
groups. The groups remember how much room they have at most, so a search skips a full group at once.
A class for which no provider has room is not searched again until a provider has got enough room.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import chain
from operator import attrgetter
from typing import Any
from weakref import WeakValueDictionary

from gridstead.domain.jobs.billing import Resources, price_per_minute, prices_per_minute
from gridstead.domain.jobs.job import Affinity, Job, Label
from gridstead.domain.matching.cluster import Cluster
from gridstead.domain.matching.conditions import NO_CONDITIONS, Conditions, read_conditions
from gridstead.domain.matching.groups import ClusterGroup, FreedClusters, group_by_prices
from gridstead.domain.matching.labels import satisfies_all

_Labels = tuple[tuple[Label, ...], tuple[Affinity, ...]]
_position = attrgetter("position")
# The work of the candidates of a class with new labels, for which all providers are compared.
LABEL_WORK = 11


class JobClass:
    """What jobs of one class require of a provider. Equal classes are the same object.

    Attributes:
        resources: The resources of the job.
        uses: The labels.
        conditions: The conditions.
        full_below: At ``full_at``, no candidate with a weighted price below this had room.
            None if no candidate had room.
        full_at: The number of the next change in ``FreedClusters`` at the last search.
    """

    __slots__ = ("__weakref__", "conditions", "full_at", "full_below", "resources", "uses")

    def __init__(
        self,
        resources: Resources,
        uses: tuple[Label, ...],
        conditions: Conditions = NO_CONDITIONS,
    ) -> None:
        self.resources = resources
        self.uses = uses
        self.conditions = conditions
        self.full_below: int | None = 0
        self.full_at = 0


class Candidates:
    """The candidates of a class of jobs.

    Args:
        job_class: The class.
        groups: All providers that accept jobs, in groups with equal prices and risk.
        labelled: The providers in the groups that satisfy the conditions on labels.
    """

    __slots__ = ("_first", "_groups", "_labelled", "_open", "_prices", "_resources")

    def __init__(
        self, job_class: JobClass, groups: list[ClusterGroup], labelled: frozenset[Cluster]
    ) -> None:
        self._resources = job_class.resources
        self._labelled = labelled
        prices = prices_per_minute(self._resources, [group.prices for group in groups])
        # Groups with different prices may have the same weighted price for this class.
        groups_by_price: dict[int, list[ClusterGroup]] = {}
        for price, group in zip(prices, groups, strict=True):
            weighted_price = price * group.price_factor
            same_price = groups_by_price.get(weighted_price)
            groups_by_price[weighted_price] = [*same_price, group] if same_price else group.alone
        self._prices = sorted(groups_by_price)
        self._groups = [groups_by_price[price] for price in self._prices]
        self.reopen_all()

    def __iter__(self) -> Iterator[tuple[int, Cluster]]:
        """Yield all candidates with their weighted prices, the cheapest first."""
        return self.from_position(0)

    def from_position(self, position: int) -> Iterator[tuple[int, Cluster]]:
        """Yield all candidates with their weighted prices, the cheapest first.

        Args:
            position: Candidates with equal prices are in the order of the ring from here on.
        """
        for price, groups in zip(self._prices, self._groups, strict=True):
            clusters = groups[0].clusters if len(groups) == 1 else _merged(groups)
            for cluster in _ring(clusters, position) if position else clusters:
                if cluster in self._labelled and cluster.can_run(self._resources):
                    yield price, cluster

    def price_of(self, cluster: Cluster) -> int | None:
        """Return the price of one minute of a job, wei. None if it is not a candidate."""
        if cluster not in self._labelled or not cluster.can_run(self._resources):
            return None
        return price_per_minute(self._resources, cluster.provider.prices)

    def reopen_all(self) -> None:
        """Note that every candidate may have room."""
        # The candidates of each price that may have room. None if they were not searched yet.
        self._open: list[list[Cluster] | None] = [None] * len(self._prices)
        self._first = 0  # the index of the first price at which candidates may have room

    def reopen(self, cluster: Cluster) -> None:
        """Note that a provider has room again."""
        if cluster not in self._labelled:
            return
        price = price_per_minute(self._resources, cluster.provider.prices)
        index = bisect_left(self._prices, cluster.weighted_price(price))
        self._first = min(self._first, index)
        clusters = self._open[index]
        if clusters is not None and cluster not in clusters:
            insort(clusters, cluster, key=_position)

    def with_room(
        self, position: int, *, min_price: int, max_price: int
    ) -> Iterator[tuple[int, Cluster]]:
        """Yield the candidates that have room, with their weighted prices, the cheapest first.

        Candidates without room are not searched again until they are reopened.

        Args:
            position: Candidates with equal prices are in the order of the ring from here on.
            min_price: The lowest weighted price.
            max_price: The highest weighted price.
        """
        first = max(self._first, bisect_left(self._prices, min_price))
        for index in range(first, bisect_right(self._prices, max_price)):
            clusters = self._open_at(index)
            if not clusters:
                continue
            for cluster in _ring(clusters, position):
                if cluster.has_room(self._resources):
                    yield self._prices[index], cluster
                else:
                    clusters.remove(cluster)

    def full_below(self) -> int | None:
        """Return below which weighted price no candidate has room. None if none has room."""
        while self._first < len(self._prices):
            if self._open_at(self._first):
                return self._prices[self._first]
            self._first += 1
        return None

    def _open_at(self, index: int) -> list[Cluster]:
        """Return the candidates of a price that may have room, sorted by position."""
        clusters = self._open[index]
        if clusters is None:
            clusters = self._open[index] = self._find_open(self._groups[index])
        return clusters

    def _find_open(self, groups: list[ClusterGroup]) -> list[Cluster]:
        clusters: list[Cluster] = []
        for group in groups:
            with_room = group.with_room(self._resources)
            clusters += [cluster for cluster in with_room if cluster in self._labelled]
        if len(groups) > 1:
            clusters.sort(key=_position)
        return clusters


class CandidateCache:
    """The candidates of the classes for which they were computed last.

    Args:
        clusters: All providers, by address. The caller adds further providers to this dict.
        max_classes: How many classes are kept. A class that was dropped is computed again.
    """

    def __init__(self, clusters: Mapping[str, Cluster], *, max_classes: int = 8192) -> None:
        self._clusters = clusters
        self._max_classes = max_classes
        self._classes: WeakValueDictionary[tuple[Resources, _Labels], JobClass]
        self._classes = WeakValueDictionary()
        self._freed = FreedClusters()
        # The values that depend on the records of the providers. ``clear`` removes them.
        self._groups: list[ClusterGroup] = []
        self._group_of: dict[Cluster, ClusterGroup] = {}
        self._changed_groups: set[ClusterGroup] = set()
        self._candidates: OrderedDict[JobClass, tuple[Candidates, int]] = OrderedDict()
        # The providers that accept jobs, and satisfy the labels and conditions.
        self._labelled: OrderedDict[_Labels, frozenset[Cluster]] = OrderedDict()

    def class_of(self, job: Job) -> JobClass:
        """Return the class of a job."""
        requirements = (job.resources, (job.uses, job.affinity))
        job_class = self._classes.get(requirements)
        if job_class is None:
            conditions = read_conditions(job.affinity)
            job_class = JobClass(job.resources, job.uses, conditions)
            self._classes[requirements] = job_class
        return job_class

    def work_for(self, job_class: JobClass) -> int:
        """Return how much work it is to compute the candidates of a class. 0 if they are kept.

        Unit: the work of a search.
        """
        if job_class in self._candidates:
            return 0
        return 1 if _labels(job_class) in self._labelled else LABEL_WORK

    def get(self, job_class: JobClass) -> Candidates:
        """Return the candidates of a class."""
        candidates, read_to = self._candidates.get(job_class, (None, 0))
        if candidates is None:
            labelled = self._with_labels(job_class)
            candidates = Candidates(job_class, self._all_groups(), labelled)
            _make_room(self._candidates, self._max_classes)
        elif read_to == self._freed.end:
            return candidates
        elif read_to < self._freed.first:
            candidates.reopen_all()
        else:
            for cluster in self._freed.since(read_to).with_room(job_class.resources):
                candidates.reopen(cluster)
        self._update_groups()
        self._candidates[job_class] = (candidates, self._freed.end)
        return candidates

    def is_full(self, job_class: JobClass, max_price: int | None = None) -> bool:
        """Return whether it is known that no candidate of a class has room for a job.

        Args:
            job_class: The class of the job.
            max_price: The highest weighted price for the job. None for any price.
        """
        full_below = job_class.full_below
        if full_below is not None and (max_price is None or max_price >= full_below):
            return False
        if job_class.full_at != self._freed.end:
            if job_class.full_at < self._freed.first:
                return False
            if self._freed.since(job_class.full_at).has_room(job_class.resources):
                return False
            job_class.full_at = self._freed.end
        return True

    def note_full(self, job_class: JobClass) -> None:
        """Remember which candidates of a class had no room in the last search."""
        job_class.full_below = self.get(job_class).full_below()
        job_class.full_at = self._freed.end

    def add_freed(self, cluster: Cluster) -> None:
        """Note that a provider may have got room."""
        self._freed.add(cluster)
        group = self._group_of.get(cluster)
        if group is not None:
            self._changed_groups.add(group)

    def clear(self) -> None:
        """Forget all candidates. Must be called after a change of a provider's record or risk."""
        self._candidates.clear()
        self._labelled.clear()
        self._groups = []
        self._group_of.clear()
        self._changed_groups.clear()
        self._freed.clear()

    def _all_groups(self) -> list[ClusterGroup]:
        if not self._groups:
            self._groups = group_by_prices(self._clusters.values())
            for group in self._groups:
                for cluster in group.clusters:
                    self._group_of[cluster] = group
        return self._groups

    def _update_groups(self) -> None:
        """Compute again how much room the groups have in which a provider may have got room."""
        for group in self._changed_groups:
            group.update()
        self._changed_groups.clear()

    def _with_labels(self, job_class: JobClass) -> frozenset[Cluster]:
        if job_class.conditions.impossible_key:
            return frozenset()
        labels = _labels(job_class)
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


def _labels(job_class: JobClass) -> _Labels:
    """Return what jobs of a class require of the labels of a provider."""
    return job_class.uses, job_class.conditions.on_labels


def _ring(clusters: list[Cluster], position: int) -> list[Cluster]:
    """Return providers in the order of the ring, from a position on.

    Args:
        clusters: The providers, sorted by position.
        position: The position of the job.
    """
    first = bisect_left(clusters, position, key=_position)
    return clusters[first:] + clusters[:first]


def _merged(groups: list[ClusterGroup]) -> list[Cluster]:
    """Return the providers of some groups, sorted by position."""
    return sorted(chain.from_iterable(group.clusters for group in groups), key=_position)


def _make_room(cache: OrderedDict[Any, Any], max_size: int) -> None:
    """If a cache is full, remove its oldest entry."""
    if len(cache) >= max_size:
        cache.popitem(last=False)
