# SPDX-License-Identifier: Apache-2.0
"""Computes the figures of a simulation from its outcome.

A job that has not started counts with the time that it has waited so far. A running job counts with
its costs and CPU time so far. The names of the fields are keys of `gridstead simulate --json`.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gridstead.domain.matching.decisions import GAS_PER_MATCH
from gridstead.services.simulation.outcome import JobRun, SimulationOutcome
from gridstead.services.simulation.simulator import SimulatedGrid

SLOWDOWN_BOUND_S = 60
_DIGITS = 4  # of fractions
_JOB_IN_CAUSE = re.compile(r"\bjob \d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFigures:
    """The waiting times of some jobs. All are 0 if there are no jobs.

    Attributes:
        p50_s: Half of the jobs waited at most this time, seconds.
        p95_s: 95 % of the jobs waited at most this time, seconds.
        p99_s: 99 % of the jobs waited at most this time, seconds.
    """

    p50_s: int
    p95_s: int
    p99_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerFigures:
    """What one customer got.

    Attributes:
        customer: The name.
        jobs_submitted: The number of its jobs, without those that were refused.
        jobs_started: How many of them started.
        jobs_refused: The number of jobs that it could not submit for lack of credits.
        wait: The waiting times of its jobs.
        money_wei: What its jobs cost, wei.
        money_share: The same, as a fraction of what all jobs cost.
    """

    customer: str
    jobs_submitted: int
    jobs_started: int
    jobs_refused: int
    wait: WaitFigures
    money_wei: int
    money_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFigures:
    """What one provider did.

    Attributes:
        provider: The name.
        cpus: The CPUs of its nodes.
        jobs_started: The number of jobs that it started.
        utilisation: The CPU time of its jobs, as a fraction of the CPU time of its nodes.
        money_wei: What its jobs cost, including the grid's fee, wei.
        money_share: The same, as a fraction of what all jobs cost.
    """

    provider: str
    cpus: int
    jobs_started: int
    utilisation: float
    money_wei: int
    money_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFigures:
    """The figures of one policy.

    Attributes:
        policy: The name.
        simulated_s: The simulated time, seconds.
        jobs_submitted: The number of jobs, without those that were refused.
        jobs_started: How many of them started.
        jobs_ended: How many of them ended.
        jobs_refused: The number of jobs that were refused for lack of credits.
        utilisation: The CPU time of the jobs, as a fraction of the CPU time of the grid.
        wait: The waiting times of all jobs.
        mean_bounded_slowdown: The mean of (wait + run time) / max(run time, 60 s), at least 1.
        jain_index: Jain's index of the customers' money divided by their credits: 1 if all
            customers with jobs got the same, 1/n if one of n got everything.
        reservations_moved: How often a reservation became later by more than a minute.
        moves_by_cause: The same, for each cause.
        matches: The number of matches.
        gas: The gas of all matches.
        customers: The figures of each customer that had jobs, those with the most money first.
        providers: The figures of each provider, in the order of the scenario.
    """

    policy: str
    simulated_s: int
    jobs_submitted: int
    jobs_started: int
    jobs_ended: int
    jobs_refused: int
    utilisation: float
    wait: WaitFigures
    mean_bounded_slowdown: float
    jain_index: float
    reservations_moved: int
    moves_by_cause: dict[str, int]
    matches: int
    gas: int
    customers: tuple[CustomerFigures, ...]
    providers: tuple[ProviderFigures, ...]


def figures_of(outcome: SimulationOutcome, grid: SimulatedGrid) -> PolicyFigures:
    """Return the figures of a simulation."""
    runs = outcome.runs
    now = outcome.now
    providers = _provider_figures(outcome, grid)
    customers = _customer_figures(outcome)
    credits_by_customer = grid.credits_by_customer
    cpus = sum(provider.cpus for provider in providers)
    slowdowns = [bounded_slowdown(run, now) for run in runs]
    causes = Counter(_JOB_IN_CAUSE.sub("a job", move.cause) for move in outcome.moves)
    return PolicyFigures(
        policy=outcome.policy,
        simulated_s=now,
        jobs_submitted=len(runs),
        jobs_started=sum(run.started_at is not None for run in runs),
        jobs_ended=sum(run.ended_at is not None for run in runs),
        jobs_refused=outcome.refused.total(),
        utilisation=_fraction(_cpu_seconds(runs, now), cpus * now),
        wait=_wait_figures(runs, now),
        mean_bounded_slowdown=_fraction(math.fsum(slowdowns), len(slowdowns)),
        jain_index=jain_index(
            [customer.money_wei / credits_by_customer[customer.customer] for customer in customers]
        ),
        reservations_moved=len(outcome.moves),
        moves_by_cause=dict(sorted(causes.items())),
        matches=outcome.matches,
        gas=outcome.matches * GAS_PER_MATCH,
        customers=customers,
        providers=providers,
    )


def percentile(sorted_values: Sequence[int], percent: int) -> int:
    """Return the lowest value that is not exceeded by ``percent`` of the values. 0 if empty."""
    if not sorted_values:
        return 0
    rank = -(-len(sorted_values) * percent // 100)
    return sorted_values[max(rank, 1) - 1]


def jain_index(values: Sequence[float]) -> float:
    """Return Jain's index: (sum of values)^2 / (count x sum of squares). 1 if all are 0."""
    squares = math.fsum(value * value for value in values)
    if not squares:
        return 1.0
    return _fraction(math.fsum(values) ** 2, len(values) * squares)


