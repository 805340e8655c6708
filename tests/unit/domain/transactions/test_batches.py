# SPDX-License-Identifier: Apache-2.0
"""The grouping of calls into batches."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.domain.transactions.outbox import (
    entries_from,
    entry,
    pack_entries,
    settle_call,
    start_call,
)

from gridstead.domain.transactions.calls import job_key_of
from gridstead.domain.transactions.outbox import NodeRefusal


def test_calls_of_one_job_keep_their_order_across_batches():
    entries = [
        entry(1, start_call(1)),
        entry(2, settle_call(1)),
        entry(3, start_call(2)),
        entry(4, settle_call(2)),
    ]

    assert pack_entries(entries, max_calls=10) == [(1, 3), (2, 4)]


def test_two_calls_of_one_type_for_one_job_are_in_separate_batches():
    entries = [entry(1, start_call(1)), entry(2, start_call(1))]

    assert pack_entries(entries, max_calls=10) == [(1,), (2,)]


def test_batches_have_at_most_the_allowed_number_of_calls():
    assert pack_entries(entries_from(1, 5), max_calls=2) == [(1, 2), (3, 4), (5,)]


@st.composite
def entry_lists(draw):
    """Draw entries with starts and settlements of a few jobs."""
    entries = []
    for entry_id in range(1, draw(st.integers(1, 31))):
        create_call = draw(st.sampled_from([start_call, settle_call]))
        job_number = draw(st.integers(1, 4))
        entries.append(entry(entry_id, create_call(job_number)))
    return entries


def ids_by_job(entries):
    """Return the ids of the entries in their order, by job key."""
    ids = defaultdict(list)
    for outbox_entry in entries:
        ids[outbox_entry.call.job_key].append(outbox_entry.id)
    return ids


@given(entry_lists(), st.integers(1, 5))
def test_packing_keeps_every_call_and_the_order_within_each_job(entries, max_calls):
    entries_by_id = {outbox_entry.id: outbox_entry for outbox_entry in entries}

    batches = pack_entries(entries, max_calls=max_calls)

    packed_entries = [entries_by_id[entry_id] for entry_id in chain.from_iterable(batches)]
    assert len(packed_entries) == len(entries)
    assert ids_by_job(packed_entries) == ids_by_job(entries)


@given(entry_lists(), st.integers(1, 5))
def test_batch_has_one_type_of_call_and_one_call_per_job(entries, max_calls):
    calls_by_id = {outbox_entry.id: outbox_entry.call for outbox_entry in entries}

    for batch in pack_entries(entries, max_calls=max_calls):
        calls = [calls_by_id[entry_id] for entry_id in batch]
        assert len(calls) <= max_calls
        assert len(set(map(type, calls))) == 1
        assert len(set(map(job_key_of, calls))) == len(calls)


def test_call_joins_an_older_batch_if_the_newest_batch_has_too_little_gas_left():
    # The gas of each entry. With entry 3, the batch of entry 2 would exceed the limit of 100.
    gas = {1: 10, 2: 95, 3: 50}

    batches = pack_entries(entries_from(1, 3), max_calls=10, gas_limit=100, max_gas=gas)

    assert batches == [(1, 3), (2,)]


def test_refused_calls_are_sent_again_in_batches_of_half_the_size():
    refusals = dict.fromkeys((1, 2, 3, 4, 5), NodeRefusal(call_count=5, message="no"))

    batches = pack_entries(entries_from(1, 7), max_calls=10, refusals=refusals)

    assert batches == [(1, 2), (3, 4), (5, 6), (7,)]
