# SPDX-License-Identifier: Apache-2.0
"""Whole lives of jobs through the real services on a real chain, on both generations of contracts."""

from __future__ import annotations

import pytest
from tests.adapters.chain.generations import on_both
from tests.adapters.chain.world import World
from tests.devnet import COIN

from gridstead.domain.billing import settle
from gridstead.domain.job import QueueSizes
from gridstead.domain.lifecycle import JobState
from gridstead.domain.sending import SendState

pytestmark = on_both

LOCK = 200 * COIN
RUNNING = JobState.RUNNING


@pytest.fixture
def world(chain, expected, tmp_path):
    made = World(chain, tmp_path, batch=expected.batch)
    made.join()
    yield made
    made.close()


def bill_of(world, expected, job, seconds):
    billed = expected.billed_s(seconds, job.state)
    return settle(lock=job.lock, seconds=billed, price_per_min=job.price_per_min, fee_percent=20)


def test_a_job_is_matched_claimed_run_and_paid(world, expected):
    customer, earned = world.grid.balances()
    number = world.request()
    slurm_job_id = world.running(number, RUNNING)
    world.pass_time(100)
    world.slurm.end(slurm_job_id)
    job = world.settled(number)

    attempt = world.attempt(number)
    bill = bill_of(world, expected, job, attempt.elapsed_s)
    assert (job.state, job.final_cost) == (JobState.FINISHED, bill.cost)
    assert world.grid.balances() == (customer - LOCK + bill.refund, earned + bill.provider)
    assert [user.address for user in world.users.users()] == [world.grid.customer]
    assert (job.started_at == attempt.started_at) is expected.keeps_start
    assert {*world.provider.states(), *world.operator.states()} == {SendState.FINAL}
    world.until(lambda: world.journal.open_entries() == ())


def test_several_jobs_at_once_are_all_paid(world, expected):
    numbers = [world.request(f"script-{place}") for place in range(4)]
    ids = [world.submitted(number) for number in numbers]
    for one in ids:
        world.slurm.start(one)
    world.until(lambda: all(world.job(number).state is RUNNING for number in numbers))
    world.pass_time(200)
    for one in ids:
        world.slurm.end(one)
    jobs = [world.settled(number) for number in numbers]

    assert {job.state for job in jobs} == {JobState.FINISHED}
    assert all(
        job.final_cost == bill_of(world, expected, job, world.attempt(job.id.number).elapsed_s).cost for job in jobs
    )
    assert len(world.slurm.submissions) == len(numbers)


@pytest.mark.parametrize("boundary", ["claimed", "before_submit", "submitted", "before_SetRunning", "before_Settle"])
def test_a_supervisor_that_dies_runs_and_settles_its_job_once(world, boundary):
    number = world.request()
    world.kill_at = boundary
    slurm_job_id = world.running(number, RUNNING)
    world.pass_time(100)
    world.slurm.end(slurm_job_id)
    job = world.settled(number)

    assert (world.kill_at, job.state) == (None, JobState.FINISHED)
    assert len(world.slurm.submissions) == 1
    assert sum(entry.key.startswith("settle:") for entry in world.provider.outbox.entries()) == 1


def test_a_supervisor_that_was_away_while_its_job_ran(world, expected):
    """Where the chain can be told of an earlier start nothing is lost; elsewhere a quarter of an hour is paid."""
    number = world.request()
    slurm_job_id = world.submitted(number)
    world.slurm.start(slurm_job_id)
    world.pass_time(7200)
    world.slurm.end(slurm_job_id)
    world.pass_time(3600)
    job = world.settled(number)

    billed_min = job.final_cost * 60 // job.price_per_min // 60
    assert billed_min in ({120} if expected.keeps_start else {15, 16})


def test_a_node_that_dies_costs_the_customer_as_little_as_can_be_billed(world, expected):
    customer, _ = world.grid.balances()
    number = world.request()
    slurm_job_id = world.running(number, RUNNING)
    world.pass_time(1000)
    world.slurm.end(slurm_job_id, "NODE_FAIL")
    job = world.settled(number)

    cost = bill_of(world, expected, job, 1000).cost
    assert (job.state, job.final_cost) == (JobState.PANICKED, cost)
    assert cost <= job.price_per_min
    assert world.grid.balances()[0] == customer - cost


