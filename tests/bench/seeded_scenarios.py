#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check the promises of the matching on many small simulated grids that seeds determine.

Reservations: a grid with a few providers has work for 50 % to 90 % of its capacity. A job with a
reservation must be matched by the time of the reservation, with a tolerance of a minute and a
block. The reservation may become later only if the decision reports the move, and if the reported
cause is true: a job has not started in time, or has not ended in time.

Fairness: two customers with equal credits always have pending jobs. The jobs need the same
resources and differ in their run time. After each decision, what the matcher counts as served may
differ by at most the largest job.

The exit code is 1 if a promise is broken, and 130 after Ctrl-C.
"""

import argparse
import json
import os
import random
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "control")]

from gridstead.domain.jobs.billing import Prices, Resources  # noqa: E402
from gridstead.domain.jobs.job import Hardware, Provider  # noqa: E402
from gridstead.domain.matching.decisions import Rules  # noqa: E402
from gridstead.domain.matching.policies import POLICIES, paid_seconds  # noqa: E402
from gridstead.domain.matching.reservations import MOVE_TOLERANCE_S  # noqa: E402
from gridstead.domain.matching.shares import HalfLife  # noqa: E402
from gridstead.services.simulation.simulator import (  # noqa: E402
    START_S,
    SimulatedGrid,
    Simulator,
    can_run,
)
from gridstead.services.simulation.workload import (  # noqa: E402
    Shape,
    SimulatedJob,
    Workload,
    generate,
)

CREDIT = 10**18
CREDITS_EACH = 10**9 * CREDIT  # so many that the weights stay equal
BLOCK_S = 10
SETTLE_S = 14  # the default of ``SimulatedGrid``
HALF_LIFE = HalfLife(10**6)
MEMORY_PER_CPU_MB = 1000
MAX_LOAD = 0.9
HOURS = 4
CUSTOMERS = 6
FAIRNESS_JOBS = 60  # of each customer
MAX_DIFFERENCE = 1.000001  # the weights differ by less than this margin
PROGRESS_INTERVAL_S = 5
SHOWN_FAULTS = 10
INTERRUPTED = 130  # the exit code after Ctrl-C
_CAUSE = re.compile(r"job (\d+) (has not started yet|is not settled yet|started late|left)")


@dataclass(slots=True)
class Totals:
    """The results of all scenarios so far.

    Attributes:
        scenarios: The number of scenarios.
        reserved_jobs: How many jobs got a reservation.
        released_jobs: How many jobs lost a reservation because they wait for a cheaper provider.
        moves: How many reservations became later, by cause.
        missed: The reservations that were missed without a true and reported cause.
        largest_difference: The largest difference between two customers, in largest jobs.
        unfair: The scenarios in which the difference was more than one largest job.
    """

    scenarios: int = 0
    reserved_jobs: int = 0
    released_jobs: int = 0
    moves: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    largest_difference: float = 0.0
    unfair: list[str] = field(default_factory=list)


def main():
    """Simulate the scenarios, print the results and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenarios", type=int, default=1000, help="number of scenarios")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first scenario")
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")
    options = parser.parse_args()
    totals, is_complete = Totals(), False
    try:
        simulate_all(options, totals)
        is_complete = True
    except KeyboardInterrupt:
        report_progress("interrupted")
    return report(totals, options, is_complete=is_complete)


def simulate_all(options, totals):
    reported_s = time.monotonic()
    for seed in range(options.seed, options.seed + options.scenarios):
        check_reservations(seed, totals)
        check_fairness(seed, totals)
        totals.scenarios += 1
        if time.monotonic() - reported_s >= PROGRESS_INTERVAL_S:
            reported_s = time.monotonic()
            report_progress(f"{totals.scenarios} of {options.scenarios} scenarios")


def check_reservations(seed, totals):
    """Simulate a random grid, and check its reservations after each decision."""
    source = random.Random(seed)
    providers = [random_provider(source, number) for number in range(source.randint(1, 4))]
    workload = random_workload(source, providers)
    jobs = list(generate(workload, seed=seed))
    simulator = new_simulator(providers, jobs, policy=source.choice(list(POLICIES)))
    watch = ReservationWatch(simulator, seed, totals)
    watch_decisions(simulator, watch.check)
    simulator.run()
    unstarted = sum(run.started_at is None for run in simulator.outcome.runs)
    if unstarted:
        totals.missed.append(f"seed {seed}: {unstarted} jobs never started")


