# SPDX-License-Identifier: Apache-2.0
"""Tests that the reputation of providers is computed from the chain, also after reorgs."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs
from tests.services.matching.test_occupation import (
    CONFIRMATIONS,
    HARDWARE,
    PROVIDER,
    SECOND_PROVIDER,
    WHOLE_NODE,
    MatchingGrid,
    new_ledger,
    request,
)

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.decisions import Rules
from gridstead.domain.matching.shares import HalfLife
from gridstead.domain.transactions.calls import Expire

# The reputation is computed at each block, and a provider rests for 18 blocks.
RULES = Rules(half_life=HalfLife(3024))
CUSTOMERS = [f"0x{number:040x}" for number in range(1, 7)]


@pytest.fixture
def ledger():
    return new_ledger()


@pytest.fixture
def grid(ledger):
    return MatchingGrid(ledger, RULES)


def end_job(grid, customer, state, *, address=PROVIDER):
    """Run a job of a customer at a provider, and let it end in a state after a minute."""
    job = grid.ledger.request(customer, resources=WHOLE_NODE)
    number = job.id.number
    grid.ledger.match(number, address)
    grid.ledger.claim(address)
    grid.ledger.run(number)
    grid.ledger.settle(number, state, seconds=60)
    return job


def confirm(grid):
    """Mine enough blocks to confirm all ends, and decide about a new job. Return this job."""
    (job,) = request(grid.ledger, 1)
    grid.ledger.mine(CONFIRMATIONS)
    grid.service.tick()
    return job


def success(grid, address=PROVIDER):
    return grid.service._grid.matcher.reputation.standing(address).success


def test_panicked_job_counts_when_its_end_is_confirmed(ledger, grid):
    end_job(grid, CUSTOMERS[0], JobState.PANICKED)
    request(ledger, 1)
    grid.service.tick()
    assert success(grid) == 1_000_000

    confirm(grid)

    assert success(grid) < 1_000_000


def test_failed_job_does_not_count(ledger, grid):
    end_job(grid, CUSTOMERS[0], JobState.FAILED)

    confirm(grid)

    assert success(grid) == 1_000_000


@pytest.mark.parametrize("is_claimed", [True, False])
def test_returned_job_counts_after_its_end_at_another_provider(ledger, grid, is_claimed):
    ledger.add_provider(SECOND_PROVIDER, hardware=HARDWARE)
    job = ledger.request(CUSTOMERS[0], resources=WHOLE_NODE)
    number = job.id.number
    ledger.match(number, PROVIDER)
    if is_claimed:
        ledger.claim(PROVIDER)
        ledger.refuse(number)
    else:
        ledger.mine(ledger.timeouts(at_block=ledger.head()).claim_blocks)
        matched_job = ledger.job(number)
        state_block = matched_job.state_block
        call = Expire(job_key=job.job_key, state=matched_job.state, state_block=state_block)
        ledger.act(PROVIDER, call)
    ledger.match(number, SECOND_PROVIDER)
    ledger.claim(SECOND_PROVIDER)
    ledger.run(number)
    confirm(grid)
    assert success(grid) == 1_000_000

    ledger.settle(number, seconds=60)
    confirm(grid)

    assert success(grid) < 1_000_000
    assert success(grid, SECOND_PROVIDER) == 1_000_000


def test_refusal_that_a_reorg_removed_does_not_count(ledger, grid):
    ledger.add_provider(SECOND_PROVIDER, hardware=HARDWARE)
    job = ledger.request(CUSTOMERS[0], resources=WHOLE_NODE)
    number = job.id.number
    grid.service.tick()
    ledger.match(number, PROVIDER)
    ledger.automine = False
    ledger.claim(PROVIDER)
    ledger.refuse(number)
    ledger.automine = True
    ledger.mine()
    grid.service.tick()

    ledger.reorg(CONFIRMATIONS)
    grid.service.tick()
    ledger.match(number, SECOND_PROVIDER)
    ledger.claim(SECOND_PROVIDER)
    ledger.run(number)
    ledger.settle(number, seconds=60)
    confirm(grid)

    assert ledger.job(number).state is JobState.FINISHED
    assert success(grid) == 1_000_000


def test_rest_of_a_provider_is_logged(ledger, grid):
    for customer in CUSTOMERS:
        end_job(grid, customer, JobState.PANICKED)

    with capture_logs() as logs:
        job = confirm(grid)

    assert [(log["event"], log["provider"]) for log in logs if "rest" in log["event"]] == [
        ("provider_rested", PROVIDER)
    ]
    assert grid.service.pending()[job.id] == "waits for a provider: 1 rests after faults"


def test_end_of_a_rest_is_logged(ledger, grid):
    for customer in CUSTOMERS:
        end_job(grid, customer, JobState.PANICKED)
    confirm(grid)
    end_job(grid, CUSTOMERS[0], JobState.FINISHED)
    with capture_logs() as logs:
        confirm(grid)

    assert [(log["event"], log["provider"]) for log in logs if "rest" in log["event"]] == [
        ("provider_rest_ended", PROVIDER)
    ]


def test_restarted_service_has_the_same_reputation(ledger, grid):
    end_job(grid, CUSTOMERS[0], JobState.PANICKED)
    end_job(grid, CUSTOMERS[0], JobState.FINISHED)
    confirm(grid)
    before = success(grid)

    grid.service = grid.start(RULES)
    request(ledger, 1)
    grid.service.tick()

    assert success(grid) == before < 1_000_000


def test_reorg_of_confirmed_blocks_reverts_their_faults(ledger, grid):
    ledger.mine(3)
    first_block = ledger.head().number
    end_job(grid, CUSTOMERS[0], JobState.PANICKED)
    confirm(grid)
    assert success(grid) < 1_000_000

    ledger.reorg(ledger.head().number - first_block)
    confirm(grid)

    assert success(grid) == 1_000_000
