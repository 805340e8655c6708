# SPDX-License-Identifier: Apache-2.0
"""Tests of the reservations that decisions make, keep, move and remove.

FIRST has one node of 4 CPUs. At first, job 9 uses all of them until NOW + 600.
"""

import pytest
from tests.unit.domain.builders import job_id
from tests.unit.domain.matching.grids import (
    BOB,
    CAROL,
    FIRST,
    NOW,
    SECOND,
    THIRD,
    decide,
    finished_job,
    matched_job,
    matcher,
    occupant,
    pending_job,
    provider,
    reservations,
    set_jobs,
)

from gridstead.domain.matching.decisions import Limits
from gridstead.domain.matching.policies import BALANCED, CHEAPEST, SOONEST

OCCUPANT = occupant(9, until_s=600)
LARGE_JOB = pending_job(1, 4, escrow=240)


def full_grid(*jobs, **rules):
    """Return a grid with FIRST, OCCUPANT, and these jobs, after a decision."""
    grid = matcher(provider(), jobs=[OCCUPANT, *jobs], **rules)
    assert decide(grid) == []
    return grid


def test_job_without_room_gets_a_reservation():
    assert reservations(full_grid(LARGE_JOB)) == {1: (FIRST, NOW + 600)}


def test_only_the_oldest_job_of_a_customer_gets_a_reservation():
    grid = matcher(
        provider(),
        provider(SECOND),
        jobs=[OCCUPANT, occupant(8, until_s=60, address=SECOND), pending_job(2, 4), LARGE_JOB],
    )
    decide(grid)
    decide(grid)

    assert reservations(grid) == {1: (SECOND, NOW + 60)}


def test_job_that_loses_its_reservation_is_of_the_same_kind_as_equal_jobs_again():
    grid = full_grid(LARGE_JOB, pending_job(2, 4, escrow=240))
    kinds = grid.queues[LARGE_JOB.customer].kinds
    assert kinds[job_id(1)] != kinds[job_id(2)]

    grid.set_provider(provider(is_joined=False))
    decide(grid)

    assert reservations(grid) == {}
    assert kinds[job_id(1)] == kinds[job_id(2)]


def test_provider_has_one_reservation():
    grid = full_grid(LARGE_JOB, pending_job(2, 4, customer=BOB, escrow=240))

    assert reservations(grid) == {1: (FIRST, NOW + 600)}


def test_later_short_job_uses_the_room_until_the_reservation():
    """3 of 4 CPUs are used until NOW + 600. The jobs 2 and 3 are paid for 600 and 660 seconds."""
    grid = matcher(provider(), jobs=[occupant(9, 3, until_s=600), LARGE_JOB])
    decide(grid)

    set_jobs(grid, pending_job(2, customer=BOB, escrow=11))
    assert decide(grid) == []

    set_jobs(grid, pending_job(3, customer=BOB, escrow=10))
    assert decide(grid) == [(3, FIRST)]
    assert reservations(grid)[1] == (FIRST, NOW + 600)


def test_job_with_a_reservation_is_matched_when_there_is_room():
    grid = full_grid(LARGE_JOB)

    set_jobs(grid, finished_job(OCCUPANT))

    assert decide(grid, now=NOW + 300) == [(1, FIRST)]
    assert reservations(grid) == {}
    assert grid.clusters[FIRST].reservation is None


def test_customer_may_get_another_reservation_in_the_decision_after_its_match():
    grid = full_grid(LARGE_JOB, pending_job(2, 4, escrow=240))
    set_jobs(grid, finished_job(OCCUPANT))

    assert decide(grid) == [(1, FIRST)]
    assert reservations(grid) == {}

    assert decide(grid) == []
    assert reservations(grid) == {2: (FIRST, NOW + 3600)}


def test_reservation_goes_to_the_next_customer_after_the_match_of_a_late_one():
    """ALICE got a reservation first. Then she used more than BOB, who waits for the same room."""
    grid = full_grid(LARGE_JOB, pending_job(2, 4, escrow=240))
    used = finished_job(matched_job(8, 4, escrow=10_000), cost=10_000)
    set_jobs(grid, used, pending_job(3, 4, customer=BOB, escrow=240), finished_job(OCCUPANT))

    assert decide(grid) == [(1, FIRST)]
    decide(grid)

    assert reservations(grid) == {3: (FIRST, NOW + 3600)}


def test_job_with_a_reservation_may_be_matched_to_another_provider():
    grid = full_grid(LARGE_JOB)
    grid.set_provider(provider(SECOND))

    assert decide(grid) == [(1, SECOND)]
    assert grid.clusters[FIRST].reservation is None


def test_reserved_job_is_not_blocked_by_an_equal_job_of_another_customer():
    """BOB has used less, so BOB's equal job is tried first."""
    grid = full_grid(LARGE_JOB, finished_job(matched_job(8), cost=1000))
    set_jobs(grid, pending_job(2, 4, customer=BOB, escrow=240), finished_job(OCCUPANT))

    assert decide(grid) == [(1, FIRST)]


def test_reserved_job_is_not_blocked_by_an_older_equal_job_that_came_back():
    grid = matcher(provider(), jobs=[LARGE_JOB])
    assert decide(grid) == [(1, FIRST)]
    set_jobs(grid, pending_job(2, 4, escrow=240))
    assert decide(grid) == []

    set_jobs(grid, LARGE_JOB)

    assert decide(grid) == [(2, FIRST)]


def test_reserved_job_whose_values_are_set_again_is_not_blocked_by_an_equal_job():
    grid = full_grid(LARGE_JOB, finished_job(matched_job(8), cost=1000))
    set_jobs(grid, pending_job(2, 4, customer=BOB, escrow=240), finished_job(OCCUPANT), LARGE_JOB)

    assert decide(grid) == [(1, FIRST)]


