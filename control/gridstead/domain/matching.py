# SPDX-License-Identifier: Apache-2.0
"""Which provider gets a job: the first eligible one by price. Fairness comes with a later policy in
this place.

A provider is eligible if it is joined, never refused this job, its labels satisfy the job's, its
nodes can hold all tasks at once, and the lock pays for at least one minute there. Who let a match
of this job lie comes after all others (``expiry.py``). A label's value is the left side of a
condition: ``compute.gflops > 1000`` asks for a provider whose label exceeds 1000. Two numbers
compare as numbers, anything else as text; ``in`` asks that the label's value contains the text.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from gridstead.domain.billing import Resources, price_per_minute
from gridstead.domain.job import Affinity, Hardware, Job, Label, Provider

_NONE: Mapping[str, int] = MappingProxyType({})
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
    """The outcome of matching one job: a provider's address and its price, or why there is none.

    Attributes:
        provider: Its address, None if nobody can take the job.
        price_per_min: What a minute of the whole job costs there, wei.
        reason: Why there is none.
    """

    provider: str | None
    price_per_min: int = 0
    reason: str = ""


def choose(
    job: Job,
    providers: Iterable[Provider],
    *,
    refused_by: Collection[str],
    claim_timeouts: Mapping[str, int] = _NONE,
    resting: Collection[str] = (),
) -> Choice:
    """Return the cheapest eligible provider among those that let this job lie least often, 0 times
    as a rule.

    Among equals the one with the lowest address.

    Args:
        job: A pending job.
        providers: All that ever registered, in any order.
        refused_by: Addresses that gave this job back.
        claim_timeouts: By address, how often a match of this job was not claimed there.
        resting: Addresses among these that are not asked again yet.
    """
    candidates: list[tuple[int, int, str]] = []
    reasons: dict[str, int] = {}
    for provider in providers:
        reason = why_not(job, provider, refused_by=refused_by, resting=resting)
        if reason is None:
            price = price_per_minute(job.resources, provider.prices)
            candidates.append((claim_timeouts.get(provider.address, 0), price, provider.address))
        else:
            reasons[reason] = reasons.get(reason, 0) + 1
    if candidates:
        _, price, cheapest = min(candidates)
        return Choice(provider=cheapest, price_per_min=price)
    told = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return Choice(provider=None, reason=f"no provider can take it: {told or 'none is registered'}")


def why_not(
    job: Job, provider: Provider, *, refused_by: Collection[str], resting: Collection[str] = ()
) -> str | None:
    """Return why a provider cannot get the job, None if it can."""
    if not provider.joined:
        return "not approved"
    if provider.address in refused_by:
        return "refused it"
    if not _has_labels(provider.labels, job.uses, job.affinity):
        return "without its labels"
    if not fits(job.resources, provider.hardware):
        return "too small"
    if price_per_minute(job.resources, provider.prices) > job.escrow:
        return "too expensive"
    if provider.address in resting:
        return "did not claim it and will be asked again"
    return None


def fits(resources: Resources, hardware: Hardware) -> bool:
    """Return whether the nodes can hold all tasks at once; a task stays on one node, GPUs count
    over all nodes.
    """
    if resources.gpus > sum(hardware.gpus_per_node):
        return False
    memory_per_task_mb = resources.cpus_per_task * resources.memory_per_cpu_mb
    room = sum(
        min(cpus // resources.cpus_per_task, memory_mb // memory_per_task_mb)
        for cpus, memory_mb in zip(hardware.cpus_per_node, hardware.memory_per_node_mb, strict=True)
    )
    return room >= resources.tasks


def _has_labels(
    labels: tuple[Label, ...], uses: tuple[Label, ...], affinity: tuple[Affinity, ...]
) -> bool:
    values = {label.key: label.value for label in labels}
    return all(values.get(use.key) == use.value for use in uses) and all(
        condition.key in values and holds(values[condition.key], condition)
        for condition in affinity
    )


def holds(value: str, condition: Affinity) -> bool:
    """Return whether a label's value satisfies a condition; an unknown operator means equality, as
    in the clients.
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
