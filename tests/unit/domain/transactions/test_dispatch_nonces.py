# SPDX-License-Identifier: Apache-2.0
"""The sender withdraws transactions, fills nonce gaps and closes used nonces.

``dispatch_setup.py`` explains the terms.
"""

from __future__ import annotations

from tests.unit.domain.transactions.dispatch_setup import (
    FEES,
    assert_sends_nothing,
    change,
    plan_for,
    sent_entries,
    transaction,
)
from tests.unit.domain.transactions.outbox import entry

from gridstead.domain.transactions.fees import raised_fees
from gridstead.domain.transactions.outbox import SendState
from gridstead.domain.transactions.plan import UnsignedTransaction


def test_pending_transaction_with_an_objection_is_withdrawn_and_its_nonce_is_filled():
    first, second = transaction(7, 1, 2), transaction(8, 3)

    plan = plan_for(*sent_entries(1, 3), transactions=[first, second], objections={1: "gone"})

    assert plan.changes == (change(1, SendState.REJECTED, "gone"), change(2, SendState.QUEUED))
    assert plan.withdrawn_nonces == (7,)
    assert plan.replacements == (
        UnsignedTransaction(nonce=7, entry_ids=(), fees=raised_fees(FEES)),
    )
    assert plan.batches == ((2,),)
    assert plan.next_nonce == 9
    assert plan.to_send == ()


def test_withdrawn_transaction_is_never_sent_and_its_nonce_is_filled_after_a_crash():
    plan = plan_for(transactions=[transaction(7, 1, withdrawn=True)], statuses={})

    assert plan.withdrawn_nonces == ()
    assert plan.to_send == ()
    assert plan.replacements == (
        UnsignedTransaction(nonce=7, entry_ids=(), fees=raised_fees(FEES)),
    )


def test_pending_gap_filler_is_not_sent_again_at_once():
    """A gap filler is an empty transaction with the nonce of a withdrawn or missing transaction."""
    plan = plan_for(transactions=[transaction(7, 1, withdrawn=True), transaction(7, name="filler")])

    assert plan.withdrawn_nonces == ()
    assert_sends_nothing(plan)


def test_gap_filler_is_not_withdrawn_by_an_objection_to_the_withdrawn_entry():
    plan = plan_for(
        entry(1),
        transactions=[transaction(7, 1, withdrawn=True), transaction(7, name="filler")],
        objections={1: "x"},
    )

    assert plan.changes == (change(1, SendState.REJECTED, "x"),)
    assert (plan.withdrawn_nonces, plan.replacements) == ((), ())


def test_gap_between_nonces_is_filled():
    plan = plan_for(entry(1, state=SendState.SENT), transactions=[transaction(9, 1)])

    first, second = plan.replacements
    assert (first.nonce, first.entry_ids) == (7, ())
    assert (second.nonce, second.entry_ids) == (8, ())


def test_nonce_used_by_an_unknown_transaction_is_closed_and_its_calls_are_queued_again():
    plan = plan_for(entry(1, state=SendState.SENT), transactions=[transaction(6, 1)])

    assert plan.closed_nonces == (6,)
    assert plan.changes == (change(1, SendState.QUEUED),)
    assert plan.batches == ((1,),)


def test_nonce_used_by_an_unknown_transaction_of_the_newest_block_is_not_used_again():
    # Another program has used nonces 7 and 8 in the newest blocks.
    plan = plan_for(entry(1), certain_nonce=7, nonce_at_head=9)

    assert (plan.next_nonce, plan.replacements) == (9, ())


def test_transaction_is_not_replaced_if_the_newest_block_has_used_its_nonce():
    sent_entry = entry(1, state=SendState.SENT)

    plan = plan_for(sent_entry, transactions=[transaction(8, 1)], certain_nonce=7, nonce_at_head=9)

    assert plan.next_nonce == 9
    assert (plan.replacements, plan.closed_nonces, plan.changes) == ((), (), ())
