# SPDX-License-Identifier: Apache-2.0
"""Tests that a store of an earlier release can be opened, read and written."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from tests.adapters.store.conftest import SqlStore
from tests.adapters.store.record_store import CALLS, entries_of_job
from tests.adapters.store.rows import ACCOUNT, block, entry, job_key, transaction

from gridstead.domain.supervisor.journal import EntryKind
from gridstead.domain.transactions.calls import Refuse
from gridstead.domain.transactions.outbox import SendState

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.sql"))


@pytest.fixture(params=RECORDED, ids=lambda file: file.stem)
def store(request, tmp_path):
    """Yield a store that an earlier release filled."""
    connection = sqlite3.connect(tmp_path / "state.db")
    connection.executescript(request.param.read_text())
    connection.close()
    upgraded_store = SqlStore(f"sqlite:///{tmp_path}/state.db")
    yield upgraded_store
    upgraded_store.close()


def test_open_journal_entries_are_read(store):
    # The stores contain one job per kind of entry, with the numbers 1, 2, and so on.
    expected = []
    for number, kind in enumerate(EntryKind, 1):
        if kind is not EntryKind.CLOSED:
            expected += entries_of_job(number, kind)

    assert store.journal.open_entries() == tuple(expected)


def test_calls_are_read(store):
    entries = store.outbox.entries()

    assert [(entry.key, entry.call) for entry in entries] == list(CALLS)


def test_states_of_calls_are_read(store):
    first, second, third, *rest = store.outbox.entries()

    assert first.state is SendState.SENT
    assert second.state is SendState.SENT
    assert third.state is SendState.REJECTED
    assert third.reason == "NothingToClaim()"
    assert {entry.state for entry in rest} == {SendState.QUEUED}


def test_transactions_are_read(store):
    # The store also contains the transaction with nonce 8, which is closed.
    entry_ids = (1, 2)
    assert store.outbox.open_transactions(ACCOUNT) == (transaction(7, *entry_ids),)


def test_cursor_is_read(store):
    assert store.cursor("reader").load() == block(100)


def test_queued_call_is_not_queued_twice(store):
    store.outbox.put(f"refuse:{job_key(3)}", Refuse(job_key=job_key(3)))

    assert len(store.outbox.entries()) == len(CALLS)


def test_new_rows_can_be_written_and_read(store):
    store.journal.append([entry(EntryKind.CLOSED, 1, occurred_at=300)])
    store.outbox.put(f"refuse:{job_key(9)}", Refuse(job_key=job_key(9)))
    store.restart()

    open_job_keys = {entry.job_key for entry in store.journal.open_entries()}
    assert job_key(1) not in open_job_keys
    assert store.outbox.entries()[-1].call == Refuse(job_key=job_key(9))
