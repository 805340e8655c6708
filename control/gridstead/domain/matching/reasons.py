# SPDX-License-Identifier: Apache-2.0
"""Why a pending job waits, as a structured value and as one line of text.

Each provider has one *obstacle*: the first condition that prevents the match. A reason counts the
providers with each obstacle, and says in figures how much is missing at the provider at which least
is missing. ``comparison.py`` compares a job with the providers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from gridstead.domain.jobs.billing import price_per_minute
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Block, Job
from gridstead.domain.labels.reserved import DEADLINE, QUEUE_WAIT
from gridstead.domain.matching.cluster import Cluster
from gridstead.domain.matching.conditions import NO_CONDITIONS, Conditions
from gridstead.domain.matching.decisions import Move
from gridstead.domain.matching.fair_order import JobsAhead
from gridstead.domain.matching.labels import satisfies_all
from gridstead.domain.matching.policies import paid_seconds
from gridstead.domain.matching.shortfalls import Shortfall, UnmetLabel

REFUSED = "refused it"


class Obstacle(NamedTuple):
    """Why a provider does not get a job now.

    Attributes:
        code: The name for programs.
        text: The words that follow the number of providers.
        is_suitable: Whether the provider can run the job, and may get it later.
    """

    code: str
    text: str
    is_suitable: bool = False


NOT_ACCEPTING = Obstacle("not-accepting", "removed, banned or not accepting jobs")
REFUSED_BEFORE = Obstacle("refused", REFUSED)
UNLABELLED = Obstacle("labels", "without the required labels")
TOO_SMALL = Obstacle("too-small", "too small")
TOO_EXPENSIVE = Obstacle("too-expensive", "too expensive")
RESTING = Obstacle("rests", "rests after faults", is_suitable=True)
FULL = Obstacle("full", "full", is_suitable=True)
RESERVED = Obstacle("reserved", "with room that is reserved", is_suitable=True)
DEARER = Obstacle("policy", "with room, but a full one is cheaper", is_suitable=True)
NOT_TRIED = Obstacle("not-tried", "with room, but not tried yet", is_suitable=True)
_WITH_ROOM = (RESERVED, DEARER, NOT_TRIED)


class Cause(StrEnum):
    """Why a job waits, as a name for programs."""

    BEING_MATCHED = "being-matched"
    NOT_STORED = "match-not-stored"
    NOT_EXPLAINED = "not-explained-yet"
    MALFORMED_SCRIPT_ID = "malformed-script-id"
    NO_PROVIDER = "no-provider"
    WAITS = "waits-for-provider"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObstacleCount:
    """The providers with one obstacle.

    Attributes:
        obstacle: The obstacle.
        providers: How many providers have it.
        nearest: What is missing at the provider at which least is missing. None if the obstacle is
            not a matter of numbers.
    """

    obstacle: Obstacle
    providers: int
    nearest: Shortfall | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedStart:
    """The reservation of a job.

    Attributes:
        provider: The address of the provider.
        start_at: The expected start, Unix seconds. The job may start earlier.
        last_move: The last time when the reservation became later. None if it never did.
    """

    provider: str
    start_at: int
    last_move: Move | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingReason:
    """Why a pending job is not matched.

    Attributes:
        cause: The cause.
        text: The reason in one line.
        obstacles: How many providers have which obstacle. Empty if no provider was compared.
        labels: The labels and conditions of the job that providers do not satisfy.
        labels_compared: With how many providers the labels were compared.
        expected_start: The reservation. None if the job has none.
    """

    cause: Cause
    text: str
    obstacles: tuple[ObstacleCount, ...] = ()
    labels: tuple[UnmetLabel, ...] = ()
    labels_compared: int = 0
    expected_start: ExpectedStart | None = None


BEING_MATCHED = WaitingReason(cause=Cause.BEING_MATCHED, text="being matched")
NOT_EXPLAINED = WaitingReason(cause=Cause.NOT_EXPLAINED, text="not explained yet")
MALFORMED_SCRIPT_ID = WaitingReason(
    cause=Cause.MALFORMED_SCRIPT_ID, text="the script id of the job is malformed"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What the queue view shows of one pending job.

    Attributes:
        job_id: The job.
        reason: Why it waits.
        ahead: How many jobs are ahead of it. None if this is unknown, or no provider can ever run
            the job.
        block: The block at which the reason was computed.
    """

    job_id: JobId
    reason: WaitingReason
    ahead: JobsAhead | None
    block: Block


