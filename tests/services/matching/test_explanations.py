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
    SECOND_PROVIDER,
    MatchingGrid,
    request,
)

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.job import Hardware
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


def test_changed_figures_are_not_logged_again(grid):
    job = request_kind(grid, 0)
    tick_at_next_block(grid)
    first_reason = grid.service.pending()[job.id]
    with capture_logs() as logs:
        grid.ledger.add_provider(SECOND_PROVIDER, hardware=HARDWARE)
        tick_at_next_block(grid)

    assert grid.service.pending()[job.id] != first_reason
    assert not [entry for entry in logs if entry["event"] == "job_unmatched"]


def test_changed_cause_is_logged(grid):
    _, waiting_job = request_kind(grid, 0), request_kind(grid, 0)
    tick_at_next_block(grid)
    node_for_one = Hardware(gpus_per_node=(0,), cpus_per_node=(100,), memory_per_node_mb=(10_000,))
    with capture_logs() as logs:
        grid.ledger.add_provider(SECOND_PROVIDER, hardware=node_for_one)
        grid.tick()
        tick_at_next_block(grid)

    (entry,) = [entry for entry in logs if entry["event"] == "job_unmatched"]
    assert entry["job_id"] == waiting_job.id
    assert entry["reason"].startswith("waits for a provider: 1 too small, 1 full")
