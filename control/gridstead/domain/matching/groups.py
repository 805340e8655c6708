# SPDX-License-Identifier: Apache-2.0
"""Groups of providers that can be skipped together if none of them has room for a job."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from gridstead.domain.jobs.billing import Prices, Resources
from gridstead.domain.matching.cluster import Cluster


class ClusterGroup:
    """Some providers, and upper bounds of the room of each.

    The bounds are the most free CPUs and GPUs of a provider, and the most free CPUs and the most
    free memory of a node. They may belong to different providers, so a job that is within the
    bounds may still have no room. Matches reduce the room, so the bounds remain true after them.

    Args:
        clusters: The providers, at least one.

    Attributes:
        clusters: The providers, sorted by position.
        alone: A list with only this group, which many classes share.
        prices: The prices of the first provider.
        price_factor: The factor of its weighted prices (``cluster.py``).
    """

    __slots__ = (
        "_cpus",
        "_gpus",
        "_node_cpus",
        "_node_memory_mb",
        "_possible",
        "_version",
        "alone",
        "clusters",
        "price_factor",
        "prices",
    )

    def __init__(self, clusters: Iterable[Cluster]) -> None:
        self.clusters = sorted(clusters, key=attrgetter("position"))
        self.alone = [self]
        self.prices = self.clusters[0].provider.prices
        self.price_factor = self.clusters[0].price_factor
        self.update()

    def update(self) -> None:
        """Note that the providers may have got room."""
        # For jobs with equal GPUs, tasks and CPUs: the resources with the least memory that were
        # searched, and the providers that had room. Only these can have room for more memory.
        self._possible: dict[tuple[int, int, int], tuple[Resources, list[Cluster]]] = {}
        self._update_bounds()

    def _update_bounds(self) -> None:
        self._version = self._current_version()
        self._cpus = self._gpus = self._node_cpus = self._node_memory_mb = 0
        for cluster in self.clusters:
            room = cluster.room
            if room is None or not room.free_cpus:
                continue
            node_cpus, node_memory_mb = room.largest_node()
            self._cpus = max(self._cpus, room.free_cpus)
            self._gpus = max(self._gpus, room.free_gpus)
            self._node_cpus = max(self._node_cpus, node_cpus)
            self._node_memory_mb = max(self._node_memory_mb, node_memory_mb)

    def _current_version(self) -> int:
        """Return a number that increases with each change of the occupation of a provider."""
        return sum(cluster.version for cluster in self.clusters)

    def with_room(self, resources: Resources) -> list[Cluster]:
        """Return the providers that have room for a job, sorted by position."""
        if not self._may_have_room(resources):
            return []
        shape = (resources.gpus, resources.tasks, resources.cpus_per_task)
        smallest, possible = self._possible.get(shape, (None, self.clusters))
        if smallest is None or resources.memory_per_cpu_mb < smallest.memory_per_cpu_mb:
            smallest, possible = resources, self.clusters
        if not possible:
            return []
        clusters = [cluster for cluster in possible if cluster.has_room(resources)]
        if smallest is resources:
            self._possible[shape] = (resources, clusters)
        elif not clusters:
            still_possible = [cluster for cluster in possible if cluster.has_room(smallest)]
            self._possible[shape] = (smallest, still_possible)
        if not clusters and self._version != self._current_version():
            self._update_bounds()
        return clusters

    def has_room(self, resources: Resources) -> bool:
        """Return whether a provider has room for a job."""
        return bool(self.with_room(resources))

    def _may_have_room(self, resources: Resources) -> bool:
        cpus = resources.cpus_per_task
        return (
            cpus <= self._node_cpus
            and cpus * resources.tasks <= self._cpus
            and resources.gpus <= self._gpus
            and cpus * resources.memory_per_cpu_mb <= self._node_memory_mb
        )


def group_by_prices(clusters: Iterable[Cluster]) -> list[ClusterGroup]:
    """Return the providers that accept jobs, in groups with equal prices and equal risk."""
    groups: dict[tuple[Prices, int], list[Cluster]] = {}
    for cluster in clusters:
        if cluster.provider.is_joined:
            groups.setdefault((cluster.provider.prices, cluster.price_factor), []).append(cluster)
    return [ClusterGroup(group) for group in groups.values()]


class FreedClusters:
    """The providers that may have got room, in the order of the changes.

    Args:
        max_length: How many changes are kept.

    Attributes:
        first: The number of the oldest change that is kept.
    """

    def __init__(self, max_length: int = 10_000) -> None:
        self.first = 1
        self._clusters: list[Cluster] = []
        self._max_length = max_length
        self._groups: dict[int, ClusterGroup] = {}  # by the number of the first change

    @property
    def end(self) -> int:
        """The number of the next change."""
        return self.first + len(self._clusters)

    def add(self, cluster: Cluster) -> None:
        """Add a change."""
        if len(self._clusters) == self._max_length:
            self.clear()
        self._clusters.append(cluster)
        self._groups.clear()

    def clear(self) -> None:
        """Forget all changes, so that every provider may have got room."""
        self.first = self.end + 1
        self._clusters.clear()
        self._groups.clear()

    def since(self, number: int) -> ClusterGroup:
        """Return the providers of all changes from a number on."""
        group = self._groups.get(number)
        if group is None:
            clusters = set(self._clusters[number - self.first :])
            group = self._groups[number] = ClusterGroup(clusters)
        return group