def one_line(
    obstacles: Iterable[ObstacleCount], expected_start: ExpectedStart | None = None
) -> str:
    """Return a reason in one line.

    Args:
        obstacles: How many providers have which obstacle.
        expected_start: The reservation of the job, if it has one.
    """
    details = []
    full_count = 0
    open_count = 0
    is_suitable = False
    for count in obstacles:
        is_suitable = is_suitable or count.obstacle.is_suitable
        if count.obstacle == FULL:
            full_count += count.providers
        elif count.obstacle in _WITH_ROOM:
            open_count += count.providers
        else:
            details.append(f"{count.providers} {count.obstacle.text}")
    if not is_suitable:
        return f"no provider can run it: {', '.join(details) or 'none approved'}"
    if full_count:
        details.append(f"{full_count} full")
    if open_count:
        details.append(f"{open_count} with room, but not for this job yet")
    waiting_for = f"waits for a provider: {', '.join(details)}"
    if expected_start is None:
        return waiting_for
    start = datetime.fromtimestamp(expected_start.start_at, UTC)
    return f"{waiting_for}; expected to start by {start:%Y-%m-%d %H:%M} UTC"


def ineligibility_reason(
    job: Job,
    cluster: Cluster,
    excluded_providers: Mapping[str, str],
    *,
    conditions: Conditions,
    now: int,
) -> Obstacle | None:
    """Return why a provider is not suitable for a job, even if it has room. None if it is.

    Args:
        job: The job.
        cluster: The provider.
        excluded_providers: The excluded providers with the reasons, by address.
        conditions: The conditions of the job.
        now: The time of the block, Unix seconds.
    """
    provider = cluster.provider
    if not provider.is_joined:
        return NOT_ACCEPTING
    exclusion = excluded_providers.get(provider.address)
    if exclusion == REFUSED:
        return REFUSED_BEFORE
    if not satisfies_all(provider.labels, uses=job.uses, affinity=conditions.on_labels):
        return UNLABELLED
    if not cluster.can_run(job.resources):
        return TOO_SMALL
    price = price_per_minute(job.resources, provider.prices)
    if price > job.escrow:
        return TOO_EXPENSIVE
    if conditions is not NO_CONDITIONS:
        violated_key = _violated_key(job, cluster, price, conditions=conditions, now=now)
        if violated_key is not None:
            return Obstacle("condition", f"excluded by {violated_key}")
    if cluster.is_resting:
        return RESTING
    if exclusion is None:
        return None
    return Obstacle("excluded", exclusion, is_suitable=True)  # it ends after some blocks


def _violated_key(
    job: Job, cluster: Cluster, price: int, *, conditions: Conditions, now: int
) -> str | None:
    """Return the reserved key of a condition that a provider violates now, or None."""
    key = conditions.violated_by(
        price_per_min=price,
        success=cluster.standing.success,
        age_h=cluster.benchmark_age_h(now),
    )
    if key is not None or not conditions.limits_start:
        return key
    start = cluster.expected_start(job.resources, now=now, exact=False)
    if conditions.max_wait_s is not None and start > now + conditions.max_wait_s:
        return QUEUE_WAIT
    paid_s = paid_seconds(job.escrow, price)
    return DEADLINE if start > conditions.latest_start(paid_s=paid_s, now=now) else None
