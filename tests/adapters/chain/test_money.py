# SPDX-License-Identifier: Apache-2.0
"""The cost of a job, on the grid in memory and on both generations of contracts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests import billing_oracle
from tests.adapters.chain.generations import on_all
from tests.adapters.chain.grids import join_real_grid, queue_sizes
from tests.devnet import COIN
from tests.fakes.ledger import PRICES

from gridstead.domain.jobs.job import QueueSizes
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.settlement import time_limit_min
from gridstead.errors import TransactionReverted

HIGHER_PRICES = replace(PRICES, cpu_per_min=10 * PRICES.cpu_per_min)


@pytest.mark.parametrize("seconds", [0, 59, 60, 61, 119, 500])
def test_settlement_divides_the_escrow_as_the_oracle_computes(joined_grid, claimed_number, seconds):
    customer_balance, provider_balance = joined_grid.balances()
    joined_grid.run(claimed_number, joined_grid.ledger.head().timestamp)
    joined_grid.pass_time(1000)
    joined_grid.settle(claimed_number, JobState.FAILED, seconds=seconds, exit_code=3 << 8)

    job = joined_grid.job(claimed_number)
    billed_s = joined_grid.expected.billed_s(seconds)
    bill = billing_oracle.bill(job.escrow, billed_s, job.price_per_min)
    assert (job.state, job.exit_code) == (JobState.FAILED, 3 << 8)
    assert job.final_cost == bill.cost
    assert joined_grid.balances() == (
        customer_balance + bill.refund,
        provider_balance + bill.provider,
    )


@pytest.mark.parametrize("seconds", [0, 500])
def test_panicked_job_costs_the_minimum(joined_grid, claimed_number, seconds):
    customer_balance, provider_balance = joined_grid.balances()
    joined_grid.run(claimed_number, joined_grid.ledger.head().timestamp)
    joined_grid.pass_time(1000)
    joined_grid.settle(claimed_number, JobState.PANICKED, seconds=seconds)

    billed_s = joined_grid.expected.billed_s(seconds, JobState.PANICKED)
    bill = billing_oracle.bill(200 * COIN, billed_s, joined_grid.job(claimed_number).price_per_min)
    assert joined_grid.balances() == (
        customer_balance + bill.refund,
        provider_balance + bill.provider,
    )


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.PANICKED, JobState.CANCELLED])
def test_job_that_never_ran_costs_nothing(joined_grid, claimed_number, state):
    customer_balance, provider_balance = joined_grid.balances()
    joined_grid.settle(claimed_number, state, seconds=500)

    job = joined_grid.job(claimed_number)
    assert (job.state, job.final_cost) == (state, 0)
    assert joined_grid.balances() == (customer_balance + 200 * COIN, provider_balance)


def test_bill_never_exceeds_the_escrow(joined_grid, claimed_number):
    balance_before, _ = joined_grid.balances()
    joined_grid.run(claimed_number, joined_grid.ledger.head().timestamp)
    joined_grid.pass_time(10**6)
    joined_grid.settle(claimed_number, JobState.OUT_OF_CREDITS, seconds=10**6)

    assert joined_grid.job(claimed_number).final_cost == 200 * COIN
    balance_after, _ = joined_grid.balances()
    assert balance_after == balance_before


def test_running_job_keeps_its_price_if_the_contracts_fix_it(joined_grid, claimed_number):
    """Our contracts fix the price at the match. DeepSquare 1.2 bills the current price."""
    matched_price = joined_grid.job(claimed_number).price_per_min
    joined_grid.run(claimed_number, joined_grid.ledger.head().timestamp)
    joined_grid.register(prices=HIGHER_PRICES)
    joined_grid.approve()
    joined_grid.pass_time(1000)
    running_price = joined_grid.job(claimed_number).price_per_min
    joined_grid.settle(claimed_number, seconds=120)

    if joined_grid.expected.fixes_price:
        assert running_price == matched_price
    else:
        assert running_price != matched_price
    assert running_price <= 10 * matched_price  # only the price of CPUs is ten times higher
    assert joined_grid.job(claimed_number).final_cost == 2 * running_price


@on_all
def test_job_of_a_removed_provider_gets_no_more_time(chain, expected):
    """The contracts of DeepSquare 1.2 do not return the prices of a removed provider.

    While such a job runs, the ledger returns a price above the escrow, so that the escrow pays for
    no time. After the end of the job, the ledger returns the price 0.
    """
    grid = join_real_grid(chain)
    number = grid.request("script-1")
    grid.match(number)
    grid.claim()
    old_job = grid.job(number)
    chain.as_admin.remove_provider(grid.provider)

    new_job = grid.job(number)
    if expected.fixes_price:
        assert new_job.price_per_min == old_job.price_per_min
        assert time_limit_of(new_job) == time_limit_of(old_job)
    else:
        assert new_job.price_per_min != old_job.price_per_min
        assert time_limit_of(new_job) == 0
    grid.cancel(number)
    settled_price = old_job.price_per_min if expected.fixes_price else 0
    assert grid.job(number).price_per_min == settled_price


def time_limit_of(job):
    """Return the time limit that the job's escrow pays for, in minutes."""
    return time_limit_min(job, max_min=10**6)


