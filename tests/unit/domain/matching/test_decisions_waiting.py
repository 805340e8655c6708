# SPDX-License-Identifier: Apache-2.0
"""Tests of the choice between a provider with room and a cheaper provider without room.

FIRST costs 1 wei per CPU and minute and is full. SECOND costs 2 wei and has room. The escrow of 120
wei pays 60 minutes at SECOND. So a job at SECOND costs 60 minutes more than at FIRST, and with
equal prices of running and waiting, 30 minutes of waiting at 2 wei cost as much as this.
"""

import pytest
from tests.unit.domain.builders import job_id
from tests.unit.domain.matching.grids import (
    BLOCK,
    BOB,
    FIRST,
    NOW,
    SECOND,
    THIRD,
    decide,
    matched_job,
    matcher,
    occupant,
    pending_job,
    provider,
    reservations,
    set_jobs,
)

from gridstead.domain.matching.choice import MAX_COMPARED, MAX_START_BLOCKS
from gridstead.domain.matching.decisions import Limits
from gridstead.domain.matching.policies import BALANCED, CHEAPEST, SOONEST, Policy

JOB = pending_job(1, escrow=120)


def grid_with(*jobs, policy=BALANCED, max_new_reservations=50, **changes):
    """Return a grid with FIRST, SECOND, and these jobs."""
    return matcher(
        provider(FIRST, **changes),
        provider(SECOND, price=2),
        jobs=[JOB, *jobs],
        policy=policy,
        max_new_reservations=max_new_reservations,
    )


@pytest.mark.parametrize(
    ("policy", "until_s", "matched"),
    [
        (BALANCED, 1785, []),
        (BALANCED, 1800, [(1, SECOND)]),
        (SOONEST, 15, [(1, SECOND)]),
        (CHEAPEST, 360_000, []),
        (Policy("patient", 50), 3585, []),
        (Policy("patient", 50), 3600, [(1, SECOND)]),
    ],
)
def test_job_waits_for_a_cheaper_provider_if_waiting_costs_less(policy, until_s, matched):
    grid = grid_with(occupant(9, until_s=until_s), policy=policy)

    assert decide(grid) == matched


@pytest.mark.parametrize("policy", [BALANCED, CHEAPEST, SOONEST])
def test_job_does_not_wait_if_the_cheapest_provider_has_room(policy):
    assert decide(grid_with(policy=policy)) == [(1, FIRST)]


@pytest.mark.parametrize("policy", [BALANCED, CHEAPEST])
def test_job_does_not_wait_for_an_excluded_provider(policy):
    grid = grid_with(occupant(9, until_s=15), policy=policy)
    grid.set_limits(job_id(1), Limits(excluded={FIRST: "refused it"}))

    assert decide(grid) == [(1, SECOND)]


@pytest.mark.parametrize("policy", [BALANCED, CHEAPEST])
def test_job_does_not_wait_for_a_provider_that_is_excluded_now(policy):
    grid = grid_with(occupant(9, until_s=15), policy=policy)

    assert decide(grid, excluded_providers={FIRST: "skipped"}) == [(1, SECOND)]


def test_job_does_not_wait_for_a_provider_that_is_reserved_for_another_job():
    grid = grid_with(occupant(9, until_s=60), pending_job(2, 4, customer=BOB, escrow=4))
    grid.set_limits(job_id(1), Limits(excluded={FIRST: "refused it", SECOND: "refused it"}))
    decide(grid)
    assert reservations(grid) == {2: (FIRST, NOW + 60)}

    grid.set_limits(job_id(1), Limits())

    assert decide(grid) == [(1, SECOND)]


def test_jobs_of_one_class_do_not_wait_for_a_provider_that_is_full_for_long():
    grid = grid_with(occupant(9, until_s=36_000), pending_job(2, escrow=120))

    assert decide(grid) == [(1, SECOND), (2, SECOND)]


def test_job_with_a_higher_escrow_may_wait_although_another_of_its_class_does_not():
    grid = grid_with(occupant(9, until_s=1800), pending_job(2, escrow=1200))

    assert decide(grid) == [(1, SECOND)]


