# SPDX-License-Identifier: Apache-2.0
"""Jobs from request to payment, with real services on a real chain, on both generations."""

from __future__ import annotations

import pytest
from tests import billing_oracle
from tests.adapters.chain.generations import on_both
from tests.adapters.chain.grid_setup import GridServices
from tests.devnet import COIN

from gridstead.domain.jobs.job import QueueSizes
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.outbox import SendState

pytestmark = on_both

ESCROW = 200 * COIN
RUNNING = JobState.RUNNING


@pytest.fixture
def grid_services(chain, expected, tmp_path):
    services = GridServices(chain, tmp_path, batch=expected.batch)
    services.join()
    yield services
    services.close()


def bill_of(grid_services, expected, job, seconds):
    billed = expected.billed_s(seconds, job.state)
    return billing_oracle.bill(job.escrow, billed, job.price_per_min)


def test_job_is_matched_claimed_run_and_paid(grid_services, expected):
    customer, earned = grid_services.grid.balances()
    number = grid_services.request()
    slurm_job_id = grid_services.running(number, RUNNING)
    grid_services.pass_time(100)
    grid_services.slurm.end(slurm_job_id)
    job = grid_services.settled(number)

    attempt = grid_services.attempt(number)
    bill = bill_of(grid_services, expected, job, attempt.elapsed_s)
    assert (job.state, job.final_cost) == (JobState.FINISHED, bill.cost)
    assert grid_services.grid.balances() == (
        customer - ESCROW + bill.refund,
        earned + bill.provider,
    )
    assert [user.address for user in grid_services.users.users()] == [grid_services.grid.customer]
    assert (job.started_at == attempt.started_at) is expected.keeps_start
    assert {*grid_services.provider.states(), *grid_services.operator.states()} == {SendState.FINAL}
    grid_services.until(lambda: grid_services.journal.open_entries() == ())


def test_several_jobs_are_all_paid(grid_services, expected):
    numbers = [grid_services.request(f"script-{place}") for place in range(4)]
    ids = [grid_services.submitted(number) for number in numbers]
    for slurm_job_id in ids:
        grid_services.slurm.start(slurm_job_id)
    grid_services.until(
        lambda: all(grid_services.job(number).state is RUNNING for number in numbers)
    )
    grid_services.pass_time(200)
    for slurm_job_id in ids:
        grid_services.slurm.end(slurm_job_id)
    jobs = [grid_services.settled(number) for number in numbers]

    for job in jobs:
        seconds = grid_services.attempt(job.id.number).elapsed_s
        assert job.state is JobState.FINISHED
        assert job.final_cost == bill_of(grid_services, expected, job, seconds).cost
    assert len(grid_services.slurm.submissions) == len(numbers)


@pytest.mark.parametrize(
    "boundary", ["claimed", "before_submit", "submitted", "before_SetRunning", "before_Settle"]
)
def test_supervisor_that_dies_runs_and_settles_its_job_once(grid_services, boundary):
    number = grid_services.request()
    grid_services.failpoint = boundary
    slurm_job_id = grid_services.running(number, RUNNING)
    grid_services.pass_time(100)
    grid_services.slurm.end(slurm_job_id)
    job = grid_services.settled(number)

    assert (grid_services.failpoint, job.state) == (None, JobState.FINISHED)
    assert len(grid_services.slurm.submissions) == 1
    keys = [entry.key for entry in grid_services.provider.outbox.entries()]
    assert sum(key.startswith("settle:") for key in keys) == 1


def test_supervisor_that_was_down_during_a_job(grid_services, expected):
    """Our contracts accept the earlier start; plain DeepSquare pays for 15 minutes."""
    number = grid_services.request()
    slurm_job_id = grid_services.submitted(number)
    grid_services.slurm.start(slurm_job_id)
    grid_services.pass_time(7200)
    grid_services.slurm.end(slurm_job_id)
    grid_services.pass_time(3600)
    job = grid_services.settled(number)

    billed_min = billing_oracle.billed_seconds(job.final_cost, job.price_per_min) // 60
    assert billed_min in ({120} if expected.keeps_start else {15, 16})


def test_node_failure_costs_the_customer_the_minimum(grid_services, expected):
    customer, _ = grid_services.grid.balances()
    number = grid_services.request()
    slurm_job_id = grid_services.running(number, RUNNING)
    grid_services.pass_time(1000)
    grid_services.slurm.end(slurm_job_id, "NODE_FAIL")
    job = grid_services.settled(number)

    cost = bill_of(grid_services, expected, job, 1000).cost
    assert (job.state, job.final_cost) == (JobState.PANICKED, cost)
    assert cost <= job.price_per_min
    assert grid_services.grid.balances()[0] == customer - cost


