# SPDX-License-Identifier: Apache-2.0
"""What the records of DeepSquare 1.2, which have no terms, say about the start of a job."""

from __future__ import annotations

import pytest

from gridstead.adapters.chain.records import NO_ADDRESS, ChainJobRecord


def record_with_times(start, end):
    definition = (1, 100, 2, 3, b"script-1", 4, [], [])
    time = (1_800_000_000, start, end, 0, 7, 0)
    cost = (10, 0, 0, False)
    parties = (NO_ADDRESS, NO_ADDRESS)
    outcome = (bytes(32), False, b"", 0)
    return ChainJobRecord.of((bytes(32), 4, *parties, definition, cost, time, *outcome))


@pytest.mark.parametrize(
    ("start", "end", "expected_start"),
    [
        pytest.param(0, 0, 0, id="waiting"),
        pytest.param(1_800_000_100, 0, 1_800_000_100, id="running"),
        pytest.param(1_800_000_100, 1_800_000_160, 1_800_000_100, id="ended after a run"),
        pytest.param(1_800_000_160, 1_800_000_160, 0, id="ended without a run"),
    ],
)
def test_job_whose_start_equals_its_end_has_not_run(start, end, expected_start):
    assert record_with_times(start, end).apparent_start == expected_start
