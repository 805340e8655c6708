# SPDX-License-Identifier: Apache-2.0
"""Chooses the provider of a job.

A provider is eligible if all of this is true:

- It is approved, not banned, and accepts jobs.
- It never refused this job.
- Its labels satisfy the job's conditions.
- Its nodes have room for all tasks at once.
- The job's escrow pays for at least one minute at the provider's prices.
- It is not excluded after several claim timeouts of this job (``expiry.py``).
- It is not excluded after a skipped match (``skips.py``).

The eligible provider with the fewest claim timeouts of this job is chosen, and among providers with
the same number the cheapest.

The left side of a condition is the value of a label: ``compute.gflops > 1000`` requires a provider
whose label ``compute.gflops`` is greater than 1000. Two numbers are compared as numbers, other
values as text. The operator ``in`` requires that the value of the label contains the right side.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from gridstead.domain.jobs.billing import Resources, price_per_minute
from gridstead.domain.jobs.job import Affinity, Hardware, Job, Label, Provider

_NO_TIMEOUTS: Mapping[str, int] = MappingProxyType({})
_NOT_EXCLUDED: Mapping[str, str] = MappingProxyType({})
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "==": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
    "!=": operator.ne,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The result of matching a job.

    Attributes:
        provider: The address of the provider. None if no provider can run the job.
        price_per_min: The provider's price for one minute of the whole job, wei.
        reason: Why no provider can run the job.
    """

    provider: str | None
    price_per_min: int = 0
    reason: str = ""


def choose(
    job: Job,
    providers: Iterable[Provider],
    *,
    refused_by: Collection[str],
    timeout_counts: Mapping[str, int] = _NO_TIMEOUTS,
    excluded_providers: Mapping[str, str] = _NOT_EXCLUDED,
) -> Choice:
    """Choose the eligible provider with the fewest claim timeouts of this job.

    If several providers have this count, the cheapest of them is chosen. If several of these have
    the same price, the provider with the lowest address is chosen.

    Args:
        job: A pending job.
        providers: Providers with an approved record, in any order.
        refused_by: The addresses of the providers that refused this job.
        timeout_counts: How often a match of this job was not claimed in time, by the address of the
            provider.
        excluded_providers: The providers that are excluded now, with the reasons, by address.
    """
    candidates: list[tuple[int, int, str]] = []  # (claim timeouts, price, address)
    reason_counts: dict[str, int] = {}
    for provider in providers:
        reason = ineligibility_reason(
            job, provider, refused_by=refused_by, excluded_providers=excluded_providers
        )
        if reason is None:
            price = price_per_minute(job.resources, provider.prices)
            candidates.append((timeout_counts.get(provider.address, 0), price, provider.address))
        else:
            reason_counts[reason] = reason_counts.get(reason, 0) + 1
    if candidates:
        _, price, address = min(candidates)
        return Choice(provider=address, price_per_min=price)
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(reason_counts.items()))
    return Choice(provider=None, reason=f"no provider can run it: {reasons or 'none approved'}")


def ineligibility_reason(
    job: Job,
    provider: Provider,
    *,
    refused_by: Collection[str],
    excluded_providers: Mapping[str, str] = _NOT_EXCLUDED,
) -> str | None:
    """Return why a provider cannot get a job. Returns None if the provider is eligible."""
    if not provider.is_joined:
        return "banned or not accepting jobs"
    if provider.address in refused_by:
        return "refused it"
    if not _has_labels(provider.labels, job.uses, job.affinity):
        return "without the required labels"
    if not fits(job.resources, provider.hardware):
        return "too small"
    if price_per_minute(job.resources, provider.prices) > job.escrow:
        return "too expensive"
    return excluded_providers.get(provider.address)


def fits(resources: Resources, hardware: Hardware) -> bool:
    """Return whether the nodes have room for all tasks at once.

    A task runs on one node. The GPUs of the job may be on any nodes.
    """
    if resources.gpus > sum(hardware.gpus_per_node):
        return False
    memory_per_task_mb = resources.cpus_per_task * resources.memory_per_cpu_mb
    tasks = 0
    nodes = zip(hardware.cpus_per_node, hardware.memory_per_node_mb, strict=True)
    for cpus, memory_mb in nodes:
        tasks += min(cpus // resources.cpus_per_task, memory_mb // memory_per_task_mb)
    return tasks >= resources.tasks


def _has_labels(
    labels: tuple[Label, ...], uses: tuple[Label, ...], affinity: tuple[Affinity, ...]
) -> bool:
    """Return whether labels include all labels in ``uses`` and satisfy all conditions."""
    values = {label.key: label.value for label in labels}
    for use in uses:
        if values.get(use.key) != use.value:
            return False
    for condition in affinity:
        if condition.key not in values or not satisfies(values[condition.key], condition):
            return False
    return True


def satisfies(value: str, condition: Affinity) -> bool:
    """Return whether the value of a label satisfies a condition.

    An unknown operator means equality, as in DeepSquare's clients.
    """
    if condition.operator == "in":
        return condition.value in value
    compare: Callable[[Any, Any], bool] = _COMPARISONS.get(condition.operator, operator.eq)
    left, right = _number(value), _number(condition.value)
    if left is not None and right is not None:
        return compare(left, right)
    return compare(value, condition.value)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
