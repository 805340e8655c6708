# SPDX-License-Identifier: Apache-2.0
"""Tests of the state on which matches are decided."""

from dataclasses import replace

import pytest
from tests.unit.domain.builders import job_id
from tests.unit.domain.matching.grids import (
    ALICE,
    BLOCK,
    BOB,
    FIRST,
    HOUR_S,
    NOW,
    SECOND,
    decide,
    finished_job,
    matched_job,
    matcher,
    matches_of,
    pending_job,
    provider,
    set_jobs,
)

from gridstead.domain.jobs.billing import MAX_PAID_MINUTES
from gridstead.domain.jobs.lifecycle import JobState


def usage(grid, customer=ALICE):
    return grid.shares.usage(customer, block=BLOCK)


def free_cpus(grid, address=FIRST):
    return grid.clusters[address].free.free_cpus


def test_decision_counts_its_matches_as_made():
    grid = matcher(provider(), jobs=[pending_job(1, 3, escrow=60)])

    decision = grid.decide(now=NOW, block=BLOCK)

    assert matches_of(decision) == [(1, FIRST)]
    assert decision.matches[0].job == pending_job(1, 3, escrow=60)
    assert decision.matches[0].price_per_min == 3
    assert (free_cpus(grid), usage(grid)) == (1, 60)
    assert grid.pending_job(job_id(1)) is None
    assert decide(grid) == []


def test_failed_match_is_undone_by_setting_the_job_to_pending():
    job = pending_job(1, 3)
    grid = matcher(provider(), jobs=[job])
    decide(grid)

    set_jobs(grid, job)

    assert (free_cpus(grid), usage(grid)) == (4, 0)
    assert grid.pending_job(job_id(1)) == job
    assert decide(grid) == [(1, FIRST)]


def test_match_on_the_chain_changes_nothing_that_the_decision_counted():
    grid = matcher(provider(), jobs=[pending_job(1, 3)])
    decide(grid)

    set_jobs(grid, matched_job(1, 3))
    set_jobs(grid, matched_job(1, 3, started_at=NOW))

    assert (free_cpus(grid), usage(grid)) == (1, 60)
    assert decide(grid) == []


def test_job_that_was_matched_to_another_provider_moves():
    grid = matcher(provider(), jobs=[pending_job(1, 3)])
    decide(grid)
    grid.set_provider(provider(SECOND))

    set_jobs(grid, matched_job(1, 3, address=SECOND))

    assert (free_cpus(grid), free_cpus(grid, SECOND)) == (4, 1)


def test_end_of_a_job_frees_its_place_and_counts_its_bill():
    job = matched_job(1, 4, started_at=NOW)
    grid = matcher(provider(), jobs=[job, pending_job(2, 4, customer=BOB)])
    assert decide(grid) == []
    assert usage(grid) == 60

    set_jobs(grid, finished_job(job, cost=20))

    assert usage(grid) == 20
    assert decide(grid) == [(2, FIRST)]


@pytest.mark.parametrize(
    ("job", "counted"),
    [
        (pending_job(1), 0),
        (matched_job(1), 60),
        (matched_job(1, price=0), 0),
        (matched_job(1, started_at=NOW), 60),
        (finished_job(matched_job(1), cost=7), 7),
        (replace(pending_job(1), state=JobState.CANCELLED), 0),
    ],
)
def test_usage_counts_the_escrow_until_the_bill_is_known(job, counted):
    assert usage(matcher(provider(), jobs=[job])) == counted


def test_free_job_costs_no_usage():
    grid = matcher(provider(price=0), jobs=[pending_job(1)])

    assert decide(grid) == [(1, FIRST)]
    assert usage(grid) == 0


@pytest.mark.parametrize(("price", "paid_s"), [(1, HOUR_S), (7, 514), (0, MAX_PAID_MINUTES * 60)])
def test_matched_job_is_expected_to_run_as_long_as_its_escrow_pays(price, paid_s):
    """An escrow of 60 wei pays 60 x 60 / 7 = 514.3 seconds for 7 wei per minute."""
    grid = matcher(provider(price=price), jobs=[pending_job(1)])
    decide(grid)

    start = grid.clusters[FIRST].earliest_start(pending_job(2, 4).resources, now=NOW)

    assert start == NOW + paid_s


def test_only_the_escrow_of_a_job_without_an_end_counts_as_weight():
    """The escrow is held for the second half of the blocks. The half-life is long."""
    job = matched_job(1, escrow=600)
    weights = []
    for current_job in (job, finished_job(job, cost=600)):
        grid = matcher(customers=(BOB,), jobs=[current_job])
        weights.append(grid.shares.weight(ALICE, block=2 * BLOCK))

    assert weights == [300, 0]


def test_cancelled_pending_job_is_not_matched():
    grid = matcher(provider(), jobs=[pending_job(1)])

    set_jobs(grid, replace(pending_job(1), state=JobState.CANCELLED))

    assert grid.pending_job(job_id(1)) is None
    assert decide(grid) == []


def test_added_credits_replace_the_escrow_of_a_pending_job():
    """The provider is too expensive for 60 wei."""
    grid = matcher(provider(price=100), jobs=[pending_job(1)])
    assert decide(grid) == []

    set_jobs(grid, pending_job(1, escrow=100))

    assert decide(grid) == [(1, FIRST)]
    assert usage(grid) == 100


def test_job_matched_to_an_unknown_provider_occupies_it_when_it_is_approved():
    grid = matcher(jobs=[matched_job(1, 3), pending_job(2, 2)])
    assert decide(grid) == []

    grid.set_provider(provider())

    assert free_cpus(grid) == 1
    assert decide(grid) == []
    set_jobs(grid, pending_job(3))
    assert decide(grid) == [(3, FIRST)]


def test_removed_provider_keeps_its_jobs_and_gets_no_more():
    grid = matcher(provider(), jobs=[matched_job(1), pending_job(2)])

    grid.remove_provider(FIRST)

    assert decide(grid) == []
    assert grid.clusters[FIRST].job_count == 1


@pytest.mark.parametrize("address", [FIRST, SECOND])
def test_removal_of_a_provider_that_gets_no_jobs_changes_nothing(address):
    grid = matcher(provider(is_joined=False))

    grid.remove_provider(address)

    assert list(grid.clusters) == [FIRST]


def test_new_record_of_a_provider_counts_for_the_next_decision():
    grid = matcher(provider(price=100), jobs=[pending_job(1)])
    assert decide(grid) == []

    grid.set_provider(provider(price=2))

    assert grid.decide(now=NOW, block=BLOCK).matches[0].price_per_min == 2


def test_equal_record_of_a_provider_keeps_the_candidates():
    grid = matcher(provider(), jobs=[pending_job(1)])
    decide(grid)
    job_class = grid.candidates.class_of(pending_job(1))

    grid.set_provider(provider())
    assert grid.candidates.work_for(job_class) == 0

    grid.set_provider(provider(price=2))
    assert grid.candidates.work_for(job_class) > 0


def test_job_is_found_by_its_id():
    job = matched_job(1)
    grid = matcher(provider(), jobs=[job])

    assert grid.job(job_id(1)) == job
    assert grid.pending_job(job_id(1)) is None


def test_queue_allowance_applies_to_each_provider():
    jobs = [pending_job(number, 4) for number in range(1, 6)]
    grid = matcher(provider(), jobs=jobs, queue_allowance=2)

    assert [number for number, _ in decide(grid)] == [1, 2, 3]
