# SPDX-License-Identifier: Apache-2.0
"""Tests of the order of the customers and of the limits of one decision.

Each provider has one node of 4 CPUs, so it has room for one job of 4 CPUs.
"""

import pytest
from tests.unit.domain.builders import job_id
from tests.unit.domain.matching.grids import (
    ALICE,
    BLOCK,
    BOB,
    CREDITS,
    FIRST,
    MINT,
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


def numbers(grid, **arguments):
    """Return the numbers of the jobs that the next decision matches."""
    return [number for number, _ in decide(grid, **arguments)]


def jobs_of(customer, *job_numbers, **changes):
    return [pending_job(number, customer=customer, **changes) for number in job_numbers]


def test_nothing_is_decided_without_jobs():
    decision = matcher(provider()).decide(now=NOW, block=BLOCK)

    assert (decision.matches, decision.moves) == ([], [])


def test_jobs_of_one_customer_are_matched_in_the_order_of_their_requests():
    grid = matcher(provider(), jobs=jobs_of(ALICE, 3, 1, 2))

    assert numbers(grid) == [1, 2, 3]


def test_customers_with_equal_weight_take_turns():
    """Job 1 is the oldest, so ALICE is served first."""
    grid = matcher(provider(), jobs=jobs_of(ALICE, 1, 2, 3, 4) + jobs_of(BOB, 5, 6, 7, 8))

    assert numbers(grid) == [1, 5, 2, 6]


def test_customer_with_twice_the_weight_gets_twice_as_much():
    """Usage and half of the next job, by weight: 30 of ALICE and 15, then 45, 75, 105 of BOB."""
    jobs = jobs_of(ALICE, 1, 2, 3, 4) + jobs_of(BOB, 5, 6, 7, 8)
    grid = matcher(provider(FIRST, 6), jobs=jobs)
    grid.shares.transfer(MINT, BOB, CREDITS, block=1)

    assert numbers(grid) == [5, 1, 6, 7, 2, 8]


def test_customer_with_the_cheaper_next_job_is_served_first():
    grid = matcher(
        provider(FIRST, 3),
        jobs=jobs_of(ALICE, 1, 2, escrow=90) + jobs_of(BOB, 3, 4, 5, escrow=30),
    )

    # Usage and half of the next job: 45 of ALICE. 15 of BOB, then 45, and job 1 is older than 4.
    assert numbers(grid) == [3, 1, 4]


def test_earlier_usage_counts():
    grid = matcher(
        provider(FIRST, 4),
        jobs=[finished_job(matched_job(9), cost=60), *jobs_of(ALICE, 1, 2), *jobs_of(BOB, 3, 4)],
    )

    assert numbers(grid) == [3, 1, 4, 2]


def test_job_without_room_does_not_delay_later_jobs_of_its_customer():
    grid = matcher(
        provider(price=1), jobs=[matched_job(9, 2), pending_job(1, 3), *jobs_of(ALICE, 2, 3, 4)]
    )
    grid.set_limits(job_id(1), Limits(excluded={FIRST: "refused it"}))

    assert numbers(grid) == [2, 3]


def test_oldest_job_of_each_kind_is_tried_in_the_order_of_requests():
    jobs = [pending_job(1), pending_job(2, 2), pending_job(3), pending_job(4, 2)]
    grid = matcher(provider(FIRST, 8), jobs=jobs)

    assert numbers(grid) == [1, 2, 3, 4]


def test_number_of_matches_in_one_decision_is_limited():
    grid = matcher(provider(), jobs=jobs_of(ALICE, 1, 2, 3), max_matches=2)

    assert numbers(grid) == [1, 2]
    assert numbers(grid) == [3]


def test_customer_with_too_many_new_classes_continues_in_the_next_decision():
    """The first class needs the labels of the providers, which is all the work of a decision."""
    jobs = [pending_job(1), pending_job(2, 2), pending_job(3)]
    grid = matcher(provider(), jobs=jobs, max_work=1)

    assert numbers(grid) == [1, 3]
    assert numbers(grid) == [2]


def test_customer_with_many_classes_does_not_use_the_work_of_another_customer():
    jobs = [
        occupant(9, until_s=60),
        pending_job(1, 4),
        pending_job(2, 3),
        pending_job(3, 2),
        pending_job(4, 1, customer=BOB, escrow=600),
    ]
    grid = matcher(provider(), provider(SECOND, 1), jobs=jobs, max_work=2)

    assert numbers(grid) == [4]


def test_kinds_that_were_not_searched_come_first_in_the_next_decision():
    """Jobs 1 and 2 find no room, and each is the work of one decision."""
    jobs = [
        occupant(9, 3, until_s=60),
        pending_job(1, 4),
        pending_job(2, 3),
        pending_job(3, 1),
    ]
    grid = matcher(provider(), jobs=jobs, max_work=1, max_new_reservations=0)

    assert [numbers(grid) for _ in range(3)] == [[], [], [3]]


def test_kinds_are_searched_again_after_all_kinds_were_searched():
    running_job = matched_job(9, 4, started_at=NOW)
    jobs = [running_job, pending_job(1, 4), pending_job(2, 3)]
    grid = matcher(provider(), jobs=jobs, max_work=1, max_new_reservations=0)
    assert [numbers(grid) for _ in range(2)] == [[], []]

    set_jobs(grid, finished_job(running_job))

    assert numbers(grid) == [1]


def test_round_that_the_limit_of_matches_interrupts_continues():
    """Job 1 is the work of the first decision. Job 2 is the only match of the second one."""
    limits = {"max_work": 1, "max_matches": 1, "max_new_reservations": 0}
    jobs = [occupant(9, 2, until_s=60), pending_job(1, 4), *jobs_of(ALICE, 2, 3)]
    grid = matcher(provider(), jobs=jobs, **limits)

    assert [numbers(grid) for _ in range(2)] == [[], [2]]
    assert len(grid.queues[ALICE].searched_kinds) == 1

    assert numbers(grid) == [3]
    assert grid.queues[ALICE].searched_kinds == set()


def test_job_with_a_reservation_is_searched_in_each_decision():
    """Job 1 gets a reservation. Job 2 is the work of the second decision."""
    running_job = occupant(9, until_s=60)
    jobs = [running_job, pending_job(1, 4), pending_job(2, 3), pending_job(3, 2)]
    grid = matcher(provider(), jobs=jobs, max_work=1)
    assert [numbers(grid) for _ in range(2)] == [[], []]
    assert list(reservations(grid)) == [1]

    set_jobs(grid, finished_job(running_job))

    assert numbers(grid) == [1]


def test_job_that_was_not_searched_gets_no_reservation():
    jobs = [occupant(9, until_s=60), pending_job(1, 1), pending_job(2, 4)]
    grid = matcher(provider(), provider(SECOND, 1), jobs=jobs, max_work=1)

    assert numbers(grid) == [1]
    assert reservations(grid) == {}


def test_number_of_new_reservations_in_one_decision_is_limited():
    jobs = [
        occupant(8, until_s=60),
        occupant(9, until_s=60, address=SECOND),
        pending_job(1, 4, customer=ALICE),
        pending_job(2, 4, customer=BOB),
    ]
    grid = matcher(provider(), provider(SECOND), jobs=jobs, max_new_reservations=1)

    decide(grid)
    assert list(reservations(grid)) == [1]

    decide(grid)
    assert list(reservations(grid)) == [1, 2]


def test_jobs_that_ended_leave_the_queues():
    grid = matcher(provider(), jobs=jobs_of(ALICE, 1))
    decide(grid)

    decide(grid)

    assert grid.queues == {}


def test_cheapest_provider_with_room_is_chosen():
    grid = matcher(
        provider(FIRST, price=3),
        provider(SECOND, price=1, is_joined=False),
        provider(THIRD, price=2),
        jobs=jobs_of(ALICE, 1),
    )

    decision = grid.decide(now=NOW, block=BLOCK)

    pairing = decision.matches[0]
    assert (pairing.provider, pairing.price_per_min) == (THIRD, 2)


@pytest.mark.parametrize(("escrow", "matched"), [(59, []), (60, [1])])
def test_escrow_must_pay_for_one_minute(escrow, matched):
    grid = matcher(provider(price=60), jobs=jobs_of(ALICE, 1, escrow=escrow))

    assert numbers(grid) == matched


def test_jobs_of_one_class_with_more_escrow_may_use_dearer_providers():
    grid = matcher(
        provider(FIRST, price=60),
        jobs=[*jobs_of(ALICE, 1, escrow=59), *jobs_of(ALICE, 2, escrow=60)],
    )

    assert numbers(grid) == [2]


def test_jobs_are_spread_over_providers_with_equal_prices():
    """The expected number for each provider is 25 of 50, with a standard deviation of 3.5."""
    jobs = jobs_of(ALICE, *range(1, 51))
    grid = matcher(provider(FIRST, 50), provider(SECOND, 50), jobs=jobs)

    providers = [address for _, address in decide(grid)]

    assert min(providers.count(FIRST), providers.count(SECOND)) >= 10


def test_excluded_provider_gets_no_job_now():
    grid = matcher(provider(FIRST), provider(SECOND, price=2), jobs=jobs_of(ALICE, 1))

    assert decide(grid, excluded_providers={FIRST: "skipped"}) == [(1, SECOND)]


def test_provider_that_is_excluded_for_a_job_may_get_other_jobs():
    grid = matcher(provider(FIRST), provider(SECOND, price=2), jobs=jobs_of(ALICE, 1, 2))
    grid.set_limits(job_id(1), Limits(excluded={FIRST: "refused it"}))

    assert decide(grid) == [(1, SECOND), (2, FIRST)]


@pytest.mark.parametrize(
    ("timeout_counts", "chosen"),
    [
        ({FIRST: 1}, SECOND),
        ({FIRST: 2, SECOND: 1}, SECOND),
        ({FIRST: 1, SECOND: 1}, FIRST),
        ({SECOND: 1}, FIRST),
    ],
)
def test_provider_with_fewer_claim_timeouts_is_preferred_to_a_cheaper_one(timeout_counts, chosen):
    grid = matcher(provider(FIRST), provider(SECOND, price=2), jobs=jobs_of(ALICE, 1, escrow=600))
    grid.set_limits(job_id(1), Limits(timeout_counts=timeout_counts))

    assert decide(grid) == [(1, chosen)]


def test_provider_with_claim_timeouts_is_chosen_if_no_other_has_room():
    grid = matcher(
        provider(FIRST),
        provider(SECOND, price=2),
        jobs=[*jobs_of(ALICE, 1), occupant(9, until_s=60, address=SECOND, price=2)],
    )
    grid.set_limits(job_id(1), Limits(timeout_counts={FIRST: 1}))

    assert decide(grid) == [(1, FIRST)]


def test_job_without_room_at_a_provider_with_claim_timeouts_waits():
    grid = matcher(provider(FIRST), jobs=[*jobs_of(ALICE, 1), occupant(9, until_s=60)])
    grid.set_limits(job_id(1), Limits(timeout_counts={FIRST: 1}))

    assert decide(grid) == []


def test_smaller_class_is_tried_after_a_larger_class_is_full():
    """Job 2 has the class of job 1. BOB's job 3 is smaller."""
    jobs = [
        matched_job(9, 2),
        pending_job(1, 3),
        pending_job(2, 3, customer=BOB),
        pending_job(3, 2, customer=BOB),
    ]
    grid = matcher(provider(), jobs=jobs)
    grid.set_limits(job_id(1), Limits(excluded={FIRST: "refused it"}))
    grid.set_limits(job_id(2), Limits(excluded={FIRST: "refused it"}))

    assert numbers(grid) == [3]


def test_freed_provider_is_tried_again():
    running_job = matched_job(9, 4, started_at=NOW)
    grid = matcher(provider(), jobs=[running_job, *jobs_of(ALICE, 1)])
    assert numbers(grid) == []

    set_jobs(grid, finished_job(running_job))

    assert numbers(grid) == [1]


@pytest.mark.parametrize(("unsent_count", "expected"), [(2, [1, 2]), (3, [1]), (4, []), (9, [])])
def test_matches_that_are_not_in_a_block_yet_limit_the_next_decision(unsent_count, expected):
    grid = matcher(provider(), jobs=jobs_of(ALICE, 1, 2, 3), max_matches=2)

    assert numbers(grid, unsent_count=unsent_count) == expected