@on_all
@pytest.mark.parametrize(("reported_s", "billed_min"), [(900, 15), (960, 16), (1020, 1), (7200, 1)])
def test_plain_deepsquare_limits_the_bill_if_the_start_is_reported_late(
    chain, expected, reported_s, billed_min
):
    """DeepSquare bills at most 15 minutes more than the time since the report of the start.

    If the provider reports more time, DeepSquare bills only the minimum.
    """
    grid = join_real_grid(chain)
    number = grid.request("script-1")
    grid.match(number)
    grid.claim()
    started_at = grid.ledger.head().timestamp
    grid.pass_time(7200)
    grid.run(number, started_at)
    grid.pass_time(110)  # 1 whole minute, so DeepSquare accepts at most 16 minutes
    grid.settle(number, seconds=reported_s)

    job = grid.job(number)
    billed_s = reported_s if expected.keeps_reported_start else billed_min * 60
    assert job.final_cost == billing_oracle.cost(billed_s, job.price_per_min)


def test_top_up_raises_the_escrow_and_is_queued(joined_grid, claimed_number):
    old_limit_min = time_limit_of(joined_grid.job(claimed_number))
    joined_grid.top_up(claimed_number, 100 * COIN)

    job = joined_grid.job(claimed_number)
    assert job.escrow == 300 * COIN
    # The escrow is now 3/2 of the first escrow. Time limits are rounded down to minutes.
    assert time_limit_of(job) in {old_limit_min * 3 // 2, old_limit_min * 3 // 2 + 1}
    assert queue_sizes(joined_grid) == QueueSizes(claimable=0, cancelling=0, top_up=1)
    joined_grid.claim_top_up()
    assert queue_sizes(joined_grid).top_up == 0


def test_one_claim_takes_as_many_jobs_as_the_contracts_allow(joined_grid):
    numbers = [joined_grid.request(f"script-{index}") for index in range(3)]
    for number in numbers:
        joined_grid.match(number)

    joined_grid.claim()

    claimed_numbers = [
        number for number in numbers if joined_grid.job(number).state is JobState.SCHEDULED
    ]
    assert claimed_numbers == numbers[: joined_grid.expected.max_claimed_jobs]
    assert queue_sizes(joined_grid).claimable == len(numbers) - len(claimed_numbers)


def test_first_claimable_jobs_are_listed_if_the_contracts_list_them(joined_grid):
    numbers = [joined_grid.request(f"script-{index}") for index in range(3)]
    for number in numbers:
        joined_grid.match(number)
    joined_grid.cancel(numbers[0])
    head = joined_grid.ledger.head()

    jobs = joined_grid.ledger.claimable_jobs(joined_grid.provider, limit=1, at_block=head)

    is_listed = joined_grid.expected.max_claimed_jobs > 1
    assert [job.id.number for job in jobs] == (numbers[1:2] if is_listed else [])


def test_cancelled_matched_job_is_refunded_and_not_claimed(joined_grid):
    cancelled_number = joined_grid.request("script-1", escrow=100 * COIN)
    claimed_number = joined_grid.request("script-2")
    joined_grid.match(cancelled_number)
    joined_grid.match(claimed_number)
    balance_before, _ = joined_grid.balances()
    joined_grid.cancel(cancelled_number)
    joined_grid.claim()

    assert joined_grid.job(cancelled_number).state is JobState.CANCELLED
    assert joined_grid.job(claimed_number).state is JobState.SCHEDULED
    balance_after, _ = joined_grid.balances()
    assert balance_after == balance_before + 100 * COIN
    expected_entries = 1 if joined_grid.expected.notifies_of_early_cancel else 0
    assert queue_sizes(joined_grid).cancelling == expected_entries


@pytest.mark.parametrize("grid", ["1.2"], indirect=True)
def test_queue_with_only_cancelled_jobs_has_no_claimable_job_on_deepsquare(joined_grid):
    """A claim of such a queue reverts, so the ledger must not report a claimable job."""
    number = joined_grid.request("script-1")
    joined_grid.match(number)
    joined_grid.cancel(number)

    assert queue_sizes(joined_grid).claimable == 0
    with pytest.raises(TransactionReverted, match="NoJob"):
        joined_grid.claim()


def test_running_job_is_cancelled_by_its_provider(joined_grid, claimed_number):
    joined_grid.run(claimed_number, joined_grid.ledger.head().timestamp)
    joined_grid.cancel(claimed_number)
    joined_grid.claim_cancelling()
    assert queue_sizes(joined_grid).cancelling == 0
    joined_grid.pass_time(100)
    joined_grid.settle(claimed_number, JobState.CANCELLED, seconds=61)

    job = joined_grid.job(claimed_number)
    assert (job.state, job.cancel_requested) == (JobState.CANCELLED, True)
    billed_s = joined_grid.expected.billed_s(61)
    assert job.final_cost == billing_oracle.cost(billed_s, job.price_per_min)
