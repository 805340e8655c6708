# SPDX-License-Identifier: Apache-2.0
"""The sender sends pending transactions again, and replaces stuck ones with higher fees.

``dispatch_setup.py`` explains the terms.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.domain.transactions.dispatch_setup import (
    FEES,
    NOW,
    POLICY,
    assert_sends_nothing,
    hash_of,
    plan_for,
    sent_entries,
    transaction,
)
from tests.unit.domain.transactions.outbox import entry

from gridstead.domain.transactions.fees import raised_fees
from gridstead.domain.transactions.outbox import Fees, PendingStatus, SendState
from gridstead.domain.transactions.plan import UnsignedTransaction


def test_pending_call_is_not_sent_again_at_once():
    plan = plan_for(entry(1, state=SendState.SENT), transactions=[transaction(7, 1)])

    assert plan.changes == ()
    assert_sends_nothing(plan)
    assert plan.next_nonce == 8


def test_transaction_that_this_process_never_sent_is_sent():
    unsent_transaction = transaction(7, 1, sent_at=None)

    plan = plan_for(entry(1, state=SendState.SENT), transactions=[unsent_transaction], statuses={})

    assert plan.to_send == (unsent_transaction,)


@pytest.mark.parametrize(("last_sent_at", "is_resent"), [(NOW - 9, False), (NOW - 10, True)])
def test_pending_transaction_is_sent_again_after_the_interval(last_sent_at, is_resent):
    pending_transaction = transaction(7, 1)
    statuses = {
        pending_transaction.hash: PendingStatus(waiting_since=NOW - 20, last_sent_at=last_sent_at)
    }

    plan = plan_for(entry(1), transactions=[pending_transaction], statuses=statuses)

    expected_to_send = (pending_transaction,) if is_resent else ()
    assert plan.to_send == expected_to_send


def test_last_accepted_transaction_is_sent_again_if_the_node_refused_its_replacement():
    accepted_transaction, refused_transaction = (
        transaction(7, 1),
        transaction(7, 1, name="b", sent_at=None),
    )
    statuses = {
        accepted_transaction.hash: PendingStatus(waiting_since=NOW, last_sent_at=NOW - 20),
        refused_transaction.hash: PendingStatus(waiting_since=NOW, last_sent_at=NOW, refused=True),
    }

    plan = plan_for(
        entry(1, state=SendState.SENT),
        transactions=(accepted_transaction, refused_transaction),
        statuses=statuses,
    )

    assert plan.to_send == (accepted_transaction,)


def test_newest_transaction_of_a_nonce_is_sent_again_if_all_were_refused():
    refused_transaction = transaction(7, 1)
    statuses = {
        refused_transaction.hash: PendingStatus(
            waiting_since=NOW, last_sent_at=NOW - 20, refused=True
        )
    }

    plan = plan_for(
        entry(1, state=SendState.SENT), transactions=[refused_transaction], statuses=statuses
    )

    assert plan.to_send == (refused_transaction,)


@pytest.mark.parametrize("waited_s", [10, 40])
def test_transaction_with_a_call_that_may_not_be_sent_is_not_sent_again(waited_s):
    pending_transaction = transaction(7, 1, 2)
    statuses = {
        pending_transaction.hash: PendingStatus(
            waiting_since=NOW - waited_s, last_sent_at=NOW - waited_s
        )
    }
    entries = [entry(1, state=SendState.SENT), entry(2, state=SendState.SENT)]

    plan = plan_for(
        *entries, transactions=[pending_transaction], statuses=statuses, sendable_ids=frozenset({1})
    )

    assert (plan.changes, plan.withdrawn_nonces) == ((), ())
    assert_sends_nothing(plan)


@pytest.mark.parametrize(
    "status",
    [
        PendingStatus(waiting_since=NOW - 40, last_sent_at=NOW),
        PendingStatus(waiting_since=NOW, last_sent_at=NOW, underpriced=True),
    ],
)
def test_stuck_transaction_is_replaced_with_higher_fees(status):
    stuck_transaction = transaction(7, 1)

    plan = plan_for(
        entry(1, state=SendState.SENT),
        transactions=[stuck_transaction],
        statuses={stuck_transaction.hash: status},
    )

    assert plan.replacements == (
        UnsignedTransaction(nonce=7, entry_ids=(1,), fees=raised_fees(FEES)),
    )
    assert plan.to_send == ()


def test_replacement_offers_more_than_its_predecessors_and_at_least_the_current_fees():
    first, second = transaction(7, 1), transaction(7, 1, name="b", fees=Fees(max_fee=200, tip=12))
    statuses = {second.hash: PendingStatus(waiting_since=NOW - 40, last_sent_at=NOW)}

    plan = plan_for(
        entry(1), transactions=[first, second], statuses=statuses, fees=Fees(max_fee=150, tip=50)
    )

    # A replacement of the second transaction must offer at least 200 + 200 / 8 + 1 = 226.
    assert plan.replacements == (
        UnsignedTransaction(nonce=7, entry_ids=(1,), fees=Fees(max_fee=226, tip=50)),
    )


def test_replacement_offers_at_most_ten_times_the_current_fees():
    stuck_transaction = transaction(7, 1, fees=Fees(max_fee=900, tip=50))
    statuses = {
        stuck_transaction.hash: PendingStatus(
            waiting_since=NOW - 400, last_sent_at=NOW - 10, underpriced=True
        )
    }
    higher_fees = Fees(max_fee=200, tip=10)

    at_low_fees = plan_for(entry(1), transactions=[stuck_transaction], statuses=statuses)
    at_high_fees = plan_for(
        entry(1), transactions=[stuck_transaction], statuses=statuses, fees=higher_fees
    )

    assert (at_low_fees.replacements, at_low_fees.to_send) == ((), (stuck_transaction,))
    assert len(at_high_fees.replacements) == 1


@given(st.integers(0, 10**20), st.integers(0, 10**20))
def test_raised_fees_are_at_least_an_eighth_higher(max_fee, tip):
    higher = raised_fees(Fees(max_fee=max_fee, tip=tip))

    assert higher.max_fee * 8 >= max_fee * 9
    assert higher.tip * 8 >= tip * 9


def test_only_the_lowest_nonces_are_replaced():
    stuck_transactions = [transaction(7, 1), transaction(8, 2), transaction(9, 3)]
    statuses = dict.fromkeys(
        map(hash_of, stuck_transactions), PendingStatus(waiting_since=NOW - 40, last_sent_at=NOW)
    )
    policy = replace(POLICY, max_replacements=2)

    plan = plan_for(
        *sent_entries(1, 3), transactions=stuck_transactions, statuses=statuses, policy=policy
    )

    first, second = plan.replacements
    assert (first.nonce, second.nonce) == (7, 8)


@pytest.mark.parametrize(("is_refused", "entry_ids"), [(True, ()), (False, (1,))])
def test_replacement_has_no_calls_if_the_node_refuses_all_transactions_of_a_nonce(
    is_refused, entry_ids
):
    first, second = transaction(7, 1), transaction(7, 1, name="b")
    statuses = {
        first.hash: PendingStatus(waiting_since=NOW - 1000, last_sent_at=NOW, refused=is_refused),
        second.hash: PendingStatus(waiting_since=NOW - 1000, last_sent_at=NOW, refused=True),
    }

    plan = plan_for(entry(1, state=SendState.SENT), transactions=(first, second), statuses=statuses)

    (replacement,) = plan.replacements
    assert (replacement.nonce, replacement.entry_ids) == (7, entry_ids)