def bounded_slowdown(run: JobRun, now: int) -> float:
    """Return (wait + run time) / max(run time, ``SLOWDOWN_BOUND_S``), and at least 1."""
    run_s = run.job.run_s
    return max(1.0, (run.seconds_waited(now) + run_s) / max(run_s, SLOWDOWN_BOUND_S))


def _wait_figures(runs: Iterable[JobRun], now: int) -> WaitFigures:
    waits = sorted(run.seconds_waited(now) for run in runs)
    return WaitFigures(
        p50_s=percentile(waits, 50), p95_s=percentile(waits, 95), p99_s=percentile(waits, 99)
    )


def _customer_figures(outcome: SimulationOutcome) -> tuple[CustomerFigures, ...]:
    now = outcome.now
    runs_by_customer: dict[str, list[JobRun]] = defaultdict(list)
    for customer in outcome.refused:
        runs_by_customer[customer] = []
    for run in outcome.runs:
        runs_by_customer[run.job.customer].append(run)
    total_money = _money(outcome.runs, now)
    figures = []
    for customer, runs in runs_by_customer.items():
        money = _money(runs, now)
        customer_figures = CustomerFigures(
            customer=customer,
            jobs_submitted=len(runs),
            jobs_started=sum(run.started_at is not None for run in runs),
            jobs_refused=outcome.refused[customer],
            wait=_wait_figures(runs, now),
            money_wei=money,
            money_share=_fraction(money, total_money),
        )
        figures.append(customer_figures)
    return tuple(sorted(figures, key=lambda customer: (-customer.money_wei, customer.customer)))


def _provider_figures(
    outcome: SimulationOutcome, grid: SimulatedGrid
) -> tuple[ProviderFigures, ...]:
    now = outcome.now
    runs_by_provider: dict[str, list[JobRun]] = defaultdict(list)
    for run in outcome.runs:
        if run.started_at is not None:
            runs_by_provider[run.provider].append(run)
    total_money = _money(outcome.runs, now)
    figures = []
    for provider in grid.providers:
        runs = runs_by_provider[provider.address]
        cpus = sum(provider.hardware.cpus_per_node)
        money = _money(runs, now)
        provider_figures = ProviderFigures(
            provider=provider.address,
            cpus=cpus,
            jobs_started=len(runs),
            utilisation=_fraction(_cpu_seconds(runs, now), cpus * now),
            money_wei=money,
            money_share=_fraction(money, total_money),
        )
        figures.append(provider_figures)
    return tuple(figures)


def _cpu_seconds(runs: Iterable[JobRun], now: int) -> int:
    return sum(run.seconds_run(now) * run.job.resources.cpus for run in runs)


def _money(runs: Iterable[JobRun], now: int) -> int:
    return sum(run.cost(now) for run in runs)


def _fraction(part: float, whole: float) -> float:
    """Return part / whole, rounded. 0 if the whole is 0."""
    return round(part / whole, _DIGITS) if whole else 0.0
