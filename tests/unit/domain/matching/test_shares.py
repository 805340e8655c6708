# SPDX-License-Identifier: Apache-2.0
"""Tests of the usage and the weight of the customers.

The half-life is 4 blocks. So an amount of the blocks 0 to 8 counts 4, 5, 6, 7, 8, 10, 12, 14 and 16
times, and the sums of these factors before the blocks 2, 4 and 8 are 9, 22 and 66.
"""

from dataclasses import replace

import pytest
from tests.unit.domain.builders import CONTRACT, job_id
from tests.unit.domain.matching.grids import ALICE, BOB, MINT

from gridstead.domain.matching.shares import PRIORITY_SCALE, HalfLife, Shares, Spending

HALF_LIFE = HalfLife(4)
FACTORS = [4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32]


def shares(**balances):
    """Return the shares of ALICE and BOB, who have these credits since block 0."""
    result = Shares(HALF_LIFE)
    for customer, amount in ((ALICE, balances.get("alice", 0)), (BOB, balances.get("bob", 0))):
        if amount:
            result.transfer(MINT, customer, amount, block=0)
    return result


def set_job(of_shares, number=1, **changes):
    """Set a job of ALICE that was requested and matched in block 4 and has not ended."""
    requested_block = changes.pop("requested_block", 4)
    spending = Spending(
        customer=ALICE,
        cost=0,
        matched_block=4,
        deposits=((requested_block, changes.pop("escrow", 0)), *changes.pop("top_ups", ())),
        ended_block=None,
    )
    of_shares.set_job(job_id(number), replace(spending, **changes))


def test_growth_doubles_with_each_half_life_and_is_linear_between():
    assert [HALF_LIFE.growth(block) for block in range(13)] == FACTORS


@pytest.mark.parametrize("block", range(13))
def test_growth_before_a_block_is_the_sum_of_the_earlier_factors(block):
    assert HALF_LIFE.growth_before(block) == sum(FACTORS[:block])


def test_half_life_of_one_block_doubles_with_each_block():
    assert [HalfLife(1).growth(block) for block in range(4)] == [1, 2, 4, 8]
    assert [HalfLife(1).growth_before(block) for block in range(4)] == [0, 1, 3, 7]


@pytest.mark.parametrize(("block", "usage"), [(4, 100), (6, 66), (8, 50), (12, 25)])
def test_usage_decays(block, usage):
    """At block 6, it is 100 x 8 / 12 = 66.7."""
    customers = shares()
    set_job(customers, cost=100, matched_block=4)

    assert customers.usage(ALICE, block=block) == usage


def test_unknown_customer_has_no_usage_and_no_weight():
    customers = shares()

    assert (customers.usage(BOB, block=4), customers.weight(BOB, block=4)) == (0, 0)


def test_usage_counts_from_the_block_of_the_match():
    """At block 8, a cost of block 8 counts in full, and a cost of block 4 counts half."""
    customers = shares()
    set_job(customers, cost=100, matched_block=8)
    set_job(customers, 2, cost=10, matched_block=4)

    assert customers.usage(ALICE, block=8) == 105


def test_match_of_a_pending_job_costs_the_same_as_a_matched_job():
    matched, pending = shares(), shares()
    set_job(matched, cost=100, matched_block=8, escrow=100)
    set_job(pending, cost=0, escrow=100)

    pending.charge_match(job_id(1), 100, block=8)

    for customers in (matched, pending):
        assert customers.usage(ALICE, block=8) == 100
        customers.remove_job(job_id(1))
        assert customers.usage(ALICE, block=8) == 0


def test_later_values_of_a_job_replace_its_earlier_values():
    customers = shares()
    set_job(customers, cost=100)
    set_job(customers, 2, cost=7)

    set_job(customers, cost=40)

    assert customers.usage(ALICE, block=4) == 47


def test_job_that_is_pending_again_costs_nothing():
    customers = shares()
    set_job(customers, cost=100, escrow=100)

    set_job(customers, cost=0, escrow=100)

    assert customers.usage(ALICE, block=8) == 0


