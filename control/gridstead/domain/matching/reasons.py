# SPDX-License-Identifier: Apache-2.0
"""Explains to a customer why a pending job waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from gridstead.domain.jobs.billing import price_per_minute
from gridstead.domain.jobs.job import Job
from gridstead.domain.matching.cluster import Cluster
from gridstead.domain.matching.forecast import Reservation
from gridstead.domain.matching.labels import satisfies_all

REFUSED = "refused it"


def waiting_reason(
    job: Job,
    clusters: Iterable[Cluster],
    *,
    excluded_providers: Mapping[str, str],
    reservation: Reservation | None,
) -> str:
    """Return why a pending job is not matched.

    Args:
        job: The pending job.
        clusters: All providers that were ever approved or ever got a job.
        excluded_providers: The providers that are excluded from this job, with the reasons.
        reservation: The reservation of the job, if it has one.
    """
    ineligible_counts: dict[str, int] = {}
    full_count = 0
    open_count = 0
    for cluster in clusters:
        reason = ineligibility_reason(job, cluster, excluded_providers)
        if reason is not None:
            ineligible_counts[reason] = ineligible_counts.get(reason, 0) + 1
        elif cluster.has_room(job.resources):
            open_count += 1
        else:
            full_count += 1
    details = [f"{count} {reason}" for reason, count in sorted(ineligible_counts.items())]
    if not full_count and not open_count:
        return f"no provider can run it: {', '.join(details) or 'none approved'}"
    if full_count:
        details.append(f"{full_count} full")
    if open_count:
        details.append(f"{open_count} with room, but reserved or dearer than a wait")
    waiting_for = f"waits for a provider: {', '.join(details)}"
    if reservation is None:
        return waiting_for
    start = datetime.fromtimestamp(reservation.start_at, UTC)
    return f"{waiting_for}; expected to start by {start:%Y-%m-%d %H:%M} UTC"


def ineligibility_reason(
    job: Job, cluster: Cluster, excluded_providers: Mapping[str, str]
) -> str | None:
    """Return why a provider is not suitable for a job, even if it has room. None if it is.

    Args:
        job: The job.
        cluster: The provider.
        excluded_providers: The excluded providers with the reasons, by address.
    """
    provider = cluster.provider
    if not provider.is_joined:
        return "banned or not accepting jobs"
    if excluded_providers.get(provider.address) == REFUSED:
        return REFUSED
    if not satisfies_all(provider.labels, uses=job.uses, affinity=job.affinity):
        return "without the required labels"
    if not cluster.can_run(job.resources):
        return "too small"
    if price_per_minute(job.resources, provider.prices) > job.escrow:
        return "too expensive"
    return excluded_providers.get(provider.address)
