# SPDX-License-Identifier: Apache-2.0
"""Measures how often the jobs of each provider fail through the provider's fault.

Only ended jobs count, so that everyone can compute the reputation from the chain:

- A job with a bill is a *success* of its provider and counts with its bill. A job whose script
  failed or whose credits ran out is a success too: this is not the provider's fault.
- A job that ended as PANICKED is a *fault* and counts with its escrow. The provider lost the job,
  or did not start or settle it in time.
- A job that the provider refused or did not claim in time is a fault only if another provider
  started the same job and was paid for it. It counts with this bill.

Jobs with the price 0 do not count.

A provider's *faults* are a share, in millionths. Each customer has one vote: its own share of
faults. The vote of a customer counts in full if its jobs at the provider were worth at least the
*typical value* of a job, and if its weight (``shares.py``) is at least the *typical weight*.
Otherwise it counts in proportion to both. ``NEUTRAL_VOTES`` further votes are for the provider. So
one customer counts for at most 10 %, in either direction, and a new provider has no faults. Weights
are average credits, so several wallets with the credits of one customer have at most one vote.

The typical value is the weighted median of what the jobs of each customer of the grid are worth on
average, and the typical weight is the weighted median of their weights. Each customer counts with
its weight. So many wallets with few credits change neither of them.

Amounts decay with the half-life of ``shares.py``. All values are integers.

The share of faults above ``TOLERATED_PERCENT`` is the *risk* of a provider. Its prices count as
higher by this risk when providers are compared.

A provider with more than ``MAX_FAULTS`` *rests*: it gets no job for a while after its last fault,
and then one job at a time. It gets jobs as before when a job that was matched after the last fault
has ended as a success.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from gridstead.domain.jobs.billing import PERCENT
from gridstead.domain.jobs.job import Job
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.shares import HalfLife, Shares

MILLION = 1_000_000
NEUTRAL_VOTES = 9
# One customer can cause this share of faults, so it has no effect.
TOLERATED_PERCENT = 10
MAX_FAULTS = 250_000  # millionths
# With a half-life of 7 days, a provider rests for one hour, and with blocks of 2 s the reputation
# is computed every 100 blocks.
RESTS_PER_HALF_LIFE = 168
UPDATES_PER_HALF_LIFE = 3024


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the reputation of a provider influences the matching.

    Attributes:
        faults: The share of faults, millionths.
        job_limit: How many jobs the provider may have at the same time: 0 or 1 while it rests. None
            without a limit.
    """

    faults: int = 0
    job_limit: int | None = None

    @property
    def success(self) -> int:
        """The share of jobs that did not fail through the provider's fault, millionths.

        A provider without faults has 1,000,000.
        """
        return MILLION - self.faults

    @property
    def risk_percent(self) -> int:
        """By how much the provider's prices count as higher, percent."""
        return max(0, self.faults * PERCENT // MILLION - TOLERATED_PERCENT)


NEUTRAL = Standing()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReputationSnapshot:
    """The values of a ``Reputation``.

    Attributes:
        evidence: The successes and the faults, by provider and customer.
        last_events: ``last_fault`` and ``last_good_match`` of each provider.
        jobs_by_customer: The value and the count of the jobs of each customer.
        updated_at: The block of the last update.
        standings: The standings as of this update.
    """

    evidence: Mapping[tuple[str, str], tuple[int, int]]
    last_events: Mapping[str, tuple[int, int]]
    jobs_by_customer: Mapping[str, tuple[int, int]]
    updated_at: int | None
    standings: Mapping[str, Standing]


@dataclass(slots=True)
class _Evidence:
    """What one customer's jobs say about one provider: sums of amount x growth."""

    successes: int = 0
    faults: int = 0


@dataclass(slots=True)
class _Jobs:
    """The ended jobs of one customer at all providers: sums of amount x growth and of growth."""

    value: int = 0
    count: int = 0


@dataclass(slots=True)
class _Record:
    """What is known of one provider.

    Attributes:
        evidence: What the jobs of each customer say.
        last_fault: The block of the last fault. -1 without a fault.
        last_good_match: The block of the last match of a job that ended as a success. -1 if there
            is no such job.
    """

    evidence: dict[str, _Evidence] = field(default_factory=lambda: defaultdict(_Evidence))
    last_fault: int = -1
    last_good_match: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Customers:
    """The customers of the grid.

    Attributes:
        weights: The weight of each customer, wei, at least 1.
        typical_weight: The weight from which on a customer has a full vote.
        typical_value: The typical value of a job, wei, at least 1.
    """

    weights: dict[str, int]
    typical_weight: int
    typical_value: int


class Reputation:
    """The reputation of all providers.

    The result does not depend on the order in which the jobs are counted.

    Args:
        half_life: The half-life of all amounts.
        shares: The weights of the customers.

    Attributes:
        standings: The providers with faults, as of the last update, by address.
        max_risk_percent: The highest risk of these providers, percent.
    """

    def __init__(self, half_life: HalfLife, shares: Shares) -> None:
        self._half_life = half_life
        self._shares = shares
        self._rest_blocks = max(1, half_life.blocks // RESTS_PER_HALF_LIFE)
        self._update_blocks = max(1, half_life.blocks // UPDATES_PER_HALF_LIFE)
        self._records: dict[str, _Record] = defaultdict(_Record)
        self._jobs_by_customer: dict[str, _Jobs] = defaultdict(_Jobs)
        self._updated_at: int | None = None
        self.standings: Mapping[str, Standing] = {}
        self.max_risk_percent = 0

    def snapshot(self) -> ReputationSnapshot:
        """Return all values. Later changes do not change the result."""
        evidence: dict[tuple[str, str], tuple[int, int]] = {}
        last_events: dict[str, tuple[int, int]] = {}
        for address, record in self._records.items():
            last_events[address] = (record.last_fault, record.last_good_match)
            for customer, each in record.evidence.items():
                evidence[address, customer] = (each.successes, each.faults)
        customers = self._jobs_by_customer.items()
        return ReputationSnapshot(
            evidence=evidence,
            last_events=last_events,
            jobs_by_customer={customer: (jobs.value, jobs.count) for customer, jobs in customers},
            updated_at=self._updated_at,
            standings=self.standings,
        )

    def restore(self, snapshot: ReputationSnapshot) -> None:
        """Restore all values. Nothing must have been counted before."""
        for address, (last_fault, last_good_match) in snapshot.last_events.items():
            record = self._records[address]
            record.last_fault = last_fault
            record.last_good_match = last_good_match
        for (address, customer), (successes, faults) in snapshot.evidence.items():
            self._records[address].evidence[customer] = _Evidence(successes, faults)
        for customer, (value, count) in snapshot.jobs_by_customer.items():
            self._jobs_by_customer[customer] = _Jobs(value, count)
        self._updated_at = snapshot.updated_at
        self._set_standings(snapshot.standings)

    def standing(self, address: str) -> Standing:
        """Return how a provider's reputation influences the matching, as of the last update."""
        return self.standings.get(address, NEUTRAL)

    def count_job(self, job: Job, *, matched_block: int, returned_by: Mapping[str, int]) -> None:
        """Count a job that has ended. Must be called once for each job.

        Args:
            job: The job in its last state.
            matched_block: The block of its last match.
            returned_by: The providers that refused the job or did not claim it in time, with the
                block of the last such event, by address.
        """
        if not job.provider or not job.price_per_min:
            return
        if job.state is JobState.PANICKED:
            self._add_value(job, job.escrow)
            self._add_fault(job.provider, job.customer, job.escrow, block=job.state_block)
            return
        if not job.final_cost:
            return
        self._add_value(job, job.final_cost)
        record = self._records[job.provider]
        growth = self._half_life.growth(job.state_block)
        record.evidence[job.customer].successes += job.final_cost * growth
        record.last_good_match = max(record.last_good_match, matched_block)
        if job.started_at:
            for address, block in returned_by.items():
                if address != job.provider:
                    self._add_fault(address, job.customer, job.final_cost, block=block)

    def update(self, block: int) -> bool:
        """Compute the reputation if enough blocks have passed, and return whether it changed.

        It is computed at the first call after each ``half_life / UPDATES_PER_HALF_LIFE`` blocks.

        Args:
            block: The newest block.
        """
        update_block = block - block % self._update_blocks
        if update_block == self._updated_at:
            return False
        self._updated_at = update_block
        standings: dict[str, Standing] = {}
        records = self._records.items()
        faulty = [(address, record) for address, record in records if record.last_fault >= 0]
        if faulty:
            customers = self._customers(block)
            full_amount = customers.typical_value * self._half_life.growth(update_block)
            for address, record in faulty:
                faults = _faults(record, customers, full_amount)
                standings[address] = self._standing(record, faults, update_block)
        has_changed = standings != self.standings
        self._set_standings(standings)
        return has_changed

    def _set_standings(self, standings: Mapping[str, Standing]) -> None:
        self.standings = standings
        risks = [standing.risk_percent for standing in standings.values()]
        self.max_risk_percent = max(risks, default=0)

    def _add_value(self, job: Job, amount: int) -> None:
        growth = self._half_life.growth(job.state_block)
        jobs = self._jobs_by_customer[job.customer]
        jobs.value += amount * growth
        jobs.count += growth

    def _add_fault(self, address: str, customer: str, amount: int, *, block: int) -> None:
        record = self._records[address]
        record.evidence[customer].faults += amount * self._half_life.growth(block)
        record.last_fault = max(record.last_fault, block)

    def _customers(self, block: int) -> _Customers:
        weights: dict[str, int] = {}
        values: list[tuple[int, int]] = []
        for customer, jobs in self._jobs_by_customer.items():
            weight = max(1, self._shares.weight(customer, block=block))
            weights[customer] = weight
            values.append((jobs.value // jobs.count, weight))
        return _Customers(
            weights=weights,
            typical_weight=_weighted_median((weight, weight) for weight in weights.values()),
            typical_value=_weighted_median(values),
        )

    def _standing(self, record: _Record, faults: int, block: int) -> Standing:
        if faults <= MAX_FAULTS or record.last_good_match > record.last_fault:
            return Standing(faults=faults)
        is_over = block >= record.last_fault + self._rest_blocks
        return Standing(faults=faults, job_limit=1 if is_over else 0)


def _faults(record: _Record, customers: _Customers, full_amount: int) -> int:
    """Return the share of faults of a provider, millionths.

    Args:
        record: What is known of the provider.
        customers: The weights of the customers.
        full_amount: The amount x growth from which on a customer has a full vote.
    """
    votes = 0
    fault_votes = 0
    for customer, evidence in record.evidence.items():
        amount = evidence.successes + evidence.faults
        weight = min(customers.weights[customer], customers.typical_weight)
        vote = min(amount, full_amount) * weight
        votes += vote
        fault_votes += vote * evidence.faults // max(1, amount)
    neutral_votes = NEUTRAL_VOTES * full_amount * customers.typical_weight
    return fault_votes * MILLION // (neutral_votes + votes)


def _weighted_median(values: Iterable[tuple[int, int]]) -> int:
    """Return the lowest value up to which the values have half of the total weight, at least 1.

    Args:
        values: The values, at least one, each with its weight.
    """
    sorted_values = sorted(values)
    weight_up_to = list(accumulate(weight for _, weight in sorted_values))
    half = -(-weight_up_to[-1] // 2)
    value, _ = sorted_values[bisect_left(weight_up_to, half)]
    return max(1, value)
