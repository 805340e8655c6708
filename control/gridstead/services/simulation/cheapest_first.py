# SPDX-License-Identifier: Apache-2.0
"""The matching of release 0.1, for comparison: each job gets the cheapest provider at once.

It knows neither which providers are full nor what each customer received.
"""

from __future__ import annotations

from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Job, Provider
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.candidates import CandidateCache
from gridstead.domain.matching.cluster import Cluster, ring_position
from gridstead.domain.matching.decisions import Decision, Pairing, Rules
from gridstead.domain.matching.shares import Shares


class CheapestFirst:
    """Matches every pending job with the cheapest provider that can run it.

    Its methods are those of the ``Matcher`` that the simulation uses.

    Args:
        rules: Only ``max_matches`` has an effect.

    Attributes:
        shares: The credits of the customers. They have no effect.
    """

    def __init__(self, rules: Rules) -> None:
        self.shares = Shares(rules.half_life)
        self._max_matches = rules.max_matches
        self._clusters: dict[str, Cluster] = {}
        self._candidates = CandidateCache(self._clusters)
        self._pending: dict[JobId, Job] = {}

    def set_provider(self, provider: Provider) -> None:
        """Add an approved provider, or replace its record."""
        self._clusters[provider.address] = Cluster(provider)
        self._candidates.clear()

    def set_job(self, job: Job, **_blocks: int) -> None:
        """Add a job, or replace its values. The blocks of its transitions have no effect."""
        if job.state is JobState.PENDING:
            self._pending[job.id] = job
        else:
            self._pending.pop(job.id, None)

    def forget_job(self, job_id: JobId, **_blocks: int) -> None:
        """Forget a job that has ended."""
        self._pending.pop(job_id, None)

    def decide(self, **_time: int) -> Decision:
        """Match the pending jobs in the order of their requests. The time has no effect."""
        matches: list[Pairing] = []
        for job in list(self._pending.values()):
            if len(matches) == self._max_matches:
                break
            pairing = self._cheapest(job)
            if pairing is not None:
                matches.append(pairing)
                del self._pending[job.id]
        return Decision(matches=matches, moves=[])

    def _cheapest(self, job: Job) -> Pairing | None:
        """Return the match of a job. None if no provider can run it for its escrow."""
        candidates = self._candidates.get(self._candidates.class_of(job))
        for weighted_price, cluster in candidates.from_position(ring_position(str(job.id))):
            price = cluster.plain_price(weighted_price)
            if price <= job.escrow:
                return Pairing(job, cluster.provider.address, price)
            return None
        return None
