# SPDX-License-Identifier: Apache-2.0
"""Tests of the scores of the policies."""

from functools import partial

import pytest

from gridstead.domain.jobs.billing import MAX_PAID_MINUTES
from gridstead.domain.matching.policies import (
    BALANCED,
    CHEAPEST,
    POLICIES,
    SOONEST,
    Policy,
    paid_seconds,
)


@pytest.mark.parametrize(
    ("policy", "score"),
    [
        (CHEAPEST, 3 * 10 * 60),
        (BALANCED, 3 * 10 * 60 + 90 * 4),
        (Policy("patient", 50), 3 * 10 * 60 + 90 * 2),
        (SOONEST, 3 * 10 * 60 + 90 * 4),
    ],
)
def test_score_is_the_price_of_the_run_time_and_of_the_waiting_time(policy, score):
    """10 minutes cost 3 wei per minute. The price of a minute of waiting is derived from 4 wei."""
    assert policy.score(price_per_min=3, minutes=10, wait_s=90, reference_price=4) == score


def test_price_of_waiting_is_rounded_down():
    policy = Policy("patient", 50)

    assert policy.score(price_per_min=0, minutes=1, wait_s=3, reference_price=1) == 1


def test_minute_of_waiting_costs_as_much_as_a_minute_of_the_job_if_both_count_equally():
    waiting = BALANCED.score(price_per_min=5, minutes=0, wait_s=60, reference_price=5)
    running = BALANCED.score(price_per_min=5, minutes=1, wait_s=0, reference_price=5)

    assert waiting == running == 300


def test_policies_are_found_by_name():
    assert {"cheapest": CHEAPEST, "balanced": BALANCED, "soonest": SOONEST} == POLICIES


@pytest.mark.parametrize(
    ("escrow", "price", "seconds"),
    [
        (10, 1, 600),
        (10, 7, 85),  # 600 / 7 = 85.7
        (10**12, 1, MAX_PAID_MINUTES * 60),
        (10, 0, MAX_PAID_MINUTES * 60),
    ],
)
def test_paid_time_is_rounded_down_and_limited(escrow, price, seconds):
    assert paid_seconds(escrow, price) == seconds


@pytest.mark.parametrize("wait_percent", [1, 50, 100, 250])
@pytest.mark.parametrize(("price", "dearer_price"), [(1, 2), (7, 11), (99, 100), (1, 10**20)])
def test_longest_wait_is_the_last_with_a_lower_score(wait_percent, price, dearer_price):
    policy = Policy("test", wait_percent)
    reference_price = 3 * dearer_price
    score = partial(policy.score, minutes=17, reference_price=reference_price)
    score_now = score(price_per_min=dearer_price, wait_s=0)

    longest_s = policy.longest_wait_s(
        saving_per_min=dearer_price - price, minutes=17, reference_price=reference_price
    )

    assert score(price_per_min=price, wait_s=longest_s) < score_now
    assert score(price_per_min=price, wait_s=longest_s + 1) >= score_now
