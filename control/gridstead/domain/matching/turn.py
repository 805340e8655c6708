# SPDX-License-Identifier: Apache-2.0
"""One decision about all pending jobs.

Customers take turns: the next customer is the one with the lowest usage in proportion to its weight
(``shares.py``), where half of the escrow of its next job counts as used already. If the whole
escrow counted, customers with large jobs would receive less. If nothing counted, each new wallet
would be served first.

The jobs of a customer are tried in the order of their requests. A job for which no provider has
room does not delay the later jobs of its customer. Instead, the oldest such job of a customer may
get a reservation at a provider (``cluster.py``). A provider and a customer have at most one
reservation each. If the queue allowance is 0, no later match delays a reservation.

A job gets the cheapest provider among those that

- are approved, not banned and accept jobs,
- have the labels and the hardware that the job requires, and room for it now,
- cost at most the job's escrow for one minute,
- are not excluded after a refusal or after failed matches (``expiry.py``, ``skips.py``),
- do not keep this room for the reservation of another job.

Providers at which the job had fewer claim timeouts are preferred, even if they are dearer. If a
cheaper provider without room has a better score (``policies.py``), the job waits for it.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from gridstead.domain.jobs.billing import MAX_PAID_MINUTES, paid_minutes_floor
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Job
from gridstead.domain.matching.candidates import JobClass, PricedClusters
from gridstead.domain.matching.cluster import Cluster, PlacedJob, Reservation, ring_position
from gridstead.domain.matching.decisions import NO_LIMITS, Decision, Limits, Move, Pairing
from gridstead.domain.matching.policies import paid_seconds
from gridstead.domain.matching.queues import CustomerQueue, JobKind, PendingJob

if TYPE_CHECKING:
    from gridstead.domain.matching.matcher import Matcher

# How many cheaper providers without room are compared with one that has room.
MAX_COMPARED = 8
# After so many blocks, the end of a matched job that has not started is unknown.
MAX_START_BLOCKS = 100
# For so many new classes of each customer, the candidates are computed in each decision.
MIN_NEW_CLASSES = 20
# A reservation that becomes later by more than this is reported.
MOVE_TOLERANCE_S = 60

_Choice = tuple[Cluster, int]  # a provider and its price of one minute of the job, wei


class Turn:
    """One decision.

    Args:
        matcher: The state of the grid. ``run`` changes it.
        now: The time of the block, Unix seconds.
        block: The newest block.
        excluded_providers: The providers that get no job now, with the reasons, by address.
    """

    def __init__(
        self, matcher: Matcher, *, now: int, block: int, excluded_providers: Mapping[str, str]
    ) -> None:
        self._matcher = matcher
        self._rules = matcher.rules
        self._now = now
        self._block = block
        self._excluded = excluded_providers
        self._matches: list[Pairing] = []
        self._moves: list[Move] = []
        self._new_reservations = 0
        # The candidates that may still have room, for each class that was tried.
        self._open: dict[JobClass, PricedClusters] = {}
        self._blocked_kinds: set[JobKind] = set()
        # The price of the last match of a kind. No cheaper provider can take a job of this kind.
        self._min_prices: dict[JobKind, int] = {}
        self._full_classes: set[JobClass] = set()
        # For how many new classes the candidates were computed, by customer.
        self._new_classes: Counter[str] = Counter()
        # The last obstacle of a class at a provider, and the version of the occupation.
        self._obstacles: dict[tuple[Cluster, JobClass], tuple[int, PlacedJob | None]] = {}
        self._unreservable_kinds: set[JobKind] = set()
        # The providers whose reservation ended in this decision. Only the next decision gives them
        # a new one, because in this decision the first customers were already served.
        self._released_clusters: set[Cluster] = set()
        self._customers_with_reservation: set[str] = set()

    def run(self) -> Decision:
        """Decide, and count the matches as made."""
        self._update_reservations()
        queues = self._matcher.queues
        turns: list[tuple[int, int, str]] = []
        oldest_jobs: dict[str, list[PendingJob]] = {}
        for customer in list(queues):
            jobs = queues[customer].oldest()
            if not jobs:
                del queues[customer]
                continue
            heapq.heapify(jobs)
            oldest_jobs[customer] = jobs
            turns.append(self._turn_of(customer, jobs[0]))
        heapq.heapify(turns)
        while turns and len(self._matches) < self._rules.max_matches:
            _, _, customer = heapq.heappop(turns)
            jobs = oldest_jobs[customer]
            if not self._is_blocked(jobs[0].kind, customer):
                self._serve(jobs, queues[customer])
            self._drop_blocked(jobs, customer)
            if jobs:
                heapq.heappush(turns, self._turn_of(customer, jobs[0]))
        return Decision(matches=self._matches, moves=self._moves)

    def _turn_of(self, customer: str, job: PendingJob) -> tuple[int, int, str]:
        """Return the sort key of a customer. The customer with the lowest key is served next."""
        priority = self._matcher.shares.priority(
            customer, block=self._block, extra_usage=job.kind.escrow // 2
        )
        return priority, job.order, customer

    def _serve(self, jobs: list[PendingJob], queue: CustomerQueue) -> None:
        """Match the oldest job of a customer, or block its kind.

        Args:
            jobs: The oldest job of each kind, as a heap.
            queue: The queue of the customer.
        """
        pending_job = jobs[0]
        job = self._matcher.job(pending_job.job_id)
        self._new_classes[job.customer] += not self._matcher.candidates.has(
            pending_job.kind.job_class
        )
        choice = self._choose(job, pending_job.kind)
        if choice is None:
            self._block_kind(pending_job.kind)
            self._release_ready_room(job)
            return
        cluster, price = choice
        if job.id in self._matcher.reserved:
            self._release(job.id)
            self._customers_with_reservation.discard(job.customer)
        pairing = Pairing(job, cluster.provider.address, price)
        self._matcher.match(pairing, cluster, now=self._now, block=self._block)
        self._matches.append(pairing)
        self._min_prices[pending_job.kind] = price
        next_job = queue.oldest_of(pending_job.kind)
        if next_job is None:
            heapq.heappop(jobs)
        else:
            heapq.heapreplace(jobs, next_job)

    def _drop_blocked(self, jobs: list[PendingJob], customer: str) -> None:
        """Remove the oldest jobs that cannot start now, and try to make a reservation for each."""
        while jobs and self._is_blocked(jobs[0].kind, customer):
            job = heapq.heappop(jobs)
            self._reserve(job)

    def _is_blocked(self, kind: JobKind, customer: str) -> bool:
        if kind.job_class in self._full_classes or kind in self._blocked_kinds:
            return True
        if self._new_classes.total() < self._rules.max_new_classes:
            return False
        is_at_limit = self._new_classes[customer] >= MIN_NEW_CLASSES
        return is_at_limit and not self._matcher.candidates.has(kind.job_class)

    def _block_kind(self, kind: JobKind) -> None:
        """Note that no job of a kind can start now."""
        self._blocked_kinds.add(kind)
        if not self._open_candidates(kind.job_class):
            self._full_classes.add(kind.job_class)

    def _choose(self, job: Job, kind: JobKind) -> _Choice | None:
        """Return the provider with which a job should start now. None if it should wait."""
        choice = self._best_now(job, kind)
        if choice is None or self._should_wait(job, kind, choice):
            return None
        return choice

    def _best_now(self, job: Job, kind: JobKind) -> _Choice | None:
        """Return the cheapest of the providers with room and with the fewest claim timeouts."""
        limits = self._limits(job, kind)
        if limits.timeout_counts:
            return self._best_with_timeouts(job, kind, limits)
        return next(self._suitable_now(job, kind, limits), None)

    def _best_with_timeouts(self, job: Job, kind: JobKind, limits: Limits) -> _Choice | None:
        """Return the cheapest of the providers at which the job had the fewest claim timeouts."""
        choices = list(self._suitable_now(job, kind, limits))

        def timeout_count(choice: _Choice) -> int:
            return limits.timeout_counts.get(choice[0].provider.address, 0)

        return min(choices, key=timeout_count, default=None)

    def _suitable_now(self, job: Job, kind: JobKind, limits: Limits) -> Iterator[_Choice]:
        """Yield the providers that have room for a job, the cheapest first."""
        resources = job.resources
        open_candidates = self._open_candidates(kind.job_class)
        position = ring_position(str(job.id))
        min_price = self._min_prices.get(kind, 0)
        for price, cluster in open_candidates.from_position(position, min_price=min_price):
            if price > job.escrow:
                return
            if not cluster.has_room(resources):
                open_candidates.remove(price, cluster)
                continue
            paid_s = paid_seconds(job.escrow, price)
            if not self._is_excluded(cluster, limits) and cluster.admits(
                resources, job_id=job.id, paid_s=paid_s, now=self._now
            ):
                yield cluster, price

    def _open_candidates(self, job_class: JobClass) -> PricedClusters:
        candidates = self._open.get(job_class)
        if candidates is None:
            candidates = self._matcher.candidates.get(job_class).open()
            self._open[job_class] = candidates
        return candidates

    def _is_excluded(self, cluster: Cluster, limits: Limits) -> bool:
        address = cluster.provider.address
        return address in self._excluded or address in limits.excluded

    def _limits(self, job: Job, kind: JobKind) -> Limits:
        return self._matcher.limits(job.id) if kind.only_job else NO_LIMITS

    def _should_wait(self, job: Job, kind: JobKind, choice: _Choice) -> bool:
        """Return whether a cheaper provider without room has a better score."""
        policy = self._rules.policy
        if policy.wait_percent is None:
            return False
        price_now = choice[1]
        score = partial(
            policy.score, minutes=_paid_minutes(job, price_now), reference_price=price_now
        )
        score_now = score(price_per_min=price_now, wait_s=0)
        for cluster, price in islice(self._cheaper(job, kind, choice), MAX_COMPARED):
            if policy.wait_percent == 0:
                return True
            if cluster.reservation is not None and cluster.reservation.job_id != job.id:
                continue
            estimated_wait_s = cluster.estimated_start(job.resources, now=self._now) - self._now
            if score(price_per_min=price, wait_s=estimated_wait_s) >= score_now:
                continue
            obstacle = self._last_obstacle(cluster, kind.job_class)
            if obstacle is not None and self._is_late(obstacle):
                continue
            wait_s = 0 if obstacle is None else obstacle.ends_at(self._now) - self._now
            if score(price_per_min=price, wait_s=wait_s) < score_now:
                return True
        return False

    def _last_obstacle(self, cluster: Cluster, job_class: JobClass) -> PlacedJob | None:
        """Return the result of ``Cluster.last_obstacle``, which is kept for other jobs."""
        version, obstacle = self._obstacles.get((cluster, job_class), (-1, None))
        if version != cluster.version:
            obstacle = cluster.last_obstacle(job_class.resources, now=self._now)
            self._obstacles[cluster, job_class] = (cluster.version, obstacle)
        return obstacle

    def _is_late(self, job: PlacedJob) -> bool:
        """Return whether a job should have started, so that its end is unknown."""
        return not job.started_at and self._block - job.matched_block > MAX_START_BLOCKS

    def _cheaper(self, job: Job, kind: JobKind, choice: _Choice) -> Iterator[_Choice]:
        """Yield the providers that are cheaper than a choice, with at most as many timeouts."""
        cluster_now, price_now = choice
        timeout_counts = self._limits(job, kind).timeout_counts
        max_timeouts = timeout_counts.get(cluster_now.provider.address, 0)
        payable = self._payable(job, kind)
        for cluster, price in takewhile(lambda option: option[1] < price_now, payable):
            if timeout_counts.get(cluster.provider.address, 0) <= max_timeouts:
                yield cluster, price

    def _payable(self, job: Job, kind: JobKind) -> Iterator[_Choice]:
        """Yield the providers that may get a job, with or without room, the cheapest first."""
        limits = self._limits(job, kind)
        for price, cluster in self._matcher.candidates.get(kind.job_class).all:
            if price > job.escrow:
                return
            if not self._is_excluded(cluster, limits):
                yield cluster, price

    def _reserve(self, pending_job: PendingJob) -> None:
        """Make a reservation at the provider with the best score, if the customer has none."""
        is_at_limit = self._new_reservations == self._rules.max_new_reservations
        if is_at_limit or pending_job.kind in self._unreservable_kinds:
            return
        if not self._matcher.candidates.has(pending_job.kind.job_class):
            return
        job = self._matcher.job(pending_job.job_id)
        if job.customer in self._customers_with_reservation:
            return
        cluster = self._best_later(job, pending_job.kind)
        if cluster is None:
            return
        self._new_reservations += 1
        start_at = cluster.earliest_start(job.resources, now=self._now)
        reservation = Reservation(
            job_id=job.id, resources=job.resources, start_at=start_at, version=cluster.version
        )
        cluster.reserve(reservation)
        self._matcher.reserved[job.id] = cluster
        # This job may use the reserved room, but other jobs of the kind may not. So if they are
        # blocked, this job must not be blocked too: it gets a kind of its own.
        own_kind = pending_job.kind._replace(only_job=job.id)
        self._matcher.queues[job.customer].add(job.id, own_kind)
        self._customers_with_reservation.add(job.customer)

    def _best_later(self, job: Job, kind: JobKind) -> Cluster | None:
        """Return the provider without a reservation that has the best score for a job."""
        payable = list(self._payable(job, kind))
        lowest_price = payable[0][1] if payable else 0
        options = []
        for cluster, price in payable:
            if self._rules.policy.wait_percent == 0 and price > lowest_price:
                break  # with the policy ``cheapest``, the job waits for a cheaper provider
            if cluster.reservation is None and cluster not in self._released_clusters:
                start = cluster.estimated_start(job.resources, now=self._now)
                score = self._score_later(job, price, start, lowest_price)
                options.append((score, cluster.provider.address, price))
        if not options:
            self._unreservable_kinds.add(kind)
        best: tuple[tuple[int, int], str] | None = None
        for lowest_score, address, price in sorted(options):
            if best is not None and lowest_score >= best[0]:
                break
            cluster = self._matcher.clusters[address]
            start = cluster.earliest_start(job.resources, now=self._now)
            option = (self._score_later(job, price, start, lowest_price), address)
            if best is None or option < best:
                best = option
        return self._matcher.clusters[best[1]] if best is not None else None

    def _score_later(self, job: Job, price: int, start: int, lowest_price: int) -> tuple[int, int]:
        """Return a sort key of a provider that has room later. The lowest is the best."""
        wait_s = start - self._now
        policy = self._rules.policy
        if policy.wait_percent is None:
            return wait_s, price
        minutes = _paid_minutes(job, lowest_price)
        score = policy.score(
            price_per_min=price, minutes=minutes, wait_s=wait_s, reference_price=lowest_price
        )
        return score, wait_s

    def _update_reservations(self) -> None:
        """Remove the reservations that are not needed any more, and update the other ones."""
        for job_id, cluster in list(self._matcher.reserved.items()):
            reservation = cluster.reservation
            assert reservation is not None
            if not self._is_valid(job_id, cluster):
                self._release(job_id)
                continue
            self._customers_with_reservation.add(self._matcher.job(job_id).customer)
            old_start = reservation.start_at
            if cluster.version == reservation.version and old_start >= self._now:
                continue
            start = cluster.earliest_start(reservation.resources, now=self._now)
            if start > old_start + MOVE_TOLERANCE_S:
                self._report_move(reservation, cluster, start)
            elif start > old_start:
                start = max(old_start, self._now)
            cluster.reserve(replace(reservation, start_at=start, version=cluster.version))

    def _is_valid(self, job_id: JobId, cluster: Cluster) -> bool:
        """Return whether a job still needs its reservation and the provider can still run it."""
        job = self._matcher.pending_job(job_id)
        if job is None:
            return False
        job_class = self._matcher.candidates.class_of(job)
        price = self._matcher.candidates.get(job_class).price_of(cluster)
        is_payable = price is not None and price <= job.escrow
        return is_payable and not self._is_excluded(cluster, self._matcher.limits(job_id))

    def _release_ready_room(self, job: Job) -> None:
        """Release the reservation of a job that could start, but waits for a cheaper provider."""
        cluster = self._matcher.reserved.get(job.id)
        if cluster is not None and cluster.has_room(job.resources):
            self._release(job.id)
            self._customers_with_reservation.discard(job.customer)

    def _release(self, job_id: JobId) -> None:
        cluster = self._matcher.reserved.pop(job_id)
        cluster.reserve(None)
        self._released_clusters.add(cluster)

    def _report_move(self, reservation: Reservation, cluster: Cluster, to_s: int) -> None:
        obstacle = cluster.last_obstacle(reservation.resources, now=self._now)
        cause = cluster.change
        if obstacle is not None and not obstacle.started_at:
            cause = f"job {obstacle.job_id} has not started yet"
        elif obstacle is not None and obstacle.started_at + obstacle.paid_s < self._now:
            cause = f"job {obstacle.job_id} is not settled yet"
        move = Move(
            job_id=reservation.job_id,
            provider=cluster.provider.address,
            from_s=reservation.start_at,
            to_s=to_s,
            cause=cause,
        )
        self._moves.append(move)


def _paid_minutes(job: Job, price_per_min: int) -> int:
    """Return how many whole minutes a job's escrow pays for, at most ten years."""
    minutes = paid_minutes_floor(job.escrow, price_per_min)
    return MAX_PAID_MINUTES if minutes is None else min(minutes, MAX_PAID_MINUTES)
