# SPDX-License-Identifier: Apache-2.0
"""Tests of the behaviour that the stores in memory, SQLite and PostgreSQL have in common."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridstead.adapters.store.cursor import VolatileCursor
from gridstead.domain.jobs.billing import Prices
from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.jobs.job import Block, Hardware, Label
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.journal import EntryKind, JournalEntry
from gridstead.domain.transactions.calls import (
    ClaimCancelling,
    ClaimJobs,
    ClaimTopUp,
    Refuse,
    Register,
    Settle,
)
from gridstead.domain.transactions.outbox import EntryChange, Fees, SendState, Transaction

CONTRACT = "0x" + "ab" * 20
# An account is the hash of a chain's first block and the address of a wallet.
ACCOUNT = "0x" + "00" * 32 + "/0x" + "cd" * 20
ACCOUNT_ON_NEW_CHAIN = "0x" + "01" * 32 + "/0x" + "cd" * 20


def job_key(number=1, script="script-1"):
    return JobKey(
        job_id=JobId(chain_id=179188, contract=CONTRACT, number=number), batch_location_hash=script
    )


def entry(kind, number=1, occurred_at=100, **fields):
    return JournalEntry(job_key=job_key(number), kind=kind, occurred_at=occurred_at, **fields)


def block(number, fork="a"):
    """Return a block. Blocks of different forks have different hashes."""
    block_hash = f"{number:x}{fork}".rjust(64, "0")
    return Block(number=number, hash=f"0x{block_hash}", timestamp=1000 + number)


def transaction(nonce, *entry_ids, name="1", **changes):
    """Return a signed transaction. ``name`` distinguishes transactions with the same nonce."""
    base = Transaction(
        hash=f"0x{nonce:060x}{name:>04}",
        nonce=nonce,
        fees=Fees(max_fee=3 * 10**30, tip=1),
        raw="0x02aa",
        entry_ids=entry_ids,
    )
    return replace(base, **changes)


SETTLE = Settle(
    job_key=job_key(),
    state=JobState.FINISHED,
    seconds=61,
    exit_code=0,
    error='a "word"',
    evidence="0x" + "11" * 32,
)
REGISTER = Register(
    hardware=Hardware(gpus_per_node=(0, 1), cpus_per_node=(4, 8), memory_per_node_mb=(1000, 2000)),
    prices=Prices(gpu_per_min=10**24, cpu_per_min=1, memory_mb_per_min=0),
    labels=(Label(key="os", value="linux"),),
)


def open_calls(store):
    return [entry.call for entry in store.outbox.open_entries()]


def ids_of(entries):
    return [entry.id for entry in entries]


def open_states(store):
    return [entry.state for entry in store.outbox.open_entries()]


def test_journal_starts_empty(store):
    assert store.journal.open_entries() == ()


def test_journal_returns_open_entries_in_order_after_a_restart(store):
    first = [
        entry(EntryKind.CLAIMED, 1),
        entry(EntryKind.CLAIMED, 2),
        entry(EntryKind.SUBMIT_INTENDED, 1),
    ]
    last = [
        entry(EntryKind.SUBMITTED, 1, slurm_job_id=7),
        entry(EntryKind.SUBMIT_REJECTED, 2, reason="no such user"),
    ]

    store.journal.append(first)
    store.journal.append(last)
    store.restart()

    assert store.journal.open_entries() == (*first, *last)


def test_open_entries_exclude_closed_jobs(store):
    store.journal.append([entry(EntryKind.CLAIMED, 1), entry(EntryKind.CLAIMED, 2)])
    store.journal.append([entry(EntryKind.CLOSED, 1)])

    assert store.journal.open_entries() == (entry(EntryKind.CLAIMED, 2),)


def test_claim_reopens_a_closed_job(store):
    second_claim = entry(EntryKind.CLAIMED, occurred_at=200)

    store.journal.append([entry(EntryKind.CLAIMED), entry(EntryKind.CLOSED), second_claim])

    assert store.journal.open_entries() == (second_claim,)


def test_cancelled_entries_include_those_of_closed_jobs(store):
    entry_of_closed_job = entry(EntryKind.CANCELLED_BY_US, 1, occurred_at=1, slurm_job_id=7)
    entry_of_open_job = entry(EntryKind.CANCELLED_BY_US, 2, occurred_at=2, slurm_job_id=7)
    store.journal.append(
        [
            entry(EntryKind.CLAIMED, 1),
            entry_of_closed_job,
            entry(EntryKind.CLOSED, 1),
            entry_of_open_job,
        ]
    )
    store.restart()

    assert store.journal.cancelled_entries() == (entry_of_closed_job, entry_of_open_job)


def journal_entry(kind, script):
    """Return an entry of the job with this script id."""
    return JournalEntry(job_key=job_key(1, script), kind=kind, occurred_at=1)


@pytest.mark.parametrize("script", ["not a hash!", "a/b", "", "%2F", "nul\0", "é ☃ \U0001f600"])
def test_job_key_with_any_script_id_is_read_as_written(store, script):
    claim_entry = journal_entry(EntryKind.CLAIMED, script)
    key = f"refuse:{claim_entry.job_key}"

    store.journal.append([claim_entry])
    store.outbox.put(key, Refuse(job_key=claim_entry.job_key))
    store.restart()

    assert store.journal.open_entries() == (claim_entry,)
    (stored_entry,) = store.outbox.open_entries()
    assert stored_entry.key == key
    assert stored_entry.call == Refuse(job_key=claim_entry.job_key)


def test_very_long_script_ids_are_distinguished(store):
    prefix = "☃" * 5000
    for script in (prefix + "a", prefix + "b", prefix + "a"):
        store.journal.append([journal_entry(EntryKind.CLAIMED, script)])
        store.outbox.put(f"refuse:{job_key(1, script)}", Refuse(job_key=job_key(1, script)))

    job_keys = {entry.job_key for entry in store.journal.open_entries()}
    assert len(job_keys) == 2
    assert len(store.outbox.open_entries()) == 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(script=st.text(max_size=64))
def test_job_with_any_script_id_can_be_closed(store, script):
    store.journal.append([journal_entry(EntryKind.CLAIMED, script)])
    assert store.journal.open_entries()[-1].job_key == job_key(1, script)

    store.journal.append([journal_entry(EntryKind.CLOSED, script)])

    assert store.journal.open_entries() == ()


def test_reason_with_nul_can_be_stored(store):
    """A store may remove the NUL character."""
    store.journal.append([entry(EntryKind.SUBMIT_REJECTED, reason="no\0 such")])

    (stored,) = store.journal.open_entries()
    assert stored.reason.replace("\0", "") == "no such"


def test_cursor_is_empty_at_the_start(store):
    cursor = store.cursor("reader")

    assert cursor.load() is None
    assert cursor.history() == ()


def test_cursor_returns_the_last_64_blocks_newest_first(store):
    for number in range(1, 71):
        store.cursor("reader").save(block(number))
    store.restart()

    assert store.cursor("reader").load() == block(70)
    assert store.cursor("reader").history() == tuple(map(block, range(70, 6, -1)))


def test_save_replaces_blocks_at_and_above_the_saved_number(store):
    cursor = store.cursor("reader")
    for number in (1, 2, 3):
        cursor.save(block(number))

    cursor.save(block(2, fork="b"))

    assert cursor.history() == (block(2, fork="b"), block(1))


def test_cursors_with_different_names_are_independent(store):
    store.cursor("one").save(block(5))

    assert store.cursor("two").load() is None


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
        store.outbox.record(ACCOUNT, changes=[change], withdrawn=[], closed=[])
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
    signed = (transaction(4, first.id), transaction(5), transaction(6, third.id))

    store.outbox.add(ACCOUNT, *signed)
    store.restart()

    assert store.outbox.open_transactions(ACCOUNT) == signed
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
    store.outbox.record(ACCOUNT, changes=changes, withdrawn=[], closed=[])

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

    store.outbox.record(ACCOUNT, changes=[], withdrawn=[5], closed=[4])

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
    store.outbox.record(ACCOUNT, changes=[], withdrawn=[4], closed=[4])
    store.outbox.add(ACCOUNT, transaction(4, 2))
    store.restart()

    assert store.outbox.open_transactions(ACCOUNT) == (transaction(4, 2),)
    assert open_states(store) == [SendState.SENT, SendState.SENT]


def test_volatile_cursor_behaves_like_a_stored_cursor():
    cursor = VolatileCursor()
    assert cursor.load() is None
    assert cursor.history() == ()
    for number in range(1, 71):
        cursor.save(block(number))
    assert cursor.history() == tuple(map(block, range(70, 6, -1)))

    cursor.save(block(69, fork="b"))

    assert cursor.load() == block(69, fork="b")
    assert cursor.history()[1] == block(68)


def test_append_of_no_entries_changes_nothing(store):
    store.journal.append([])

    assert store.journal.open_entries() == ()
