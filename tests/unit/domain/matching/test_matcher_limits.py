# SPDX-License-Identifier: Apache-2.0
"""Tests of the limits of jobs, and of the jobs that the matcher forgets or removes."""

from tests.unit.domain.builders import job_id
from tests.unit.domain.matching.grids import (
    ALICE,
    BLOCK,
    FIRST,
    NOW,
    decide,
    finished_job,
    matched_job,
    matcher,
    occupant,
    pending_job,
    provider,
    set_jobs,
)

from gridstead.domain.matching.decisions import NO_LIMITS, Limits


def usage(grid, customer=ALICE):
    return grid.shares.usage(customer, block=BLOCK)


def free_cpus(grid, address=FIRST):
    return grid.clusters[address].free.free_cpus


def test_limits_apply_to_one_job():
    grid = matcher(provider(), jobs=[pending_job(1), pending_job(2)])

    grid.set_limits(job_id(1), Limits(excluded={FIRST: "refused it"}))

    assert decide(grid) == [(2, FIRST)]
    assert grid.limits(job_id(2)) == NO_LIMITS


def test_limits_may_be_set_before_the_job():
    grid = matcher(provider())
    limits = Limits(excluded={FIRST: "refused it"})

    grid.set_limits(job_id(1), limits)
    set_jobs(grid, pending_job(1))

    assert decide(grid) == []
    assert grid.limits(job_id(1)) == limits


def test_removed_limits_no_longer_apply():
    grid = matcher(provider(), jobs=[pending_job(1)])
    grid.set_limits(job_id(1), Limits(excluded={FIRST: "refused it"}))
    assert decide(grid) == []

    grid.set_limits(job_id(1), NO_LIMITS)

    assert decide(grid) == [(1, FIRST)]


def test_equal_limits_change_nothing():
    grid = matcher(provider(), jobs=[pending_job(1)])

    grid.set_limits(job_id(1), Limits())

    assert decide(grid) == [(1, FIRST)]


def test_new_limits_of_a_matched_job_do_not_undo_its_match():
    grid = matcher(provider(), jobs=[pending_job(1)])
    decide(grid)

    grid.set_limits(job_id(1), Limits(timeout_counts={FIRST: 1}))

    assert decide(grid) == []
    assert (free_cpus(grid), usage(grid)) == (3, 60)


def test_new_limits_of_a_running_job_change_nothing():
    grid = matcher(provider(), jobs=[matched_job(1, started_at=NOW)])

    grid.set_limits(job_id(1), Limits(timeout_counts={FIRST: 1}))

    assert decide(grid) == []
    assert free_cpus(grid) == 3


def test_usage_of_a_forgotten_job_remains():
    job = finished_job(matched_job(1), cost=7)
    grid = matcher(provider(), jobs=[job])

    grid.forget_job(job_id(1), matched_block=BLOCK)

    assert usage(grid) == 7
    assert grid.pending_job(job_id(1)) is None


def test_removed_job_leaves_no_trace():
    grid = matcher(provider(), jobs=[matched_job(1, 4), pending_job(2, 4)])
    grid.set_limits(job_id(1), Limits(timeout_counts={FIRST: 1}))
    assert decide(grid) == []

    grid.remove_job(job_id(1))

    assert (usage(grid), grid.limits(job_id(1))) == (0, NO_LIMITS)
    assert decide(grid) == [(2, FIRST)]


def test_removed_pending_job_is_not_matched():
    grid = matcher(provider(), jobs=[pending_job(1)])

    grid.remove_job(job_id(1))

    assert decide(grid) == []


def test_removal_of_an_unknown_job_changes_nothing():
    grid = matcher(provider(), jobs=[pending_job(1)])

    grid.remove_job(job_id(2))

    assert decide(grid) == [(1, FIRST)]


def test_job_with_a_reservation_may_be_removed():
    grid = matcher(provider(), jobs=[occupant(9, until_s=600), pending_job(1, 4)])
    decide(grid)
    assert list(grid.reserved) == [job_id(1)]

    grid.remove_job(job_id(1))
    decide(grid)

    assert grid.reserved == {}
    assert grid.clusters[FIRST].reservation is None
