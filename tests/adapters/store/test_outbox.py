# SPDX-License-Identifier: Apache-2.0
"""Tests of the outbox of each store: in memory, SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

from tests.adapters.store.rows import ACCOUNT, REGISTER, SETTLE, transaction

from gridstead.domain.transactions.calls import ClaimCancelling, ClaimJobs, ClaimTopUp
from gridstead.domain.transactions.outbox import EntryChange, SendState

# In calls of ``transaction``, the first argument is the nonce. The other positional arguments are
# the ids of outbox entries.
ACCOUNT_ON_NEW_CHAIN = "0x" + "01" * 32 + "/0x" + "cd" * 20


def open_calls(store):
    return [entry.call for entry in store.outbox.open_entries()]


def ids_of(entries):
    return [entry.id for entry in entries]


def open_states(store):
    return [entry.state for entry in store.outbox.open_entries()]


def test_outbox_keeps_calls_and_their_order_after_a_restart(store):
    calls = [SETTLE, REGISTER, ClaimCancelling(), ClaimJobs(limit=3)]

    for number, call in enumerate(calls):
        store.outbox.put(f"key-{number}", call)
    store.restart()

    entries = store.outbox.open_entries()
    assert open_calls(store) == calls
    assert ids_of(entries) == sorted(ids_of(entries))
    assert {entry.state for entry in entries} == {SendState.QUEUED}
    assert {entry.created_at for entry in entries} == {store.clock.now()}


def test_put_all_skips_calls_whose_key_is_open(store):
    store.outbox.put("claim", ClaimJobs(limit=1))

    store.outbox.put_all(
        [("settle", SETTLE), ("claim", ClaimJobs(limit=2)), ("top-up", ClaimTopUp())]
    )
    store.outbox.put_all([])
    store.restart()

    keys_and_calls = [(entry.key, entry.call) for entry in store.outbox.open_entries()]
    assert keys_and_calls == [
        ("claim", ClaimJobs(limit=1)),
        ("settle", SETTLE),
        ("top-up", ClaimTopUp()),
    ]


def test_put_ignores_a_key_that_is_open(store):
    store.outbox.put("claim", ClaimJobs(limit=1))
    store.outbox.put("claim", ClaimJobs(limit=2))

    assert open_calls(store) == [ClaimJobs(limit=1)]


def test_key_of_a_closed_entry_can_be_put_again(store):
    for state in (SendState.FINAL, SendState.REJECTED):
        store.outbox.put("claim", ClaimJobs(limit=1))
        (queued_entry,) = store.outbox.open_entries()
        change = EntryChange(entry_id=queued_entry.id, state=state, reason="a reason")
        store.outbox.record(ACCOUNT, changes=[change], withdrawn_nonces=[], closed_nonces=[])
        closed_entry = replace(queued_entry, state=state, reason="a reason")
        assert store.outbox.open_entries() == ()
        assert store.outbox.entries(after=queued_entry.id - 1) == (closed_entry,)

    store.outbox.put("claim", ClaimJobs(limit=2))

    assert open_calls(store) == [ClaimJobs(limit=2)]


def test_add_stores_a_transaction_and_marks_its_entries_sent(store):
    store.outbox.put("claim", ClaimJobs(limit=1))
    (queued_entry,) = store.outbox.open_entries()
    signed_transaction = transaction(4, queued_entry.id)

    store.outbox.add(ACCOUNT, signed_transaction)
    store.restart()

    assert store.outbox.open_transactions(ACCOUNT) == (signed_transaction,)
    assert store.outbox.open_entries() == (replace(queued_entry, state=SendState.SENT),)


def test_add_stores_several_transactions_and_marks_their_entries_sent(store):
    for number in range(3):
        store.outbox.put(f"key-{number}", ClaimJobs(limit=1))
    first, _, third = store.outbox.open_entries()
    signed_transactions = (transaction(4, first.id), transaction(5), transaction(6, third.id))

    store.outbox.add(ACCOUNT, *signed_transactions)
    store.restart()

    assert store.outbox.open_transactions(ACCOUNT) == signed_transactions
    assert open_states(store) == [SendState.SENT, SendState.QUEUED, SendState.SENT]


def test_next_entries_include_every_sent_entry_and_the_oldest_queued_entries(store):
    for number in range(6):
        store.outbox.put(f"key-{number}", ClaimJobs(limit=1))
    entries = store.outbox.open_entries()
    states = [
        SendState.FINAL,
        SendState.SENT,
        SendState.QUEUED,
        SendState.MINED,
        SendState.QUEUED,
        SendState.QUEUED,
    ]
    changes = []
    for entry, state in zip(entries, states, strict=True):
        changes.append(EntryChange(entry_id=entry.id, state=state))
    store.outbox.record(ACCOUNT, changes=changes, withdrawn_nonces=[], closed_nonces=[])

    with_two_queued = store.outbox.next_entries(2)
    with_all_queued = store.outbox.next_entries(9)
    # The first entry is final and is never included. The last entry is the third queued entry.
    assert ids_of(with_two_queued) == ids_of(entries[1:5])
    assert ids_of(with_all_queued) == ids_of(entries[1:6])


def test_mark_sent_stores_the_time(store):
    store.outbox.add(ACCOUNT, transaction(4))
    store.outbox.add(ACCOUNT, transaction(5))

    store.outbox.mark_sent(ACCOUNT, [transaction(4).hash], sent_at=77)

    assert store.outbox.open_transactions(ACCOUNT) == (transaction(4, sent_at=77), transaction(5))


def test_open_transactions_are_sorted_by_nonce_and_age(store):
    for signed in (transaction(6), transaction(5, name="9"), transaction(5, name="2")):
        store.outbox.add(ACCOUNT, signed)

    expected = (transaction(5, name="9"), transaction(5, name="2"), transaction(6))
    assert store.outbox.open_transactions(ACCOUNT) == expected


def test_transactions_of_another_chain_are_not_returned(store):
    store.outbox.add(ACCOUNT, transaction(4))

    assert store.outbox.open_transactions(ACCOUNT_ON_NEW_CHAIN) == ()


def test_same_transaction_on_a_new_chain_is_stored_separately(store):
    """On a new chain, the nonces of a wallet start again at 0.

    Therefore the wallet may sign a transaction with the same bytes as one on the old chain.
    """
    store.outbox.add(ACCOUNT, transaction(4))

    store.outbox.add(ACCOUNT_ON_NEW_CHAIN, transaction(4))
    store.outbox.mark_sent(ACCOUNT_ON_NEW_CHAIN, [transaction(4).hash], sent_at=77)

    assert store.outbox.open_transactions(ACCOUNT) == (transaction(4),)
    assert store.outbox.open_transactions(ACCOUNT_ON_NEW_CHAIN) == (transaction(4, sent_at=77),)


def test_record_withdraws_and_closes_all_transactions_of_a_nonce(store):
    for signed in (transaction(4), transaction(4, name="2"), transaction(5), transaction(6)):
        store.outbox.add(ACCOUNT, signed)

    store.outbox.record(ACCOUNT, changes=[], withdrawn_nonces=[5], closed_nonces=[4])

    assert store.outbox.open_transactions(ACCOUNT) == (
        transaction(5, withdrawn=True),
        transaction(6),
    )


def test_transaction_of_a_closed_nonce_can_be_added_again(store):
    """A reorg may remove a block with a transaction whose nonce is closed.

    The call of this transaction is then signed again. If nonce and fees are equal as well, the new
    transaction has the same bytes as the old transaction.
    """
    store.outbox.put_all([("claim", ClaimJobs(limit=9)), ("claim again", ClaimJobs(limit=9))])
    store.outbox.add(ACCOUNT, transaction(4, 1))
    store.outbox.mark_sent(ACCOUNT, [transaction(4).hash], sent_at=99)
    store.outbox.record(ACCOUNT, changes=[], withdrawn_nonces=[4], closed_nonces=[4])
    store.outbox.add(ACCOUNT, transaction(4, 2))
    store.restart()

    assert store.outbox.open_transactions(ACCOUNT) == (transaction(4, 2),)
    assert open_states(store) == [SendState.SENT, SendState.SENT]
