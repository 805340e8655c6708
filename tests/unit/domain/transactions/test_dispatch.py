# SPDX-License-Identifier: Apache-2.0
"""The decisions of a wallet's sender.

An outbox entry is a call that must be sent. A transaction contains the calls of one or several
entries. After the sender has replaced a transaction by one with higher fees, both have the same
nonce. A call is cleared if it may be sent to the node now. An objection to a call is the reason why
the call is no longer valid and must not be sent.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.domain.transactions.outbox import (
    entries_from,
    entry,
    job_id,
    job_key,
    pack_entries,
)

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import ClaimJobs, Expire
from gridstead.domain.transactions.dispatch import (
    BASE_GAS,
    plan_transactions,
    raised_fees,
)
from gridstead.domain.transactions.outbox import (
    ChainView,
    EntryChange,
    Fees,
    Receipt,
    Refusal,
    SendState,
    Transaction,
    Waiting,
)
from gridstead.domain.transactions.plan import DispatchPolicy, Slot

FEES = Fees(max_fee=100, tip=10)
POLICY = DispatchPolicy(
    confirmations=2, batch=3, in_flight=4, resend_after_s=10, replace_after_s=40
)
NOW = 1000
HEAD = 50


def transaction(nonce, *entry_ids, name="", **fields):
    """Return a transaction that the node accepted. Its hash is the nonce and the name."""
    values = {"raw": "0x", "fees": FEES, "sent_at": 1} | fields
    return Transaction(hash=f"{nonce}{name}", nonce=nonce, entry_ids=entry_ids, **values)


def view(*entries, transactions=(), waiting=None, **fields):
    """Return a chain view in which the transactions were sent just now, with these fields."""
    if waiting is None:
        just_sent = Waiting(since=NOW, last_sent_at=NOW)
        waiting = dict.fromkeys(map(hash_of, transactions), just_sent)
    values = {
        "now": NOW,
        "head": HEAD,
        "nonce": 7,
        "receipts": {},
        "objections": {},
        "fees": FEES,
        "gas_limit": 30_000_000,
        "gas": {},
        "refusals": {},
    } | fields
    values.setdefault("nonce_at_head", values["nonce"])
    return ChainView(entries=entries, transactions=tuple(transactions), waiting=waiting, **values)


def hash_of(transaction):
    return transaction.hash


def plan_for(*entries, policy=POLICY, **fields):
    """Return the plan for a view with these entries."""
    return plan_transactions(view(*entries, **fields), policy)


def sent_entries(first, last):
    """Return sent entries with consecutive ids."""
    return [entry(number, state=SendState.SENT) for number in range(first, last + 1)]


def change(entry_id, state, reason=""):
    return EntryChange(entry_id=entry_id, state=state, reason=reason)


def receipt(block, *, succeeded=True, skipped=None):
    return Receipt(block=block, block_hash="", succeeded=succeeded, skipped=skipped or {})


def assert_sends_nothing(plan):
    assert plan.batches == ()
    assert plan.replacements == ()
    assert plan.resend == ()


def test_nothing_is_done_for_an_empty_outbox():
    plan = plan_for()

    assert plan.changes == ()
    assert_sends_nothing(plan)


def test_last_accepted_transaction_is_sent_again_if_the_node_refused_its_replacement():
    accepted_transaction, refused_transaction = (
        transaction(7, 1),
        transaction(7, 1, name="b", sent_at=None),
    )
    waiting = {
        accepted_transaction.hash: Waiting(since=NOW, last_sent_at=NOW - 20),
        refused_transaction.hash: Waiting(since=NOW, last_sent_at=NOW, refused=True),
    }

    plan = plan_for(
        entry(1, state=SendState.SENT),
        transactions=(accepted_transaction, refused_transaction),
        waiting=waiting,
    )

    assert plan.resend == (accepted_transaction,)


def test_newest_transaction_of_a_nonce_is_sent_again_if_all_were_refused():
    refused_transaction = transaction(7, 1)
    waiting = {refused_transaction.hash: Waiting(since=NOW, last_sent_at=NOW - 20, refused=True)}

    plan = plan_for(
        entry(1, state=SendState.SENT), transactions=[refused_transaction], waiting=waiting
    )

    assert plan.resend == (refused_transaction,)


@pytest.mark.parametrize(("is_refused", "entry_ids"), [(True, ()), (False, (1,))])
def test_replacement_has_no_calls_if_the_node_refuses_all_transactions_of_a_nonce(
    is_refused, entry_ids
):
    first, second = transaction(7, 1), transaction(7, 1, name="b")
    waiting = {
        first.hash: Waiting(since=NOW - 1000, last_sent_at=NOW, refused=is_refused),
        second.hash: Waiting(since=NOW - 1000, last_sent_at=NOW, refused=True),
    }

    plan = plan_for(entry(1, state=SendState.SENT), transactions=(first, second), waiting=waiting)

    (slot,) = plan.replacements
    assert (slot.nonce, slot.entry_ids) == (7, entry_ids)


def test_queued_calls_of_one_type_share_a_transaction():
    plan = plan_for(entry(1), entry(2), entry(3, ClaimJobs(limit=5)), entry(4))

    assert plan.batches == ((1, 2, 4), (3,))
    assert plan.next_nonce == 7
    assert plan.changes == ()


def test_expiries_are_sent_one_by_one():
    first = Expire(job_key=job_key(1), state=JobState.RUNNING, state_block=1)
    second = Expire(job_key=job_key(2), state=JobState.RUNNING, state_block=1)

    plan = plan_for(entry(1, first), entry(2, second))

    assert plan.batches == ((1,), (2,))


def test_queued_call_with_an_objection_is_rejected():
    plan = plan_for(entry(1), entry(2), objections={1: "gone"})

    assert plan.changes == (change(1, SendState.REJECTED, "gone"),)
    assert plan.batches == ((2,),)


def test_pending_nonces_are_limited_by_the_policy():
    pending_transactions = [transaction(7), transaction(8), transaction(9)]
    claims = [entry(1, ClaimJobs(limit=1)), entry(2, ClaimJobs(limit=2))]

    plan = plan_for(*claims, transactions=pending_transactions)

    assert plan.batches == ((1,),)
    assert plan.next_nonce == 10


def test_pending_call_is_not_sent_again_at_once():
    plan = plan_for(entry(1, state=SendState.SENT), transactions=[transaction(7, 1)])

    assert plan.changes == ()
    assert_sends_nothing(plan)
    assert plan.next_nonce == 8


def test_transaction_that_this_process_never_sent_is_sent():
    unsent_transaction = transaction(7, 1, sent_at=None)

    plan = plan_for(entry(1, state=SendState.SENT), transactions=[unsent_transaction], waiting={})

    assert plan.resend == (unsent_transaction,)


@pytest.mark.parametrize(("last_sent_at", "is_resent"), [(NOW - 9, False), (NOW - 10, True)])
def test_pending_transaction_is_sent_again_after_the_interval(last_sent_at, is_resent):
    pending_transaction = transaction(7, 1)
    waiting = {pending_transaction.hash: Waiting(since=NOW - 20, last_sent_at=last_sent_at)}

    plan = plan_for(entry(1), transactions=[pending_transaction], waiting=waiting)

    expected_resend = (pending_transaction,) if is_resent else ()
    assert plan.resend == expected_resend


@pytest.mark.parametrize(
    "waiting",
    [
        Waiting(since=NOW - 40, last_sent_at=NOW),
        Waiting(since=NOW, last_sent_at=NOW, underpriced=True),
    ],
)
def test_stuck_transaction_is_replaced_with_higher_fees(waiting):
    stuck_transaction = transaction(7, 1)

    plan = plan_for(
        entry(1, state=SendState.SENT),
        transactions=[stuck_transaction],
        waiting={stuck_transaction.hash: waiting},
    )

    assert plan.replacements == (Slot(nonce=7, entry_ids=(1,), fees=raised_fees(FEES)),)
    assert plan.resend == ()


def test_replacement_offers_more_than_its_predecessors_and_at_least_the_current_fees():
    first, second = transaction(7, 1), transaction(7, 1, name="b", fees=Fees(max_fee=200, tip=12))
    waiting = {second.hash: Waiting(since=NOW - 40, last_sent_at=NOW)}

    plan = plan_for(
        entry(1), transactions=[first, second], waiting=waiting, fees=Fees(max_fee=150, tip=50)
    )

    assert plan.replacements == (Slot(nonce=7, entry_ids=(1,), fees=Fees(max_fee=226, tip=50)),)


@given(st.integers(0, 10**20), st.integers(0, 10**20))
def test_raised_fees_are_at_least_an_eighth_higher(max_fee, tip):
    higher = raised_fees(Fees(max_fee=max_fee, tip=tip))

    assert higher.max_fee * 8 >= max_fee * 9
    assert higher.tip * 8 >= tip * 9


def test_mined_call_is_not_final_without_enough_confirmations():
    plan = plan_for(
        entry(1, state=SendState.SENT),
        transactions=[transaction(6, 1)],
        receipts={"6": receipt(HEAD - 1)},
    )

    assert plan.changes == (change(1, SendState.MINED),)
    assert plan.closed == ()


def test_call_with_enough_confirmations_is_final_and_its_nonce_is_closed():
    plan = plan_for(
        entry(1, state=SendState.MINED),
        transactions=[transaction(6, 1)],
        receipts={"6": receipt(HEAD - 2)},
    )

    assert plan.changes == (change(1, SendState.FINAL),)
    assert plan.closed == (6,)


def test_skipped_call_is_rejected_when_its_block_is_final():
    entries = sent_entries(1, 2)
    batch = transaction(6, 1, 2)
    skipped = {job_id(2): "no"}

    new_receipt = receipt(HEAD, skipped=skipped)
    plan_before = plan_for(*entries, transactions=[batch], receipts={"6": new_receipt})
    final_receipt = receipt(HEAD - 2, skipped=skipped)
    plan_after = plan_for(*entries, transactions=[batch], receipts={"6": final_receipt})

    assert plan_before.changes == (change(1, SendState.MINED), change(2, SendState.MINED))
    assert plan_after.changes == (change(1, SendState.FINAL), change(2, SendState.REJECTED, "no"))


def test_all_calls_of_a_failed_transaction_are_rejected():
    plan = plan_for(
        entry(1, ClaimJobs(limit=1), SendState.SENT),
        transactions=[transaction(6, 1)],
        receipts={"6": receipt(HEAD - 2, succeeded=False)},
    )

    assert plan.changes == (change(1, SendState.REJECTED, "the transaction failed"),)


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

    plan = plan_for(entry(1, state=SendState.MINED), transactions=[removed_transaction], waiting={})

    assert plan.changes == (change(1, SendState.SENT),)
    assert plan.resend == (removed_transaction,)


def test_pending_transaction_with_an_objection_is_withdrawn_and_its_nonce_is_filled():
    first, second = transaction(7, 1, 2), transaction(8, 3)

    plan = plan_for(*sent_entries(1, 3), transactions=[first, second], objections={1: "gone"})

    assert plan.changes == (change(1, SendState.REJECTED, "gone"), change(2, SendState.QUEUED))
    assert plan.withdrawn == (7,)
    assert plan.replacements == (Slot(nonce=7, entry_ids=(), fees=raised_fees(FEES)),)
    assert plan.batches == ((2,),)
    assert plan.next_nonce == 9
    assert plan.resend == ()


def test_withdrawn_transaction_is_never_sent_and_its_nonce_is_filled_after_a_crash():
    plan = plan_for(transactions=[transaction(7, 1, withdrawn=True)], waiting={})

    assert plan.withdrawn == ()
    assert plan.resend == ()
    assert plan.replacements == (Slot(nonce=7, entry_ids=(), fees=raised_fees(FEES)),)


def test_pending_gap_filler_is_not_sent_again_at_once():
    """A gap filler is an empty transaction with the nonce of a withdrawn or missing transaction."""
    plan = plan_for(transactions=[transaction(7, 1, withdrawn=True), transaction(7, name="filler")])

    assert plan.withdrawn == ()
    assert_sends_nothing(plan)


def test_gap_filler_is_not_withdrawn_by_an_objection_to_the_withdrawn_entry():
    plan = plan_for(
        entry(1),
        transactions=[transaction(7, 1, withdrawn=True), transaction(7, name="filler")],
        objections={1: "x"},
    )

    assert plan.changes == (change(1, SendState.REJECTED, "x"),)
    assert (plan.withdrawn, plan.replacements) == ((), ())


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
    assert plan.closed == (5, 6)


def test_gap_between_nonces_is_filled():
    plan = plan_for(entry(1, state=SendState.SENT), transactions=[transaction(9, 1)])

    first, second = plan.replacements
    assert (first.nonce, first.entry_ids) == (7, ())
    assert (second.nonce, second.entry_ids) == (8, ())


def test_nonce_used_by_an_unknown_transaction_is_closed_and_its_calls_are_queued_again():
    plan = plan_for(entry(1, state=SendState.SENT), transactions=[transaction(6, 1)])

    assert plan.closed == (6,)
    assert plan.changes == (change(1, SendState.QUEUED),)
    assert plan.batches == ((1,),)


def test_batch_uses_at_most_half_of_the_gas_of_a_block():
    gas = dict.fromkeys(range(1, 5), 250_000)

    plan = plan_for(*entries_from(1, 4), gas_limit=1_000_000, gas=gas)
    plan_with_small_blocks = plan_for(*entries_from(1, 2), gas_limit=450_000, gas=gas)

    assert plan.batches == ((1, 2), (3, 4))
    assert plan_with_small_blocks.batches == ((1,), (2,))


def test_new_transactions_of_one_tick_are_limited_by_gas():
    entries = entries_from(1, 4)
    # Each transaction uses 500,000 gas. One tick sends at most the gas of two blocks.
    policy = replace(POLICY, batch=1, blocks_at_once=2)
    gas = dict.fromkeys(range(1, 5), 500_000 - BASE_GAS)

    assert plan_for(*entries, policy=policy, gas_limit=750_000, gas=gas).batches == (
        (1,),
        (2,),
        (3,),
    )
    assert plan_for(*entries, policy=policy, gas_limit=749_999, gas=gas).batches == ((1,), (2,))


def test_pending_transactions_are_limited_by_gas():
    pending_transactions = [transaction(7, 1), transaction(8, 2)]
    entries = [*sent_entries(1, 2), *entries_from(3, 4)]
    # Each transaction uses 500,000 gas. Pending transactions may use the gas of three blocks.
    policy = replace(POLICY, batch=1, blocks_ahead=3)
    gas = dict.fromkeys(range(1, 5), 500_000 - BASE_GAS)

    too_low = plan_for(
        *entries, transactions=pending_transactions, policy=policy, gas_limit=499_999, gas=gas
    )
    sufficient = plan_for(
        *entries, transactions=pending_transactions, policy=policy, gas_limit=500_000, gas=gas
    )

    assert too_low.batches == ()
    assert sufficient.batches == ((3,),)


def test_call_that_exceeds_every_limit_is_sent_if_nothing_is_pending():
    large_entry = entry(1, ClaimJobs(limit=1))

    assert plan_for(large_entry, entry(2), gas_limit=1, gas={1: 10**6, 2: 10**6}).batches == ((1,),)


def test_call_that_is_not_cleared_is_neither_sent_nor_rejected():
    plan = plan_for(entry(1), entry(2), cleared=frozenset({2}))

    assert plan.batches == ((2,),)
    assert plan.changes == ()


@pytest.mark.parametrize("waited_s", [10, 40])
def test_transaction_with_a_call_that_is_not_cleared_is_not_sent_again(waited_s):
    pending_transaction = transaction(7, 1, 2)
    waiting = {pending_transaction.hash: Waiting(since=NOW - waited_s, last_sent_at=NOW - waited_s)}
    entries = [entry(1, state=SendState.SENT), entry(2, state=SendState.SENT)]

    plan = plan_for(
        *entries, transactions=[pending_transaction], waiting=waiting, cleared=frozenset({1})
    )

    assert (plan.changes, plan.withdrawn) == ((), ())
    assert_sends_nothing(plan)


def test_plan_lists_the_entries_that_it_sends_to_the_node():
    due_transaction, stuck_transaction, recent_transaction = (
        transaction(7, 1),
        transaction(8, 2, 3),
        transaction(9, 4),
    )
    waiting = {
        due_transaction.hash: Waiting(since=NOW - 20, last_sent_at=NOW - 20),
        stuck_transaction.hash: Waiting(since=NOW - 40, last_sent_at=NOW),
        recent_transaction.hash: Waiting(since=NOW, last_sent_at=NOW),
    }
    entries = [*sent_entries(1, 4), entry(5)]

    plan = plan_for(
        *entries,
        transactions=[due_transaction, stuck_transaction, recent_transaction],
        waiting=waiting,
    )

    assert plan.entry_ids_to_send == {1, 2, 3, 5}


def test_only_the_lowest_nonces_are_replaced():
    stuck_transactions = [transaction(7, 1), transaction(8, 2), transaction(9, 3)]
    waiting = dict.fromkeys(
        map(hash_of, stuck_transactions), Waiting(since=NOW - 40, last_sent_at=NOW)
    )
    policy = replace(POLICY, max_replacements=2)

    plan = plan_for(
        *sent_entries(1, 3), transactions=stuck_transactions, waiting=waiting, policy=policy
    )

    first, second = plan.replacements
    assert (first.nonce, second.nonce) == (7, 8)


def test_nonce_used_by_an_unknown_transaction_of_the_newest_block_is_not_used_again():
    plan = plan_for(entry(1), nonce=7, nonce_at_head=9)

    assert (plan.next_nonce, plan.replacements) == (9, ())


def test_transaction_is_not_replaced_if_the_newest_block_has_used_its_nonce():
    sent_entry = entry(1, state=SendState.SENT)

    plan = plan_for(sent_entry, transactions=[transaction(8, 1)], nonce=7, nonce_at_head=9)

    assert plan.next_nonce == 9
    assert (plan.replacements, plan.closed, plan.changes) == ((), (), ())


def test_refused_calls_are_sent_again_in_batches_of_half_the_size():
    refusals = dict.fromkeys((1, 2, 3, 4, 5), Refusal(call_count=5, message="no"))

    batches = pack_entries(entries_from(1, 7), max_calls=10, refusals=refusals)

    assert batches == [(1, 2), (3, 4), (5, 6), (7,)]


def test_call_that_is_refused_alone_is_rejected_with_the_message_of_the_node():
    refused_transaction = transaction(7, 1, withdrawn=True, sent_at=None)

    plan = plan_for(
        entry(1, state=SendState.SENT),
        entry(2),
        transactions=[refused_transaction],
        refusals={1: Refusal(call_count=1, message="too big")},
    )

    reason = 'the node refused the transaction: "too big"'
    assert plan.changes == (change(1, SendState.REJECTED, reason),)
    assert plan.batches == ((2,),)
    assert plan.replacements == (Slot(nonce=7, entry_ids=(), fees=raised_fees(FEES)),)


def test_replacement_offers_at_most_ten_times_the_current_fees():
    stuck_transaction = transaction(7, 1, fees=Fees(max_fee=900, tip=50))
    waiting = {
        stuck_transaction.hash: Waiting(since=NOW - 400, last_sent_at=NOW - 10, underpriced=True)
    }
    higher = Fees(max_fee=200, tip=10)

    at_low_fees = plan_for(entry(1), transactions=[stuck_transaction], waiting=waiting)
    at_high_fees = plan_for(
        entry(1), transactions=[stuck_transaction], waiting=waiting, fees=higher
    )

    assert (at_low_fees.replacements, at_low_fees.resend) == ((), (stuck_transaction,))
    assert len(at_high_fees.replacements) == 1
