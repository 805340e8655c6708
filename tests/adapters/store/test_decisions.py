# SPDX-License-Identifier: Apache-2.0
"""Tests of port ``DecisionStore``."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import IntegrityError
from tests.adapters.store.conftest import SqlStore
from tests.adapters.store.rows import job_key

from gridstead.domain.matching.decision_log import SignedRecord
from gridstead.domain.transactions.calls import Match

PROVIDER = "0x" + "11" * 20


def record(number):
    return SignedRecord(number=number, text=f'{{"number":{number}}}', signature="0x51")


def match(number):
    return Match(job_key=job_key(number), provider=PROVIDER)


def test_empty_log_has_no_records(store):
    assert store.decisions.last_record() is None
    assert store.decisions.records(first=0, count=10) == ()


def test_records_and_calls_remain_after_a_restart(store):
    for number in range(3):
        store.decisions.append(record(number), [(f"match:{number}", match(number))])
    store.restart()

    assert store.decisions.last_record() == record(2)
    assert store.decisions.records(first=0, count=2) == (record(0), record(1))
    assert store.decisions.records(first=2, count=10) == (record(2),)
    calls = [(entry.key, entry.call) for entry in store.outbox.open_entries()]
    assert calls == [(f"match:{number}", match(number)) for number in range(3)]


def test_calls_of_a_record_that_cannot_be_stored_are_not_stored(tmp_path):
    store = SqlStore(f"sqlite:///{tmp_path}/state.db")
    store.decisions.append(record(0), [])

    with pytest.raises(IntegrityError):
        store.decisions.append(record(0), [("match:1", match(1))])

    assert store.outbox.open_entries() == ()
    store.close()