def check_fairness(seed, totals):
    """Simulate two customers who always have pending jobs, and check each decision."""
    source = random.Random(seed)
    provider = random_provider(source, 0)
    cpus = source.randint(1, min(provider.hardware.cpus_per_node))
    jobs = []
    for customer in ("ada", "bob"):
        scale = source.randint(1, 20)
        for _ in range(FAIRNESS_JOBS):
            run_s = scale * source.randint(60, 600)
            resources = resources_of(1, cpus)
            jobs.append(SimulatedJob(0, customer, resources, run_s, run_s))
    source.shuffle(jobs)
    simulator = new_simulator([provider], jobs, policy="balanced")
    price = cpus * provider.prices.cpu_per_min
    largest_job = max(job.paid_s for job in jobs) * price / 60
    differences = [0.0]

    def check(matcher, _decision, now):
        customers = list(matcher.queues)
        block = (now - START_S) // BLOCK_S
        if len(customers) == 2 and all(matcher.queues[name] for name in customers):
            usages = [matcher.shares.usage(customer, block=block) for customer in customers]
            differences.append(abs(usages[0] - usages[1]) / largest_job)

    watch_decisions(simulator, check)
    simulator.run()
    totals.largest_difference = max(totals.largest_difference, *differences)
    if max(differences) > MAX_DIFFERENCE:
        totals.unfair.append(f"seed {seed}: {max(differences):.3f} largest jobs")


def watch_decisions(simulator, check):
    """Call ``check`` after each decision, with the matcher, the decision and its time."""
    matcher = simulator._matcher
    decide = matcher.decide

    def decide_and_check(*, now, block):
        decision = decide(now=now, block=block)
        check(matcher, decision, now)
        return decision

    matcher.decide = decide_and_check


class ReservationWatch:
    """Checks the reservations of a simulation.

    Args:
        simulator: The simulation.
        seed: The seed of the scenario.
        totals: Where the results are counted.
    """

    def __init__(self, simulator, seed, totals):
        self._runs = simulator.outcome.runs
        self._seed = seed
        self._totals = totals
        # The address of the provider, and the latest time by which the job must be matched.
        self._promises = {}

    def check(self, matcher, decision, now):
        """Check the reservations after a decision."""
        for move in decision.moves:
            self._check_move(move, now)
        matched_jobs = {pairing.job.id for pairing in decision.matches}
        for job_id, (provider, start_at) in list(self._promises.items()):
            cluster = matcher.reserved.get(job_id)
            if now > start_at + MOVE_TOLERANCE_S + BLOCK_S:
                self._add_fault(job_id, f"reserved until {start_at}, not matched at {now}")
                self._promises[job_id] = (provider, now)
            if job_id in matched_jobs:
                del self._promises[job_id]
            elif cluster is None or cluster.provider.address != provider:
                self._totals.released_jobs += 1
                del self._promises[job_id]
            elif cluster.reservation.start_at < start_at:
                self._promises[job_id] = (provider, cluster.reservation.start_at)
        for job_id, cluster in matcher.reserved.items():
            if job_id not in self._promises:
                self._totals.reserved_jobs += 1
                start_at = cluster.reservation.start_at
                self._promises[job_id] = (cluster.provider.address, start_at)

    def _check_move(self, move, now):
        cause = _CAUSE.fullmatch(move.cause)
        is_true = cause is not None and self._is_true(int(cause[1]), cause[2], move, now)
        if not is_true:
            self._add_fault(move.job_id, f"moved at {now} because {move.cause!r}")
        kind = re.sub(r"job \d+", "a job", move.cause)
        self._totals.moves[kind] += 1
        self._promises[move.job_id] = (move.provider, move.to_s)

    def _is_true(self, number, cause, move, now):
        """Return whether a job of the provider delays a reservation for the reported cause."""
        run = self._runs[number]
        if run.provider != move.provider:
            return False
        if run.started_at is None:
            return cause == "has not started yet"
        started_at = START_S + run.started_at
        paid_until = started_at + paid_seconds(run.escrow, run.price_per_min)
        if cause == "started late":
            return run.ended_at is None and paid_until > move.from_s
        if cause == "is not settled yet":
            return paid_until <= now
        return run.ended_at is not None and START_S + run.ended_at + SETTLE_S > move.from_s

    def _add_fault(self, job_id, text):
        self._totals.missed.append(f"seed {self._seed}: job {job_id} {text}")


