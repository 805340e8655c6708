# SPDX-License-Identifier: Apache-2.0
"""The fees that transactions of a wallet offer, and how they rise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gridstead.domain.transactions.fees import (
    LEAST_TIP,
    MOST_TIP,
    new_fees,
    raised_fees,
    replacement_fees,
    suffices,
)
from gridstead.domain.transactions.outbox import Fees

GWEI = 10**9
AMOUNTS = st.integers(0, 10**18)


def test_max_fee_is_twice_the_base_fee_plus_the_suggested_tip():
    assert new_fees(7 * GWEI, 2 * GWEI) == Fees(max_fee=16 * GWEI, tip=2 * GWEI)


def test_tip_is_never_below_the_least_tip():
    least_fees = Fees(max_fee=14 + LEAST_TIP, tip=LEAST_TIP)

    assert new_fees(7, 0) == least_fees
    assert new_fees(7, LEAST_TIP - 1) == least_fees


def test_tip_is_limited_whatever_the_node_suggests():
    highest_fees = Fees(max_fee=14 + MOST_TIP, tip=MOST_TIP)

    assert new_fees(7, MOST_TIP + 1) == highest_fees
    assert new_fees(7, 10**30) == highest_fees


def test_max_fee_suffices_after_five_full_blocks():
    base_fee = 10 * GWEI
    later_base_fee = base_fee
    for _ in range(5):
        later_base_fee += later_base_fee // 8

    offered_fees = new_fees(base_fee, GWEI)
    assert suffices(offered_fees, new_fees(later_base_fee, GWEI))
    assert not suffices(offered_fees, new_fees(2 * later_base_fee, GWEI))


@given(base_fee=AMOUNTS, tip=AMOUNTS)
def test_new_fees_suffice_now(base_fee, tip):
    fees = new_fees(base_fee, tip)

    assert suffices(fees, fees)


def test_first_transaction_of_a_nonce_offers_the_current_fees():
    current = new_fees(7 * GWEI, GWEI)

    assert replacement_fees([], current) == current


@given(earlier=st.lists(st.builds(Fees, max_fee=AMOUNTS, tip=AMOUNTS)), base_fee=AMOUNTS)
def test_replacement_offers_an_eighth_more_than_each_earlier_transaction(earlier, base_fee):
    current = new_fees(base_fee, 0)
    fees = replacement_fees(earlier, current)

    for required_fees in map(raised_fees, earlier):
        assert fees.max_fee >= required_fees.max_fee
        assert fees.tip >= required_fees.tip
    assert fees.max_fee >= current.max_fee
    assert fees.tip >= current.tip
