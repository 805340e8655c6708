# SPDX-License-Identifier: Apache-2.0
"""Tests of the influence of the providers' reputation on the matches.

A customer with faults only gives 3 providers' votes of 9 + 3, so that a provider with faults of 3
customers has 25 % faults and a risk of 15 %. With 4 such customers, it rests for 1800 blocks.
"""

from dataclasses import replace

from tests.unit.domain.builders import job_id
from tests.unit.domain.matching.grids import (
    ALICE,
    BLOCK,
    CAROL,
    FIRST,
    HOUR_S,
    NOW,
    SECOND,
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

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.comparison import Comparison
from gridstead.domain.matching.policies import BALANCED, CHEAPEST

REST_BLOCKS = 1800


def add_faults(grid, customers, *, address=FIRST, end=BLOCK, first_number=1000):
    """Add the fault of one job of each of some customers."""
    for number in range(first_number, first_number + customers):
        job = matched_job(number, address=address, customer=f"0x{number:040x}", started_at=NOW)
        panicked_job = replace(job, state=JobState.PANICKED, state_block=end)
        set_jobs(grid, panicked_job, block=end)
        grid.forget_job(panicked_job.id, matched_block=end)


def risky_grid(*providers, customers=3, **arguments):
    grid = matcher(*providers, **arguments)
    add_faults(grid, customers)
    return grid


def test_provider_gets_no_job_if_another_costs_less_than_its_price_with_the_risk():
    """FIRST costs 100 and counts as 115."""
    for other_price, expected in ((114, SECOND), (116, FIRST)):
        grid = risky_grid(
            provider(FIRST, price=100),
            provider(SECOND, price=other_price),
            jobs=[pending_job(1, escrow=6000)],
        )

        assert decide(grid) == [(1, expected)]


def test_match_has_the_price_without_the_risk():
    grid = risky_grid(provider(FIRST, price=100), jobs=[pending_job(1, escrow=6000)])

    decision = grid.decide(now=NOW, block=BLOCK)

    assert [pairing.price_per_min for pairing in decision.matches] == [100]


def test_escrow_must_pay_for_the_price_without_the_risk():
    """SECOND counts as cheaper, but the escrow of 105 does not pay for its price of 110."""
    grid = risky_grid(
        provider(FIRST, price=100),
        provider(SECOND, price=110),
        jobs=[pending_job(1, escrow=105)],
    )

    assert decide(grid) == [(1, FIRST)]


def test_job_does_not_wait_for_a_cheaper_provider_with_a_risk():
    """FIRST has room in a minute. With 100 instead of 115, the job would wait for it."""
    for customers, matches in ((3, [(1, SECOND)]), (0, [])):
        grid = risky_grid(
            provider(FIRST, price=100),
            provider(SECOND, price=110),
            jobs=[occupant(9, until_s=60, price=100), pending_job(1, escrow=6000)],
            customers=customers,
        )

        assert decide(grid) == matches


def test_resting_provider_gets_no_job():
    grid = risky_grid(provider(FIRST), jobs=[pending_job(1)], customers=4)

    assert decide(grid) == []
    assert decide(grid, block=BLOCK + REST_BLOCKS - 1) == []


def test_provider_gets_one_job_after_its_rest():
    jobs = [pending_job(1), pending_job(2)]
    grid = risky_grid(provider(FIRST), jobs=jobs, customers=4)
    decide(grid)

    assert decide(grid, block=BLOCK + REST_BLOCKS) == [(1, FIRST)]
    assert decide(grid, block=BLOCK + REST_BLOCKS + 1) == []


def test_provider_gets_all_jobs_after_a_success():
    jobs = [pending_job(number) for number in range(1, 4)]
    grid = risky_grid(provider(FIRST), jobs=jobs, customers=4)
    block = BLOCK + REST_BLOCKS
    decide(grid, block=block)

    ended_job = replace(finished_job(matched_job(1, started_at=NOW), cost=60), state_block=block)
    set_jobs(grid, ended_job, block=block)
    grid.forget_job(job_id(1), matched_block=block)

    assert decide(grid, block=block + 100) == [(2, FIRST), (3, FIRST)]


def test_job_does_not_wait_for_a_resting_provider():
    grid = risky_grid(
        provider(FIRST, price=1),
        provider(SECOND, price=2),
        jobs=[pending_job(1)],
        customers=4,
        policy=CHEAPEST,
    )

    assert decide(grid) == [(1, SECOND)]


def test_job_loses_its_reservation_at_a_resting_provider():
    grid = matcher(provider(FIRST), jobs=[occupant(9, until_s=HOUR_S), pending_job(1)])
    decide(grid)
    assert reservations(grid) == {1: (FIRST, NOW + HOUR_S)}

    add_faults(grid, 4)
    decide(grid, block=BLOCK + 100)

    assert reservations(grid) == {}


def test_provider_that_was_unknown_at_the_last_update_has_its_reputation():
    grid = matcher(provider(SECOND))
    grid.set_provider(provider(SECOND))
    add_faults(grid, 4, address=SECOND)
    decide(grid)
    grid.clusters.clear()

    grid.set_provider(provider(SECOND))
    set_jobs(grid, pending_job(1))

    assert decide(grid) == []


def test_refusal_counts_when_the_job_has_ended_at_another_provider():
    grid = matcher(provider(FIRST), provider(SECOND))
    job = finished_job(matched_job(1, address=SECOND, started_at=NOW), cost=60)
    set_jobs(grid, job)
    grid.forget_job(job_id(1), matched_block=BLOCK, returned_by={FIRST: BLOCK})

    decide(grid)

    assert grid.reputation.standing(FIRST).success == 900_000
    assert grid.reputation.standing(SECOND).success == 1_000_000


def test_reason_names_a_resting_provider():
    grid = risky_grid(
        provider(FIRST),
        jobs=[pending_job(1, customer=ALICE), pending_job(2, customer=CAROL)],
        customers=4,
    )
    decide(grid)

    comparison = Comparison(grid.clusters.values(), policy=BALANCED, now=NOW)
    reason = comparison.reason(grid.job(job_id(1)), excluded_providers={})

    assert reason.text == "waits for a provider: 1 rests after faults"


def test_reason_compares_prices_with_their_risk():
    """FIRST costs 100 and counts as 115, SECOND costs 110 and is full."""
    grid = risky_grid(
        provider(FIRST, price=100),
        provider(SECOND, price=110),
        jobs=[occupant(9, until_s=60, price=110, address=SECOND), pending_job(1, escrow=6000)],
    )
    grid.decide(now=NOW, block=BLOCK)

    comparison = Comparison(grid.clusters.values(), policy=BALANCED, now=NOW)
    reason = comparison.reason(pending_job(2, escrow=6000), excluded_providers={})

    (shortfall,) = [count.nearest for count in reason.obstacles if count.obstacle.code == "policy"]
    assert (shortfall.needed, shortfall.available) == (110, 115)