def test_job_waits_for_the_provider_that_is_reserved_for_it():
    grid = grid_with(occupant(9, until_s=600))

    assert decide(grid) == []
    assert reservations(grid) == {1: (FIRST, NOW + 600)}
    assert decide(grid, now=NOW + 60) == []


def test_job_does_not_wait_if_room_for_a_task_comes_later_than_the_sum_of_free_cpus():
    """FIRST has one free CPU on each of two nodes, and the task needs 2 CPUs of one node."""
    jobs = [occupant(8, 3, until_s=36_000), occupant(9, 3, until_s=36_000)]
    job = pending_job(1, 2, escrow=240)
    grid = matcher(provider(FIRST, 4, 4), provider(SECOND, price=2), jobs=[job, *jobs])

    assert decide(grid) == [(1, SECOND)]


def test_job_does_not_wait_for_a_provider_with_more_claim_timeouts():
    grid = grid_with(occupant(9, until_s=15))
    grid.set_limits(job_id(1), Limits(timeout_counts={FIRST: 1}))

    assert decide(grid) == [(1, SECOND)]


@pytest.mark.parametrize(
    ("count", "matched"), [(MAX_COMPARED - 1, []), (MAX_COMPARED, [(1, SECOND)])]
)
def test_number_of_compared_providers_is_limited(count, matched):
    """FIRST is worth waiting for. Some cheaper providers are not, and are compared before it."""
    providers = [provider(FIRST, price=2), provider(SECOND, price=4)]
    jobs = [pending_job(1, escrow=240), occupant(100, until_s=15, price=2)]
    for index in range(count):
        address = f"0x{index:040x}"
        providers.append(provider(address))
        jobs.append(occupant(200 + index, address=address, until_s=36_000_000))

    assert decide(matcher(*providers, jobs=jobs)) == matched


def test_waiting_time_of_a_second_cheaper_provider_counts():
    """FIRST is full for 10 hours. THIRD costs as much as FIRST and is full for a minute."""
    grid = matcher(
        provider(FIRST),
        provider(SECOND, price=2),
        provider(THIRD),
        jobs=[JOB, occupant(8, until_s=36_000), occupant(9, until_s=60, address=THIRD)],
    )

    assert decide(grid) == []
    assert reservations(grid) == {1: (THIRD, NOW + 60)}


def test_free_provider_is_worth_any_waiting_time_that_costs_less():
    """At FIRST the job is free. The hour at SECOND costs as much as an hour of waiting."""
    matched = []
    for until_s in (3585, 3600):
        grid = grid_with(occupant(9, until_s=until_s), price=0)
        grid.set_job(
            matched_job(9, 4, escrow=until_s // 15, started_at=NOW, price=1),
            requested_block=1,
            matched_block=1,
        )
        matched.append(decide(grid))

    assert matched == [[], [(1, SECOND)]]


def test_job_that_waits_for_a_cheaper_provider_gives_up_its_reservation_with_room():
    """The job prefers SECOND in 600 s to FIRST in 14,400 s, and FIRST in 60 s to SECOND now."""
    far_occupant = occupant(9, until_s=14_400)
    grid = matcher(
        provider(FIRST),
        provider(SECOND, price=2),
        jobs=[JOB, far_occupant, occupant(8, until_s=600, address=SECOND, price=2)],
    )
    assert decide(grid) == []
    assert reservations(grid) == {1: (SECOND, NOW + 600)}

    grid.remove_job(job_id(8))
    grid.remove_job(job_id(9))
    set_jobs(grid, occupant(7, until_s=60))

    assert decide(grid) == []
    assert reservations(grid) == {1: (FIRST, NOW + 60)}


def test_jobs_of_one_class_wait_for_the_same_provider():
    other_job = pending_job(2, escrow=240, customer=BOB)
    grid = matcher(
        provider(FIRST),
        provider(SECOND, price=2),
        jobs=[JOB, other_job, occupant(9, until_s=60)],
        max_new_reservations=0,
    )

    assert decide(grid) == []


def test_job_does_not_wait_for_a_job_that_should_have_started():
    grid = grid_with(occupant(9, until_s=60, started_at=0), max_new_reservations=0)

    assert decide(grid, block=BLOCK + MAX_START_BLOCKS) == []
    assert decide(grid, block=BLOCK + MAX_START_BLOCKS + 1) == [(1, SECOND)]
