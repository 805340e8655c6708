# SPDX-License-Identifier: Apache-2.0
"""Tests of the journal and the cursors of each store: in memory, SQLite and PostgreSQL."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.adapters.store.rows import block, entry, job_key

from gridstead.adapters.store.cursor import VolatileCursor
from gridstead.domain.supervisor.journal import EntryKind, JournalEntry, JournalRecords
from gridstead.domain.transactions.calls import Refuse


def test_journal_starts_empty(store):
    assert store.journal.open_entries() == ()


def test_journal_returns_open_entries_in_order_after_a_restart(store):
    first_entries = [
        entry(EntryKind.CLAIMED, 1),
        entry(EntryKind.CLAIMED, 2),
        entry(EntryKind.SUBMIT_INTENDED, 1),
    ]
    last_entries = [
        entry(EntryKind.SUBMITTED, 1, slurm_job_id=7),
        entry(EntryKind.SUBMIT_REJECTED, 2, reason="no such user"),
    ]

    store.journal.append(first_entries)
    store.journal.append(last_entries)
    store.restart()

    assert store.journal.open_entries() == (*first_entries, *last_entries)


def test_open_entries_exclude_closed_jobs(store):
    store.journal.append([entry(EntryKind.CLAIMED, 1), entry(EntryKind.CLAIMED, 2)])
    store.journal.append([entry(EntryKind.CLOSED, 1)])

    assert store.journal.open_entries() == (entry(EntryKind.CLAIMED, 2),)


def test_claim_reopens_a_closed_job(store):
    second_claim = entry(EntryKind.CLAIMED, occurred_at=200)

    store.journal.append([entry(EntryKind.CLAIMED), entry(EntryKind.CLOSED), second_claim])

    assert store.journal.open_entries() == (second_claim,)


def test_cancelled_entries_are_those_of_closed_jobs(store):
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

    assert store.journal.cancelled_entries() == (entry_of_closed_job,)
    assert store.journal.open_entries() == (entry_of_open_job,)


def test_records_are_the_same_after_a_restart(store):
    """A restart must not count a cancelled attempt as one that Slurm lost."""
    entries = [
        entry(EntryKind.CLAIMED, 1),
        entry(EntryKind.SUBMIT_INTENDED, 1),
        entry(EntryKind.SUBMITTED, 1, slurm_job_id=42),
        entry(EntryKind.CANCELLED_BY_US, 1, 99, slurm_job_id=42),
        entry(EntryKind.SUBMIT_INTENDED, 1),
        entry(EntryKind.SUBMITTED, 1, slurm_job_id=43),
    ]
    records = JournalRecords()
    records.extend(entries)
    store.journal.append(entries)
    store.restart()

    records_after_restart = JournalRecords()
    records_after_restart.extend(store.journal.cancelled_entries())
    records_after_restart.extend(store.journal.open_entries())

    assert records_after_restart == records
    assert records.by_job_key[job_key(1)].attempt_count == 1


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

    (stored_entry,) = store.journal.open_entries()
    assert stored_entry.reason.replace("\0", "") == "no such"


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


def test_volatile_cursor_behaves_like_a_stored_cursor():
    cursor = VolatileCursor()
    assert cursor.load() is None
    assert cursor.history() == ()
    for number in range(1, 71):
        cursor.save(block(number))
    assert cursor.history() == tuple(map(block, range(70, 6, -1)))

    cursor.save(block(69, fork="b"))  # replaces blocks 69 and 70

    assert cursor.load() == block(69, fork="b")
    assert cursor.history()[1] == block(68)


def test_append_of_no_entries_changes_nothing(store):
    store.journal.append([])

    assert store.journal.open_entries() == ()
