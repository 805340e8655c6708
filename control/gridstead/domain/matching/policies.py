# SPDX-License-Identifier: Apache-2.0
"""The policies that choose between a provider now and a cheaper provider later.

The score of a provider is the price of the paid time, plus a price for the expected waiting time.
The lowest score is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridstead.domain.jobs.billing import (
    MAX_PAID_MINUTES,
    PERCENT,
    SECONDS_PER_MINUTE,
    paid_seconds_floor,
)


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy.

    Attributes:
        name: The name in the settings.
        wait_percent: What a minute of waiting costs, in percent of the price of a minute of the
            job. None if a job never waits while a provider has room for it.
    """

    name: str
    wait_percent: int | None

    def score(self, *, price_per_min: int, minutes: int, wait_s: int, reference_price: int) -> int:
        """Return the score of a provider, in wei / 60. The lowest is the best.

        Args:
            price_per_min: The price of one minute of the job at this provider, wei.
            minutes: The expected run time.
            wait_s: The expected waiting time at this provider, seconds.
            reference_price: The price of one minute of the job at the provider with which this one
                is compared, wei. ``wait_percent`` of it is the price of a minute of waiting.
        """
        cost = price_per_min * minutes * SECONDS_PER_MINUTE
        wait_percent = PERCENT if self.wait_percent is None else self.wait_percent
        return cost + wait_s * reference_price * wait_percent // PERCENT

    def longest_wait_s(self, *, saving_per_min: int, minutes: int, reference_price: int) -> int:
        """Return the longest wait for a cheaper provider with which its score is lower, seconds.

        Requires that ``wait_percent`` is greater than 0.

        Args:
            saving_per_min: The difference of the prices of one minute, wei.
            minutes: The expected run time.
            reference_price: As for ``score``, at the dearer provider.
        """
        assert self.wait_percent
        saving = saving_per_min * minutes * SECONDS_PER_MINUTE
        return (saving * PERCENT - 1) // (reference_price * self.wait_percent)


CHEAPEST = Policy("cheapest", 0)
BALANCED = Policy("balanced", 100)
SOONEST = Policy("soonest", None)
POLICIES = {policy.name: policy for policy in (CHEAPEST, BALANCED, SOONEST)}


def paid_seconds(escrow: int, price_per_min: int) -> int:
    """Return how many seconds an escrow pays for, rounded down, at most ten years."""
    max_s = MAX_PAID_MINUTES * SECONDS_PER_MINUTE
    paid_s = paid_seconds_floor(escrow, price_per_min)
    return max_s if paid_s is None else min(paid_s, max_s)
