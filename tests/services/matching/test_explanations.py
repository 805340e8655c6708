# SPDX-License-Identifier: Apache-2.0
"""Tests of which jobs are explained in a decision if there are too many to explain them all."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs
from tests.fakes.ledger import FakeLedger
from tests.fakes.store import FakeClock
from tests.services.matching.test_occupation import (
    CUSTOMER,
    HARDWARE,
    PROVIDER,
    MatchingGrid,
    request,
)

from gridstead.domain.jobs.billing import Resources
from gridstead.services.matching import explanations

KINDS = 5


@pytest.fixture
def grid(monkeypatch):
    """A grid whose only provider is too small for all jobs. A decision explains two kinds."""
    monkeypatch.setattr(explanations, "MAX_COMPARISONS", 2)
    ledger = FakeLedger(FakeClock())
    ledger.add_provider(PROVIDER, hardware=HARDWARE)
    return MatchingGrid(ledger)


def request_kind(grid, number):
    """Request a job of one of the kinds."""
    resources = Resources(gpus=0, tasks=100 + number, cpus_per_task=1, memory_per_cpu_mb=100)
    (job,) = request(grid.ledger, 1, customer=CUSTOMER, resources=resources)
    return job


def tick_at_next_block(grid):
    grid.ledger.mine()
    grid.service.tick()


def unexplained_count(grid):
    return list(grid.service.pending().values()).count("not explained yet")


def test_all_kinds_are_explained_after_some_decisions(grid):
    for number in range(KINDS):
        request_kind(grid, number)
    counts = []
    for _ in range(3):
        tick_at_next_block(grid)
        counts.append(unexplained_count(grid))

    assert counts == [3, 1, 0]


def test_new_job_of_an_explained_kind_is_explained_at_once(grid):
    request_kind(grid, 0)
    tick_at_next_block(grid)
    new_job = request_kind(grid, 0)
    for number in range(1, KINDS):
        request_kind(grid, number)
    tick_at_next_block(grid)

    assert "no provider" in grid.service.pending()[new_job.id]


def test_reason_is_logged_once_per_job(grid):
    jobs = [request_kind(grid, 0) for _ in range(2)]
    with capture_logs() as logs:
        for _ in range(3):
            tick_at_next_block(grid)

    logged_ids = [entry["job_id"] for entry in logs if entry["event"] == "job_unmatched"]
    assert sorted(logged_ids) == [job.id for job in jobs]
