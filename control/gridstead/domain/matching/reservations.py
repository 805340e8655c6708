# SPDX-License-Identifier: Apache-2.0
"""Makes, updates and removes the reservations of pending jobs (``cluster.py``).

The oldest job of a customer for which no provider has room may get a reservation at a provider. A
provider and a customer have at most one reservation each. If the queue allowance is 0, no later
match delays a reservation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gridstead.domain.jobs.billing import PERCENT
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Job
from gridstead.domain.matching.choice import MAX_COMPARED, Choice, ProviderChoice, paid_minutes
from gridstead.domain.matching.cluster import Cluster
from gridstead.domain.matching.decisions import Move
from gridstead.domain.matching.forecast import Reservation
from gridstead.domain.matching.policies import Policy, paid_seconds
from gridstead.domain.matching.queues import JobKind, PendingJob

if TYPE_CHECKING:
    from gridstead.domain.matching.matcher import Matcher

# A reservation that becomes later by more than this is reported.
MOVE_TOLERANCE_S = 60


class Reservations:
    """The reservations during one decision.

    Args:
        matcher: The state of the grid, with the reservations.
        choice: Names the providers that may get a job.
        now: The time of the block, Unix seconds.

    Attributes:
        moves: The reservations that became later in this decision.
    """

    def __init__(self, matcher: Matcher, choice: ProviderChoice, *, now: int) -> None:
        self._matcher = matcher
        self._rules = matcher.rules
        self._choice = choice
        self._now = now
        self.moves: list[Move] = []
        self._new_count = 0
        self._unreservable_kinds: set[JobKind] = set()
        # The providers whose reservation ended in this decision. Only the next decision gives them
        # a new one, because in this decision the first customers were already served.
        self._released_clusters: set[Cluster] = set()
        self._customers: set[str] = set()  # those that have a reservation
        # Those for whose job with conditions on time no provider was early enough. Their other jobs
        # with such conditions are not tried in this decision, because each search is long.
        self._late_customers: set[str] = set()

    def update(self) -> None:
        """Remove the reservations that are not needed any more, and update the other ones."""
        for job_id, cluster in list(self._matcher.reserved.items()):
            reservation = cluster.reservation
            assert reservation is not None
            if not self._is_valid(job_id, cluster):
                self._remove(job_id)
                continue
            self._customers.add(self._matcher.job(job_id).customer)
            old_start = reservation.start_at
            if cluster.version == reservation.version and old_start >= self._now:
                continue
            start = cluster.earliest_start(reservation.resources, now=self._now)
            awaited = cluster.jobs_ending_by(start, now=self._now)
            if start > old_start + MOVE_TOLERANCE_S:
                self._report_move(reservation, cluster, start)
            elif start > old_start:
                start = max(old_start, self._now)
            cluster.reservation = replace(
                reservation, start_at=start, version=cluster.version, awaited=awaited
            )

    def make(self, pending_job: PendingJob, customer: str) -> None:
        """Make a reservation at the provider with the best score, if the customer has none."""
        if customer in self._customers:
            return
        is_at_limit = self._new_count == self._rules.max_new_reservations
        if is_at_limit or pending_job.kind in self._unreservable_kinds:
            return
        job = self._matcher.job(pending_job.job_id)
        limits_start = pending_job.kind.job_class.conditions.limits_start
        if limits_start and customer in self._late_customers:
            return
        cluster = self._best_later(job, pending_job.kind)
        if cluster is None:
            self._unreservable_kinds.add(pending_job.kind)
            if limits_start:
                self._late_customers.add(customer)
            return
        self._new_count += 1
        start_at = cluster.earliest_start(job.resources, now=self._now)
        cluster.reservation = Reservation(
            job_id=job.id,
            resources=job.resources,
            start_at=start_at,
            version=cluster.version,
            awaited=cluster.jobs_ending_by(start_at, now=self._now),
        )
        self._matcher.reserved[job.id] = cluster
        # This job may use the reserved room, but other jobs of the kind may not. So if they are
        # blocked, this job must not be blocked too: it gets a kind of its own.
        own_kind = pending_job.kind._replace(only_job=job.id)
        self._matcher.queues[customer].add(job.id, own_kind)
        self._customers.add(customer)

    def release_ready_room(self, job: Job) -> None:
        """Release the reservation of a job that could start, but waits for a cheaper provider."""
        cluster = self._matcher.reserved.get(job.id)
        if cluster is not None and cluster.has_room(job.resources):
            self.release(job)

    def release(self, job: Job) -> None:
        """Remove the reservation of a job, if it has one."""
        if job.id in self._matcher.reserved:
            self._remove(job.id)
            self._customers.discard(job.customer)

    def _remove(self, job_id: JobId) -> None:
        cluster = self._matcher.reserved.pop(job_id)
        cluster.reservation = None
        self._released_clusters.add(cluster)
        self._choice.note_release()
        job = self._matcher.pending_job(job_id)
        if job is not None:  # it needs no kind of its own any more
            self._matcher.queues[job.customer].add(job_id, self._matcher.kind_of(job))

    def _best_later(self, job: Job, kind: JobKind) -> Cluster | None:
        """Return the provider without a reservation that has the best score for a job."""
        cheapest = next(self._choice.payable(job, kind), None)
        if cheapest is None:
            return None
        cheapest_cluster, lowest_weighted_price = cheapest
        lowest_price = cheapest_cluster.plain_price(lowest_weighted_price)
        score_at = partial(_score_later, job, self._matcher.policy_of(kind), lowest_price)
        options = []
        for cluster, price in self._reservable(job, kind, lowest_weighted_price):
            start = cluster.estimated_start(job.resources, now=self._now)
            score = score_at(price, wait_s=start - self._now)
            options.append((score, cluster.provider.address, price))
        late_count = 0
        best: tuple[tuple[int, int], str] | None = None
        for lowest_score, address, price in sorted(options):
            if (best is not None and lowest_score >= best[0]) or late_count == MAX_COMPARED:
                break
            cluster = self._matcher.clusters[address]
            if not self._choice.is_in_time(job, kind, (cluster, price), exact=True):
                late_count += 1
                continue
            start = cluster.earliest_start(job.resources, now=self._now)
            option = (score_at(price, wait_s=start - self._now), address)
            if best is None or option < best:
                best = option
        return None if best is None else self._matcher.clusters[best[1]]

    def _reservable(self, job: Job, kind: JobKind, lowest_price: int) -> Iterator[Choice]:
        """Yield the providers at which a job may get a reservation.

        Args:
            job: The job.
            kind: Its kind.
            lowest_price: The lowest weighted price of the job. With the policy ``cheapest``, the
                job waits for a provider with this price.
        """
        waits_for_cheapest = self._matcher.policy_of(kind).wait_percent == 0
        unavailable = self._released_clusters.union(self._matcher.reserved.values())
        for choice in self._choice.payable(job, kind, without=unavailable):
            if waits_for_cheapest and choice[1] > lowest_price:
                return
            yield choice

    def _is_valid(self, job_id: JobId, cluster: Cluster) -> bool:
        """Return whether a job still needs its reservation and the provider can still run it."""
        job = self._matcher.pending_job(job_id)
        if job is None:
            return False
        job_class = self._matcher.candidates.class_of(job)
        price = self._matcher.candidates.get(job_class).price_of(cluster)
        if price is None or price > job.escrow:
            return False
        conditions = job_class.conditions
        success, age_h = cluster.standing.success, cluster.benchmark_age_h(self._now)
        if conditions.violated_by(price_per_min=price, success=success, age_h=age_h):
            return False
        if conditions.limits_start:
            assert cluster.reservation is not None
            start = max(cluster.reservation.start_at, self._now)
            paid_s = paid_seconds(job.escrow, price)
            if start > conditions.latest_start(paid_s=paid_s, now=self._now):
                return False
        return not self._choice.is_excluded(cluster, self._matcher.limits(job_id))

    def _report_move(self, reservation: Reservation, cluster: Cluster, to_s: int) -> None:
        move = Move(
            job_id=reservation.job_id,
            provider=cluster.provider.address,
            from_s=reservation.start_at,
            to_s=to_s,
            cause=self._cause_of_move(reservation, cluster),
        )
        self.moves.append(move)

    def _cause_of_move(self, reservation: Reservation, cluster: Cluster) -> str:
        """Return why a reservation becomes later: the awaited job that ends last, if it is late."""
        job = cluster.latest_of(reservation.awaited, now=self._now)
        if job is None or job.ends_at(self._now) <= reservation.start_at:
            return cluster.change
        if not job.started_at:
            return f"job {job.job_id} has not started yet"
        if job.started_at + job.paid_s < self._now:
            return f"job {job.job_id} is not settled yet"
        old_paid_s = next(old.paid_s for old in reservation.awaited if old.job_id == job.job_id)
        if job.paid_s > old_paid_s:
            return f"credits were added to job {job.job_id}"
        return f"job {job.job_id} started late"


def _score_later(
    job: Job, policy: Policy, lowest_price: int, weighted_price: int, *, wait_s: int
) -> tuple[int, int]:
    """Return a sort key of a provider that has room later. The lowest is the best.

    Args:
        job: The pending job.
        policy: The policy of the job.
        lowest_price: The price of the cheapest provider, wei.
        weighted_price: The weighted price of the provider.
        wait_s: How long it has no room, seconds.
    """
    if policy.wait_percent is None:
        return wait_s, weighted_price
    score = policy.score(
        price_per_min=weighted_price,
        minutes=paid_minutes(job, lowest_price),
        wait_s=wait_s,
        reference_price=lowest_price * PERCENT,
    )
    return score, wait_s
