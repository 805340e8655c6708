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
    assert (
        new_fees(7, 0) == new_fees(7, LEAST_TIP - 1) == Fees(max_fee=14 + LEAST_TIP, tip=LEAST_TIP)
    )


def test_tip_is_limited_whatever_the_node_suggests():
    assert new_fees(7, MOST_TIP + 1) == new_fees(7, 10**30) == new_fees(7, MOST_TIP)
    assert new_fees(7, 10**30).tip == MOST_TIP


def test_max_fee_suffices_after_five_full_blocks():
    base_fee = after_five_blocks = 10 * GWEI
    for _ in range(5):
        after_five_blocks += after_five_blocks // 8

    assert suffices(new_fees(base_fee, GWEI), new_fees(after_five_blocks, GWEI))
    assert not suffices(new_fees(base_fee, GWEI), new_fees(2 * after_five_blocks, GWEI))


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

    for lower in earlier:
        assert fees.max_fee >= raised_fees(lower).max_fee
        assert fees.tip >= raised_fees(lower).tip
    assert fees.max_fee >= current.max_fee
    assert fees.tip >= current.tip
