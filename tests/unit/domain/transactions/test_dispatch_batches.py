# SPDX-License-Identifier: Apache-2.0
"""The sender packs queued calls into new transactions, up to the limits on pending transactions.

``dispatch_setup.py`` explains the terms.
"""

from __future__ import annotations

from dataclasses import replace

from tests.unit.domain.transactions.dispatch_setup import (
    NOW,
    POLICY,
    assert_sends_nothing,
    plan_for,
    sent_entries,
    transaction,
)
from tests.unit.domain.transactions.outbox import entries_from, entry, job_key

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import ClaimJobs, Expire
from gridstead.domain.transactions.dispatch import BASE_GAS
from gridstead.domain.transactions.outbox import PendingStatus


def test_nothing_is_done_for_an_empty_outbox():
    plan = plan_for()

    assert plan.changes == ()
    assert_sends_nothing(plan)


def test_queued_calls_of_one_type_share_a_transaction():
    plan = plan_for(entry(1), entry(2), entry(3, ClaimJobs(limit=5)), entry(4))

    assert plan.batches == ((1, 2, 4), (3,))
    assert plan.next_nonce == 7
    assert plan.changes == ()


def test_expiries_are_sent_one_by_one():
    first_call = Expire(job_key=job_key(1), state=JobState.RUNNING, state_block=1)
    second_call = Expire(job_key=job_key(2), state=JobState.RUNNING, state_block=1)

    plan = plan_for(entry(1, first_call), entry(2, second_call))

    assert plan.batches == ((1,), (2,))


def test_batch_uses_at_most_half_of_the_gas_of_a_block():
    gas = dict.fromkeys(range(1, 5), 250_000)

    plan = plan_for(*entries_from(1, 4), gas_limit=1_000_000, max_gas=gas)
    plan_with_small_blocks = plan_for(*entries_from(1, 2), gas_limit=450_000, max_gas=gas)

    assert plan.batches == ((1, 2), (3, 4))
    assert plan_with_small_blocks.batches == ((1,), (2,))


def test_pending_nonces_are_limited_by_the_policy():
    # POLICY allows four pending transactions.
    pending_transactions = [transaction(7), transaction(8), transaction(9)]
    claims = [entry(1, ClaimJobs(limit=1)), entry(2, ClaimJobs(limit=2))]

    plan = plan_for(*claims, transactions=pending_transactions)

    assert plan.batches == ((1,),)
    assert plan.next_nonce == 10


def test_new_transactions_of_one_tick_are_limited_by_gas():
    entries = entries_from(1, 4)
    # Each transaction uses 500,000 gas. One tick sends at most the gas of two blocks.
    policy = replace(POLICY, max_batch_calls=1, max_new_gas_in_blocks=2)
    gas = dict.fromkeys(range(1, 5), 500_000 - BASE_GAS)

    sufficient = plan_for(*entries, policy=policy, gas_limit=750_000, max_gas=gas)
    too_low = plan_for(*entries, policy=policy, gas_limit=749_999, max_gas=gas)

    assert sufficient.batches == ((1,), (2,), (3,))
    assert too_low.batches == ((1,), (2,))


def test_pending_transactions_are_limited_by_gas():
    pending_transactions = [transaction(7, 1), transaction(8, 2)]
    entries = [*sent_entries(1, 2), *entries_from(3, 4)]
    # Each transaction uses 500,000 gas. Pending transactions may use the gas of three blocks.
    policy = replace(POLICY, max_batch_calls=1, max_pending_gas_in_blocks=3)
    gas = dict.fromkeys(range(1, 5), 500_000 - BASE_GAS)

    too_low = plan_for(
        *entries, transactions=pending_transactions, policy=policy, gas_limit=499_999, max_gas=gas
    )
    sufficient = plan_for(
        *entries, transactions=pending_transactions, policy=policy, gas_limit=500_000, max_gas=gas
    )

    assert too_low.batches == ()
    assert sufficient.batches == ((3,),)


def test_call_that_exceeds_every_limit_is_sent_if_nothing_is_pending():
    large_entry = entry(1, ClaimJobs(limit=1))

    assert plan_for(large_entry, entry(2), gas_limit=1, max_gas={1: 10**6, 2: 10**6}).batches == (
        (1,),
    )


def test_call_that_may_not_be_sent_is_neither_sent_nor_rejected():
    plan = plan_for(entry(1), entry(2), sendable_ids=frozenset({2}))

    assert plan.batches == ((2,),)
    assert plan.changes == ()


def test_plan_lists_the_entries_that_it_sends_to_the_node():
    due_transaction, stuck_transaction, recent_transaction = (
        transaction(7, 1),
        transaction(8, 2, 3),
        transaction(9, 4),
    )
    statuses = {
        due_transaction.hash: PendingStatus(waiting_since=NOW - 20, last_sent_at=NOW - 20),
        stuck_transaction.hash: PendingStatus(waiting_since=NOW - 40, last_sent_at=NOW),
        recent_transaction.hash: PendingStatus(waiting_since=NOW, last_sent_at=NOW),
    }
    entries = [*sent_entries(1, 4), entry(5)]

    plan = plan_for(
        *entries,
        transactions=[due_transaction, stuck_transaction, recent_transaction],
        statuses=statuses,
    )

    assert plan.entry_ids_to_send == {1, 2, 3, 5}
