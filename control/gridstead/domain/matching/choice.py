# SPDX-License-Identifier: Apache-2.0
"""Chooses the provider of one job.

A job gets the cheapest provider among those that

- are approved, not banned and accept jobs,
- have the labels and the hardware that the job requires, and room for it now,
- cost at most the job's escrow for one minute,
- satisfy its conditions on price, reputation, benchmarks and time (``conditions.py``),
- are not excluded after a refusal or after failed matches (``expiry.py``, ``skips.py``),
- do not keep this room for the reservation of another job,
- do not rest because of their faults (``reputation.py``).

Providers are compared by their weighted prices, which contain the risk of a fault
(``candidates.py``). Providers at which the job had fewer claim timeouts are preferred, even if they
are dearer. If a cheaper provider without room has a better score (``policies.py``), the job waits
for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from gridstead.domain.jobs.billing import MAX_PAID_MINUTES, PERCENT, paid_minutes_floor
from gridstead.domain.jobs.job import Job
from gridstead.domain.matching.candidates import JobClass
from gridstead.domain.matching.cluster import Cluster, ring_position
from gridstead.domain.matching.conditions import NO_CONDITIONS
from gridstead.domain.matching.decisions import NO_LIMITS, Limits
from gridstead.domain.matching.forecast import PlacedJob
from gridstead.domain.matching.policies import paid_seconds
from gridstead.domain.matching.queues import JobKind

if TYPE_CHECKING:
    from gridstead.domain.matching.matcher import Matcher

# How many cheaper providers without room are compared with one that has room.
MAX_COMPARED = 8
# After so many blocks, the end of a matched job that has not started is unknown.
MAX_START_BLOCKS = 100

# A wait that is too long for every job.
UNKNOWN_WAIT_S = 1 << 62

Choice = tuple[Cluster, int]  # a provider and its weighted price of the job (``candidates.py``)


@dataclass(slots=True)
class _Wait:
    """What is known of the time until a provider has room for the jobs of a class.

    Attributes:
        cluster: The provider.
        weighted_price: Its weighted price.
        shortest_s: The wait is at least so long, seconds.
    """

    cluster: Cluster
    weighted_price: int
    shortest_s: int = 0


class ProviderChoice:
    """Chooses the providers of jobs in one decision.

    Args:
        matcher: The state of the grid.
        now: The time of the block, Unix seconds.
        block: The newest block.
        excluded_providers: The providers that get no job now, with the reasons, by address.
    """

    def __init__(
        self, matcher: Matcher, *, now: int, block: int, excluded_providers: Mapping[str, str]
    ) -> None:
        self._matcher = matcher
        self._now = now
        self._block = block
        self._excluded = excluded_providers
        # The weighted price of the last match of a kind. No cheaper provider can take a job of this
        # kind.
        self._min_prices: dict[JobKind, int] = {}
        # The cheapest providers of each class. Matches make the waiting times only longer.
        self._waits: dict[JobClass, list[_Wait]] = {}

    def provider_now(self, job: Job, kind: JobKind) -> Choice | None:
        """Return the provider with which a job should start now. None if it should wait."""
        choice = self._best_now(job, kind)
        if choice is None or self._should_wait(job, kind, choice):
            return None
        return choice

    def _best_now(self, job: Job, kind: JobKind) -> Choice | None:
        """Return the cheapest of the providers with room and with the fewest claim timeouts."""
        limits = self._matcher.limits(job.id)
        if limits.timeout_counts:
            return self._best_with_timeouts(job, kind, limits)
        return next(self._suitable_now(job, kind, limits), None)

    def _best_with_timeouts(self, job: Job, kind: JobKind, limits: Limits) -> Choice | None:
        """Return the cheapest of the providers at which the job had the fewest claim timeouts."""
        choices = list(self._suitable_now(job, kind, limits))

        def timeout_count(choice: Choice) -> int:
            return limits.timeout_counts.get(choice[0].provider.address, 0)

        return min(choices, key=timeout_count, default=None)

    def _suitable_now(self, job: Job, kind: JobKind, limits: Limits) -> Iterator[Choice]:
        """Yield the providers that have room for a job, the cheapest first."""
        options = self._matcher.candidates.get(kind.job_class).with_room(
            ring_position(str(job.id)),
            min_price=max(self._min_prices.get(kind, 0), self._min_weighted_price(job, kind)),
            max_price=self.max_weighted_price(job),
        )
        for price, cluster in options:
            paid_s = paid_seconds(job.escrow, cluster.plain_price(price))
            if self._may_get(job, kind, (cluster, price), limits) and cluster.admits(
                job.resources, job_id=job.id, paid_s=paid_s, now=self._now
            ):
                yield cluster, price

    def max_weighted_price(self, job: Job) -> int:
        """Return a limit that no weighted price exceeds at a provider that a job can pay."""
        return job.escrow * (PERCENT + self._matcher.reputation.max_risk_percent)

    def _min_weighted_price(self, job: Job, kind: JobKind) -> int:
        """Return a limit below which a job cannot meet its deadline at any weighted price."""
        return kind.job_class.conditions.min_price(job.escrow, now=self._now) * PERCENT

    def _may_get(self, job: Job, kind: JobKind, choice: Choice, limits: Limits) -> bool:
        """Return whether a job pays a provider for a minute, and nothing excludes the provider."""
        cluster, weighted_price = choice
        price = cluster.plain_price(weighted_price)
        if price > job.escrow or self.is_excluded(cluster, limits):
            return False
        conditions = kind.job_class.conditions
        if conditions is NO_CONDITIONS:
            return True
        violated_key = conditions.violated_by(
            price_per_min=price,
            success=cluster.standing.success,
            age_h=cluster.benchmark_age_h(self._now),
        )
        return violated_key is None and self.is_in_time(job, kind, choice)

    def is_in_time(self, job: Job, kind: JobKind, choice: Choice, *, exact: bool = False) -> bool:
        """Return whether the expected start at a provider satisfies the conditions on time.

        Args:
            job: The job.
            kind: Its kind.
            choice: The provider.
            exact: Whether to search for the start. Otherwise it is a quick estimate, which may be
                too early.
        """
        conditions = kind.job_class.conditions
        if not conditions.limits_start:
            return True
        cluster, weighted_price = choice
        paid_s = paid_seconds(job.escrow, cluster.plain_price(weighted_price))
        latest_start = conditions.latest_start(paid_s=paid_s, now=self._now)
        start = cluster.expected_start(job.resources, now=self._now, exact=exact)
        return start <= latest_start

    def _should_wait(self, job: Job, kind: JobKind, choice: Choice) -> bool:
        """Return whether a cheaper provider without room has a better score."""
        policy = self._matcher.policy_of(kind)
        if policy.wait_percent is None:
            return False
        if policy.wait_percent == 0:
            options = islice(self._cheaper(job, kind, choice), MAX_COMPARED)
            return any(self.is_in_time(job, kind, option, exact=True) for option in options)
        cluster_now, price_now = choice
        plain_price_now = cluster_now.plain_price(price_now)
        minutes = paid_minutes(job, plain_price_now)
        for wait in self._compared_waits(job, kind, choice):
            if wait.weighted_price >= price_now:
                return False
            longest_s = policy.longest_wait_s(
                saving_per_min=price_now - wait.weighted_price,
                minutes=minutes,
                reference_price=plain_price_now * PERCENT,
            )
            if wait.shortest_s <= longest_s:
                wait.shortest_s = self._wait_s(job, wait.cluster, longest_s=longest_s)
                if wait.shortest_s <= longest_s:
                    return True
        return False

    def _compared_waits(self, job: Job, kind: JobKind, choice: Choice) -> list[_Wait]:
        """Return the providers with which a choice is compared, the cheapest first."""
        has_limits = kind.only_job is not None or kind.job_class.conditions is not NO_CONDITIONS
        if not has_limits and choice[1] <= job.escrow * PERCENT:  # the job can pay each of them
            return self._waits_of(kind.job_class)
        cheaper = islice(self._cheaper(job, kind, choice), MAX_COMPARED)
        in_time = [each for each in cheaper if self.is_in_time(job, kind, each, exact=True)]
        return [_Wait(cluster, price) for cluster, price in in_time]

    def _waits_of(self, job_class: JobClass) -> list[_Wait]:
        """Return the cheapest providers of a class, with what is known of the waiting times."""
        waits = self._waits.get(job_class)
        if waits is None:
            waits = self._waits[job_class] = []
            for price, cluster in self._matcher.candidates.get(job_class):
                if not self.is_excluded(cluster, NO_LIMITS):
                    waits.append(_Wait(cluster, price))
                if len(waits) == MAX_COMPARED:
                    break
        return waits

    def _wait_s(self, job: Job, cluster: Cluster, *, longest_s: int) -> int:
        """Return how long a job is expected to wait for a provider, seconds.

        If it is longer than ``longest_s``, the result may be too short.
        """
        if cluster.reservation is not None and cluster.reservation.job_id != job.id:
            return UNKNOWN_WAIT_S
        estimated_wait_s = cluster.estimated_start(job.resources, now=self._now) - self._now
        if estimated_wait_s > longest_s:
            return estimated_wait_s
        obstacle = cluster.last_obstacle(job.resources, now=self._now)
        if obstacle is not None and self._is_late(obstacle):
            return UNKNOWN_WAIT_S
        return 0 if obstacle is None else obstacle.ends_at(self._now) - self._now

    def _is_late(self, job: PlacedJob) -> bool:
        """Return whether a job should have started, so that its end is unknown."""
        return not job.started_at and self._block - job.matched_block > MAX_START_BLOCKS

    def _cheaper(self, job: Job, kind: JobKind, choice: Choice) -> Iterator[Choice]:
        """Yield the providers that are cheaper than a choice, with at most as many timeouts."""
        cluster_now, price_now = choice
        timeout_counts = self._matcher.limits(job.id).timeout_counts
        max_timeouts = timeout_counts.get(cluster_now.provider.address, 0)
        payable = self.payable(job, kind)
        for cluster, price in takewhile(lambda option: option[1] < price_now, payable):
            if timeout_counts.get(cluster.provider.address, 0) <= max_timeouts:
                yield cluster, price

    def payable(
        self, job: Job, kind: JobKind, *, without: AbstractSet[Cluster] = frozenset()
    ) -> Iterator[Choice]:
        """Yield the providers that may get a job, with or without room, the cheapest first.

        Args:
            job: The job.
            kind: Its kind.
            without: Providers that are left out.
        """
        limits = self._matcher.limits(job.id)
        min_price = self._min_weighted_price(job, kind)
        max_price = self.max_weighted_price(job)
        if min_price > max_price:
            return
        for price, cluster in self._matcher.candidates.get(kind.job_class):
            if price > max_price:
                return
            if cluster in without:
                continue
            choice = (cluster, price)
            if price >= min_price and self._may_get(job, kind, choice, limits):
                yield choice

    def is_excluded(self, cluster: Cluster, limits: Limits) -> bool:
        """Return whether a provider is excluded from all jobs, or from a job with these limits."""
        address = cluster.provider.address
        return cluster.is_resting or address in self._excluded or address in limits.excluded

    def has_matched(self, kind: JobKind) -> bool:
        """Return whether a job of a kind was matched in this decision."""
        return kind in self._min_prices

    def note_release(self) -> None:
        """Note that a reservation was removed, so that jobs may wait for its provider."""
        self._waits.clear()

    def note_match(self, kind: JobKind, weighted_price: int) -> None:
        """Note the price of the last match of a kind, so that cheaper providers are skipped."""
        self._min_prices[kind] = weighted_price


def paid_minutes(job: Job, price_per_min: int) -> int:
    """Return how many whole minutes a job's escrow pays for, at most ten years."""
    minutes = paid_minutes_floor(job.escrow, price_per_min)
    return MAX_PAID_MINUTES if minutes is None else min(minutes, MAX_PAID_MINUTES)
