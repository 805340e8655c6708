# SPDX-License-Identifier: Apache-2.0
"""Creates the simulations of a scenario: `gridstead simulate`."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gridstead.config import to_wei
from gridstead.config.simulation import GeneratedJobs, SimulatedProvider, SimulationSettings, Trace
from gridstead.domain.jobs.billing import Prices, Resources
from gridstead.domain.jobs.job import Hardware, Label, Provider
from gridstead.domain.matching.decisions import Rules
from gridstead.domain.matching.policies import POLICIES
from gridstead.domain.matching.shares import HalfLife
from gridstead.errors import InvalidInput
from gridstead.services.simulation.simulator import (
    CHEAPEST_FIRST,
    SimulatedGrid,
    Simulator,
    can_run,
)
from gridstead.services.simulation.workload import (
    Flood,
    Shape,
    SimulatedJob,
    Workload,
    check_count,
    generate,
    read_swf,
    with_flood,
)

SIMULATED_POLICIES = (CHEAPEST_FIRST, *POLICIES)
MAX_NODES = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A grid and its jobs.

    Attributes:
        grid: The grid.
        jobs: The jobs, in the order of their submission. At least one provider can run each.
        unsuitable_jobs: The number of further jobs that no provider can run.
        duration_s: The time to simulate, seconds.
        settings: The settings.
    """

    grid: SimulatedGrid
    jobs: tuple[SimulatedJob, ...]
    unsuitable_jobs: int
    duration_s: int
    settings: SimulationSettings

    def simulator(self, policy: str) -> Simulator:
        """Return a simulator of the scenario with a policy."""
        settings = self.settings
        rules = Rules(
            half_life=HalfLife(settings.half_life // settings.block_s),
            queue_allowance=settings.queue_allowance,
        )
        return Simulator(self.grid, self.jobs, rules, policy=policy)


def open_scenario(settings: SimulationSettings, folder: Path) -> Scenario:
    """Return the scenario that the settings describe.

    Args:
        settings: The settings.
        folder: The folder of the scenario file, to which the path of a trace is relative.

    Raises:
        InvalidInput: If a trace cannot be read, a shape of jobs is too large for every provider,
            names are not unique, or the scenario has too many jobs or nodes.
    """
    providers: list[Provider] = []
    node_count = 0
    for table in settings.providers:
        node_count += table.count * sum(group.count for group in table.nodes)
        if node_count > MAX_NODES:
            raise InvalidInput(f"invalid scenario: the grid has more than {MAX_NODES} nodes")
        providers += _providers(table)
    all_jobs = _jobs(settings, providers, folder)
    jobs = _runnable(all_jobs, providers)
    customers = {job.customer for job in jobs}
    _check_names(providers, customers)
    amount = to_wei(settings.customers.credits)
    grid = SimulatedGrid(
        providers=tuple(providers),
        credits_by_customer=dict.fromkeys(sorted(customers), amount),
        block_s=settings.block_s,
    )
    return Scenario(
        grid=grid,
        jobs=jobs,
        unsuitable_jobs=len(all_jobs) - len(jobs),
        duration_s=settings.duration,
        settings=settings,
    )


def _providers(table: SimulatedProvider) -> list[Provider]:
    """Return the providers of a table. In the simulation, their addresses are their names."""
    gpus: list[int] = []
    cpus: list[int] = []
    memory_mb: list[int] = []
    for group in table.nodes:
        gpus += [group.gpus] * group.count
        cpus += [group.cpus] * group.count
        memory_mb += [group.memory_mb] * group.count
    hardware = Hardware(
        gpus_per_node=tuple(gpus), cpus_per_node=tuple(cpus), memory_per_node_mb=tuple(memory_mb)
    )
    prices = Prices(
        gpu_per_min=to_wei(table.gpu_credits_per_min),
        cpu_per_min=to_wei(table.cpu_credits_per_min),
        memory_mb_per_min=to_wei(table.memory_mb_credits_per_min),
    )
    names = [table.name]
    if table.count > 1:
        names = [f"{table.name}-{number}" for number in range(1, table.count + 1)]
    providers = []
    for name in names:
        provider = Provider(
            address=name,
            hardware=hardware,
            prices=prices,
            labels=_labels(table.labels),
            is_joined=True,
        )
        providers.append(provider)
    return providers


def _check_names(providers: Iterable[Provider], customers: Iterable[str]) -> None:
    """Check that no two providers or customers have the same name."""
    names = Counter(provider.address for provider in providers)
    names.update(customers)
    duplicate_names = [name for name, count in names.items() if count > 1]
    if duplicate_names:
        raise InvalidInput(
            f"invalid scenario: two providers, or a provider and a customer, have the name "
            f"{duplicate_names[0]}",
            hint="Equal providers have the names NAME-1, NAME-2 and so on.",
        )


def _labels(values: Mapping[str, str]) -> tuple[Label, ...]:
    return tuple(Label(key=key, value=value) for key, value in sorted(values.items()))


def _jobs(
    settings: SimulationSettings, providers: Iterable[Provider], folder: Path
) -> list[SimulatedJob]:
    """Return the jobs, in the order of their submission."""
    if settings.trace is not None:
        jobs = _trace_jobs(settings.trace, folder, duration_s=settings.duration)
    else:
        assert settings.jobs is not None
        workload = _workload(settings, settings.jobs, providers)
        jobs = list(generate(workload, seed=settings.seed))
    if settings.flood is None:
        return jobs
    flood = Flood(
        customer=settings.flood.customer,
        factor=settings.flood.factor,
        start_s=settings.flood.start,
        end_s=settings.duration,
    )
    return with_flood(jobs, flood, seed=settings.seed)


def _trace_jobs(trace: Trace, folder: Path, *, duration_s: int) -> list[SimulatedJob]:
    path = folder / trace.file
    open_file = gzip.open if path.suffix == ".gz" else open
    jobs: list[SimulatedJob] = []
    try:
        with open_file(path, "rt", encoding="utf-8", errors="replace") as lines:
            for job in read_swf(lines, memory_per_cpu_mb=trace.memory_per_cpu_mb):
                if job.submitted_at < duration_s:
                    jobs.append(job)
                    check_count(len(jobs))
    except (OSError, EOFError, ValueError) as error:
        raise InvalidInput(f"cannot read trace.file {path}", detail=str(error)) from error
    return sorted(jobs, key=lambda job: job.submitted_at)


def _workload(
    settings: SimulationSettings, table: GeneratedJobs, providers: Iterable[Provider]
) -> Workload:
    providers = list(providers)
    assert settings.customers.count is not None
    return Workload(
        duration_s=settings.duration,
        customers=settings.customers.count,
        zipf_exponent=settings.customers.zipf_exponent,
        shapes=_shapes(table, providers),
        median_run_s=table.median_run,
        sigma=table.sigma,
        max_run_s=table.max_run,
        paid_factor_max=table.paid_factor_max,
        daily_cycle=table.daily_cycle,
        load=table.load,
        capacity_cpus=sum(sum(provider.hardware.cpus_per_node) for provider in providers),
    )


def _shapes(table: GeneratedJobs, providers: Iterable[Provider]) -> list[Shape]:
    shapes = []
    for index, shape in enumerate(table.shapes):
        resources = Resources(
            gpus=shape.gpus,
            tasks=shape.tasks,
            cpus_per_task=shape.cpus_per_task,
            memory_per_cpu_mb=shape.memory_per_cpu_mb,
        )
        labels = _labels(shape.labels)
        if not any(can_run(provider, resources, labels) for provider in providers):
            raise InvalidInput(
                f"invalid scenario: jobs.shapes.{index}: no provider can run jobs of this shape",
                detail=f"{shape.tasks} tasks with {shape.cpus_per_task} CPUs and "
                f"{shape.memory_per_cpu_mb} MB per CPU, {shape.gpus} GPUs, "
                f"labels {shape.labels or 'none'}",
                hint="Give a smaller shape or a larger provider. A task runs on one node.",
            )
        shapes.append(Shape(share=shape.share, resources=resources, labels=labels))
    return shapes


def _runnable(
    jobs: Iterable[SimulatedJob], providers: Iterable[Provider]
) -> tuple[SimulatedJob, ...]:
    """Return the jobs that at least one provider can run."""
    providers = list(providers)
    results: dict[tuple[Resources, tuple[Label, ...]], bool] = {}
    runnable_jobs = []
    for job in jobs:
        requirements = (job.resources, job.labels)
        if requirements not in results:
            results[requirements] = any(
                can_run(provider, job.resources, job.labels) for provider in providers
            )
        if results[requirements]:
            runnable_jobs.append(job)
    return tuple(runnable_jobs)
