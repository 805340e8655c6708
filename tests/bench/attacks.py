#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that a customer gains no service by tricks, on simulated grids with more work than room.

Ten honest customers and one attacker have equal credits in total, and more work than the provider
can run. The first simulation has an honest attacker: one wallet that submits as much as the others.
In each other simulation the attacker uses a trick. Its share of the served money must exceed its
honest share by at most 2 percentage points. The exit code is 1 if it exceeds it by more.
"""

import argparse
import json
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "control")]

from gridstead.domain.jobs.billing import Prices, Resources  # noqa: E402
from gridstead.domain.jobs.job import Hardware, Provider  # noqa: E402
from gridstead.domain.matching.decisions import Rules  # noqa: E402
from gridstead.domain.matching.shares import HalfLife  # noqa: E402
from gridstead.services.simulation.simulator import SimulatedGrid, Simulator  # noqa: E402
from gridstead.services.simulation.workload import SimulatedJob  # noqa: E402

CREDIT = 10**18
CREDITS_EACH = 10**6 * CREDIT
HONEST_CUSTOMERS = 10
NODES = 2
CPUS_PER_NODE = 32
RUN_S = 1800
HOURS = 24
BLOCK_S = 10
HALF_LIFE = HalfLife(6 * 3600 // BLOCK_S)
LOAD = 2.0  # the work of the honest customers and the honest attacker together
MAX_GAIN = 0.02
ATTACKER = "attacker"
JOB = Resources(gpus=0, tasks=1, cpus_per_task=2, memory_per_cpu_mb=1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """What the attacker does.

    Attributes:
        name: The name in the report.
        wallets: Among how many wallets it divides its credits and jobs.
        work: How many jobs it submits, in relation to an honest customer.
        paid_factor: For how long its escrow pays, in relation to the run time. Honest: 1.2.
    """

    name: str
    wallets: int = 1
    work: int = 1
    paid_factor: float = 1.2


ATTACKS = (
    Attack(name="honest"),
    Attack(name="wallet divided into 100", wallets=100),
    Attack(name="flood from one wallet", work=20),
    Attack(name="flood from 100 wallets", wallets=100, work=20),
    Attack(name="escrow ten times as high", paid_factor=12),
)


def main():
    """Simulate the attacks, print the shares and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")
    options = parser.parse_args()
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
    credits_by_customer |= dict.fromkeys(wallets, CREDITS_EACH // attack.wallets)
    grid = SimulatedGrid(
        providers=[provider()], credits_by_customer=credits_by_customer, block_s=BLOCK_S
    )
    jobs = jobs_of(random.Random(seed), honest_customers, wallets, attack)
    simulator = Simulator(grid, jobs, Rules(half_life=HALF_LIFE), policy="balanced")
    outcome = simulator.run(HOURS * 3600)
    money = {"attacker": 0, "honest": 0}
    for run in outcome.runs:
        owner = "attacker" if run.job.customer in wallets else "honest"
        money[owner] += run.cost(outcome.now)
    return money["attacker"] / sum(money.values())


def provider():
    """Return a provider with two nodes."""
    return Provider(
        address="0x" + "11" * 20,
        hardware=Hardware(
            gpus_per_node=(0,) * NODES,
            cpus_per_node=(CPUS_PER_NODE,) * NODES,
            memory_per_node_mb=(CPUS_PER_NODE * 1000,) * NODES,
        ),
        prices=Prices(gpu_per_min=0, cpu_per_min=CREDIT // 100, memory_mb_per_min=0),
        labels=(),
        is_joined=True,
    )


def jobs_of(source, honest_customers, wallets, attack):
    """Return all jobs in the order of their submission. They arrive at random times."""
    slots = NODES * CPUS_PER_NODE // JOB.cpus
    jobs_each = round(LOAD * slots * HOURS * 3600 / RUN_S / (len(honest_customers) + 1))
    jobs = []
    for customer in honest_customers:
        for _ in range(jobs_each):
            jobs.append(new_job(source, customer, paid_factor=1.2))  # noqa: PERF401 - nested loops
    for number in range(jobs_each * attack.work):
        wallet = wallets[number % len(wallets)]
        jobs.append(new_job(source, wallet, paid_factor=attack.paid_factor))
    return sorted(jobs, key=lambda job: job.submitted_at)


def new_job(source, customer, *, paid_factor):
    """Return a job that is submitted at a random time."""
    return SimulatedJob(
        submitted_at=source.randrange(HOURS * 3600),
        customer=customer,
        resources=JOB,
        run_s=RUN_S,
        paid_s=round(RUN_S * paid_factor),
    )


if __name__ == "__main__":
    sys.exit(main())
