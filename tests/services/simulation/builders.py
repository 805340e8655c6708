# SPDX-License-Identifier: Apache-2.0
"""Small grids and jobs for the tests of the simulation."""

from gridstead.domain.jobs.billing import Prices, Resources
from gridstead.domain.jobs.job import Hardware, Provider
from gridstead.domain.matching.decisions import Rules
from gridstead.services.simulation.simulator import SimulatedGrid, Simulator
from gridstead.services.simulation.workload import SimulatedJob

CREDIT = 10**18


def hardware(*cpus, memory_mb=100_000, gpus=0):
    """Return nodes with these numbers of CPUs."""
    return Hardware(
        cpus_per_node=cpus,
        memory_per_node_mb=(memory_mb,) * len(cpus),
        gpus_per_node=(gpus,) * len(cpus),
    )


def provider(name, *cpus, price, **values):
    """Return a provider. The price is in credits for a CPU and a minute."""
    prices = Prices(gpu_per_min=0, cpu_per_min=price * CREDIT, memory_mb_per_min=0)
    return Provider(
        address=name, hardware=hardware(*cpus), prices=prices, labels=(), is_joined=True, **values
    )


def resources(cpus, *, tasks=1, gpus=0, memory_per_cpu_mb=100):
    return Resources(
        gpus=gpus, tasks=tasks, cpus_per_task=cpus, memory_per_cpu_mb=memory_per_cpu_mb
    )


def job(submitted_at, customer="ada", *, cpus=1, run_s=600, paid_s=None):
    """Return a job that is paid for exactly its run time, unless another time is given."""
    return SimulatedJob(submitted_at, customer, resources(cpus), run_s, paid_s or run_s)


def simulate(jobs, *providers, policy="balanced", credits_by_customer=None, until_s=None):
    """Return the outcome of a simulation, and the grid."""
    customers = {job.customer for job in jobs}
    grid = SimulatedGrid(
        providers=providers,
        credits_by_customer=credits_by_customer or dict.fromkeys(customers, 10**6 * CREDIT),
    )
    outcome = Simulator(grid, jobs, Rules(), policy=policy).run(until_s)
    return outcome, grid
