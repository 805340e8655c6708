# SPDX-License-Identifier: Apache-2.0
"""How much a provider lacks of what a pending job needs.

Of all providers that fail the same condition, customers see the one that lacks least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Affinity, Job, Label
from gridstead.domain.labels.values import number_or_none
from gridstead.domain.matching.conditions import read_conditions
from gridstead.domain.matching.labels import satisfies, values_by_key
from gridstead.domain.matching.packing import Nodes

MAX_SHOWN_VALUES = 3


class Quantity(StrEnum):
    """What is compared. The queue view shows the value."""

    GPUS = "gpus"  # of all nodes
    NODE_CPUS = "node-cpus"  # of the node with the most CPUs, for one task
    NODE_MEMORY_MB = "node-memory-mb"  # of the node with the most memory, for one task
    TASKS = "tasks"  # that can be placed at once
    QUEUE_PLACES = "queue-places"  # for matched jobs that wait at the provider
    ESCROW_WEI = "escrow-wei"  # needed: the price of one minute of the job
    FREE_S = "free-s"  # the seconds until the room is needed for a reservation
    # needed: the price of a cheaper provider without room; available: that of one with room. Both
    # contain the risk of the provider.
    PRICE_PER_MIN_WEI = "price-per-min-wei"


class Shortfall(NamedTuple):
    """A quantity that the job needs, and what there is of it.

    Attributes:
        quantity: The quantity, with its unit.
        needed: What the job needs.
        available: What there is.
        provider: The address of the provider.
        reserved_for: The job that has the reservation. Only for FREE_S.
    """

    quantity: Quantity
    needed: int
    available: int
    provider: str
    reserved_for: JobId | None = None


class Size(NamedTuple):
    """The GPUs of all nodes, and the most CPUs and the most memory (MB) of a node."""

    gpus: int
    node_cpus: int
    node_memory_mb: int


def nearest_shortfall(shortfalls: Iterable[Shortfall]) -> Shortfall | None:
    """Return the shortfall whose two numbers have the ratio nearest to 1, the first of several.

    Returns None if there are no shortfalls.
    """
    nearest: Shortfall | None = None
    # The smaller and the larger number of the nearest shortfall. The first ratio is higher than -1.
    nearest_low, nearest_high = -1, 1
    for shortfall in shortfalls:
        low, high = shortfall.needed, shortfall.available
        if low > high:
            low, high = high, low
        if low * nearest_high > nearest_low * high:
            nearest, nearest_low, nearest_high = shortfall, low, high
    return nearest


def size_shortfall(resources: Resources, size: Size, nodes: Nodes, provider: str) -> Shortfall:
    """Return the first quantity that nodes lack for a job: GPUs, CPUs, memory, or task places.

    Args:
        resources: The resources of the job.
        size: The size of the nodes.
        nodes: The nodes.
        provider: The address of the provider.
    """
    task_memory_mb = resources.cpus_per_task * resources.memory_per_cpu_mb
    if resources.gpus > size.gpus:
        return Shortfall(Quantity.GPUS, resources.gpus, size.gpus, provider)
    if resources.cpus_per_task > size.node_cpus:
        return Shortfall(Quantity.NODE_CPUS, resources.cpus_per_task, size.node_cpus, provider)
    if task_memory_mb > size.node_memory_mb:
        return Shortfall(Quantity.NODE_MEMORY_MB, task_memory_mb, size.node_memory_mb, provider)
    return Shortfall(Quantity.TASKS, resources.tasks, nodes.task_places(resources), provider)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmetLabel:
    """A label or a condition of a job that some providers do not satisfy.

    Attributes:
        requirement: The label or the condition, for example ``region=eu`` or ``gflops>=1000``.
        missing_count: How many providers have no label with this key.
        other_count: How many providers have another value.
        values: Other values, at most ``MAX_SHOWN_VALUES``: numbers first, the nearest number first.
    """

    requirement: str
    missing_count: int
    other_count: int
    values: tuple[str, ...]


def unmet_labels(job: Job, providers: Iterable[Iterable[Label]]) -> tuple[UnmetLabel, ...]:
    """Return which labels and conditions on labels are not satisfied, in the order of the job.

    Args:
        job: The job.
        providers: The labels of each provider that does not satisfy all of them.
    """
    unmet = []
    provider_values = list(map(values_by_key, providers))
    for label in job.uses:
        requirement = Affinity(key=label.key, operator="=", value=label.value)
        unmet.append(_unmet_label(requirement, provider_values, is_met=label.value.__eq__))
    for condition in read_conditions(job.affinity).on_labels:
        is_met = partial(satisfies, condition=condition)
        unmet.append(_unmet_label(condition, provider_values, is_met=is_met))
    return tuple(label for label in unmet if label.missing_count or label.other_count)


def _unmet_label(
    requirement: Affinity,
    providers: Iterable[Mapping[str, str]],
    *,
    is_met: Callable[[str], bool],
) -> UnmetLabel:
    missing_count = 0
    other_values = []
    for labels in providers:
        value = labels.get(requirement.key)
        if value is None:
            missing_count += 1
        elif not is_met(value):
            other_values.append(value)
    shown_values = sorted(set(other_values), key=lambda value: _distance(value, requirement.value))
    return UnmetLabel(
        requirement=f"{requirement.key}{_operator(requirement)}{requirement.value}",
        missing_count=missing_count,
        other_count=len(other_values),
        values=tuple(shown_values[:MAX_SHOWN_VALUES]),
    )


def _operator(requirement: Affinity) -> str:
    is_word = requirement.operator.isalpha()
    return f" {requirement.operator} " if is_word else requirement.operator


def _distance(value: str, required_value: str) -> tuple[bool, Fraction, str]:
    """Return a sort key: numbers first, the nearest number first, and texts in their order."""
    number, limit = number_or_none(value), number_or_none(required_value)
    if number is None or limit is None:
        return True, Fraction(0), value
    return False, abs(Fraction(number) - Fraction(limit)), value
