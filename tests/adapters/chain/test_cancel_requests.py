# SPDX-License-Identifier: Apache-2.0
"""The cancellation of claimed jobs, on the grid in memory and on all generations of contracts."""

from __future__ import annotations

import pytest
from tests import billing_oracle
from tests.adapters.chain.grids import queue_sizes
from tests.devnet import COIN

from gridstead.domain.jobs.lifecycle import COLD, JobState
from gridstead.errors import TransactionReverted

ESCROW = 200 * COIN


@pytest.fixture
def requested_job(joined_grid, claimed_number):
    """Return a claimed job that its customer cancels 600 seconds after the claim."""
    joined_grid.pass_time(600)
    joined_grid.cancel(claimed_number)
    return joined_grid.job(claimed_number)


def test_cancellation_after_the_claim_is_a_request_on_our_contracts(joined_grid, requested_job):
    """On contracts before 3.0.0 it ends the job, even if the job already runs."""
    assert requested_job.cancel_requested
    if joined_grid.expected.requests_cancel:
        assert requested_job.state is JobState.SCHEDULED
        assert requested_job.bill_until == requested_job.cancel_requested_at
        assert requested_job.cancel_requested_at == joined_grid.ledger.head().timestamp
    else:
        assert requested_job.state is JobState.CANCELLED
        assert requested_job.bill_until is None
    notified = joined_grid.expected.notifies_of_early_cancel
    assert queue_sizes(joined_grid).cancelling == (1 if notified else 0)


def test_run_until_the_request_is_paid(joined_grid, claimed_number):
    """A provider that was away reports the start after the request."""
    customer, provider = joined_grid.balances()
    started_at = joined_grid.ledger.head().timestamp
    joined_grid.pass_time(600)
    joined_grid.cancel(claimed_number)
    requested = joined_grid.job(claimed_number)
    if not joined_grid.expected.requests_cancel:
        assert requested.state is JobState.CANCELLED
        assert joined_grid.balances() == (customer + ESCROW, provider)
        return
    joined_grid.pass_time(3600)
    joined_grid.run(claimed_number, started_at)
    running = joined_grid.job(claimed_number)
    joined_grid.settle(claimed_number, JobState.CANCELLED, seconds=4200)

    job = joined_grid.job(claimed_number)
    seconds = requested.cancel_requested_at - started_at
    bill = billing_oracle.bill(ESCROW, seconds, job.price_per_min)
    assert seconds > 500
    assert (running.state, running.bill_until) == (JobState.RUNNING, requested.cancel_requested_at)
    assert (job.state, job.final_cost, job.bill_until) == (JobState.CANCELLED, bill.cost, None)
    assert joined_grid.balances() == (customer + bill.refund, provider + bill.provider)


def test_refused_request_ends_the_job_with_a_full_refund(joined_grid, requested_job):
    number = requested_job.id.number
    if joined_grid.expected.requests_cancel:
        joined_grid.refuse(number)

    job = joined_grid.job(number)
    assert (job.state, job.final_cost, job.provider) == (
        JobState.CANCELLED,
        0,
        joined_grid.provider,
    )


def test_start_after_the_request_costs_nothing(joined_grid, requested_job):
    number = requested_job.id.number
    customer, provider = joined_grid.balances()
    if requested_job.state in COLD:
        return  # contracts before 3.0.0
    joined_grid.pass_time(60)
    joined_grid.run(number, joined_grid.ledger.head().timestamp + 60)
    joined_grid.pass_time(60)
    joined_grid.settle(number, seconds=60)

    assert joined_grid.job(number).final_cost == 0
    assert joined_grid.balances() == (customer + ESCROW, provider)


def test_request_after_the_recorded_start_does_not_limit_the_bill(joined_grid, claimed_number):
    joined_grid.run(claimed_number, joined_grid.ledger.head().timestamp)
    joined_grid.cancel(claimed_number)
    requested = joined_grid.job(claimed_number)
    joined_grid.pass_time(1000)
    joined_grid.settle(claimed_number, JobState.CANCELLED, seconds=120)

    job = joined_grid.job(claimed_number)
    assert (requested.state, requested.bill_until) == (JobState.RUNNING, None)
    billed_s = joined_grid.expected.billed_s(120)
    assert job.final_cost == billing_oracle.cost(billed_s, job.price_per_min)


def test_second_cancellation_does_not_change_a_request(joined_grid, requested_job):
    number = requested_job.id.number
    joined_grid.pass_time(60)
    if joined_grid.expected.requests_cancel:
        joined_grid.cancel(number)
    else:
        with pytest.raises(TransactionReverted, match="JobHotStatusOnly"):
            joined_grid.cancel(number)

    job = joined_grid.job(number)
    assert job.cancel_requested_at == requested_job.cancel_requested_at
    assert job.state is requested_job.state
