# SPDX-License-Identifier: Apache-2.0
"""Jobs from request to payment, with the real services on real chains.

The chains have Gridstead's contracts ("ours") or those of DeepSquare 1.2.
"""

from __future__ import annotations

import pytest
from tests import billing_oracle
from tests.adapters.chain.generations import on_all
from tests.adapters.chain.grids import queue_sizes
from tests.adapters.chain.sender_setup import job_states
from tests.devnet import COIN

from gridstead.domain.jobs.job import QueueSizes
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.outbox import SendState

pytestmark = on_all

ESCROW = 200 * COIN


def bill_of(expected, job, elapsed_s):
    """Return the expected bill of a settled job that ran for this time."""
    billed_s = expected.billed_s(elapsed_s, job.state)
    return billing_oracle.bill(job.escrow, billed_s, job.price_per_min)


def test_job_is_matched_claimed_run_and_paid(grid_services, expected):
    customer, provider = grid_services.grid.balances()
    number = grid_services.request()
    slurm_job_id = grid_services.start_job(number)
    grid_services.pass_time(100)
    grid_services.slurm.end(slurm_job_id)
    job = grid_services.settle(number)

    attempt = grid_services.attempt(number)
    bill = bill_of(expected, job, attempt.elapsed_s)
    assert (job.state, job.final_cost) == (JobState.FINISHED, bill.cost)
    assert grid_services.grid.balances() == (
        customer - ESCROW + bill.refund,
        provider + bill.provider,
    )
    assert [user.address for user in grid_services.users.users()] == [grid_services.grid.customer]
    if expected.keeps_reported_start:
        assert job.started_at == attempt.started_at
    else:
        assert job.started_at != attempt.started_at
    assert set(grid_services.provider_sender.states()) == {SendState.FINAL}
    assert set(grid_services.operator_sender.states()) == {SendState.FINAL}
    grid_services.until(lambda: grid_services.journal.open_entries() == ())


def test_several_jobs_are_all_paid(grid_services, expected):
    numbers = [grid_services.request(f"script-{index}") for index in range(4)]
    slurm_job_ids = [grid_services.submit(number) for number in numbers]
    for slurm_job_id in slurm_job_ids:
        grid_services.slurm.start(slurm_job_id)
    grid_services.until(lambda: job_states(grid_services.grid, numbers) == {JobState.RUNNING})
    grid_services.pass_time(200)
    for slurm_job_id in slurm_job_ids:
        grid_services.slurm.end(slurm_job_id)

    for number in numbers:
        job = grid_services.settle(number)
        elapsed_s = grid_services.attempt(number).elapsed_s
        assert job.state is JobState.FINISHED
        assert job.final_cost == bill_of(expected, job, elapsed_s).cost
    assert len(grid_services.slurm.submissions) == len(numbers)


@pytest.mark.parametrize(
    "boundary", ["claimed", "before_submit", "submitted", "before_SetRunning", "before_Settle"]
)
def test_job_runs_once_and_is_settled_once_if_the_supervisor_dies(grid_services, boundary):
    number = grid_services.request()
    grid_services.crash_at = boundary
    slurm_job_id = grid_services.start_job(number)
    grid_services.pass_time(100)
    grid_services.slurm.end(slurm_job_id)
    job = grid_services.settle(number)

    assert grid_services.crash_at is None  # the supervisor died
    assert job.state is JobState.FINISHED
    assert len(grid_services.slurm.submissions) == 1
    entries = grid_services.provider_sender.outbox.entries()
    settlements = [entry for entry in entries if entry.key.startswith("settle:")]
    assert len(settlements) == 1


def test_job_that_ran_while_the_supervisor_was_down_is_paid(grid_services, expected):
    """Our contracts accept a start time in the past. DeepSquare 1.2 pays 15 or 16 minutes."""
    number = grid_services.request()
    slurm_job_id = grid_services.submit(number)
    grid_services.slurm.start(slurm_job_id)
    grid_services.pass_time(7200)
    grid_services.slurm.end(slurm_job_id)
    grid_services.pass_time(3600)
    job = grid_services.settle(number)

    billed_min = billing_oracle.billed_seconds(job.final_cost, job.price_per_min) // 60
    if expected.keeps_reported_start:
        assert billed_min == 120
    else:
        assert billed_min in {15, 16}


def test_job_that_a_node_failure_ends_costs_at_most_one_minute(grid_services, expected):
    before, _ = grid_services.grid.balances()
    number = grid_services.request()
    slurm_job_id = grid_services.start_job(number)
    grid_services.pass_time(1000)
    grid_services.slurm.end(slurm_job_id, "NODE_FAIL")
    job = grid_services.settle(number)

    cost = bill_of(expected, job, 1000).cost
    assert (job.state, job.final_cost) == (JobState.PANICKED, cost)
    assert cost <= job.price_per_min
    after, _ = grid_services.grid.balances()
    assert after == before - cost


