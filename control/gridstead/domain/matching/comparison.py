# SPDX-License-Identifier: Apache-2.0
"""Compares pending jobs with all providers, to explain why they wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from gridstead.domain.jobs.billing import PERCENT, price_per_minute
from gridstead.domain.jobs.job import Job
from gridstead.domain.matching.cluster import Cluster
from gridstead.domain.matching.conditions import read_conditions
from gridstead.domain.matching.policies import Policy, paid_seconds
from gridstead.domain.matching.reasons import (
    DEARER,
    FULL,
    NOT_ACCEPTING,
    NOT_TRIED,
    REFUSED_BEFORE,
    RESERVED,
    TOO_EXPENSIVE,
    TOO_SMALL,
    UNLABELLED,
    Cause,
    ExpectedStart,
    Obstacle,
    ObstacleCount,
    WaitingReason,
    ineligibility_reason,
    one_line,
)
from gridstead.domain.matching.shortfalls import (
    Quantity,
    Shortfall,
    Size,
    nearest_shortfall,
    size_shortfall,
    unmet_labels,
)


class Comparison:
    """Compares pending jobs with all providers after one decision.

    What does not depend on the job, such as the largest free node of a provider, is computed only
    once, because a decision explains many jobs.

    Args:
        clusters: All providers that were ever approved or ever got a job.
        policy: The policy of the grid.
        now: The time of the block, Unix seconds.
    """

    def __init__(self, clusters: Iterable[Cluster], *, policy: Policy, now: int) -> None:
        # With equal figures, the provider with the lower address is named, in every process.
        self._clusters = sorted(clusters, key=lambda cluster: cluster.provider.address)
        self._policy = policy
        self._now = now
        self._empty_sizes: dict[Cluster, Size] = {}
        self._free_sizes: dict[Cluster, Size] = {}

    def reason(
        self,
        job: Job,
        *,
        excluded_providers: Mapping[str, str],
        expected_start: ExpectedStart | None = None,
    ) -> WaitingReason:
        """Return why a pending job is not matched.

        Args:
            job: The pending job.
            excluded_providers: The providers that are excluded from this job, with the reasons, by
                address.
            expected_start: The reservation of the job, if it has one.
        """
        conditions = read_conditions(job.affinity)
        groups: dict[Obstacle, list[Cluster]] = {}
        for cluster in self._clusters:
            obstacle = ineligibility_reason(
                job, cluster, excluded_providers, conditions=conditions, now=self._now
            )
            groups.setdefault(obstacle or self._obstacle_now(job, cluster), []).append(cluster)
        self._find_dearer(job, groups, conditions.policy or self._policy)
        counts = []
        for obstacle in sorted(groups, key=lambda each: (each.is_suitable, each.text)):
            nearest = self._nearest(job, obstacle, groups)
            providers = len(groups[obstacle])
            counts.append(ObstacleCount(obstacle=obstacle, providers=providers, nearest=nearest))
        is_suitable = any(obstacle.is_suitable for obstacle in groups)
        unlabelled = groups.get(UNLABELLED, ())
        uncompared = sum(len(groups.get(each, ())) for each in (NOT_ACCEPTING, REFUSED_BEFORE))
        return WaitingReason(
            cause=Cause.WAITS if is_suitable else Cause.NO_PROVIDER,
            text=one_line(counts, expected_start),
            obstacles=tuple(counts),
            labels=unmet_labels(job, [cluster.provider.labels for cluster in unlabelled]),
            labels_compared=len(self._clusters) - uncompared,
            expected_start=expected_start,
        )

    def _obstacle_now(self, job: Job, cluster: Cluster) -> Obstacle:
        """Return why a suitable provider does not get a job now, without a comparison of prices."""
        if not cluster.has_room(job.resources):
            return FULL
        if cluster.reservation is None:
            return NOT_TRIED
        paid_s = paid_seconds(job.escrow, _price(job, cluster))
        admits = cluster.admits(job.resources, job_id=job.id, paid_s=paid_s, now=self._now)
        return NOT_TRIED if admits else RESERVED

    def _find_dearer(self, job: Job, groups: dict[Obstacle, list[Cluster]], policy: Policy) -> None:
        """Separate the providers with room for which a full provider is cheaper.

        The policy may wait for the cheaper provider. In all other cases, the decision has not tried
        the job: it makes only so many matches and compares only so many classes of jobs.
        """
        open_clusters = groups.get(NOT_TRIED)
        if not open_clusters or FULL not in groups or policy.wait_percent is None:
            return
        lowest_price = min(_price_with_risk(job, cluster) for cluster in groups[FULL])
        for cluster in groups.pop(NOT_TRIED):
            obstacle = DEARER if lowest_price < _price_with_risk(job, cluster) else NOT_TRIED
            groups.setdefault(obstacle, []).append(cluster)

    def _nearest(
        self, job: Job, obstacle: Obstacle, groups: Mapping[Obstacle, Sequence[Cluster]]
    ) -> Shortfall | None:
        """Return what is missing at the nearest of the providers with an obstacle."""
        clusters = groups[obstacle]
        if obstacle in {TOO_SMALL, FULL}:
            return nearest_shortfall(self._size_shortfall(job, each, obstacle) for each in clusters)
        if obstacle == RESERVED:
            return nearest_shortfall(self._time_shortfall(job, each) for each in clusters)
        if obstacle == TOO_EXPENSIVE:
            cheapest = min(clusters, key=partial(_price, job))
            price, address = _price(job, cheapest), cheapest.provider.address
            return Shortfall(Quantity.ESCROW_WEI, price, job.escrow, address)
        if obstacle == DEARER:
            cheapest = min(clusters, key=partial(_price_with_risk, job))
            price, address = _price_with_risk(job, cheapest), cheapest.provider.address
            full_price = min(_price_with_risk(job, cluster) for cluster in groups[FULL])
            return Shortfall(Quantity.PRICE_PER_MIN_WEI, full_price, price, address)
        return None

    def _size_shortfall(self, job: Job, cluster: Cluster, obstacle: Obstacle) -> Shortfall:
        """Return what a provider lacks: nodes, free nodes, or a place in its queue."""
        address = cluster.provider.address
        nodes, sizes = cluster.empty, self._empty_sizes
        if obstacle == FULL:
            if cluster.waiting_count:
                return Shortfall(Quantity.QUEUE_PLACES, 1, 0, address)
            nodes, sizes = cluster.free, self._free_sizes
        size = sizes.get(cluster)
        if size is None:
            size = sizes[cluster] = Size(nodes.free_gpus, *nodes.largest_node())
        return size_shortfall(job.resources, size, nodes, address)

    def _time_shortfall(self, job: Job, cluster: Cluster) -> Shortfall:
        """Return for how long the job is paid, and how long the reservation leaves the room."""
        reservation = cluster.reservation
        assert reservation is not None
        paid_s = paid_seconds(job.escrow, _price(job, cluster))
        free_s = max(0, reservation.start_at - self._now)
        address = cluster.provider.address
        return Shortfall(Quantity.FREE_S, paid_s, free_s, address, reservation.job_id)


def _price(job: Job, cluster: Cluster) -> int:
    return price_per_minute(job.resources, cluster.provider.prices)


def _price_with_risk(job: Job, cluster: Cluster) -> int:
    return cluster.weighted_price(_price(job, cluster)) // PERCENT
