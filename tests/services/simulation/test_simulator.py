# SPDX-License-Identifier: Apache-2.0
"""Tests of the simulator on grids that are small enough to compute the result by hand.

A block takes 2 s, and a match reaches its provider 6 s later. The settlement is on the chain 14 s
after the end of a job.
"""

from __future__ import annotations

import pytest
from tests.services.simulation.builders import CREDIT, job, provider, simulate

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.decisions import Rules
from gridstead.domain.matching.policies import POLICIES
from gridstead.services.simulation.simulator import CHEAPEST_FIRST, SimulatedGrid, Simulator

ALL_POLICIES = [CHEAPEST_FIRST, *POLICIES]


def times(outcome):
    return [(run.started_at, run.ended_at) for run in outcome.runs]


@pytest.mark.parametrize("policy", ALL_POLICIES)
def test_job_starts_after_the_next_block_and_the_claim(policy):
    outcome, _ = simulate([job(5, run_s=60)], provider("only", 4, price=2), policy=policy)

    # Submitted at 5, decided at 6, claimed at 12.
    (run,) = outcome.runs
    assert (run.provider, run.started_at, run.ended_at) == ("only", 12, 72)
    assert run.cost(outcome.now) == 2 * CREDIT
    assert run.seconds_waited(outcome.now) == 7


def test_second_job_is_matched_after_the_settlement_of_the_first():
    jobs = [job(1, cpus=4, run_s=90), job(1, cpus=4, run_s=60)]

    outcome, _ = simulate(jobs, provider("only", 4, price=1))

    # The first ends at 8 + 90 and is settled at 112. The next block is decided at 114.
    assert times(outcome) == [(8, 98), (120, 180)]
    assert [run.cost(outcome.now) for run in outcome.runs] == [6 * CREDIT, 4 * CREDIT]
    assert outcome.matches == 2


def test_second_job_waits_in_the_queue_of_its_provider_with_cheapest_first():
    jobs = [job(1, cpus=4, run_s=90), job(1, cpus=4, run_s=60)]
    providers = (provider("cheap", 4, price=1), provider("dear", 4, price=2))

    outcome, _ = simulate(jobs, *providers, policy=CHEAPEST_FIRST)

    assert times(outcome) == [(8, 98), (98, 158)]
    assert {run.provider for run in outcome.runs} == {"cheap"}


@pytest.mark.parametrize(
    ("policy", "second_provider"),
    [("cheapest", "cheap"), ("balanced", "cheap"), ("soonest", "dear")],
)
def test_second_job_waits_for_the_cheaper_provider_if_the_policy_says_so(policy, second_provider):
    # Waiting for 102 s costs less than the difference of the prices for 600 s.
    jobs = [job(1, cpus=4, run_s=90), job(1, cpus=4, run_s=600)]
    providers = (provider("cheap", 4, price=1), provider("dear", 4, price=3))

    outcome, _ = simulate(jobs, *providers, policy=policy)

    assert [run.provider for run in outcome.runs] == ["cheap", second_provider]


def test_panicked_job_costs_nothing_and_is_a_fault_of_its_provider():
    only_provider = provider("only", 4, price=1)
    grid = SimulatedGrid(
        providers=[only_provider],
        credits_by_customer={"ada": 100 * CREDIT},
        end_state=lambda _job, _provider: JobState.PANICKED,
    )
    jobs = [job(1, run_s=60), job(400, run_s=60)]
    simulator = Simulator(grid, jobs, Rules(), policy="balanced")

    outcome = simulator.run()

    assert [run.cost(outcome.now) for run in outcome.runs] == [0, 0]
    assert simulator._matcher.reputation.standing("only").success < 1_000_000


def test_job_that_its_customer_cannot_pay_is_refused():
    # The escrow is 10 credits until the settlement at 8 + 600 + 14, which returns nothing.
    jobs = [job(1), job(2), job(623)]

    outcome, _ = simulate(
        jobs, provider("only", 4, price=1), credits_by_customer={"ada": 15 * CREDIT}
    )

    assert len(outcome.runs) == 1
    assert outcome.refused == {"ada": 2}


def test_unused_escrow_is_refunded():
    jobs = [job(1, run_s=60, paid_s=600), job(100)]

    outcome, _ = simulate(
        jobs, provider("only", 4, price=1), credits_by_customer={"ada": 11 * CREDIT}
    )

    assert outcome.refused == {}
    assert [run.escrow for run in outcome.runs] == [10 * CREDIT, 10 * CREDIT]
    assert [run.cost(outcome.now) for run in outcome.runs] == [CREDIT, 10 * CREDIT]


def test_escrow_pays_for_the_job_at_each_provider_that_can_run_it():
    providers = (provider("cheap", 4, price=1), provider("dear", 4, price=3))
    small = provider("too small", 1, price=9)

    outcome, _ = simulate([job(1, cpus=4)], *providers, small)

    (run,) = outcome.runs
    assert run.escrow == 3 * 4 * 10 * CREDIT


def test_job_ends_when_its_paid_time_ends():
    outcome, _ = simulate([job(1, run_s=600, paid_s=120)], provider("only", 4, price=1))

    assert times(outcome) == [(8, 128)]


def test_running_and_waiting_jobs_count_with_their_time_so_far():
    jobs = [job(1, cpus=4, run_s=90), job(1, cpus=4, run_s=60)]
    only = provider("only", 4, price=1)

    outcome, _ = simulate(jobs, only, until_s=50)

    first, second = outcome.runs
    assert outcome.now == 50
    assert (first.started_at, first.ended_at, first.seconds_run(50)) == (8, None, 42)
    assert first.cost(50) == 42 * 4 * CREDIT // 60
    assert (second.started_at, second.seconds_waited(50), second.cost(50)) == (None, 49, 0)


def test_simulation_in_steps_has_the_same_outcome():
    jobs = [job(number, run_s=100 + number, cpus=1 + number % 4) for number in range(40)]
    only = provider("only", 4, 4, price=1)
    outcome, _ = simulate(jobs, only, until_s=2000)

    grid = SimulatedGrid(providers=(only,), credits_by_customer={"ada": 10**6 * CREDIT})
    simulator = Simulator(grid, jobs, Rules(), policy="balanced")
    for time in range(0, 2001, 50):
        simulator.run(time)

    assert simulator.outcome == outcome