def test_job_cancelled_before_its_start_costs_nothing(grid_services):
    """DeepSquare 1.2 does not notify the provider. The supervisor must notice the cancellation."""
    before, _ = grid_services.grid.balances()
    number = grid_services.request()
    slurm_job_id = grid_services.submit(number)
    grid_services.call_and_mine(grid_services.grid.cancel, number)
    grid_services.until(lambda: not grid_services.slurm.attempt(slurm_job_id).is_alive)
    job = grid_services.settle(number)

    assert (job.state, job.final_cost) == (JobState.CANCELLED, 0)
    after, _ = grid_services.grid.balances()
    assert after == before


def test_job_cancelled_while_its_supervisor_is_down_is_billed_until_the_request(
    grid_services, expected
):
    """The chain has not recorded the start. On contracts before 3.0.0 the whole run is free."""
    number = grid_services.request()
    slurm_job_id = grid_services.submit(number)
    grid_services.slurm.start(slurm_job_id)
    grid_services.pass_time(300)  # no service runs
    grid_services.call_and_mine(grid_services.grid.cancel, number)
    grid_services.pass_time(300)
    job = grid_services.settle(number)

    attempt = grid_services.slurm.attempt(slurm_job_id)
    run_s = job.cancel_requested_at - attempt.started_at if expected.requests_cancel else 0
    assert run_s >= 300 * expected.requests_cancel
    assert attempt.state == "CANCELLED"
    assert job.state is JobState.CANCELLED
    assert job.final_cost == billing_oracle.cost(run_s, job.price_per_min)


def test_cancelled_running_job_is_billed_for_its_time(grid_services, expected):
    number = grid_services.request()
    slurm_job_id = grid_services.start_job(number)
    grid_services.pass_time(100)
    grid_services.call_and_mine(grid_services.grid.cancel, number)
    job = grid_services.settle(number)

    elapsed_s = grid_services.slurm.attempt(slurm_job_id).elapsed_s
    assert job.state is JobState.CANCELLED
    assert job.final_cost == bill_of(expected, job, elapsed_s).cost
    assert queue_sizes(grid_services.grid) == QueueSizes(claimable=0, cancelling=0, top_up=0)


def test_top_up_extends_a_running_job(grid_services):
    number = grid_services.request()
    slurm_job_id = grid_services.start_job(number)
    before = grid_services.slurm.attempt(slurm_job_id).time_limit_min
    grid_services.call_and_mine(grid_services.grid.top_up, number, ESCROW)
    grid_services.until(lambda: queue_sizes(grid_services.grid).top_up == 0)

    # The escrow is doubled. Time limits are rounded down to minutes.
    assert grid_services.slurm.attempt(slurm_job_id).time_limit_min in {2 * before, 2 * before + 1}


def test_job_refused_by_slurm_is_not_matched_to_the_provider_again(grid_services):
    grid_services.slurm.reject = "no such partition"
    number = grid_services.request()
    job_id = grid_services.job(number).id
    # The supervisor submits three times, a minute apart. The third attempt is made below.
    for _ in range(2):
        grid_services.repeat_steps(8)
        assert grid_services.job(number).state is JobState.SCHEDULED
        grid_services.pass_time(60)
    grid_services.until(lambda: "refused it" in grid_services.matching.pending().get(job_id, ""))
    grid_services.slurm.reject = ""
    grid_services.repeat_steps(5)

    assert grid_services.job(number).state is JobState.PENDING
    assert grid_services.slurm.submissions == []


def test_removed_provider_does_not_extend_jobs_and_is_paid_later(grid_services, expected):
    number = grid_services.request()
    slurm_job_id = grid_services.start_job(number)
    before = grid_services.slurm.attempt(slurm_job_id).time_limit_min
    grid_services.pass_time(100)
    devnet = grid_services.grid.devnet
    grid_services.call_and_mine(devnet.as_admin.remove_provider, grid_services.grid.provider)
    grid_services.repeat_steps(3)
    assert grid_services.slurm.attempt(slurm_job_id).time_limit_min == before
    grid_services.slurm.end(slurm_job_id)
    grid_services.repeat_steps(10)
    if expected.settles_when_removed:
        assert grid_services.job(number).state is JobState.FINISHED
    else:
        assert grid_services.job(number).state is JobState.RUNNING

    grid_services.join()
    job = grid_services.settle(number)
    elapsed_s = grid_services.slurm.attempt(slurm_job_id).elapsed_s
    assert job.state is JobState.FINISHED
    assert job.final_cost == bill_of(expected, job, elapsed_s).cost


def test_job_whose_match_is_lost_in_a_reorg_is_matched_again(grid_services):
    number = grid_services.request()
    grid_services.until(lambda: grid_services.job(number).state is JobState.META_SCHEDULED)
    grid_services.grid.reorg(1)
    grid_services.sync()
    slurm_job_id = grid_services.start_job(number)
    grid_services.pass_time(100)
    grid_services.slurm.end(slurm_job_id)

    assert grid_services.settle(number).state is JobState.FINISHED
    assert len(grid_services.slurm.submissions) == 1
