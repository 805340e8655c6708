# SPDX-License-Identifier: Apache-2.0
"""The providers, jobs and options of the campaigns with an attacker (*attacks.py)."""

from __future__ import annotations

import argparse

from gridstead.domain.jobs.billing import Prices, Resources
from gridstead.domain.jobs.job import Hardware, Provider
from gridstead.services.simulation.workload import SimulatedJob

CREDIT = 10**18
CREDITS_EACH = 10**6 * CREDIT
ATTACKER = "attacker"
NODES = 2
CPUS_PER_NODE = 32
RUN_S = 1800
PAID_FACTOR = 1.2  # for how long an honest escrow pays, in relation to the run time
BLOCK_S = 10
JOB = Resources(gpus=0, tasks=1, cpus_per_task=2, memory_per_cpu_mb=1000)


def parse_options(description):
    """Return the options of a campaign."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")
    return parser.parse_args()


def provider(address, *, labels=()):
    """Return a provider with two nodes."""
    return Provider(
        address=address,
        hardware=Hardware(
            gpus_per_node=(0,) * NODES,
            cpus_per_node=(CPUS_PER_NODE,) * NODES,
            memory_per_node_mb=(CPUS_PER_NODE * 1000,) * NODES,
        ),
        prices=Prices(gpu_per_min=0, cpu_per_min=CREDIT // 100, memory_mb_per_min=0),
        labels=labels,
        is_joined=True,
    )


def jobs_per_customer(load, *, providers, customers, duration_s):
    """Return how many jobs each customer submits, so that all of them cause a load.

    Args:
        load: The work of these customers in relation to what the providers can run.
        providers: The number of providers.
        customers: The number of customers.
        duration_s: The duration of the simulation, seconds.
    """
    slots = providers * NODES * CPUS_PER_NODE // JOB.cpus
    return round(load * slots * duration_s / RUN_S / customers)


def honest_jobs(source, customers, jobs_each, *, duration_s):
    """Return the jobs of the honest customers. They arrive at random times."""
    jobs = []
    for customer in customers:
        for _ in range(jobs_each):
            jobs.append(new_job(source, customer, duration_s=duration_s))  # noqa: PERF401 - nested
    return jobs


def new_job(source, customer, *, duration_s, paid_factor=PAID_FACTOR, labels=()):
    """Return a job that is submitted at a random time."""
    return SimulatedJob(
        submitted_at=source.randrange(duration_s),
        customer=customer,
        resources=JOB,
        run_s=RUN_S,
        paid_s=round(RUN_S * paid_factor),
        labels=labels,
    )
