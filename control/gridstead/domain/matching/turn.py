# SPDX-License-Identifier: Apache-2.0
"""One decision about all pending jobs.

Customers take turns: the next customer is the one with the lowest usage in proportion to its weight
(``shares.py``), where half of the escrow of its next job counts as used already. If the whole
escrow counted, customers with large jobs would receive less. If nothing counted, each new wallet
would be served first.

The jobs of a customer are tried in the order of their requests. A job for which no provider has
room does not delay the later jobs of its customer. Instead, the oldest such job of a customer may
get a reservation at a provider (``reservations.py``). Each job gets the provider that ``choice.py``
chooses.

The work of a decision is limited, so that a customer with jobs of many kinds does not delay the
jobs of the others. Each customer has the same part of the limit. A search without a result and the
candidates of a new class count as work. If the part of a customer is used, its next decisions
continue with the kinds that were not searched yet, and then start again with all kinds.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gridstead.domain.jobs.job import Job
from gridstead.domain.matching.candidates import JobClass
from gridstead.domain.matching.choice import Choice, ProviderChoice
from gridstead.domain.matching.decisions import Decision, Pairing
from gridstead.domain.matching.queues import CustomerQueue, JobKind, PendingJob
from gridstead.domain.matching.reservations import Reservations

if TYPE_CHECKING:
    from gridstead.domain.matching.matcher import Matcher


class Turn:
    """One decision.

    Args:
        matcher: The state of the grid. ``run`` changes it.
        now: The time of the block, Unix seconds.
        block: The newest block.
        excluded_providers: The providers that get no job now, with the reasons, by address.
        max_matches: The most matches of this decision.
    """

    def __init__(
        self,
        matcher: Matcher,
        *,
        now: int,
        block: int,
        excluded_providers: Mapping[str, str],
        max_matches: int,
    ) -> None:
        self._matcher = matcher
        self._rules = matcher.rules
        self._max_matches = max_matches
        self._now = now
        self._block = block
        self._choice = ProviderChoice(
            matcher, now=now, block=block, excluded_providers=excluded_providers
        )
        self._reservations = Reservations(matcher, self._choice, now=now)
        self._matches: list[Pairing] = []
        self._blocked_kinds: set[JobKind] = set()
        self._full_classes: set[JobClass] = set()
        self._work: Counter[str] = Counter()  # by customer
        self._max_work = 0  # of each customer

    def run(self) -> Decision:
        """Decide, and count the matches as made."""
        self._reservations.update()
        queues = self._matcher.queues
        oldest_jobs = self._oldest_jobs()
        continued_customers = {each for each in oldest_jobs if queues[each].searched_kinds}
        self._max_work = max(1, self._rules.max_work // max(1, len(oldest_jobs)))
        turns = [self._turn_of(customer, jobs[0]) for customer, jobs in oldest_jobs.items()]
        heapq.heapify(turns)
        while turns and len(self._matches) < self._max_matches:
            _, _, customer = heapq.heappop(turns)
            jobs = oldest_jobs[customer]
            if not self._is_blocked(jobs[0]) and not self._is_too_much_work(jobs[0], customer):
                self._serve(jobs, queues[customer])
            self._drop_blocked(jobs, customer)
            if jobs:
                heapq.heappush(turns, self._turn_of(customer, jobs[0]))
        for customer, jobs in oldest_jobs.items():
            is_interrupted = jobs and customer in continued_customers
            if self._work[customer] < self._max_work and not is_interrupted:
                queues[customer].searched_kinds.clear()
        return Decision(matches=self._matches, moves=self._reservations.moves)

    def _oldest_jobs(self) -> dict[str, list[PendingJob]]:
        """Return the oldest job of each kind that is searched next, as a heap, by customer."""
        oldest_jobs: dict[str, list[PendingJob]] = {}
        for customer, queue in list(self._matcher.queues.items()):
            if not queue:
                del self._matcher.queues[customer]
                continue
            jobs = queue.oldest()
            if not jobs:
                queue.searched_kinds.clear()
                jobs = queue.oldest()
            heapq.heapify(jobs)
            oldest_jobs[customer] = jobs
        return oldest_jobs

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
        choice = self._search(job, pending_job.kind)
        if choice is None:
            if job.id not in self._matcher.reserved:
                self._work[job.customer] += 1
                queue.searched_kinds.add(pending_job.kind)
            self._block_kind(pending_job.kind)
            self._reservations.release_ready_room(job)
            return
        cluster, weighted_price = choice
        self._reservations.release(job)
        price = cluster.plain_price(weighted_price)
        pairing = Pairing(job, cluster.provider.address, price)
        self._matcher.match(pairing, cluster, now=self._now, block=self._block)
        self._matches.append(pairing)
        self._choice.note_match(pending_job.kind, weighted_price)
        next_job = queue.oldest_of(pending_job.kind)
        if next_job is None:
            heapq.heappop(jobs)
        else:
            heapq.heapreplace(jobs, next_job)

    def _search(self, job: Job, kind: JobKind) -> Choice | None:
        """Return the provider with which a job should start now. None if it should wait."""
        candidates = self._matcher.candidates
        if candidates.is_full(kind.job_class, self._choice.max_weighted_price(job)):
            return None
        self._work[job.customer] += candidates.work_for(kind.job_class)
        choice = self._choice.provider_now(job, kind)
        if choice is None:
            candidates.note_full(kind.job_class)
        return choice

    def _drop_blocked(self, jobs: list[PendingJob], customer: str) -> None:
        """Remove the oldest jobs that cannot start now, and try to make a reservation for each."""
        while jobs:
            if self._is_blocked(jobs[0]):
                self._reservations.make(heapq.heappop(jobs), customer)
            elif self._is_too_much_work(jobs[0], customer):
                heapq.heappop(jobs)
            else:
                return

    def _is_blocked(self, job: PendingJob) -> bool:
        """Return whether it is known that a job cannot start now."""
        return job.kind.job_class in self._full_classes or job.kind in self._blocked_kinds

    def _is_too_much_work(self, job: PendingJob, customer: str) -> bool:
        """Return whether the search for a job must wait for the next decision."""
        if self._work[customer] < self._max_work or self._choice.has_matched(job.kind):
            return False
        return job.job_id not in self._matcher.reserved

    def _block_kind(self, kind: JobKind) -> None:
        """Note that no job of a kind can start now."""
        self._blocked_kinds.add(kind)
        if self._matcher.candidates.is_full(kind.job_class):
            self._full_classes.add(kind.job_class)
