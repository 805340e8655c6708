# SPDX-License-Identifier: Apache-2.0
"""Compares a pending job with all providers, to explain why it waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gridstead.domain.jobs.billing import PERCENT, price_per_minute
from gridstead.domain.jobs.job import Job
from gridstead.domain.matching.cluster import Cluster
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
    size_shortfall,
    unmet_labels,
)


def waiting_reason(
    job: Job,
    clusters: Iterable[Cluster],
    *,
    excluded_providers: Mapping[str, str],
    policy: Policy,
    now: int,
    expected_start: ExpectedStart | None = None,
) -> WaitingReason:
    """Return why a pending job is not matched.

    Args:
        job: The pending job.
        clusters: All providers that were ever approved or ever got a job.
        excluded_providers: The providers that are excluded from this job, with the reasons, by
            address.
        policy: The policy of the matching.
        now: The time of the block, Unix seconds.
        expected_start: The reservation of the job, if it has one.
    """
    comparison = _Comparison(job, now)
    for cluster in clusters:
        comparison.add(cluster, ineligibility_reason(job, cluster, excluded_providers))
    obstacles = comparison.obstacles(policy)
    is_suitable = any(count.obstacle.is_suitable for count in obstacles)
    return WaitingReason(
        cause=Cause.WAITS if is_suitable else Cause.NO_PROVIDER,
        text=one_line(obstacles, expected_start),
        obstacles=obstacles,
        labels=unmet_labels(job, comparison.unsatisfying_labels),
        labels_compared=comparison.labels_compared,
        expected_start=expected_start,
    )


class _Comparison:
    """The obstacles of the providers that were compared with a job.

    Args:
        job: The job.
        now: The time of the block, Unix seconds.

    Attributes:
        unsatisfying_labels: The values by key, of each provider without the required labels.
        labels_compared: With how many providers the labels were compared.
    """

    def __init__(self, job: Job, now: int) -> None:
        self._job = job
        self._now = now
        self._counts: dict[Obstacle, ObstacleCount] = {}
        # Of one minute of the job at full providers, with the risk, wei.
        self._full_prices: list[int] = []
        self._open_clusters: list[Cluster] = []  # that could run the job now
        self.unsatisfying_labels: list[Mapping[str, str]] = []
        self.labels_compared = 0

    def add(self, cluster: Cluster, obstacle: Obstacle | None) -> None:
        """Add a provider.

        Args:
            cluster: The provider.
            obstacle: Why the provider is not suitable. None if it is.
        """
        self.labels_compared += obstacle not in {NOT_ACCEPTING, REFUSED_BEFORE}
        if obstacle is None:
            self._add_suitable(cluster)
        elif obstacle == UNLABELLED:
            labels = {label.key: label.value for label in cluster.provider.labels}
            self.unsatisfying_labels.append(labels)
            self._count(obstacle)
        elif obstacle == TOO_SMALL:
            address = cluster.provider.address
            self._count(obstacle, size_shortfall(self._job.resources, cluster.empty, address))
        elif obstacle == TOO_EXPENSIVE:
            needed, available = self._price(cluster), self._job.escrow
            self._count(obstacle, _shortfall(cluster, Quantity.ESCROW_WEI, needed, available))
        else:
            self._count(obstacle)

    def obstacles(self, policy: Policy) -> tuple[ObstacleCount, ...]:
        """Return the obstacles: first those of unsuitable providers, sorted by their texts.

        Call this once, after all providers were added.
        """
        self._add_open(policy)
        counts = sorted(self._counts.values(), key=lambda each: each.obstacle.text)
        return tuple(sorted(counts, key=lambda each: each.obstacle.is_suitable))

    def _add_suitable(self, cluster: Cluster) -> None:
        job = self._job
        price = self._price(cluster)
        paid_s = paid_seconds(job.escrow, price)
        reservation = cluster.reservation
        if not cluster.has_room(job.resources):
            self._full_prices.append(self._price_with_risk(cluster))
            self._count(FULL, self._room_shortfall(cluster))
        elif reservation is None or cluster.admits(
            job.resources, job_id=job.id, paid_s=paid_s, now=self._now
        ):
            self._open_clusters.append(cluster)
        else:
            free_s = max(0, reservation.start_at - self._now)
            shortfall = _shortfall(cluster, Quantity.FREE_S, paid_s, free_s)
            self._count(RESERVED, replace(shortfall, reserved_for=reservation.job_id))

    def _add_open(self, policy: Policy) -> None:
        """Count the providers that could run the job now.

        If a full provider is cheaper, the policy may wait for it. Otherwise the decision has not
        tried the job: it makes only so many matches and compares only so many classes of jobs.
        """
        may_wait = policy.wait_percent is not None
        lowest_price = min(self._full_prices, default=None)
        for cluster in self._open_clusters:
            price = self._price_with_risk(cluster)
            if may_wait and lowest_price is not None and lowest_price < price:
                quantity = Quantity.PRICE_PER_MIN_WEI
                self._count(DEARER, _shortfall(cluster, quantity, lowest_price, price))
            else:
                self._count(NOT_TRIED)

    def _room_shortfall(self, cluster: Cluster) -> Shortfall:
        """Return what a full provider lacks: free nodes, or a place in its queue."""
        if cluster.waiting_count:
            return _shortfall(cluster, Quantity.QUEUE_PLACES, 1, 0)
        return size_shortfall(self._job.resources, cluster.free, cluster.provider.address)

    def _price(self, cluster: Cluster) -> int:
        return price_per_minute(self._job.resources, cluster.provider.prices)

    def _price_with_risk(self, cluster: Cluster) -> int:
        return cluster.weighted_price(self._price(cluster)) // PERCENT

    def _count(self, obstacle: Obstacle, shortfall: Shortfall | None = None) -> None:
        count = self._counts.get(obstacle)
        if count is None:
            self._counts[obstacle] = ObstacleCount(
                obstacle=obstacle, providers=1, nearest=shortfall
            )
            return
        nearest = count.nearest
        if shortfall is not None and nearest is not None:
            nearest = max(nearest, shortfall, key=lambda each: each.closeness)
        self._counts[obstacle] = replace(count, providers=count.providers + 1, nearest=nearest)


def _shortfall(cluster: Cluster, quantity: Quantity, needed: int, available: int) -> Shortfall:
    return Shortfall(
        quantity=quantity,
        needed=needed,
        available=available,
        provider=cluster.provider.address,
    )