def test_job_cancelled_before_its_start_costs_nothing(grid_services):
    """Plain DeepSquare does not notify the provider; the supervisor detects the cancellation."""
    customer, _ = grid_services.grid.balances()
    number = grid_services.request()
    slurm_job_id = grid_services.submitted(number)
    grid_services.by_hand(grid_services.grid.cancel, number)
    grid_services.until(lambda: not grid_services.slurm.attempt(slurm_job_id).is_alive)

    assert (grid_services.job(number).state, grid_services.job(number).final_cost) == (
        JobState.CANCELLED,
        0,
    )
    assert grid_services.grid.balances()[0] == customer


def test_cancelled_running_job_is_billed_for_its_time(grid_services, expected):
    number = grid_services.request()
    slurm_job_id = grid_services.running(number, RUNNING)
    grid_services.pass_time(100)
    grid_services.by_hand(grid_services.grid.cancel, number)
    job = grid_services.settled(number)

    elapsed = grid_services.slurm.attempt(slurm_job_id).elapsed_s
    assert (job.state, job.final_cost) == (
        JobState.CANCELLED,
        bill_of(grid_services, expected, job, elapsed).cost,
    )
    queues = grid_services.ledger.queue_sizes(
        grid_services.grid.provider, at_block=grid_services.ledger.head()
    )
    assert queues == QueueSizes(claimable=0, cancelling=0, top_up=0)


def test_top_up_extends_a_running_job(grid_services):
    number = grid_services.request()
    slurm_job_id = grid_services.running(number, RUNNING)
    before = grid_services.slurm.attempt(slurm_job_id).time_limit_min
    grid_services.by_hand(grid_services.grid.top_up, number, ESCROW)
    grid_services.until(
        lambda: (
            grid_services.ledger.queue_sizes(
                grid_services.grid.provider, at_block=grid_services.ledger.head()
            ).top_up
            == 0
        )
    )

    assert grid_services.slurm.attempt(slurm_job_id).time_limit_min in {2 * before, 2 * before + 1}


def test_job_refused_by_slurm_is_not_matched_to_the_provider_again(
    grid_services,
):
    grid_services.slurm.reject = "no such partition"
    number = grid_services.request()
    job_id = grid_services.job(number).id
    for _ in range(2):  # there are three attempts, a minute apart
        for _ in range(8):
            grid_services.step()
        assert grid_services.job(number).state is JobState.SCHEDULED
        grid_services.pass_time(60)
    grid_services.until(lambda: "refused it" in grid_services.matching.pending().get(job_id, ""))
    grid_services.slurm.reject = ""
    for _ in range(5):
        grid_services.step()

    assert grid_services.job(number).state is JobState.PENDING
    assert grid_services.slurm.submissions == []


def test_removed_provider_does_not_extend_jobs_and_is_paid_later(grid_services, expected):
    number = grid_services.request()
    slurm_job_id = grid_services.running(number, RUNNING)
    before = grid_services.slurm.attempt(slurm_job_id).time_limit_min
    grid_services.pass_time(100)
    devnet = grid_services.grid.devnet
    grid_services.by_hand(devnet.as_admin.remove_provider, grid_services.grid.provider)
    for _ in range(3):
        grid_services.step()
    assert grid_services.slurm.attempt(slurm_job_id).time_limit_min == before
    grid_services.slurm.end(slurm_job_id)
    for _ in range(10):
        grid_services.step()
    assert (grid_services.job(number).state is RUNNING) is (not expected.settles_when_removed)

    grid_services.join()
    job = grid_services.settled(number)
    elapsed = grid_services.slurm.attempt(slurm_job_id).elapsed_s
    assert (job.state, job.final_cost) == (
        JobState.FINISHED,
        bill_of(grid_services, expected, job, elapsed).cost,
    )


def test_job_whose_match_is_lost_in_a_reorg_is_matched_again(grid_services):
    number = grid_services.request()
    grid_services.until(lambda: grid_services.job(number).state is JobState.META_SCHEDULED)
    grid_services.grid.reorg(1)
    grid_services.sync()
    slurm_job_id = grid_services.running(number, RUNNING)
    grid_services.pass_time(100)
    grid_services.slurm.end(slurm_job_id)

    assert grid_services.settled(number).state is JobState.FINISHED
    assert len(grid_services.slurm.submissions) == 1
