# SPDX-License-Identifier: Apache-2.0
"""The scenario file of `gridstead simulate`."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from gridstead.config.simulation_values import (
    MAX_MEMORY_MB,
    Duration,
    Fraction,
    Labels,
    Name,
    Offset,
    Price,
)
from gridstead.config.values import Settings
from gridstead.domain.jobs.billing import MAX_CPUS, MAX_GPUS


def _check_unique(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError("must not contain the same policy twice")
    return names


PolicyName = Literal["cheapest-first", "cheapest", "balanced", "soonest"]


class NodeGroup(Settings):
    """Equal nodes of a provider."""

    count: Annotated[int, Field(gt=0, le=10_000, description="Number of these nodes.")] = 1
    cpus: Annotated[int, Field(gt=0, le=MAX_CPUS, description="CPUs of a node.", examples=[64])]
    memory_mb: Annotated[
        int,
        Field(gt=0, le=MAX_MEMORY_MB, description="Memory of a node, MB.", examples=[256000]),
    ]
    gpus: Annotated[int, Field(ge=0, le=MAX_GPUS, description="GPUs of a node.")] = 0


class SimulatedProvider(Settings):
    """A provider, or several equal providers."""

    name: Annotated[
        Name,
        Field(description="Name in the results. Equal providers get a number too: `name-1`."),
    ]
    count: Annotated[
        int, Field(gt=0, le=10_000, description="Number of these providers.", examples=[3])
    ] = 1
    nodes: Annotated[
        tuple[NodeGroup, ...], Field(min_length=1, max_length=1000, description="The nodes.")
    ]
    cpu_credits_per_min: Annotated[
        Price, Field(description="Price of a CPU for a minute, credits.", examples=["0.001"])
    ]
    memory_mb_credits_per_min: Annotated[
        Price, Field(description="Price of an MB of memory for a minute, credits.")
    ] = Decimal(0)
    gpu_credits_per_min: Annotated[
        Price, Field(description="Price of a GPU for a minute, credits.")
    ] = Decimal(0)
    labels: Annotated[
        Labels,
        Field(
            default_factory=dict, description="Labels of the provider.", examples=[{"region": "eu"}]
        ),
    ]


class Customers(Settings):
    """The customers. All start with the same credits."""

    credits: Annotated[
        Decimal,
        Field(
            gt=0,
            le=10**15,
            decimal_places=18,
            description="Credits of each customer at the start. A job is refused if its customer "
            "has fewer credits than the escrow of the job.",
        ),
    ] = Decimal(1_000_000)
    count: Annotated[
        int | None,
        Field(
            gt=0,
            le=100_000,
            description="Number of customers. Required with `jobs`, forbidden with `trace`.",
        ),
    ] = None
    zipf_exponent: Annotated[
        Fraction,
        Field(
            ge=0,
            le=10,
            description="Customer k submits jobs in proportion to 1 / k^exponent. With 0, all "
            "customers submit the same number.",
        ),
    ] = 1.0


class JobShape(Settings):
    """The resources of some of the jobs."""

    share: Annotated[
        Fraction,
        Field(
            gt=0,
            le=10**6,
            description="Number of jobs with this shape, in relation to the other shapes.",
        ),
    ]
    tasks: Annotated[int, Field(gt=0, le=MAX_CPUS, description="Tasks of a job.")] = 1
    cpus_per_task: Annotated[int, Field(gt=0, le=MAX_CPUS, description="CPUs of a task.")] = 1
    memory_per_cpu_mb: Annotated[
        int, Field(gt=0, le=MAX_MEMORY_MB, description="Memory per CPU, MB.")
    ] = 1000
    gpus: Annotated[int, Field(ge=0, le=MAX_GPUS, description="GPUs of a job.")] = 0
    labels: Annotated[
        Labels, Field(default_factory=dict, description="Labels that the provider must have.")
    ]


class GeneratedJobs(Settings):
    """Random jobs. Their run times are log-normal."""

    load: Annotated[
        Fraction,
        Field(
            gt=0,
            le=100,
            description="CPU time of all jobs, in relation to the CPU time of the grid during the "
            "simulation.",
            examples=[0.9],
        ),
    ]
    median_run: Annotated[Duration, Field(description="Median run time.")] = 1800
    sigma: Annotated[
        Fraction,
        Field(
            ge=0, le=5, description="Standard deviation of the natural logarithm of the run time."
        ),
    ] = 1.0
    max_run: Annotated[Duration, Field(description="Longest run time.")] = 43_200
    paid_factor_max: Annotated[
        Fraction,
        Field(
            ge=1,
            le=1000,
            description="The escrow of a job pays for its run time multiplied by a random number "
            "from 1 to this number.",
        ),
    ] = 3.0
    daily_cycle: Annotated[
        Fraction,
        Field(
            ge=0,
            le=1,
            description="Change of the submission rate during a day. With 0.5, the rate is between "
            "0.5 and 1.5 of its mean.",
        ),
    ] = 0.0
    shapes: Annotated[
        tuple[JobShape, ...],
        Field(min_length=1, max_length=1000, description="The resources of the jobs."),
    ]


class Trace(Settings):
    """Jobs from a file in SWF, the Standard Workload Format."""

    file: Annotated[
        str,
        Field(
            min_length=1,
            description="SWF file, relative to the scenario file. It may be compressed (`.gz`).",
        ),
    ]
    memory_per_cpu_mb: Annotated[
        int, Field(gt=0, le=MAX_MEMORY_MB, description="Memory of each job per CPU, MB.")
    ] = 1000


class FloodOfJobs(Settings):
    """Additional jobs of one customer."""

    customer: Annotated[
        Name,
        Field(
            description="Customer that submits the jobs: an existing customer such as "
            "`customer-3` or, with a trace, `user-3`, or a new name."
        ),
    ]
    factor: Annotated[
        Fraction,
        Field(
            gt=0,
            le=100,
            description="Work of the additional jobs, in relation to the work of all other "
            "customers from `start` on.",
        ),
    ]
    start: Annotated[Offset, Field(description="When the additional jobs start.")] = 0


class SimulationSettings(Settings):
    """A scenario: a grid, its customers and their jobs."""

    seed: Annotated[
        int,
        Field(
            ge=0,
            lt=1 << 63,
            description="Start of the random numbers. The same seed gives the same jobs.",
        ),
    ] = 1
    duration: Annotated[
        Duration, Field(description="Simulated time. Jobs are submitted during all of it.")
    ]
    policies: Annotated[
        tuple[PolicyName, ...],
        AfterValidator(_check_unique),
        Field(min_length=1, description="The policies to compare."),
    ] = ("cheapest-first", "balanced")
    half_life: Annotated[
        Duration,
        Field(description="Time after which the usage of a customer counts half as much."),
    ] = 604_800
    block_s: Annotated[
        int, Field(gt=0, le=3600, description="Time between two blocks of the chain, seconds.")
    ] = 2
    queue_allowance: Annotated[
        int,
        Field(
            ge=0,
            le=10**6,
            description="Number of jobs that may be matched to each provider while it has no "
            "room for them.",
        ),
    ] = 0
    providers: Annotated[
        tuple[SimulatedProvider, ...],
        Field(min_length=1, max_length=10_000, description="The providers."),
    ]
    customers: Annotated[Customers, Field(description="The customers.")] = Customers()
    jobs: Annotated[
        GeneratedJobs | None,
        Field(description="Random jobs. Either `jobs` or `trace` is required."),
    ] = None
    trace: Annotated[Trace | None, Field(description="Recorded jobs.")] = None
    flood: Annotated[
        FloodOfJobs | None,
        Field(description="One customer that submits much more than the others from a time on."),
    ] = None

    @model_validator(mode="after")
    def _check_jobs(self) -> Self:
        if (self.jobs is None) == (self.trace is None):
            raise ValueError("requires either jobs or trace")
        if self.jobs is not None and self.customers.count is None:
            raise ValueError("customers.count is required with jobs")
        if self.trace is not None and self.customers.count is not None:
            raise ValueError("customers.count must be absent with trace, which names the customers")
        return self

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = [provider.name for provider in self.providers]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two providers have the name {name}")
        return self

    @model_validator(mode="after")
    def _check_half_life(self) -> Self:
        if self.half_life < self.block_s:
            raise ValueError("half_life must be at least block_s")
        return self
