# SPDX-License-Identifier: Apache-2.0
"""The state of a call follows from receipts, objections and refusals.

``dispatch_setup.py`` explains the terms.
"""

from __future__ import annotations

from dataclasses import replace

from tests.unit.domain.transactions.dispatch_setup import (
    FEES,
    HEAD,
    change,
    plan_for,
    receipt,
    sent_entries,
    transaction,
)
from tests.unit.domain.transactions.outbox import entry, job_id

from gridstead.domain.transactions.calls import ClaimJobs
from gridstead.domain.transactions.fees import raised_fees
from gridstead.domain.transactions.outbox import NodeRefusal, SendState
from gridstead.domain.transactions.plan import UnsignedTransaction


def test_queued_call_with_an_objection_is_rejected():
    plan = plan_for(entry(1), entry(2), objections={1: "gone"})

    assert plan.changes == (change(1, SendState.REJECTED, "gone"),)
    assert plan.batches == ((2,),)


def test_call_that_is_refused_alone_is_rejected_with_the_message_of_the_node():
    refused_transaction = transaction(7, 1, withdrawn=True, sent_at=None)

    plan = plan_for(
        entry(1, state=SendState.SENT),
        entry(2),
        transactions=[refused_transaction],
        refusals={1: NodeRefusal(call_count=1, message="too big")},
    )

    reason = 'the node refused the transaction: "too big"'
    assert plan.changes == (change(1, SendState.REJECTED, reason),)
    assert plan.batches == ((2,),)
    assert plan.replacements == (
        UnsignedTransaction(nonce=7, entry_ids=(), fees=raised_fees(FEES)),
    )


def test_mined_call_is_not_final_without_enough_confirmations():
    plan = plan_for(
        entry(1, state=SendState.SENT),
        transactions=[transaction(6, 1)],
        receipts={"6": receipt(HEAD - 1)},
    )

    assert plan.changes == (change(1, SendState.MINED),)
    assert plan.closed_nonces == ()


def test_call_with_enough_confirmations_is_final_and_its_nonce_is_closed():
    plan = plan_for(
        entry(1, state=SendState.MINED),
        transactions=[transaction(6, 1)],
        receipts={"6": receipt(HEAD - 2)},
    )

    assert plan.changes == (change(1, SendState.FINAL),)
    assert plan.closed_nonces == (6,)


def test_call_is_final_if_its_withdrawn_transaction_was_mined():
    plan = plan_for(
        entry(2),
        transactions=[transaction(6, 1, 2, withdrawn=True)],
        receipts={"6": receipt(HEAD - 2, skipped={job_id(1): "no"})},
    )

    assert plan.changes == (change(2, SendState.FINAL),)
    assert plan.batches == ()


def test_call_is_final_if_one_of_its_transactions_succeeded_and_another_skipped_it():
    receipts = {
        "5": receipt(HEAD - 3),
        "6": receipt(HEAD - 3, skipped={job_id(1): "InvalidTransition"}),
    }

    plan = plan_for(
        entry(1), transactions=[transaction(5, 1), transaction(6, 1)], receipts=receipts
    )

    assert plan.changes == (change(1, SendState.FINAL),)
    assert plan.closed_nonces == (5, 6)


def test_skipped_call_is_rejected_when_its_block_is_final():
    entries = sent_entries(1, 2)
    batch = transaction(6, 1, 2)
    skipped = {job_id(2): "no"}

    new_receipt = receipt(HEAD, skipped=skipped)
    plan_before = plan_for(*entries, transactions=[batch], receipts={"6": new_receipt})
    final_receipt = receipt(HEAD - 2, skipped=skipped)
    plan_after = plan_for(*entries, transactions=[batch], receipts={"6": final_receipt})

    assert plan_before.changes == (change(1, SendState.MINED), change(2, SendState.MINED))
    rejection = replace(change(2, SendState.REJECTED, "no"), is_skipped=True)
    assert plan_after.changes == (change(1, SendState.FINAL), rejection)


def test_all_calls_of_a_failed_transaction_are_rejected():
    entries = [
        entry(1, ClaimJobs(limit=1), SendState.SENT),
        entry(2, ClaimJobs(limit=2), SendState.SENT),
    ]

    plan = plan_for(
        *entries,
        transactions=[transaction(6, 1, 2)],
        receipts={"6": receipt(HEAD - 2, succeeded=False)},
    )

    reason = "the transaction failed"
    assert plan.changes == (
        change(1, SendState.REJECTED, reason),
        change(2, SendState.REJECTED, reason),
    )


def test_objection_does_not_affect_a_mined_call():
    plan = plan_for(
        entry(1, state=SendState.MINED),
        transactions=[transaction(6, 1)],
        receipts={"6": receipt(HEAD)},
        objections={1: "gone"},
    )

    assert plan.changes == ()


def test_transaction_that_a_reorg_removed_is_sent_again_unchanged():
    removed_transaction = transaction(7, 1)

    plan = plan_for(
        entry(1, state=SendState.MINED), transactions=[removed_transaction], statuses={}
    )

    assert plan.changes == (change(1, SendState.SENT),)
    assert plan.to_send == (removed_transaction,)
