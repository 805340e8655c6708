# SPDX-License-Identifier: Apache-2.0
"""What the sender of a wallet decides, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.domain.outbox import entry, job_key, packed

from gridstead.domain.calls import ClaimJobs, Expire
from gridstead.domain.dispatch import BASE_GAS, DispatchPolicy, Slot, plan_transactions, raised
from gridstead.domain.lifecycle import JobState
from gridstead.domain.sending import (
    ChainView,
    EntryChange,
    Fees,
    Receipt,
    Refusal,
    SendState,
    Transaction,
    Waiting,
)

FEES = Fees(max_fee=100, tip=10)
POLICY = DispatchPolicy(
    confirmations=2, batch=3, in_flight=4, resend_after_s=10, replace_after_s=40
)
NOW = 1000
HEAD = 50


def transaction(nonce, *entry_ids, name="", **fields):
    values = {"raw": "0x", "fees": FEES, "sent_at": 1} | fields
    return Transaction(hash=f"{nonce}{name}", nonce=nonce, entry_ids=entry_ids, **values)


def view(*entries, transactions=(), waiting=None, **fields):
    waiting = (
        {one.hash: Waiting(since=NOW, last=NOW) for one in transactions}
        if waiting is None
        else waiting
    )
    values = {
        "now": NOW,
        "head": HEAD,
        "nonce": 7,
        "receipts": {},
        "objections": {},
        "fees": FEES,
    } | fields
    values = {
        "gas_limit": 30_000_000,
        "gas": {},
        "refusals": {},
        "reached": values["nonce"],
    } | values
    return ChainView(entries=entries, transactions=tuple(transactions), waiting=waiting, **values)


def decide(*entries, policy=POLICY, **fields):
    return plan_transactions(view(*entries, **fields), policy)


def change(entry_id, state, reason=""):
    return EntryChange(entry_id=entry_id, state=state, reason=reason)


def mined(block, *, succeeded=True, **skipped):
    return Receipt(
        block=block,
        block_hash="",
        succeeded=succeeded,
        skipped={int(k[1:]): v for k, v in skipped.items()},
    )


def test_nothing_is_done_for_nothing():
    decided = decide()

    assert (decided.changes, decided.batches, decided.replacements, decided.resend) == (
        (),
        (),
        (),
        (),
    )


def test_what_the_node_refused_gives_way_to_what_it_took_before():
    taken, dearer = transaction(7, 1), transaction(7, 1, name="b", sent_at=None)
    waiting = {
        taken.hash: Waiting(since=NOW, last=NOW - 20),
        dearer.hash: Waiting(since=NOW, last=NOW, refused=True),
    }

    assert decide(
        entry(1, state=SendState.SENT), transactions=(taken, dearer), waiting=waiting
    ).resend == (taken,)


def test_queued_calls_of_one_kind_go_together_under_the_next_nonce():
    decided = decide(entry(1), entry(2), entry(3, ClaimJobs(limit=5)), entry(4))

    assert decided.batches == ((1, 2, 4), (3,))
    assert decided.next_nonce == 7
    assert decided.changes == ()


def test_ends_of_waits_go_one_by_one():
    calls = [
        Expire(job_key=job_key(number), state=JobState.RUNNING, state_block=1)
        for number in (1, 2, 3)
    ]

    decided = decide(*(entry(number, call) for number, call in enumerate(calls, start=1)))

    assert decided.batches == ((1,), (2,), (3,))


def test_call_that_is_objected_to_is_rejected_unsent():
    decided = decide(entry(1), entry(2), objections={1: "gone"})

    assert decided.changes == (change(1, SendState.REJECTED, "gone"),)
    assert decided.batches == ((2,),)


def test_no_more_nonces_wait_than_the_policy_allows():
    waiting = [transaction(nonce) for nonce in (7, 8, 9)]

    decided = decide(*(entry(n, ClaimJobs(limit=n)) for n in range(1, 5)), transactions=waiting)

    assert decided.batches == ((1,),)
    assert decided.next_nonce == 10


def test_sent_call_waits():
    decided = decide(entry(1, state=SendState.SENT), transactions=[transaction(7, 1)])

    assert (decided.changes, decided.batches, decided.resend, decided.replacements) == (
        (),
        (),
        (),
        (),
    )
    assert decided.next_nonce == 8


def test_transaction_that_this_process_never_sent_is_sent():
    never = transaction(7, 1, sent_at=None)

    decided = decide(entry(1, state=SendState.SENT), transactions=[never], waiting={})

    assert decided.resend == (never,)


def test_transaction_that_waits_is_sent_again_now_and_then():
    one = transaction(7, 1)
    quiet = decide(
        entry(1), transactions=[one], waiting={one.hash: Waiting(since=NOW - 20, last=NOW - 9)}
    )
    due = decide(
        entry(1), transactions=[one], waiting={one.hash: Waiting(since=NOW - 20, last=NOW - 10)}
    )

    assert quiet.resend == ()
    assert due.resend == (one,)


@pytest.mark.parametrize(
    "waiting", [Waiting(since=NOW - 40, last=NOW), Waiting(since=NOW, last=NOW, underpriced=True)]
)
def test_stuck_transaction_is_replaced_at_a_higher_price(waiting):
    one = transaction(7, 1)

    decided = decide(
        entry(1, state=SendState.SENT), transactions=[one], waiting={one.hash: waiting}
    )

    assert decided.replacements == (Slot(nonce=7, entry_ids=(1,), fees=raised(FEES)),)
    assert decided.resend == ()


def test_replacement_offers_more_than_any_before_and_what_is_asked_now():
    first, second = transaction(7, 1), transaction(7, 1, name="b", fees=Fees(max_fee=200, tip=12))
    waiting = {second.hash: Waiting(since=NOW - 40, last=NOW)}

    decided = decide(
        entry(1), transactions=[first, second], waiting=waiting, fees=Fees(max_fee=150, tip=50)
    )

    assert decided.replacements == (Slot(nonce=7, entry_ids=(1,), fees=Fees(max_fee=226, tip=50)),)


@given(st.integers(0, 10**20), st.integers(0, 10**20))
def test_raised_fees_are_an_eighth_more(max_fee, tip):
    more = raised(Fees(max_fee=max_fee, tip=tip))

    assert more.max_fee * 8 >= max_fee * 9
    assert more.tip * 8 >= tip * 9


def test_mined_call_is_not_final_before_its_confirmations():
    decided = decide(
        entry(1, state=SendState.SENT),
        transactions=[transaction(6, 1)],
        receipts={"6": mined(HEAD - 1)},
    )

    assert decided.changes == (change(1, SendState.MINED),)
    assert decided.closed == ()


def test_call_is_final_with_its_confirmations_and_its_nonce_is_closed():
    decided = decide(
        entry(1, state=SendState.MINED),
        transactions=[transaction(6, 1)],
        receipts={"6": mined(HEAD - 2)},
    )

    assert decided.changes == (change(1, SendState.FINAL),)
    assert decided.closed == (6,)


def test_skipped_element_is_rejected_when_its_block_is_final():
    entries = (entry(1, state=SendState.SENT), entry(2, state=SendState.SENT))
    carrier = transaction(6, 1, 2)
    fresh = decide(*entries, transactions=[carrier], receipts={"6": mined(HEAD, _2="no")})
    final = decide(*entries, transactions=[carrier], receipts={"6": mined(HEAD - 2, _2="no")})

    assert fresh.changes == (change(1, SendState.MINED), change(2, SendState.MINED))
    assert final.changes == (change(1, SendState.FINAL), change(2, SendState.REJECTED, "no"))


def test_failed_transaction_rejects_all_it_carries():
    decided = decide(
        entry(1, ClaimJobs(limit=1), SendState.SENT),
        transactions=[transaction(6, 1)],
        receipts={"6": mined(HEAD - 2, succeeded=False)},
    )

    assert decided.changes == (change(1, SendState.REJECTED, "the transaction failed"),)


def test_objection_does_not_touch_a_mined_call():
    decided = decide(
        entry(1, state=SendState.MINED),
        transactions=[transaction(6, 1)],
        receipts={"6": mined(HEAD)},
        objections={1: "gone"},
    )

    assert decided.changes == ()


def test_reorg_puts_a_mined_call_back_on_its_way_and_sends_the_same_bytes():
    one = transaction(7, 1)

    decided = decide(entry(1, state=SendState.MINED), transactions=[one], waiting={})

    assert decided.changes == (change(1, SendState.SENT),)
    assert decided.resend == (one,)


def test_reorg_that_takes_the_job_away_withdraws_the_transaction_and_fills_its_nonce():
    one, later = transaction(7, 1, 2), transaction(8, 3)

    decided = decide(
        *(entry(n, state=SendState.SENT) for n in (1, 2, 3)),
        transactions=[one, later],
        objections={1: "gone"},
    )

    assert decided.changes == (change(1, SendState.REJECTED, "gone"), change(2, SendState.QUEUED))
    assert decided.withdrawn == (7,)
    assert decided.replacements == (Slot(nonce=7, entry_ids=(), fees=raised(FEES)),)
    assert decided.batches == ((2,),)
    assert decided.next_nonce == 9
    assert decided.resend == ()


def test_withdrawn_transaction_is_never_sent_and_its_nonce_is_filled_after_a_crash():
    decided = decide(transactions=[transaction(7, 1, withdrawn=True)], waiting={})

    assert decided.withdrawn == ()
    assert decided.resend == ()
    assert decided.replacements == (Slot(nonce=7, entry_ids=(), fees=raised(FEES)),)


def test_filled_nonce_waits_as_any_other():
    decided = decide(
        transactions=[transaction(7, 1, withdrawn=True), transaction(7, name="filler")]
    )

    assert (decided.withdrawn, decided.replacements, decided.resend) == ((), (), ())


def test_filler_is_left_alone_when_its_nonces_entry_is_objected_to_again():
    decided = decide(
        entry(1),
        transactions=[transaction(7, 1, withdrawn=True), transaction(7, name="filler")],
        objections={1: "x"},
    )

    assert decided.changes == (change(1, SendState.REJECTED, "x"),)
    assert (decided.withdrawn, decided.replacements) == ((), ())


def test_call_whose_withdrawn_transaction_was_mined_after_all_is_done():
    decided = decide(
        entry(2),
        transactions=[transaction(6, 1, 2, withdrawn=True)],
        receipts={"6": mined(HEAD - 2, _1="no")},
    )

    assert decided.changes == (change(2, SendState.FINAL),)
    assert decided.batches == ()


def test_call_that_was_done_once_and_skipped_once_is_done():
    decided = decide(
        entry(1),
        transactions=[transaction(5, 1), transaction(6, 1)],
        receipts={"5": mined(HEAD - 3), "6": mined(HEAD - 3, _1="InvalidTransition")},
    )

    assert decided.changes == (change(1, SendState.FINAL),)
    assert decided.closed == (5, 6)


def test_gap_between_nonces_is_filled():
    decided = decide(entry(1, state=SendState.SENT), transactions=[transaction(9, 1)])

    assert [slot.nonce for slot in decided.replacements] == [7, 8]
    assert all(slot.entry_ids == () for slot in decided.replacements)


def test_nonce_that_somebody_else_used_is_closed_and_its_calls_are_queued_again():
    decided = decide(entry(1, state=SendState.SENT), transactions=[transaction(6, 1)])

    assert decided.closed == (6,)
    assert decided.changes == (change(1, SendState.QUEUED),)
    assert decided.batches == ((1,),)


def test_batch_uses_no_more_than_half_a_block():
    entries = [entry(number) for number in range(1, 5)]

    decided = decide(*entries, gas_limit=1_000_000, gas=dict.fromkeys(range(1, 5), 250_000))
    narrow = decide(*entries[:2], gas_limit=450_000, gas=dict.fromkeys(range(1, 5), 250_000))

    assert decided.batches == ((1, 2), (3, 4))
    assert narrow.batches == ((1,), (2,))


def test_one_tick_adds_no_more_than_the_gas_of_some_blocks():
    entries = [entry(number) for number in range(1, 5)]
    policy = replace(POLICY, batch=1, blocks_at_once=2)
    gas = dict.fromkeys(range(1, 5), 500_000 - BASE_GAS)

    assert decide(*entries, policy=policy, gas_limit=750_000, gas=gas).batches == ((1,), (2,), (3,))
    assert decide(*entries, policy=policy, gas_limit=749_999, gas=gas).batches == ((1,), (2,))


def test_what_waits_fills_no_more_than_some_blocks():
    waiting = [transaction(7, 1), transaction(8, 2)]
    entries = [entry(1, state=SendState.SENT), entry(2, state=SendState.SENT), entry(3), entry(4)]
    policy = replace(POLICY, batch=1, blocks_ahead=3)
    gas = dict.fromkeys(range(1, 5), 500_000 - BASE_GAS)

    full = decide(*entries, transactions=waiting, policy=policy, gas_limit=499_999, gas=gas)
    roomy = decide(*entries, transactions=waiting, policy=policy, gas_limit=500_000, gas=gas)

    assert full.batches == ()
    assert roomy.batches == ((3,),)


def test_call_that_exceeds_every_bound_goes_out_if_nothing_waits():
    large = entry(1, ClaimJobs(limit=1))

    assert decide(large, entry(2), gas_limit=1, gas={1: 10**6, 2: 10**6}).batches == ((1,),)


def test_call_that_is_not_cleared_is_neither_sent_nor_rejected():
    decided = decide(entry(1), entry(2), cleared=frozenset({2}))

    assert decided.batches == ((2,),)
    assert decided.changes == ()


@pytest.mark.parametrize("waited", [10, 40])
def test_transaction_with_a_call_that_is_not_cleared_is_left_alone(waited):
    one = transaction(7, 1, 2)
    waiting = {one.hash: Waiting(since=NOW - waited, last=NOW - waited)}
    entries = [entry(1, state=SendState.SENT), entry(2, state=SendState.SENT)]

    decided = decide(*entries, transactions=[one], waiting=waiting, cleared=frozenset({1}))

    assert (decided.resend, decided.replacements, decided.changes, decided.withdrawn) == (
        (),
        (),
        (),
        (),
    )


def test_plan_tells_which_calls_it_gives_to_the_node():
    again, stuck = transaction(7, 1), transaction(8, 2, 3)
    waiting = {
        again.hash: Waiting(since=NOW - 20, last=NOW - 20),
        stuck.hash: Waiting(since=NOW - 40, last=NOW),
    }
    quiet = transaction(9, 4)
    waiting[quiet.hash] = Waiting(since=NOW, last=NOW)
    entries = [*(entry(n, state=SendState.SENT) for n in range(1, 5)), entry(5)]

    assert decide(*entries, transactions=[again, stuck, quiet], waiting=waiting).given == {
        1,
        2,
        3,
        5,
    }


def test_only_the_lowest_nonces_are_replaced():
    stuck = [transaction(nonce, nonce) for nonce in (7, 8, 9)]
    waiting = {one.hash: Waiting(since=NOW - 40, last=NOW) for one in stuck}
    entries = [entry(one.nonce, state=SendState.SENT) for one in stuck]

    decided = decide(
        *entries, transactions=stuck, waiting=waiting, policy=replace(POLICY, replaced=2)
    )

    assert [slot.nonce for slot in decided.replacements] == [7, 8]


def test_nonce_that_others_may_have_used_is_neither_taken_nor_filled():
    """The newest block has them; only the one below it is certain."""
    decided = decide(entry(1), nonce=7, reached=9)
    ours = decide(
        entry(1, state=SendState.SENT), transactions=[transaction(8, 1)], nonce=7, reached=9
    )

    assert (decided.next_nonce, decided.replacements) == (9, ())
    assert (ours.next_nonce, ours.replacements, ours.closed, ours.changes) == (9, (), (), ())


def test_refused_calls_go_again_in_half_the_company():
    refusals = dict.fromkeys((1, 2, 3, 4, 5), Refusal(calls=5, words="no"))

    assert list(packed([entry(n) for n in range(1, 8)], most=10, refusals=refusals)) == [
        (1, 2),
        (3, 4),
        (5, 6),
        (7,),
    ]


def test_call_that_is_refused_alone_is_rejected_with_the_nodes_words():
    refused = transaction(7, 1, withdrawn=True, sent_at=None)

    decided = decide(
        entry(1, state=SendState.SENT),
        entry(2),
        transactions=[refused],
        refusals={1: Refusal(calls=1, words="too big")},
    )

    assert decided.changes == (change(1, SendState.REJECTED, 'the node refused it: "too big"'),)
    assert decided.batches == ((2,),)
    assert decided.replacements == (Slot(nonce=7, entry_ids=(), fees=raised(FEES)),)


def test_no_replacement_offers_more_than_ten_times_what_is_asked():
    one = transaction(7, 1, fees=Fees(max_fee=900, tip=50))
    waiting = {one.hash: Waiting(since=NOW - 400, last=NOW - 10, underpriced=True)}

    capped = decide(entry(1), transactions=[one], waiting=waiting)
    dearer = decide(entry(1), transactions=[one], waiting=waiting, fees=Fees(max_fee=200, tip=10))

    assert (capped.replacements, capped.resend) == ((), (one,))
    assert len(dearer.replacements) == 1
