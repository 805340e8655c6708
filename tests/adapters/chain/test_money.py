# SPDX-License-Identifier: Apache-2.0
"""The cost of a job, on the grid in memory and on both generations of contracts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests import billing_oracle
from tests.adapters.chain.conftest import RealGrid
from tests.adapters.chain.generations import on_both
from tests.devnet import COIN
from tests.fakes.ledger import PRICES

from gridstead.domain.jobs.job import QueueSizes
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.settlement import time_limit_min
from gridstead.errors import TransactionReverted

HIGHER_PRICES = replace(PRICES, cpu_per_min=10 * PRICES.cpu_per_min)


def job(grid, number):
    return grid.job(number)


def queues(grid):
    return grid.ledger.queue_sizes(grid.provider, at_block=grid.ledger.head())


@pytest.fixture
def joined(grid):
    grid.register()
    grid.approve()
    return grid


@pytest.fixture
def claimed(joined):
    number = joined.request("script-1")
    joined.match(number)
    joined.claim()
    return number


@pytest.mark.parametrize("seconds", [0, 59, 60, 61, 119, 500])
def test_settlement_divides_the_escrow_by_the_formula(joined, claimed, seconds):
    customer, earned = joined.balances()
    joined.run(claimed, joined.ledger.head().timestamp)
    joined.pass_time(1000)
    joined.settle(claimed, JobState.FAILED, seconds=seconds, exit_code=3 << 8)

    settled = job(joined, claimed)
    billed = joined.expected.billed_s(seconds)
    bill = billing_oracle.bill(settled.escrow, billed, settled.price_per_min)
    assert (settled.state, settled.exit_code, settled.final_cost) == (
        JobState.FAILED,
        3 << 8,
        bill.cost,
    )
    assert joined.balances() == (customer + bill.refund, earned + bill.provider)


@pytest.mark.parametrize("seconds", [0, 500])
def test_panic_of_the_provider_costs_the_minimum(joined, claimed, seconds):
    customer, earned = joined.balances()
    joined.run(claimed, joined.ledger.head().timestamp)
    joined.pass_time(1000)
    joined.settle(claimed, JobState.PANICKED, seconds=seconds)

    billed = joined.expected.billed_s(seconds, JobState.PANICKED)
    bill = billing_oracle.bill(200 * COIN, billed, job(joined, claimed).price_per_min)
    assert joined.balances() == (customer + bill.refund, earned + bill.provider)


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.PANICKED, JobState.CANCELLED])
def test_job_that_never_ran_costs_nothing(joined, claimed, state):
    customer, earned = joined.balances()
    joined.settle(claimed, state, seconds=500)

    assert (job(joined, claimed).state, job(joined, claimed).final_cost) == (state, 0)
    assert joined.balances() == (customer + 200 * COIN, earned)


def test_bill_never_exceeds_the_escrow(joined, claimed):
    customer, _ = joined.balances()
    joined.run(claimed, joined.ledger.head().timestamp)
    joined.pass_time(10**6)
    joined.settle(claimed, JobState.OUT_OF_CREDITS, seconds=10**6)

    assert job(joined, claimed).final_cost == 200 * COIN
    assert joined.balances()[0] == customer


def test_price_change_of_a_running_job(joined, claimed):
    """Our contracts fix the price at the match; plain DeepSquare bills the current price."""
    before = job(joined, claimed).price_per_min
    joined.run(claimed, joined.ledger.head().timestamp)
    joined.register(prices=HIGHER_PRICES)
    joined.approve()
    joined.pass_time(1000)
    running = job(joined, claimed)
    joined.settle(claimed, seconds=120)

    assert (running.price_per_min == before) is joined.expected.fixes_price
    assert running.price_per_min <= 10 * before
    assert job(joined, claimed).final_cost == 2 * running.price_per_min


@on_both
def test_job_of_a_removed_provider_gets_no_more_time(chain, expected):
    """On plain DeepSquare its prices are unknown; a price of 0 would give unlimited time."""
    grid = RealGrid(chain)
    grid.register()
    grid.approve()
    number = grid.request("script-1")
    grid.match(number)
    grid.claim()
    before = job(grid, number)
    chain.as_admin.remove_provider(grid.provider)

    running = job(grid, number)
    assert (running.price_per_min == before.price_per_min) is expected.fixes_price
    assert time_limit_min(running, max_min=10**6) == (
        time_limit_min(before, max_min=10**6) if expected.fixes_price else 0
    )
    grid.cancel(number)
    assert job(grid, number).price_per_min == (before.price_per_min if expected.fixes_price else 0)


@on_both
@pytest.mark.parametrize(("reported_s", "billed_min"), [(900, 15), (960, 16), (1020, 1), (7200, 1)])
def test_late_report_of_a_start(chain, expected, reported_s, billed_min):
    """DeepSquare bills up to 15 minutes more than the time since the report of the start.

    If the bill exceeds this, DeepSquare bills only the minimum.
    """
    grid = RealGrid(chain)
    grid.register()
    grid.approve()
    number = grid.request("script-1")
    grid.match(number)
    grid.claim()
    started_at = grid.ledger.head().timestamp
    grid.pass_time(7200)
    grid.run(number, started_at)
    grid.pass_time(110)
    grid.settle(number, seconds=reported_s)

    settled = job(grid, number)
    billed_s = reported_s if expected.keeps_start else billed_min * 60
    assert settled.final_cost == billing_oracle.cost(billed_s, settled.price_per_min)


def test_top_up_raises_the_escrow_and_is_queued(joined, claimed):
    before = time_limit_min(job(joined, claimed), max_min=10**6)
    joined.top_up(claimed, 100 * COIN)

    topped_up = job(joined, claimed)
    assert topped_up.escrow == 300 * COIN
    assert time_limit_min(topped_up, max_min=10**6) in {before * 3 // 2, before * 3 // 2 + 1}
    assert queues(joined) == QueueSizes(claimable=0, cancelling=0, top_up=1)
    joined.claim_top_up()
    assert queues(joined).top_up == 0


def test_one_claim_takes_as_many_jobs_as_the_contracts_allow(joined):
    numbers = [joined.request(f"script-{place}") for place in range(3)]
    for number in numbers:
        joined.match(number)

    joined.claim()

    claimed = [n for n in numbers if job(joined, n).state is JobState.SCHEDULED]
    assert claimed == numbers[: joined.expected.claims]
    assert queues(joined).claimable == len(numbers) - len(claimed)


def test_cancelled_matched_job_is_refunded_and_its_entry_is_skipped(joined):
    gone, stays = joined.request("script-1", escrow=100 * COIN), joined.request("script-2")
    joined.match(gone)
    joined.match(stays)
    paid = joined.balances()[0]
    joined.cancel(gone)
    joined.claim()

    assert (job(joined, gone).state, job(joined, stays).state) == (
        JobState.CANCELLED,
        JobState.SCHEDULED,
    )
    assert joined.balances()[0] == paid + 100 * COIN
    assert (queues(joined).cancelling == 1) is joined.expected.tells_provider


def test_queue_with_only_cancelled_jobs_is_not_claimable(joined):
    """On plain DeepSquare a claim would revert, so the queue must not be reported as claimable."""
    number = joined.request("script-1")
    joined.match(number)
    joined.cancel(number)

    if not joined.expected.own_events:
        assert queues(joined).claimable == 0
        with pytest.raises(TransactionReverted, match="NoJob"):
            joined.claim()


def test_running_job_is_cancelled_by_its_provider(joined, claimed):
    joined.run(claimed, joined.ledger.head().timestamp)
    joined.cancel(claimed)
    joined.claim_cancelling()
    assert queues(joined).cancelling == 0
    joined.pass_time(100)
    joined.settle(claimed, JobState.CANCELLED, seconds=61)

    cancelled = job(joined, claimed)
    assert (cancelled.state, cancelled.cancel_requested) == (JobState.CANCELLED, True)
    billed_s = joined.expected.billed_s(61)
    assert cancelled.final_cost == billing_oracle.cost(billed_s, cancelled.price_per_min)
