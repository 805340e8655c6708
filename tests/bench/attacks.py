#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that a customer gains no service by tricks, on simulated grids with more work than room.

Ten honest customers and one attacker have equal credits in total, and more work than the provider
can run. The first simulation has an honest attacker: one wallet that submits as much as the others.
In each other simulation the attacker uses a trick. Its share of the served money must exceed its
honest share by at most 2 percentage points. The exit code is 1 if it exceeds it by more.
"""

import json
import random
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "control")]

from tests.bench.attack_grid import (  # noqa: E402
    ATTACKER,
    BLOCK_S,
    CREDITS_EACH,
    PAID_FACTOR,
    honest_jobs,
    jobs_per_customer,
    new_job,
    parse_options,
    provider,
)
from tests.bench.attack_simulator import AttackSimulator  # noqa: E402

from gridstead.domain.matching.decisions import Rules  # noqa: E402
from gridstead.domain.matching.shares import HalfLife  # noqa: E402
from gridstead.services.simulation.simulator import SimulatedGrid  # noqa: E402

HONEST_CUSTOMERS = 10
HOURS = 24
HALF_LIFE = HalfLife(6 * 3600 // BLOCK_S)
LOAD = 2.0  # the work of the honest customers and the honest attacker together
MAX_GAIN = 0.02
PERIOD_S = 3600  # in which the attacker cancels jobs or moves credits
PROVIDER = "0x" + "11" * 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """What the attacker does.

    Attributes:
        name: The name in the report.
        wallets: Among how many wallets it divides its credits and jobs.
        work: How many jobs it submits, in relation to an honest customer.
        paid_factor: For how long its escrow pays, in relation to the run time.
        is_cancelling: Whether it cancels its waiting jobs in each period.
        is_passing: Whether only one wallet has credits. In each period, they move to the next
            wallet, which submits the jobs of this period.
    """

    name: str
    wallets: int = 1
    work: int = 1
    paid_factor: float = PAID_FACTOR
    is_cancelling: bool = False
    is_passing: bool = False


ATTACKS = (
    Attack(name="honest"),
    Attack(name="wallet divided into 100", wallets=100),
    Attack(name="flood from one wallet", work=20),
    Attack(name="flood from 100 wallets", wallets=100, work=20),
    Attack(name="escrow ten times as high", paid_factor=12),
    Attack(name="flood and cancel", work=20, is_cancelling=True),
    Attack(name="credits passed round", wallets=10, is_passing=True),
)


def main():
    """Simulate the attacks, print the shares and return the exit code."""
    options = parse_options(__doc__)
    shares = {}
    for attack in ATTACKS:
        start_s = time.monotonic()
        shares[attack.name] = share_of_attacker(attack, options.seed)
        seconds = round(time.monotonic() - start_s)
        print(f"bench: {attack.name}: {seconds} s", file=sys.stderr, flush=True)
    honest_share = shares["honest"]
    differences = {name: share - honest_share for name, share in shares.items()}
    has_passed = all(difference <= MAX_GAIN for difference in differences.values())
    if options.json:
        print(json.dumps({"shares": shares, "passed": has_passed}, indent=2))
        return 0 if has_passed else 1
    print(f"\n{'attack':26} {'share':>7} {'difference':>11}")
    for name, share in shares.items():
        print(f"{name:26} {share:7.2%} {differences[name]:+11.2%}")
    return 0 if has_passed else 1


def share_of_attacker(attack, seed):
    """Return which part of the served money is the attacker's."""
    wallets = [f"{ATTACKER}-{number}" for number in range(attack.wallets)]
    honest_customers = [f"honest-{number}" for number in range(HONEST_CUSTOMERS)]
    credits_by_customer = dict.fromkeys(honest_customers, CREDITS_EACH)
    owners = wallets[:1] if attack.is_passing else wallets
    credits_by_customer |= dict.fromkeys(owners, CREDITS_EACH // len(owners))
    grid = SimulatedGrid(
        providers=[provider(PROVIDER)], credits_by_customer=credits_by_customer, block_s=BLOCK_S
    )
    jobs = jobs_of(random.Random(seed), honest_customers, wallets, attack)
    simulator = AttackSimulator(grid, jobs, Rules(half_life=HALF_LIFE), policy="balanced")
    if attack.is_cancelling:
        simulator.cancel_waiting_jobs(wallets, period_s=PERIOD_S, until_s=HOURS * 3600)
    if attack.is_passing:
        simulator.pass_credits(wallets, period_s=PERIOD_S, until_s=HOURS * 3600)
    outcome = simulator.run(HOURS * 3600)
    money = {"attacker": 0, "honest": 0}
    for run in outcome.runs:
        owner = "attacker" if run.job.customer in wallets else "honest"
        money[owner] += run.cost(outcome.now)
    return money["attacker"] / sum(money.values())


def jobs_of(source, honest_customers, wallets, attack):
    """Return all jobs in the order of their submission. They arrive at random times."""
    duration_s = HOURS * 3600
    # The honest attacker is one more customer.
    jobs_each = jobs_per_customer(
        LOAD, providers=1, customers=len(honest_customers) + 1, duration_s=duration_s
    )
    jobs = honest_jobs(source, honest_customers, jobs_each, duration_s=duration_s)
    for number in range(jobs_each * attack.work):
        wallet = wallets[number % len(wallets)]
        job = new_job(source, wallet, duration_s=duration_s, paid_factor=attack.paid_factor)
        if attack.is_passing:
            period = job.submitted_at // PERIOD_S
            job = replace(job, customer=wallets[period % len(wallets)])
        jobs.append(job)
    return sorted(jobs, key=lambda job: job.submitted_at)


if __name__ == "__main__":
    sys.exit(main())
