# SPDX-License-Identifier: Apache-2.0
"""Simulates a grid: customers submit jobs, the meta-scheduler matches them, providers run them.

The simulation jumps from event to event: a job is submitted, a job ends, a block is decided. Each
match reaches its provider after ``claim_s``, and the end of a job reaches the chain after
``settle_s``. A job that its customer cannot pay is refused, as the contracts do.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from gridstead.domain.jobs.billing import SECONDS_PER_MINUTE, Resources, price_per_minute
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Job, Label, Provider
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.decisions import Decision, Rules
from gridstead.domain.matching.labels import satisfies_all
from gridstead.domain.matching.matcher import Matcher
from gridstead.domain.matching.packing import Nodes
from gridstead.domain.matching.policies import POLICIES, paid_seconds
from gridstead.domain.matching.shares import Shares
from gridstead.services.simulation.cheapest_first import CheapestFirst
from gridstead.services.simulation.machines import Machines
from gridstead.services.simulation.outcome import JobRun, SimulationOutcome
from gridstead.services.simulation.workload import SimulatedJob

CHEAPEST_FIRST = "cheapest-first"
START_S = 1_000_000_000  # the time at the start of a simulation, Unix seconds
_CHAIN_ID = 1
_CONTRACT = "0x" + "c0" * 20
_MINT = "0x" + "00" * 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedGrid:
    """What is simulated.

    Attributes:
        providers: The providers.
        credits_by_customer: What each customer has at first, wei.
        block_s: The time between blocks, seconds.
        claim_s: The time from a match until the job is in the provider's queue, seconds.
        settle_s: The time from the end of a job until its settlement is on the chain, seconds.
        end_state: Returns the state in which a job ends at a provider, from the job and the address
            of the provider. A job that ends as PANICKED costs nothing.
    """

    providers: Sequence[Provider]
    credits_by_customer: Mapping[str, int]
    block_s: int = 2
    claim_s: int = 6
    settle_s: int = 14
    end_state: Callable[[SimulatedJob, str], JobState] = lambda _job, _provider: JobState.FINISHED


class JobMatcher(Protocol):
    """Decides the matches: ``Matcher`` or ``CheapestFirst``."""

    @property
    def shares(self) -> Shares:
        """The usage and the weight of the customers."""

    def set_provider(self, provider: Provider) -> None:
        """Add an approved provider, or replace its record."""

    def set_job(self, job: Job, *, requested_block: int, matched_block: int) -> None:
        """Add a job, or replace its values."""

    def forget_job(self, job_id: JobId, *, matched_block: int) -> None:
        """Forget a job that has ended."""

    def decide(self, *, now: int, block: int) -> Decision:
        """Decide the next matches, and count them as made."""


def can_run(provider: Provider, resources: Resources, labels: tuple[Label, ...]) -> bool:
    """Return whether a provider has the labels and the hardware for a job."""
    has_labels = satisfies_all(provider.labels, uses=labels, affinity=())
    return has_labels and Nodes(provider.hardware).has_room(resources)


def _matcher(policy: str, rules: Rules) -> JobMatcher:
    if policy == CHEAPEST_FIRST:
        return CheapestFirst(rules)
    return Matcher(replace(rules, policy=POLICIES[policy]))


class Simulator:
    """Simulates a grid with one policy.

    Args:
        grid: The grid.
        jobs: The jobs, in the order of their submission. At least one provider can run each.
        rules: The parameters of the matching, except the policy.
        policy: The name of the policy, or ``CHEAPEST_FIRST``.
    """

    def __init__(
        self, grid: SimulatedGrid, jobs: Iterable[SimulatedJob], rules: Rules, *, policy: str
    ) -> None:
        self._grid = grid
        self._jobs = iter(jobs)
        self._matcher = _matcher(policy, rules)
        self._machines: dict[str, Machines] = {}
        self._events: list[tuple[int, int, Callable[[int], None], int]] = []
        self._event_count = 0
        self._is_block_planned = False
        self._next_job: SimulatedJob | None = None
        self._chain_jobs: dict[int, Job] = {}
        self._matched_blocks: dict[int, int] = {}
        self._credits: dict[str, int] = defaultdict(int, grid.credits_by_customer)
        self._highest_prices: dict[tuple[Resources, tuple[Label, ...]], int] = {}
        self.outcome = SimulationOutcome(policy)
        for provider in grid.providers:
            self._machines[provider.address] = Machines(provider.hardware)
            self._matcher.set_provider(provider)
        for customer, amount in grid.credits_by_customer.items():
            self._matcher.shares.transfer(_MINT, customer, amount, block=0)
        self._plan_next_arrival()

    def run(self, until_s: int | None = None) -> SimulationOutcome:
        """Simulate up to a time, or until all jobs have ended.

        Args:
            until_s: Seconds since the start of the simulation. None for no limit.
        """
        while self._events and (until_s is None or self._events[0][0] <= until_s):
            time, _, action, argument = heapq.heappop(self._events)
            self.outcome.now = time
            action(argument)
        if until_s is not None:
            self.outcome.now = until_s
        return self.outcome

    def _plan(self, time: int, action: Callable[[int], None], argument: int = 0) -> None:
        self._event_count += 1
        heapq.heappush(self._events, (time, self._event_count, action, argument))

    def _plan_next_arrival(self) -> None:
        self._next_job = next(self._jobs, None)
        if self._next_job is not None:
            self._plan(self._next_job.submitted_at, self._submit)

    def _plan_block(self) -> None:
        """Plan a decision at the next block."""
        if not self._is_block_planned:
            self._is_block_planned = True
            block_s = self._grid.block_s
            self._plan((self.outcome.now // block_s + 1) * block_s, self._decide)

    def _submit(self, _argument: int) -> None:
        job = self._next_job
        assert job is not None
        escrow = self._escrow(job)
        if escrow > self._credits[job.customer]:
            self.outcome.refused[job.customer] += 1
        else:
            self._request(job, escrow)
        self._plan_next_arrival()

    def _request(self, job: SimulatedJob, escrow: int) -> None:
        """Add a job to the chain, and pay its escrow."""
        number = len(self.outcome.runs)
        self.outcome.runs.append(JobRun(job, escrow))
        self._transfer(job.customer, _CONTRACT, escrow)
        chain_job = Job(
            id=JobId(chain_id=_CHAIN_ID, contract=_CONTRACT, number=number),
            state=JobState.PENDING,
            customer=job.customer,
            provider="",
            resources=job.resources,
            batch_location_hash="simulated",
            uses=job.labels,
            escrow=escrow,
            submitted_at=START_S + self.outcome.now,
            state_block=self._block(),
        )
        self._set_job(number, chain_job)
        self._plan_block()

    def _escrow(self, job: SimulatedJob) -> int:
        """Return the escrow that pays for the job's paid time at each provider, wei."""
        requirements = (job.resources, job.labels)
        price = self._highest_prices.get(requirements)
        if price is None:
            price = max(
                price_per_minute(job.resources, provider.prices)
                for provider in self._grid.providers
                if can_run(provider, job.resources, job.labels)
            )
            self._highest_prices[requirements] = price
        return -(-price * job.paid_s // SECONDS_PER_MINUTE)

    def _transfer(self, sender: str, receiver: str, amount: int) -> None:
        self._credits[sender] -= amount
        self._credits[receiver] += amount
        self._matcher.shares.transfer(sender, receiver, amount, block=self._block())

    def _decide(self, _argument: int) -> None:
        self._is_block_planned = False
        decision = self._matcher.decide(now=START_S + self.outcome.now, block=self._block())
        self.outcome.moves += decision.moves
        self.outcome.matches += len(decision.matches)
        for pairing in decision.matches:
            number = pairing.job.id.request_order
            self._chain_jobs[number] = replace(
                pairing.job,
                state=JobState.META_SCHEDULED,
                provider=pairing.provider,
                price_per_min=pairing.price_per_min,
            )
            self._matched_blocks[number] = self._block()
            run = self.outcome.runs[number]
            run.provider = pairing.provider
            run.price_per_min = pairing.price_per_min
            self._plan(self.outcome.now + self._grid.claim_s, self._claim, number)
        if decision.matches:
            self._plan_block()

    def _claim(self, number: int) -> None:
        run = self.outcome.runs[number]
        job = self._chain_jobs[number]
        paid_s = paid_seconds(job.escrow, job.price_per_min)
        self._machines[run.provider].submit(number, job.resources, limit_s=paid_s)
        self._start_jobs(run.provider)

    def _start_jobs(self, provider: str) -> None:
        for number in self._machines[provider].start_jobs(self.outcome.now):
            run = self.outcome.runs[number]
            run.started_at = self.outcome.now
            job = replace(
                self._chain_jobs[number],
                state=JobState.RUNNING,
                started_at=START_S + self.outcome.now,
            )
            self._set_job(number, job)
            paid_s = paid_seconds(job.escrow, job.price_per_min)
            self._plan(self.outcome.now + min(run.job.run_s, paid_s), self._end, number)

    def _end(self, number: int) -> None:
        run = self.outcome.runs[number]
        run.ended_at = self.outcome.now
        self._machines[run.provider].end(number)
        self._start_jobs(run.provider)
        self._plan(self.outcome.now + self._grid.settle_s, self._settle, number)

    def _settle(self, number: int) -> None:
        run = self.outcome.runs[number]
        job = self._chain_jobs.pop(number)
        state = self._grid.end_state(run.job, run.provider)
        if state is JobState.PANICKED:
            run.price_per_min = 0
        cost = run.cost(self.outcome.now)
        self._transfer(_CONTRACT, run.provider, cost)
        self._transfer(_CONTRACT, run.job.customer, job.escrow - cost)
        ended_job = replace(job, state=state, final_cost=cost, state_block=self._block())
        matched_block = self._matched_blocks.pop(number)
        self._matcher.set_job(
            ended_job,
            requested_block=self._requested_block(number),
            matched_block=matched_block,
        )
        self._matcher.forget_job(job.id, matched_block=matched_block)
        self._plan_block()

    def _set_job(self, number: int, job: Job) -> None:
        self._chain_jobs[number] = job
        matched_block = self._matched_blocks.get(number, 0)
        self._matcher.set_job(
            job, requested_block=self._requested_block(number), matched_block=matched_block
        )

    def _requested_block(self, number: int) -> int:
        return self.outcome.runs[number].job.submitted_at // self._grid.block_s

    def _block(self) -> int:
        return self.outcome.now // self._grid.block_s
