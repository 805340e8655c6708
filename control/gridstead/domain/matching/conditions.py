# SPDX-License-Identifier: Apache-2.0
"""Conditions of a job that are not about a provider's labels. They have reserved keys.

===================  =====================  ========================================================
Key                  Operators              What is compared with the value
===================  =====================  ========================================================
price.per-min        <, <=                  the price of one minute of the whole job, credits
queue.wait.s         <, <=                  how long the job is expected to wait for room, seconds
deadline.unix        <, <=                  when its paid time is expected to end, Unix seconds
policy               =, ==                  the policy for this job, instead of the grid's
reputation.success   >, >=                  the share of jobs without a provider's fault, 0 to 1
benchmark.age.h      <, <=                  the age of the provider's benchmarks, whole hours
===================  =====================  ========================================================

No provider satisfies a condition with another operator or with an invalid value.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction

from gridstead.domain.jobs.billing import MAX_PAID_MINUTES, SECONDS_PER_MINUTE, WEI_PER_CREDIT
from gridstead.domain.jobs.job import Affinity
from gridstead.domain.labels.reserved import (
    BENCHMARK_AGE,
    DEADLINE,
    POLICY,
    PRICE,
    QUEUE_WAIT,
    REPUTATION,
    RESERVED_KEYS,
)
from gridstead.domain.labels.values import number_or_none
from gridstead.domain.matching.policies import POLICIES, Policy
from gridstead.domain.matching.reputation import MILLION

_AT_MOST = ("<", "<=")
_AT_LEAST = (">", ">=")
_EQUAL = ("=", "==")
# The reserved keys with the operators that the matcher understands.
OPERATORS = {
    PRICE: _AT_MOST,
    QUEUE_WAIT: _AT_MOST,
    REPUTATION: _AT_LEAST,
    BENCHMARK_AGE: _AT_MOST,
    DEADLINE: _AT_MOST,
    POLICY: _EQUAL,
}
# How many units of a field of ``Conditions`` are 1 in the condition.
_UNITS = {PRICE: WEI_PER_CREDIT, REPUTATION: MILLION}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The conditions of a job.

    Attributes:
        on_labels: The conditions on the provider's labels.
        impossible_key: A reserved key whose condition no provider satisfies. Empty if there is no
            such condition.
        max_price: The highest price of one minute of the whole job, wei. None for no limit.
        min_success: The lowest share of jobs without a fault of the provider (``reputation.py``),
            millionths.
        max_age_h: The highest age of the provider's benchmarks, whole hours. None for no limit.
        max_wait_s: The longest expected time until the job has room, seconds. None for no limit.
        latest_end: When the paid time must have ended, Unix seconds. None for no limit.
        policy: The policy for this job. None for the policy of the grid.
    """

    on_labels: tuple[Affinity, ...] = ()
    impossible_key: str = ""
    max_price: int | None = None
    min_success: int = 0
    max_age_h: int | None = None
    max_wait_s: int | None = None
    latest_end: int | None = None
    policy: Policy | None = None

    def violated_by(self, *, price_per_min: int, success: int, age_h: int | None) -> str | None:
        """Return the key of a condition that a provider violates, with or without room, or None.

        Args:
            price_per_min: The price of one minute of the whole job, wei.
            success: The share of jobs without a fault of the provider, millionths.
            age_h: The age of its benchmarks, whole hours. None if it is unknown.
        """
        if self.impossible_key:
            return self.impossible_key
        if self.max_price is not None and price_per_min > self.max_price:
            return PRICE
        if success < self.min_success:
            return REPUTATION
        if self.max_age_h is not None and (age_h is None or age_h > self.max_age_h):
            return BENCHMARK_AGE
        return None

    @property
    def limits_start(self) -> bool:
        """Whether the time at which a provider has room decides if it is suitable."""
        return self.max_wait_s is not None or self.latest_end is not None

    def latest_start(self, *, paid_s: int, now: int) -> int:
        """Return when a job must be expected to start at the latest, Unix seconds.

        Requires that ``limits_start`` is true.

        Args:
            paid_s: How long the escrow of the job pays for it, seconds.
            now: Unix seconds.
        """
        limits = []
        if self.max_wait_s is not None:
            limits.append(now + self.max_wait_s)
        if self.latest_end is not None:
            limits.append(self.latest_end - paid_s)
        return min(limits)

    def min_price(self, escrow: int, *, now: int) -> int:
        """Return the lowest price of one minute at which a job can meet its deadline, wei.

        At a lower price, the escrow pays for the time after the deadline too.
        """
        if self.latest_end is None:
            return 0
        time_left_s = self.latest_end - now
        if time_left_s < 0:
            return escrow + 1  # too expensive
        if time_left_s >= MAX_PAID_MINUTES * SECONDS_PER_MINUTE:
            return 0
        return escrow * SECONDS_PER_MINUTE // (time_left_s + 1) + 1


NO_CONDITIONS = Conditions()


def read_conditions(affinity: Collection[Affinity]) -> Conditions:
    """Return the conditions of a job. Of several limits with one key, the strictest applies."""
    if not affinity:
        return NO_CONDITIONS
    on_labels = []
    impossible_key = ""
    limits: dict[str, list[int]] = {}
    policies: set[str] = set()
    for condition in affinity:
        key = condition.key
        if key not in RESERVED_KEYS:
            on_labels.append(condition)
        elif problem_of(condition) is not None:
            impossible_key = key
        elif key == POLICY:
            policies.add(condition.value)
        else:
            limits.setdefault(key, []).append(_limit(condition))
    if len(policies) > 1:
        impossible_key = POLICY
    return Conditions(
        on_labels=tuple(on_labels),
        impossible_key=impossible_key,
        max_price=min(limits.get(PRICE, ()), default=None),
        min_success=max(limits.get(REPUTATION, ()), default=0),
        max_age_h=min(limits.get(BENCHMARK_AGE, ()), default=None),
        max_wait_s=min(limits.get(QUEUE_WAIT, ()), default=None),
        latest_end=min(limits.get(DEADLINE, ()), default=None),
        policy=POLICIES[policies.pop()] if policies else None,
    )


def problem_of(condition: Affinity) -> str | None:
    """Return what is wrong with a condition that has a reserved key. None if it is valid."""
    operators = OPERATORS[condition.key]
    if condition.operator not in operators:
        return f"{condition.key} permits only the operators {' and '.join(operators)}"
    if condition.key == POLICY:
        if condition.value in POLICIES:
            return None
        return f"{POLICY} must be {', '.join(list(POLICIES)[:-1])} or {list(POLICIES)[-1]}"
    number = number_or_none(condition.value)
    if number is None or number < 0:
        return (
            f"{condition.key} must be a number such as 600 or 2.5, at least 0, with at most 18"
            " digits before and after the decimal point"
        )
    if condition.key == REPUTATION and number > 1:
        return f"{REPUTATION} must be at most 1"
    return None


def _limit(condition: Affinity) -> int:
    """Return the highest or lowest integer that satisfies a condition, in the unit of the field."""
    limit = Fraction(condition.value) * _UNITS.get(condition.key, 1)
    if condition.operator == "<":
        return math.ceil(limit) - 1
    if condition.operator == ">":
        return math.floor(limit) + 1
    return math.ceil(limit) if condition.operator == ">=" else math.floor(limit)
