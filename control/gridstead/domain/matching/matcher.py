# SPDX-License-Identifier: Apache-2.0
"""The state of a grid on which matches are decided.

The caller sets the providers, the jobs and the credits as of a block. ``decide`` then returns the
matches (``turn.py``). It already counts them as made, so that the next decision does not make them
again. If a match fails, the caller sets the job to its state on the chain again.

A decision does not depend on the order in which the jobs, the providers and the credits were set
since the last decision. It depends on earlier decisions: on their reservations, and on the nodes on
which they placed jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gridstead.domain.jobs.billing import Prices
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Hardware, Job, Provider
from gridstead.domain.jobs.lifecycle import COLD, JobState
from gridstead.domain.matching.candidates import CandidateCache
from gridstead.domain.matching.cluster import Cluster, ClusterSnapshot
from gridstead.domain.matching.decisions import NO_LIMITS, Decision, Limits, Pairing, Rules
from gridstead.domain.matching.forecast import PlacedJob
from gridstead.domain.matching.policies import Policy, paid_seconds
from gridstead.domain.matching.queues import CustomerQueue, JobKind
from gridstead.domain.matching.reputation import Reputation
from gridstead.domain.matching.shares import AccountValues, Shares, Spending
from gridstead.domain.matching.turn import Turn

_NO_HARDWARE = Hardware(gpus_per_node=(), cpus_per_node=(), memory_per_node_mb=())
_NO_PRICES = Prices(gpu_per_min=0, cpu_per_min=0, memory_mb_per_min=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatcherSnapshot:
    """What the jobs of a matcher do not show, except the reputation.

    Attributes:
        clusters: The occupation of each provider.
        reserved: The address of the provider at which a job has a reservation, by job.
        accounts: The accounts of the customers.
    """

    clusters: tuple[ClusterSnapshot, ...]
    reserved: Mapping[JobId, str]
    accounts: Mapping[str, AccountValues]


class Matcher:
    """The jobs, the providers and the customers of a grid.

    Args:
        rules: The parameters of the grid.

    Attributes:
        shares: The usage and the weight of the customers.
        reputation: The faults of the providers.
        clusters: The occupation of each provider, by address.
        queues: The pending jobs of each customer that has any.
        reserved: The provider at which a pending job has a reservation, by job.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.shares = Shares(rules.half_life)
        self.reputation = Reputation(rules.half_life, self.shares)
        self.clusters: dict[str, Cluster] = {}
        self.queues: dict[str, CustomerQueue] = {}
        self.reserved: dict[JobId, Cluster] = {}
        self.candidates = CandidateCache(self.clusters)
        self._jobs: dict[JobId, Job] = {}
        # The escrow of each job: the block and the amount of the request and of each top-up.
        self._deposits: dict[JobId, tuple[tuple[int, int], ...]] = {}
        self._limits: dict[JobId, Limits] = {}
        self._places: dict[JobId, Cluster] = {}  # the matched jobs that have not ended

    def snapshot(self) -> MatcherSnapshot:
        """Return the values that ``restore_providers`` and ``restore_occupation`` need.

        The limits of jobs are omitted: the caller sets them before each decision.
        """
        reserved = self.reserved.items()
        return MatcherSnapshot(
            clusters=tuple(cluster.snapshot() for cluster in self.clusters.values()),
            reserved={job_id: cluster.provider.address for job_id, cluster in reserved},
            accounts=self.shares.accounts(),
        )

    def restore_providers(self, snapshot: MatcherSnapshot) -> None:
        """Restore the providers and the jobs' reservations, before any job is set.

        The reputation must have been restored before.
        """
        for cluster_snapshot in snapshot.clusters:
            self.set_provider(cluster_snapshot.provider)
        for job_id, address in snapshot.reserved.items():
            self.reserved[job_id] = self.clusters[address]

    def restore_occupation(self, snapshot: MatcherSnapshot) -> None:
        """Restore the occupation of the providers and the accounts, after all jobs were set."""
        for cluster_snapshot in snapshot.clusters:
            self.clusters[cluster_snapshot.provider.address].restore(cluster_snapshot)
        self.shares.restore_accounts(snapshot.accounts)

    def set_provider(self, provider: Provider) -> None:
        """Add an approved provider, or replace its record."""
        cluster = self._cluster(provider.address)
        if cluster.provider != provider:
            cluster.set_provider(provider)
            self.candidates.clear()

    def remove_provider(self, address: str) -> None:
        """Match no more jobs to a provider. It remains known, and its jobs continue."""
        cluster = self.clusters.get(address)
        if cluster is not None and cluster.provider.is_joined:
            self.set_provider(replace(cluster.provider, is_joined=False))

    def set_job(
        self,
        job: Job,
        *,
        requested_block: int,
        matched_block: int,
        top_ups: tuple[tuple[int, int], ...] = (),
    ) -> None:
        """Add a job, or replace its values.

        Args:
            job: The job as of a block.
            requested_block: The block of its request.
            matched_block: The block of its last match. Ignored for a pending job.
            top_ups: The credits that were added to its escrow: the block and the amount, wei.
        """
        self._remove_from_place(job)
        self._jobs[job.id] = job
        is_pending = job.state is JobState.PENDING
        is_cold = job.state in COLD
        first_amount = job.escrow - sum(amount for _, amount in top_ups)
        self._deposits[job.id] = ((requested_block, first_amount), *top_ups)
        self._set_spending(job, matched_block=matched_block, cost=_cost(job))
        if is_pending:
            self._add_to_queue(job)
        elif not is_cold:
            cluster = self._cluster(job.provider)
            cluster.set_job(_placed_job(job, job.price_per_min, matched_block))
            self._places[job.id] = cluster

    def set_limits(self, job_id: JobId, limits: Limits) -> None:
        """Set which providers a pending job must not get, and which it should not get."""
        if self._limits.get(job_id, NO_LIMITS) == limits:
            return
        self._limits[job_id] = limits
        job = self.pending_job(job_id)
        if job is not None:
            self._add_to_queue(job)

    def forget_job(
        self, job_id: JobId, *, matched_block: int, returned_by: Mapping[str, int] | None = None
    ) -> None:
        """Forget a job that has ended. What its customer used and its provider did still counts.

        Args:
            job_id: The job. It was set to its last state.
            matched_block: The block of its last match.
            returned_by: The providers that refused the job or did not claim it in time, with the
                block of the last such event, by address.
        """
        self.reputation.count_job(
            self._jobs[job_id], matched_block=matched_block, returned_by=returned_by or {}
        )
        self._drop(job_id)
        self.shares.close_job(job_id)

    def remove_job(self, job_id: JobId) -> None:
        """Remove a job that does not exist any more, and what its customer used for it."""
        self._drop(job_id)
        self.shares.remove_job(job_id)

    def job(self, job_id: JobId) -> Job:
        """Return a job."""
        return self._jobs[job_id]

    def pending_job(self, job_id: JobId) -> Job | None:
        """Return a job if it is pending and not matched yet."""
        job = self._jobs.get(job_id)
        is_pending = job is not None and job.state is JobState.PENDING
        return job if is_pending and job_id not in self._places else None

    def limits(self, job_id: JobId) -> Limits:
        """Return which providers a job must not get, and which it should not get."""
        return self._limits.get(job_id, NO_LIMITS)

    def decide(
        self,
        *,
        now: int,
        block: int,
        excluded_providers: Mapping[str, str] | None = None,
        unsent_count: int = 0,
    ) -> Decision:
        """Decide the next matches and reservations, and count the matches as made.

        Args:
            now: The time of the block, Unix seconds.
            block: The newest block.
            excluded_providers: The providers that get no job now, with the reasons, by address.
            unsent_count: The number of earlier matches that are not in a block yet.
        """
        if self.reputation.update(block):
            self._update_standings()
        turn = Turn(
            self,
            now=now,
            block=block,
            excluded_providers=excluded_providers or {},
            max_matches=self.rules.max_matches_after(unsent_count),
        )
        return turn.run()

    def _update_standings(self) -> None:
        for address, cluster in self.clusters.items():
            cluster.set_standing(self.reputation.standing(address))
        self.candidates.clear()

    def match(self, pairing: Pairing, cluster: Cluster, *, now: int, block: int) -> None:
        """Count a match as made."""
        job = pairing.job
        self.queues[job.customer].remove(job.id)
        self._places[job.id] = cluster
        cluster.match(_placed_job(job, pairing.price_per_min, block), now=now)
        self.shares.charge_match(job.id, job.escrow if pairing.price_per_min else 0, block=block)

    def _set_spending(self, job: Job, *, matched_block: int, cost: int) -> None:
        spending = Spending(
            customer=job.customer,
            cost=cost,
            matched_block=matched_block,
            deposits=self._deposits[job.id],
            ended_block=job.state_block if job.state in COLD else None,
        )
        self.shares.set_job(job.id, spending)

    def _cluster(self, address: str) -> Cluster:
        """Return the cluster of a provider. An unknown provider gets no jobs."""
        if address not in self.clusters:
            unknown_provider = Provider(
                address=address,
                hardware=_NO_HARDWARE,
                prices=_NO_PRICES,
                labels=(),
                is_joined=False,
            )
            self.clusters[address] = Cluster(
                unknown_provider,
                queue_allowance=self.rules.queue_allowance,
                standing=self.reputation.standing(address),
            )
        return self.clusters[address]

    def kind_of(self, job: Job) -> JobKind:
        """Return the kind of a job."""
        is_special = job.id in self.reserved or self.limits(job.id) != NO_LIMITS
        only_job = job.id if is_special else None
        return JobKind(self.candidates.class_of(job), job.escrow, only_job)

    def policy_of(self, kind: JobKind) -> Policy:
        """Return the policy that the jobs of a kind request, or else the policy of the grid."""
        return kind.job_class.conditions.policy or self.rules.policy

    def _add_to_queue(self, job: Job) -> None:
        queue = self.queues.setdefault(job.customer, CustomerQueue())
        queue.add(job.id, self.kind_of(job))

    def _remove_from_place(self, job: Job) -> None:
        old_job = self._jobs.get(job.id, job)
        queue = self.queues.get(old_job.customer)
        if queue is not None:
            queue.remove(job.id)
        cluster = self._places.pop(job.id, None)
        has_place = job.state not in COLD and job.state is not JobState.PENDING
        # After a reorg, another job may have the same id.
        has_place = has_place and job.resources == old_job.resources
        if cluster is not None and not (has_place and cluster.provider.address == job.provider):
            cluster.remove_job(job.id)
            self.candidates.add_freed(cluster)

    def _drop(self, job_id: JobId) -> None:
        job = self._jobs.pop(job_id, None)
        self._deposits.pop(job_id, None)
        self._limits.pop(job_id, None)
        cluster = self._places.pop(job_id, None)
        if cluster is not None:
            cluster.remove_job(job_id)
            self.candidates.add_freed(cluster)
        if job is not None and job.customer in self.queues:
            self.queues[job.customer].remove(job_id)


def _cost(job: Job) -> int:
    """Return how much a job adds to the usage of its customer, wei."""
    if job.state in COLD:
        return job.final_cost
    is_matched = job.state is not JobState.PENDING
    return job.escrow if is_matched and job.price_per_min else 0


def _placed_job(job: Job, price_per_min: int, matched_block: int) -> PlacedJob:
    return PlacedJob(
        job_id=job.id,
        resources=job.resources,
        matched_block=matched_block,
        started_at=job.started_at,
        paid_s=paid_seconds(job.escrow, price_per_min),
    )
