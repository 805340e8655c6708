# SPDX-License-Identifier: Apache-2.0
"""Builders of small grids for the tests of matching. Every field has a default.

Prices are small: a CPU costs 1 wei per minute, and memory and GPUs cost nothing. So a job with one
CPU and an escrow of 60 wei is paid for one hour.
"""

from dataclasses import replace

from tests.unit.domain import builders
from tests.unit.domain.builders import job_id

from gridstead.domain.jobs.billing import Prices, Resources
from gridstead.domain.jobs.job import Hardware, Provider
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.cluster import Cluster
from gridstead.domain.matching.decisions import Rules
from gridstead.domain.matching.forecast import PlacedJob
from gridstead.domain.matching.matcher import Matcher

ALICE = "0x" + "a1" * 20
BOB = "0x" + "b0" * 20
CAROL = "0x" + "ca" * 20
MINT = "0x" + "00" * 20
FIRST = "0x" + "f1" * 20
SECOND = "0x" + "f2" * 20
THIRD = "0x" + "f3" * 20
HOUR_S = 3600
NOW = 1_000_000  # Unix seconds
BLOCK = 100  # The block at which jobs are requested and matched.
CREDITS = 10**6  # What each customer receives in block 1, wei.


def resources(cpus=1, *, tasks=1, gpus=0, memory_per_cpu_mb=1):
    """Return the resources of a job with so many CPUs per task."""
    return Resources(
        gpus=gpus, tasks=tasks, cpus_per_task=cpus, memory_per_cpu_mb=memory_per_cpu_mb
    )


def hardware(*cpus_per_node, memory_mb=1000, gpus=0):
    """Return nodes with equal memory. All GPUs are in the first node."""
    other_nodes = len(cpus_per_node) - 1
    return Hardware(
        gpus_per_node=(gpus,) + (0,) * other_nodes,
        cpus_per_node=cpus_per_node,
        memory_per_node_mb=(memory_mb,) * len(cpus_per_node),
    )


def provider(address=FIRST, *cpus_per_node, price=1, memory_mb=1000, gpus=0, **changes):
    """Return a provider with one node of 4 CPUs, or with these nodes."""
    base = Provider(
        address=address,
        hardware=hardware(*(cpus_per_node or (4,)), memory_mb=memory_mb, gpus=gpus),
        prices=Prices(cpu_per_min=price, gpu_per_min=0, memory_mb_per_min=0),
        labels=(),
        is_joined=True,
    )
    return replace(base, **changes)


def pending_job(number, cpus=1, *, tasks=1, customer=ALICE, escrow=60, **changes):
    """Return a pending job. The escrow is in wei."""
    return builders.job(
        JobState.PENDING,
        number=number,
        customer=customer,
        provider="",
        resources=changes.pop("resources", resources(cpus, tasks=tasks)),
        escrow=escrow,
        price_per_min=0,
        **changes,
    )


def matched_job(number, cpus=1, *, address=FIRST, price=1, started_at=0, **changes):
    """Return a job that is matched to a provider, and runs if it has a start."""
    job = pending_job(number, cpus, **changes)
    return replace(
        job,
        state=JobState.RUNNING if started_at else JobState.META_SCHEDULED,
        provider=address,
        price_per_min=price * job.resources.cpus,
        started_at=started_at,
    )


def occupant(number, cpus=4, *, until_s, address=FIRST, price=1, started_at=NOW):
    """Return a job of CAROL that runs and is paid until so many seconds after its start."""
    escrow, remainder = divmod(cpus * price * until_s, 60)
    assert not remainder, "the escrow is not a whole number of wei"
    return matched_job(
        number,
        cpus,
        address=address,
        price=price,
        escrow=escrow,
        customer=CAROL,
        started_at=started_at,
    )


def finished_job(job, *, cost=0):
    """Return a job after its end."""
    return replace(job, state=JobState.FINISHED, final_cost=cost)


def placed_job(
    number, cpus=1, *, tasks=1, paid_s=HOUR_S, started_at=0, matched_block=BLOCK, gpus=0
):
    """Return a job as a cluster stores it."""
    return PlacedJob(
        job_id=job_id(number),
        resources=resources(cpus, tasks=tasks, gpus=gpus),
        matched_block=matched_block,
        started_at=started_at,
        paid_s=paid_s,
    )


def cluster(*cpus_per_node, jobs=(), queue_allowance=0, gpus=0):
    """Return the cluster of a provider with these nodes, to which these jobs are matched."""
    result = Cluster(provider(FIRST, *cpus_per_node, gpus=gpus), queue_allowance=queue_allowance)
    for job in jobs:
        result.set_job(job)
    return result


def matcher(*providers, jobs=(), customers=(ALICE, BOB), **rules):
    """Return a matcher with these providers and jobs. All customers have the same credits.

    The jobs are set in their order at BLOCK.
    """
    grid = Matcher(Rules(**rules))
    for customer in customers:
        grid.shares.transfer(MINT, customer, CREDITS, block=1)
    for each_provider in providers:
        grid.set_provider(each_provider)
    set_jobs(grid, *jobs)
    return grid


def set_jobs(grid, *jobs, block=BLOCK):
    """Set jobs that were requested in a block, and matched in the same block if they are."""
    for job in jobs:
        grid.set_job(job, requested_block=block, matched_block=block)


def decide(grid, *, now=NOW, block=BLOCK, **arguments):
    """Return the matches of the next decision: (job number, address of the provider)."""
    return matches_of(grid.decide(now=now, block=block, **arguments))


def matches_of(decision):
    """Return the matches of a decision: (job number, address of the provider)."""
    return [(pairing.job.id.number, pairing.provider) for pairing in decision.matches]


def reservations(grid):
    """Return the reservations: (address of the provider, start) by job number."""
    result = {}
    for reserved_id, cluster in grid.reserved.items():
        result[reserved_id.number] = (cluster.provider.address, cluster.reservation.start_at)
    return result