def test_a_job_that_is_cancelled_before_it_runs_leaves_slurm_and_costs_nothing(world):
    """The contracts of DeepSquare tell its provider nothing; the supervisor sees it for itself."""
    customer, _ = world.grid.balances()
    number = world.request()
    slurm_job_id = world.submitted(number)
    world.by_hand(world.grid.cancel, number)
    world.until(lambda: not world.slurm.attempt(slurm_job_id).alive)

    assert (world.job(number).state, world.job(number).final_cost) == (JobState.CANCELLED, 0)
    assert world.grid.balances()[0] == customer


def test_a_running_job_is_cancelled_and_billed_for_what_it_used(world, expected):
    number = world.request()
    slurm_job_id = world.running(number, RUNNING)
    world.pass_time(100)
    world.by_hand(world.grid.cancel, number)
    job = world.settled(number)

    elapsed = world.slurm.attempt(slurm_job_id).elapsed_s
    assert (job.state, job.final_cost) == (JobState.CANCELLED, bill_of(world, expected, job, elapsed).cost)
    queues = world.ledger.queue_sizes(world.grid.provider, at=world.ledger.head())
    assert queues == QueueSizes(claimable=0, cancelling=0, top_up=0)


def test_a_top_up_prolongs_a_running_job(world):
    number = world.request()
    slurm_job_id = world.running(number, RUNNING)
    before = world.slurm.attempt(slurm_job_id).time_limit_min
    world.by_hand(world.grid.top_up, number, LOCK)
    world.until(lambda: world.ledger.queue_sizes(world.grid.provider, at=world.ledger.head()).top_up == 0)

    assert world.slurm.attempt(slurm_job_id).time_limit_min in {2 * before, 2 * before + 1}


def test_a_job_that_slurm_refuses_comes_back_and_is_not_matched_to_the_same_provider_again(world):
    world.slurm.reject = "no such partition"
    number = world.request()
    name = world.job(number).id.slurm_name
    for _ in range(2):  # it is tried three times, a minute apart
        for _ in range(8):
            world.step()
        assert world.job(number).state is JobState.SCHEDULED
        world.pass_time(60)
    world.until(lambda: "refused it" in world.matching.pending().get(name, ""))
    world.slurm.reject = ""
    for _ in range(5):
        world.step()

    assert world.job(number).state is JobState.PENDING
    assert world.slurm.submissions == []


def test_a_removed_provider_gives_nothing_away_and_is_paid_when_it_can_be(world, expected):
    number = world.request()
    slurm_job_id = world.running(number, RUNNING)
    before = world.slurm.attempt(slurm_job_id).time_limit_min
    world.pass_time(100)
    devnet = world.grid.devnet
    world.by_hand(devnet.as_admin.remove_provider, world.grid.provider)
    for _ in range(3):
        world.step()
    assert world.slurm.attempt(slurm_job_id).time_limit_min == before
    world.slurm.end(slurm_job_id)
    for _ in range(10):
        world.step()
    assert (world.job(number).state is RUNNING) is (not expected.settles_when_removed)

    world.join()
    job = world.settled(number)
    elapsed = world.slurm.attempt(slurm_job_id).elapsed_s
    assert (job.state, job.final_cost) == (JobState.FINISHED, bill_of(world, expected, job, elapsed).cost)


def test_a_reorg_takes_a_match_back_and_the_job_is_matched_and_run_again(world):
    number = world.request()
    world.until(lambda: world.job(number).state is JobState.META_SCHEDULED)
    world.grid.reorg(1)
    world.sync()
    slurm_job_id = world.running(number, RUNNING)
    world.pass_time(100)
    world.slurm.end(slurm_job_id)

    assert world.settled(number).state is JobState.FINISHED
    assert len(world.slurm.submissions) == 1
