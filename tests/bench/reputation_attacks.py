#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that reputation can be neither bought nor slandered, on simulated grids.

Twelve honest customers use two providers with equal prices. In the first simulations, both
providers are honest, and an attacker submits jobs that only the first provider can run. In the
first simulation, these jobs finish. In the next ones, they end as FAILED or PANICKED. This must not
cost the provider jobs of the honest customers.

In the other simulations, half of the honest customers' jobs end as PANICKED at the second provider.
In all of them except the first, it pays for jobs of its own wallets that always finish. This must
not bring it more jobs of the honest customers.

The attacker has the credits of an honest customer, in one wallet or divided among 100. The figures
are means of three seeds. A difference of 2 percentage points is permitted. The exit code is 1 if it
is larger.
"""

import json
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "control")]

from tests.bench.attack_grid import (  # noqa: E402
    ATTACKER,
    BLOCK_S,
    CREDITS_EACH,
    honest_jobs,
    jobs_per_customer,
    new_job,
    parse_options,
    provider,
)

from gridstead.domain.jobs.job import Label  # noqa: E402
from gridstead.domain.jobs.lifecycle import JobState  # noqa: E402
from gridstead.domain.matching.decisions import Rules  # noqa: E402
from gridstead.domain.matching.shares import HalfLife  # noqa: E402
from gridstead.services.simulation.simulator import SimulatedGrid, Simulator  # noqa: E402

HONEST_CUSTOMERS = [f"honest-{number}" for number in range(12)]
FIRST, SECOND = "0x" + "11" * 20, "0x" + "22" * 20
HOURS = 48
HALF_LIFE = HalfLife(7 * 24 * 3600 // BLOCK_S)
LOAD = 0.7  # the work of the honest customers in relation to both providers
ATTACKER_WORK = 3  # the jobs of the attacker in relation to those of an honest customer
MAX_DIFFERENCE = 0.02
SEEDS = 3  # the figures are the means of so many simulations


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """A simulation.

    Attributes:
        name: The name in the report.
        target: The provider that runs the jobs of the attacker.
        end_state: The state in which the jobs of the attacker end.
        attacker_work: The jobs of the attacker in relation to those of an honest customer.
        wallets: Among how many wallets the attacker divides its credits and jobs.
        has_faults: Whether the second provider panics half of the honest customers' jobs.
    """

    name: str
    target: str
    end_state: JobState = JobState.FINISHED
    attacker_work: int = ATTACKER_WORK
    wallets: int = 1
    has_faults: bool = False


SLANDER = (
    Attack(name="honest", target=FIRST),
    Attack(name="FAILED jobs", target=FIRST, end_state=JobState.FAILED),
    Attack(name="PANICKED jobs", target=FIRST, end_state=JobState.PANICKED),
    Attack(
        name="PANICKED jobs of 100 wallets",
        target=FIRST,
        end_state=JobState.PANICKED,
        wallets=100,
    ),
)
BOUGHT = (
    Attack(name="faulty", target=SECOND, attacker_work=0, has_faults=True),
    Attack(name="faulty, own jobs", target=SECOND, has_faults=True),
    Attack(name="faulty, own jobs of 100 wallets", target=SECOND, has_faults=True, wallets=100),
    Attack(name="faulty, 10 times the own jobs", target=SECOND, has_faults=True, attacker_work=30),
)


def main():
    """Simulate the attacks, print the shares and return the exit code."""
    options = parse_options(__doc__)
    seeds = range(options.seed, options.seed + SEEDS)
    results = {}
    for attack in (*SLANDER, *BOUGHT):
        results[attack.name] = mean_of([simulate(attack, seed) for seed in seeds])
        print(f"bench: {attack.name}", file=sys.stderr, flush=True)
    has_passed = True
    for attack in SLANDER:
        loss = results[SLANDER[0].name]["share"] - results[attack.name]["share"]
        has_passed = has_passed and loss <= MAX_DIFFERENCE
    for attack in BOUGHT:
        gain = results[attack.name]["share"] - results[BOUGHT[0].name]["share"]
        has_passed = has_passed and gain <= MAX_DIFFERENCE
    if options.json:
        print(json.dumps({"reputation": results, "passed": has_passed}, indent=2))
        return 0 if has_passed else 1
    print(f"\n{'simulation':32} {'share of jobs':>13} {'success':>8}")
    for name, result in results.items():
        print(f"{name:32} {result['share']:13.2%} {result['success']:8.2%}")
    return 0 if has_passed else 1


def mean_of(results):
    """Return the mean of each figure."""
    return {key: mean(result[key] for result in results) for key in results[0]}


def simulate(attack, seed):
    """Return the target's share of the jobs of the honest customers, and its reputation."""
    wallets = [f"{ATTACKER}-{number}" for number in range(attack.wallets)]

    def end_state(job, provider_address):
        if job.customer in wallets:
            return attack.end_state
        is_fault = attack.has_faults and provider_address == SECOND and job.submitted_at % 2
        return JobState.PANICKED if is_fault else JobState.FINISHED

    counts = {FIRST: 0, SECOND: 0}
    credits_by_customer = dict.fromkeys(HONEST_CUSTOMERS, CREDITS_EACH)
    credits_by_customer |= dict.fromkeys(wallets, CREDITS_EACH // attack.wallets)
    grid = SimulatedGrid(
        providers=[provider(address, labels=(name_label(address),)) for address in counts],
        credits_by_customer=credits_by_customer,
        block_s=BLOCK_S,
        end_state=end_state,
    )
    jobs = jobs_of(random.Random(seed), attack, wallets)
    simulator = Simulator(grid, jobs, Rules(half_life=HALF_LIFE), policy="balanced")
    outcome = simulator.run(HOURS * 3600)
    for run in outcome.runs:
        if run.provider and run.job.customer not in wallets:
            counts[run.provider] += 1
    success = simulator._matcher.reputation.standing(attack.target).success
    return {"share": counts[attack.target] / sum(counts.values()), "success": success / 10**6}


def name_label(address):
    """Return the label that only the provider with this address has."""
    return Label(key="name", value=address)


def jobs_of(source, attack, wallets):
    """Return all jobs in the order of their submission. They arrive at random times."""
    duration_s = HOURS * 3600
    jobs_each = jobs_per_customer(
        LOAD, providers=2, customers=len(HONEST_CUSTOMERS), duration_s=duration_s
    )
    jobs = honest_jobs(source, HONEST_CUSTOMERS, jobs_each, duration_s=duration_s)
    labels = (name_label(attack.target),)
    for number in range(jobs_each * attack.attacker_work):
        wallet = wallets[number % len(wallets)]
        jobs.append(new_job(source, wallet, duration_s=duration_s, labels=labels))
    return sorted(jobs, key=lambda job: job.submitted_at)


if __name__ == "__main__":
    sys.exit(main())
