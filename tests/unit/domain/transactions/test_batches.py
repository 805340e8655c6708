# SPDX-License-Identifier: Apache-2.0
"""Which calls share a transaction."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.domain.transactions.outbox import ending, entry, packed, running


def test_calls_of_one_job_keep_their_order_across_batches():
    entries = [entry(1, running(1)), entry(2, ending(1)), entry(3, running(2)), entry(4, ending(2))]

    assert list(packed(entries, most=10)) == [(1, 3), (2, 4)]


def test_two_calls_of_one_kind_for_one_job_are_in_separate_batches():
    assert list(packed([entry(1, running(1)), entry(2, running(1))], most=10)) == [(1,), (2,)]


def test_batches_have_at_most_the_allowed_number_of_calls():
    assert list(packed([entry(n) for n in range(1, 6)], most=2)) == [(1, 2), (3, 4), (5,)]


@given(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from([running, ending])), max_size=30),
    st.integers(1, 5),
)
def test_packing_keeps_every_call_and_the_order_within_each_job(steps, most):
    entries = [entry(i, make_call(number)) for i, (number, make_call) in enumerate(steps, start=1)]
    by_id = {packed_entry.id: packed_entry for packed_entry in entries}

    batches = list(packed(entries, most=most))

    assert sorted(chain.from_iterable(batches)) == sorted(by_id)
    sent, expected = defaultdict(list), defaultdict(list)
    for batch in batches:
        calls = [by_id[entry_id].call for entry_id in batch]
        assert len({type(call) for call in calls}) == 1
        assert len({call.job_key for call in calls}) == len(calls) <= most
        for entry_id in batch:
            sent[by_id[entry_id].call.job_key].append(entry_id)
    for packed_entry in entries:
        expected[packed_entry.call.job_key].append(packed_entry.id)
    assert sent == expected


def test_call_joins_an_older_batch_if_the_newest_has_no_gas_left():
    entries = [entry(1, running(1)), entry(2, running(2)), entry(3, running(3))]

    batches = list(packed(entries, most=10, gas_limit=100, gas={1: 10, 2: 95, 3: 50}))

    assert batches == [(1, 3), (2,)]