def new_simulator(providers, jobs, *, policy):
    customers = {job.customer for job in jobs}
    grid = SimulatedGrid(
        providers=providers,
        credits_by_customer=dict.fromkeys(sorted(customers), CREDITS_EACH),
        block_s=BLOCK_S,
    )
    return Simulator(grid, jobs, Rules(half_life=HALF_LIFE), policy=policy)


def random_provider(source, number):
    """Return a provider with one to three groups of equal nodes."""
    cpus = []
    for _ in range(source.randint(1, 3)):
        cpus += [source.choice((4, 8, 16, 32))] * source.randint(1, 4)
    hardware = Hardware(
        gpus_per_node=(0,) * len(cpus),
        cpus_per_node=tuple(cpus),
        memory_per_node_mb=tuple(count * MEMORY_PER_CPU_MB for count in cpus),
    )
    price = source.randint(80, 120) * CREDIT // 10_000
    return Provider(
        address=f"provider-{number}",
        hardware=hardware,
        prices=Prices(gpu_per_min=0, cpu_per_min=price, memory_mb_per_min=0),
        labels=(),
        is_joined=True,
    )


def random_workload(source, providers):
    """Return a workload with small jobs, and with jobs of up to several whole nodes."""
    shapes = [Shape(share=10, resources=resources_of(1, 1))]
    while len(shapes) < 5:
        resources = resources_of(source.randint(1, 6), source.choice((1, 2, 4, 8, 16, 32)))
        if any(can_run(provider, resources, ()) for provider in providers):
            shapes.append(Shape(share=source.uniform(0.5, 3), resources=resources))
    return Workload(
        duration_s=HOURS * 3600,
        customers=CUSTOMERS,
        zipf_exponent=source.uniform(0, 1),
        shapes=shapes,
        median_run_s=source.choice((900, 1800, 3600)),
        sigma=source.uniform(0.3, 1.2),
        max_run_s=HOURS * 3600,
        paid_factor_max=source.uniform(1, 2),
        daily_cycle=0,
        load=source.uniform(0.5, MAX_LOAD),
        capacity_cpus=sum(sum(provider.hardware.cpus_per_node) for provider in providers),
    )


def resources_of(tasks, cpus_per_task):
    return Resources(
        gpus=0, tasks=tasks, cpus_per_task=cpus_per_task, memory_per_cpu_mb=MEMORY_PER_CPU_MB
    )


def report(totals, options, *, is_complete):
    """Print the results, and return the exit code."""
    has_passed = not totals.missed and not totals.unfair
    figures = {
        "scenarios": totals.scenarios,
        "first_seed": options.seed,
        "complete": is_complete,
        "reserved_jobs": totals.reserved_jobs,
        "released_jobs": totals.released_jobs,
        "moves": totals.moves,
        "missed": len(totals.missed),
        "largest_difference": round(totals.largest_difference, 4),
        "unfair": len(totals.unfair),
        "load": round(os.getloadavg()[0], 1),
        "passed": has_passed,
    }
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        print_results(totals, figures)
    for line in (totals.missed + totals.unfair)[:SHOWN_FAULTS]:
        report_progress(line)
    if not has_passed:
        return 1
    return 0 if is_complete else INTERRUPTED


def print_results(totals, figures):
    """Print the results for people."""
    print(f"scenarios: {totals.scenarios}, seeds from {figures['first_seed']}")
    print(f"jobs with a reservation: {totals.reserved_jobs}")
    print(f"reservations missed without a true cause: {len(totals.missed)} (must be 0)")
    for cause, count in sorted(totals.moves.items()):
        print(f"reservations that became later because {cause}: {count}")
    print(f"reservations released for a cheaper provider: {totals.released_jobs}")
    difference = figures["largest_difference"]
    print(f"largest difference of two customers: {difference:.2f} largest jobs (at most 1)")


def report_progress(line):
    """Print a line of progress."""
    print(f"campaign: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
