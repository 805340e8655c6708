# SPDX-License-Identifier: Apache-2.0
"""The jobs of a simulation: generated from a seed, or read from a trace in SWF.

SWF, the Standard Workload Format of the Parallel Workloads Archive, has one line per job with 18
numbers, of which these are used: 2 (submit time, s), 4 (run time, s), 5 (allocated processors), 8
(requested processors), 9 (requested time, s) and 12 (user). -1 is an unknown value. Lines that
start with ``;`` are comments.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.job import Label
from gridstead.errors import InvalidInput

DAY_S = 86_400
SWF_FIELDS = 18
MAX_JOBS = 1_000_000
_PAID_RESERVE_S = 60  # the least paid time that a generated job does not use


@dataclass(frozen=True, slots=True)
class SimulatedJob:
    """A job of a simulation.

    Attributes:
        submitted_at: Seconds since the start of the simulation.
        customer: The name of the customer.
        resources: The requested resources.
        run_s: How long it runs, seconds.
        paid_s: For how long its escrow pays, at whichever provider it runs, seconds.
        labels: The labels that a provider must have.
    """

    submitted_at: int
    customer: str
    resources: Resources
    run_s: int
    paid_s: int
    labels: tuple[Label, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The resources of some jobs.

    Attributes:
        share: How many jobs have this shape, in relation to the other shapes.
        resources: The resources.
        labels: The labels that a provider must have.
    """

    share: float
    resources: Resources
    labels: tuple[Label, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The parameters of generated jobs.

    Attributes:
        duration_s: For how long jobs are submitted, seconds.
        customers: The number of customers.
        zipf_exponent: Customer number k submits jobs in proportion to 1 / k^exponent. 0 for equal
            customers.
        shapes: The resources of the jobs.
        median_run_s: The median run time, seconds. Run times are log-normal.
        sigma: The standard deviation of the logarithm of the run time.
        max_run_s: The longest run time, seconds.
        paid_factor_max: The paid time is between the run time and this multiple of it.
        daily_cycle: 0 for a constant rate. With 0.5, the rate is between 0.5 and 1.5 of its mean.
        load: The work of all jobs, in relation to ``capacity_cpus``.
        capacity_cpus: The CPUs of the grid.
    """

    duration_s: int
    customers: int
    zipf_exponent: float
    shapes: Sequence[Shape]
    median_run_s: int
    sigma: float
    max_run_s: int
    paid_factor_max: float
    daily_cycle: float
    load: float
    capacity_cpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """One customer additionally submits a multiple of the work of all others.

    Attributes:
        customer: The name of the customer.
        factor: The additional work, in relation to the work of all others.
        start_s: When it starts, seconds since the start of the simulation.
        end_s: When it ends, seconds since the start of the simulation.
    """

    customer: str
    factor: float
    start_s: int
    end_s: int


def customer_name(number: int) -> str:
    """Return the name of a customer. Customer 1 submits the most jobs."""
    return f"customer-{number}"


def generate(workload: Workload, *, seed: int) -> Iterator[SimulatedJob]:
    """Yield the jobs of a workload, in the order of their submission.

    Args:
        workload: The parameters.
        seed: The same seed gives the same jobs.

    Raises:
        InvalidInput: If the workload has more than ``MAX_JOBS`` jobs.
    """
    source = random.Random(seed)  # noqa: S311 - not for secrets
    numbers = range(1, workload.customers + 1)
    names = [customer_name(number) for number in numbers]
    activity = [number**-workload.zipf_exponent for number in numbers]
    shares = [shape.share for shape in workload.shapes]
    work = 0
    total_work = workload.load * workload.capacity_cpus * workload.duration_s
    jobs: list[SimulatedJob] = []
    while work < total_work:
        (shape,) = source.choices(workload.shapes, shares)
        (customer,) = source.choices(names, activity)
        job = _generated_job(source, workload, customer, shape)
        jobs.append(job)
        work += job.run_s * shape.resources.cpus
        check_count(len(jobs))
    yield from sorted(jobs, key=attrgetter("submitted_at"))


def check_count(jobs: int) -> None:
    """Check that a simulation does not have too many jobs.

    Raises:
        InvalidInput: If it has more than ``MAX_JOBS`` jobs.
    """
    if jobs > MAX_JOBS:
        raise InvalidInput(
            f"the scenario has more than {MAX_JOBS} jobs",
            hint="Give a shorter duration, a lower load, or longer or larger jobs.",
        )


def _generated_job(
    source: random.Random, workload: Workload, customer: str, shape: Shape
) -> SimulatedJob:
    run_s = source.lognormvariate(math.log(workload.median_run_s), workload.sigma)
    run_s = int(min(run_s, workload.max_run_s - 1)) + 1
    paid_s = int(run_s * source.uniform(1, workload.paid_factor_max)) + _PAID_RESERVE_S
    submitted_at = _arrival(source, workload)
    return SimulatedJob(submitted_at, customer, shape.resources, run_s, paid_s, shape.labels)


def _arrival(source: random.Random, workload: Workload) -> int:
    """Return a random time at which a job is submitted, with the daily cycle."""
    while True:
        time = source.uniform(0, workload.duration_s)
        rate = 1 + workload.daily_cycle * math.sin(2 * math.pi * time / DAY_S)
        if source.uniform(0, 1 + workload.daily_cycle) < rate:
            return int(time)


def with_flood(jobs: Sequence[SimulatedJob], flood: Flood, *, seed: int) -> list[SimulatedJob]:
    """Return the jobs and those of a flood, in the order of their submission.

    The jobs of the flood are copies of the others' jobs, and are submitted at random times.

    Raises:
        InvalidInput: If there are more than ``MAX_JOBS`` jobs.
    """
    source = random.Random(seed)  # noqa: S311 - not for secrets
    all_jobs = list(jobs)
    for job in jobs:
        if job.customer == flood.customer or not flood.start_s <= job.submitted_at < flood.end_s:
            continue
        copies = int(flood.factor)
        copies += source.random() < flood.factor - copies
        check_count(len(all_jobs) + copies)
        for _ in range(copies):
            submitted_at = int(source.uniform(flood.start_s, flood.end_s))
            all_jobs.append(replace(job, customer=flood.customer, submitted_at=submitted_at))
    return sorted(all_jobs, key=attrgetter("submitted_at"))


def read_swf(lines: Iterable[str], *, memory_per_cpu_mb: int) -> Iterator[SimulatedJob]:
    """Yield the jobs of a trace, in the order of the lines.

    Jobs without a submit time, a run time or processors are left out.

    Args:
        lines: The lines of the file.
        memory_per_cpu_mb: The memory of each job per CPU, because few traces have it.

    Raises:
        InvalidInput: If a line does not have 18 numbers.
    """
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        if not fields or fields[0].startswith(";"):
            continue
        values = _swf_values(fields, line=line, number=number)
        submitted_at, run_s, user = values[1], values[3], values[11]
        cpus = values[4] if values[4] > 0 else values[7]
        if submitted_at < 0 or run_s <= 0 or cpus <= 0:
            continue
        resources = Resources(
            gpus=0, tasks=cpus, cpus_per_task=1, memory_per_cpu_mb=memory_per_cpu_mb
        )
        paid_s = max(values[8], run_s)
        yield SimulatedJob(submitted_at, f"user-{user}", resources, run_s, paid_s)


def _swf_values(fields: list[str], *, line: str, number: int) -> list[int]:
    """Return the numbers in a line of a trace."""
    try:
        values = [int(float(field)) for field in fields]
    except (ValueError, OverflowError):
        values = []
    if len(values) != SWF_FIELDS:
        raise InvalidInput(
            f"invalid line {number} of the trace: {line.strip()[:80]!r}",
            hint=f"A line of SWF has {SWF_FIELDS} numbers, or starts with ';'.",
        )
    return values