def test_usage_of_a_closed_job_remains():
    customers = shares()
    set_job(customers, cost=100)

    customers.close_job(job_id(1))
    customers.close_job(job_id(1))
    customers.remove_job(job_id(1))

    assert customers.usage(ALICE, block=4) == 100


def test_removed_job_leaves_no_usage_and_no_weight():
    customers = shares()
    set_job(customers, cost=100, escrow=30)
    assert customers.weight(ALICE, block=8) == 20  # 30 x 44 / 66

    customers.remove_job(job_id(1))
    customers.remove_job(job_id(1))

    assert customers.usage(ALICE, block=8) == 0
    assert customers.weight(ALICE, block=8) == 0


@pytest.mark.parametrize(("block", "weight"), [(0, 0), (1, 10), (4, 10), (8, 10)])
def test_weight_of_constant_credits_is_the_credits(block, weight):
    assert shares(alice=10).weight(ALICE, block=block) == weight


def test_weight_counts_credits_only_while_the_wallet_holds_them():
    """The blocks 0 and 1 count 9 of 22, and the blocks 2 and 3 count 13 of 22."""
    customers = shares(alice=100)

    customers.transfer(ALICE, BOB, 100, block=2)

    assert customers.weight(ALICE, block=4) == 40  # 100 x 9 / 22 = 40.9
    assert customers.weight(BOB, block=4) == 59  # 100 x 13 / 22 = 59.1


def test_credits_in_escrow_count_as_weight():
    customers = shares(alice=10)

    customers.transfer(ALICE, CONTRACT, 6, block=2)
    set_job(customers, escrow=6, requested_block=2)

    assert customers.weight(ALICE, block=8) == 10


@pytest.mark.parametrize("is_closed", [False, True])
def test_escrow_counts_as_weight_until_the_end_of_the_job(is_closed):
    """The wallet has 3 credits left. The blocks 2 and 3, with escrow, count 13 of 66."""
    customers = shares(alice=69)
    customers.transfer(ALICE, CONTRACT, 66, block=0)
    set_job(customers, escrow=66, requested_block=2)
    set_job(customers, escrow=66, requested_block=2, ended_block=4)
    if is_closed:
        customers.close_job(job_id(1))

    assert customers.weight(ALICE, block=8) == 3 + 13


def test_wallet_with_credits_from_before_the_first_event_has_no_negative_weight():
    customers = shares()

    customers.transfer(ALICE, BOB, 10, block=0)

    assert customers.weight(ALICE, block=4) == 0
    assert customers.priority(ALICE, block=4, extra_usage=1) > 0


def test_priority_is_the_usage_in_proportion_to_the_weight():
    """At block 4: the usage counts 44 x 8, and the weight 10 x 22."""
    customers = shares(alice=10)
    set_job(customers, cost=44)

    assert customers.priority(ALICE, block=4) == 352 * PRIORITY_SCALE // 220
    assert customers.priority(ALICE, block=4, extra_usage=11) == 2 * PRIORITY_SCALE


def test_priority_without_usage_is_zero():
    assert shares(alice=10).priority(ALICE, block=4) == 0


@pytest.mark.parametrize(("extra_usage", "priority"), [(0, 0), (3, 24 * PRIORITY_SCALE)])
def test_priority_of_an_unknown_customer_is_that_of_the_smallest_weight(extra_usage, priority):
    assert shares().priority(BOB, block=4, extra_usage=extra_usage) == priority


def test_customer_with_three_times_the_credits_may_use_three_times_as_much():
    customers = shares(alice=10, bob=30)
    set_job(customers, cost=33)
    set_job(customers, 2, customer=BOB, cost=99)

    assert customers.priority(ALICE, block=4) == 33 * 8 * PRIORITY_SCALE // 220
    assert customers.priority(BOB, block=4) == customers.priority(ALICE, block=4)


def test_credits_that_are_added_to_an_escrow_count_from_their_block_on():
    """5 credits in the blocks 4 to 7 weigh 5 x (8 + 10 + 12 + 14). 3 credits in 6 and 7: 3 x 26."""
    shares = Shares(HALF_LIFE)
    set_job(shares, 1, escrow=5, top_ups=((6, 3),))

    assert shares.weight(ALICE, block=8) == (5 * 44 + 3 * 26) // HALF_LIFE.growth_before(8)