@pytest.mark.parametrize(
    ("policy", "reserved"),
    [
        # The job is paid for 60 minutes at SECOND. It costs 120 wei there, and 60 wei at FIRST.
        (SOONEST, (SECOND, NOW + 60)),
        (CHEAPEST, (FIRST, NOW + 36_000)),
        (BALANCED, (SECOND, NOW + 60)),
    ],
)
def test_policy_decides_which_provider_is_reserved(policy, reserved):
    grid = matcher(
        provider(FIRST),
        provider(SECOND, price=2),
        jobs=[
            occupant(8, until_s=36_000),
            occupant(9, until_s=60, address=SECOND, price=2),
            pending_job(1, escrow=120),
        ],
        policy=policy,
    )

    assert decide(grid) == []
    assert reservations(grid) == {1: reserved}


@pytest.mark.parametrize(("until_s", "reserved"), [(7245, FIRST), (7260, SECOND)])
def test_balanced_reservation_compares_the_prices_of_running_and_waiting(until_s, reserved):
    """The escrow of 120 wei pays 120 minutes at FIRST, and 120 minutes at SECOND cost 120 more.

    An earlier start by 7200 seconds at 1 wei per minute is worth as much. The earlier start decides
    between equal scores.
    """
    grid = matcher(
        provider(FIRST),
        provider(SECOND, price=2),
        jobs=[
            occupant(8, until_s=until_s),
            occupant(9, until_s=60, address=SECOND, price=2),
            pending_job(1, escrow=120),
        ],
    )

    decide(grid)

    assert reservations(grid)[1][0] == reserved


def test_cheapest_reservation_ignores_how_the_paid_minutes_are_rounded():
    """An escrow of 10 wei pays 3 minutes at 3 wei (9 wei), and 2 minutes at 4 wei (8 wei)."""
    grid = matcher(
        provider(FIRST, price=3),
        provider(SECOND, price=4),
        jobs=[
            occupant(8, until_s=600, price=3),
            occupant(9, until_s=600, price=4, address=SECOND),
            pending_job(1, escrow=10),
        ],
        policy=CHEAPEST,
    )

    decide(grid)

    assert reservations(grid) == {1: (FIRST, NOW + 600)}


def test_cheapest_policy_reserves_no_provider_at_which_the_job_would_never_start():
    grid = full_grid(LARGE_JOB, policy=CHEAPEST)
    grid.set_provider(provider(SECOND, price=2))

    set_jobs(grid, pending_job(2, 4, customer=BOB, escrow=480))

    assert decide(grid) == []
    assert reservations(grid) == {1: (FIRST, NOW + 600)}


def test_provider_with_the_earliest_room_for_the_tasks_is_reserved():
    """The sums of free CPUs at FIRST suffice now, but a node of FIRST is free only later."""
    grid = matcher(
        provider(FIRST, 4, 4),
        provider(SECOND),
        provider(THIRD),
        jobs=[
            occupant(6, 3, until_s=1200),
            occupant(7, 3, until_s=1200),
            occupant(8, until_s=900, address=THIRD),
            occupant(9, until_s=600, address=SECOND),
            pending_job(1, 2, escrow=120),
        ],
    )

    decide(grid)

    assert reservations(grid) == {1: (SECOND, NOW + 600)}


def test_exact_times_are_compared_if_the_estimates_are_equal():
    """Both providers have 2 free CPUs, but on different nodes."""
    grid = matcher(
        provider(FIRST, 4, 4),
        provider(SECOND, 4, 4),
        jobs=[
            occupant(6, 3, until_s=600),
            occupant(7, 3, until_s=600),
            occupant(8, 3, until_s=1200, address=SECOND),
            occupant(9, 3, until_s=1200, address=SECOND),
            pending_job(1, 2, escrow=120),
        ],
    )

    decide(grid)

    assert reservations(grid) == {1: (FIRST, NOW + 600)}


def test_first_of_providers_with_equal_scores_is_reserved_in_the_order_of_addresses():
    grid = matcher(
        provider(SECOND),
        provider(FIRST),
        jobs=[OCCUPANT, occupant(8, until_s=600, address=SECOND), LARGE_JOB],
    )

    decide(grid)

    assert reservations(grid) == {1: (FIRST, NOW + 600)}


@pytest.mark.parametrize("escrow", [3, 240])
def test_provider_that_may_not_get_the_job_is_not_reserved(escrow):
    """A minute costs 4 wei. The second job is excluded from FIRST."""
    grid = matcher(provider(), jobs=[OCCUPANT, pending_job(1, 4, escrow=escrow)])
    grid.set_limits(job_id(1), Limits(excluded={FIRST: "refused it"} if escrow > 3 else {}))

    decide(grid)

    assert reservations(grid) == {}


def test_job_gets_a_reservation_after_another_customer_could_get_none():
    """No provider can be reserved for the kind of jobs 2 and 3. ALICE has another kind of job."""
    grid = full_grid(LARGE_JOB)
    set_jobs(
        grid,
        pending_job(2, 4, customer=BOB, escrow=240),
        pending_job(3, 4, customer=CAROL, escrow=240),
        pending_job(4, 3, customer=BOB, escrow=240),
    )
    grid.set_provider(provider(SECOND, 3))
    set_jobs(grid, occupant(8, 3, until_s=60, address=SECOND))

    decide(grid)

    assert reservations(grid) == {1: (FIRST, NOW + 600), 4: (SECOND, NOW + 60)}
