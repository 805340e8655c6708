# SPDX-License-Identifier: Apache-2.0
"""Chooses the provider of a job.

A provider is eligible if all of this is true:

- It is approved, not banned, and accepts jobs.
- It never refused this job.
- Its labels satisfy the job's conditions (``labels.py``).
- Its nodes have room for all tasks at once.
- The job's escrow pays for at least one minute at the provider's prices.
- It is not excluded after several claim timeouts of this job (``expiry.py``).
- It is not excluded after a skipped match (``skips.py``).

The eligible provider with the fewest claim timeouts of this job is chosen, and among providers with
the same number the cheapest. If several of them have the same price, a hash of the job and the
provider decides, so that such jobs are spread over these providers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gridstead.domain.jobs.billing import Resources, price_per_minute
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Hardware, Job, Provider
from gridstead.domain.matching.labels import satisfies_all

_NO_TIMEOUTS: Mapping[str, int] = MappingProxyType({})
_NO_EXCLUSIONS: Mapping[str, str] = MappingProxyType({})


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
    excluded_providers: Mapping[str, str] = _NO_EXCLUSIONS,
) -> Choice:
    """Choose the eligible provider with the fewest claim timeouts of this job.

    If several providers have this count, the cheapest of them is chosen. If several of these have
    the same price, the provider with the lowest ``_tie_breaker`` is chosen.

    Args:
        job: A pending job.
        providers: Providers with an approved record, in any order.
        refused_by: The addresses of the providers that refused this job.
        timeout_counts: How often a match of this job was not claimed in time, by the address of the
            provider.
        excluded_providers: The providers that are excluded now, with the reasons, by address.
    """
    # Claim timeouts, price, tie breaker and address.
    candidates: list[tuple[int, int, bytes, str]] = []
    reason_counts: dict[str, int] = {}
    for provider in providers:
        reason = ineligibility_reason(
            job, provider, refused_by=refused_by, excluded_providers=excluded_providers
        )
        if reason is None:
            price = price_per_minute(job.resources, provider.prices)
            timeout_count = timeout_counts.get(provider.address, 0)
            tie_breaker = _tie_breaker(job.id, provider.address)
            candidates.append((timeout_count, price, tie_breaker, provider.address))
        else:
            reason_counts[reason] = reason_counts.get(reason, 0) + 1
    if candidates:
        _, price, _, address = min(candidates)
        return Choice(provider=address, price_per_min=price)
    counted_reasons = [f"{count} {reason}" for reason, count in sorted(reason_counts.items())]
    reasons = ", ".join(counted_reasons) or "none approved"
    return Choice(provider=None, reason=f"no provider can run it: {reasons}")


def _tie_breaker(job_id: JobId, address: str) -> bytes:
    """Return the SHA-256 of the text ``<job number>/<address>``, such as ``7/0x1111...``."""
    return hashlib.sha256(f"{job_id}/{address}".encode()).digest()


def ineligibility_reason(
    job: Job,
    provider: Provider,
    *,
    refused_by: Collection[str],
    excluded_providers: Mapping[str, str] = _NO_EXCLUSIONS,
) -> str | None:
    """Return why a provider cannot get a job. Returns None if the provider is eligible."""
    if not provider.is_joined:
        return "banned or not accepting jobs"
    if provider.address in refused_by:
        return "refused it"
    if not satisfies_all(provider.labels, uses=job.uses, affinity=job.affinity):
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
    possible_tasks = 0
    nodes = zip(hardware.cpus_per_node, hardware.memory_per_node_mb, strict=True)
    for cpus, memory_mb in nodes:
        possible_tasks += min(cpus // resources.cpus_per_task, memory_mb // memory_per_task_mb)
    return possible_tasks >= resources.tasks
