# SPDX-License-Identifier: Apache-2.0
"""Tests of the reservations that later decisions keep, move and remove.

FIRST has one node of 4 CPUs. At first, job 9 uses all of them until NOW + 600.
"""

from dataclasses import replace

import pytest
from tests.unit.domain.builders import job_id
from tests.unit.domain.matching.grids import (
    ALICE,
    BLOCK,
    BOB,
    CAROL,
    FIRST,
    NOW,
    SECOND,
    decide,
    finished_job,
    matched_job,
    matcher,
    matches_of,
    occupant,
    pending_job,
    provider,
    reservations,
    set_jobs,
)

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.decisions import Limits, Move

OCCUPANT = occupant(9, until_s=600)
LARGE_JOB = pending_job(1, 4, escrow=240)
CANCELLED_JOB = replace(LARGE_JOB, state=JobState.CANCELLED)


def full_grid(*jobs, **rules):
    """Return a grid with FIRST, OCCUPANT, and these jobs, after a decision."""
    grid = matcher(provider(), jobs=[OCCUPANT, *jobs], **rules)
    assert decide(grid) == []
    return grid


@pytest.mark.parametrize(
    "end",
    [
        lambda grid: set_jobs(grid, CANCELLED_JOB),
        lambda grid: set_jobs(grid, matched_job(1, 4, address=SECOND)),
        lambda grid: grid.set_limits(job_id(1), Limits(excluded={FIRST: "refused it"})),
        lambda grid: grid.remove_provider(FIRST),
        lambda grid: grid.set_provider(provider(price=100)),
        lambda grid: grid.set_provider(provider(FIRST, 3)),
        lambda grid: grid.remove_job(job_id(1)),
    ],
)
def test_reservation_ends_if_it_is_not_needed_or_not_possible(end):
    grid = full_grid(LARGE_JOB)

    end(grid)
    decide(grid)

    assert reservations(grid) == {}
    assert grid.clusters[FIRST].reservation is None


def test_reservation_at_a_provider_that_is_excluded_now_ends():
    grid = full_grid(LARGE_JOB)

    decide(grid, excluded_providers={FIRST: "skipped"})

    assert reservations(grid) == {}


def test_reservation_becomes_earlier_when_a_job_ends_early():
    node = provider(FIRST, 8)
    grid = matcher(node, jobs=[OCCUPANT, occupant(8, until_s=300), pending_job(1, 8, escrow=480)])
    decide(grid)
    assert reservations(grid) == {1: (FIRST, NOW + 600)}

    set_jobs(grid, finished_job(OCCUPANT))
    decision = grid.decide(now=NOW, block=BLOCK)

    assert reservations(grid) == {1: (FIRST, NOW + 300)}
    assert decision.moves == []


def moved(grid, *, now=NOW):
    """Return the moves of the next decision."""
    return grid.decide(now=now, block=BLOCK).moves


def test_reservation_moves_when_credits_are_added_to_an_earlier_job():
    grid = full_grid(LARGE_JOB)

    set_jobs(grid, occupant(9, until_s=675))

    assert moved(grid) == [
        Move(
            job_id=job_id(1),
            provider=FIRST,
            from_s=NOW + 600,
            to_s=NOW + 675,
            cause="credits were added to job 9",
        )
    ]
    assert reservations(grid) == {1: (FIRST, NOW + 675)}


def test_reservation_does_not_move_by_a_minute_or_less():
    grid = full_grid(LARGE_JOB)

    set_jobs(grid, occupant(9, until_s=660))

    assert moved(grid) == []
    assert reservations(grid) == {1: (FIRST, NOW + 600)}


def test_reservation_that_does_not_move_starts_at_the_earliest_now():
    grid = full_grid(LARGE_JOB)

    set_jobs(grid, occupant(9, until_s=660))

    assert moved(grid, now=NOW + 630) == []
    assert reservations(grid) == {1: (FIRST, NOW + 630)}


def test_room_of_a_late_reservation_is_kept():
    """Job 9 ends 30 seconds later than expected. Job 1 needs both nodes, and one is free."""
    grid = matcher(provider(FIRST, 4, 4), jobs=[OCCUPANT, pending_job(1, 4, tasks=2, escrow=480)])
    decide(grid)

    set_jobs(grid, occupant(9, until_s=630), pending_job(2, 4, customer=BOB, escrow=240))

    assert decide(grid) == []
    assert reservations(grid) == {1: (FIRST, NOW + 600)}


def test_move_names_the_job_that_has_not_started():
    """Job 9 is paid for 600 seconds, and then for 615 seconds. It does not start for 90 seconds."""
    waiting_job = matched_job(9, 4, escrow=40, customer=CAROL)
    grid = matcher(provider(), jobs=[waiting_job, LARGE_JOB])
    decide(grid)
    assert reservations(grid) == {1: (FIRST, NOW + 600)}

    set_jobs(grid, replace(waiting_job, escrow=41))
    moves = moved(grid, now=NOW + 90)

    assert [(move.to_s, move.cause) for move in moves] == [(NOW + 705, "job 9 has not started yet")]


def test_move_names_the_job_that_is_not_settled():
    """The paid time of job 9 ended at NOW + 600. It is expected to need another 100 s."""
    grid = full_grid(LARGE_JOB)

    moves = moved(grid, now=NOW + 700)

    assert [(move.to_s, move.cause) for move in moves] == [(NOW + 800, "job 9 is not settled yet")]


WAITING_JOB = matched_job(9, 4, escrow=40, customer=CAROL)  # paid for 600 seconds


def started(job, *, after_s):
    """Return a matched job that started this time after NOW."""
    return replace(job, state=JobState.RUNNING, started_at=NOW + after_s)


def test_move_names_the_job_that_started_late():
    """Job 8 ends early, which is the last change but not the cause."""
    occupant_of_half = occupant(8, until_s=300)
    large_job = pending_job(1, 8, escrow=480)
    grid = matcher(provider(FIRST, 8), jobs=[WAITING_JOB, occupant_of_half, large_job])
    decide(grid)
    assert reservations(grid) == {1: (FIRST, NOW + 600)}

    set_jobs(grid, started(WAITING_JOB, after_s=90), finished_job(occupant_of_half))
    moves = moved(grid, now=NOW + 100)

    assert [(move.to_s, move.cause) for move in moves] == [(NOW + 690, "job 9 started late")]


def test_move_names_the_awaited_job_and_not_the_job_that_ends_first_now():
    """Job 9 was expected to end before job 8, but has not started for 300 seconds."""
    other_job = occupant(8, until_s=705)
    grid = matcher(provider(FIRST, 4, 4), jobs=[WAITING_JOB, other_job, LARGE_JOB])
    decide(grid)
    assert reservations(grid) == {1: (FIRST, NOW + 600)}

    set_jobs(grid, occupant(8, until_s=690))
    moves = moved(grid, now=NOW + 300)

    assert [(move.to_s, move.cause) for move in moves] == [(NOW + 690, "job 9 has not started yet")]


def test_job_whose_paid_time_ends_now_is_not_late():
    grid = full_grid(LARGE_JOB)
    set_jobs(grid, occupant(9, until_s=675))

    moves = moved(grid, now=NOW + 675)

    assert [move.cause for move in moves] == ["credits were added to job 9"]


def test_move_names_the_last_change_if_there_is_room_now():
    """The job ended, but later than its paid time."""
    grid = full_grid(LARGE_JOB)
    set_jobs(grid, finished_job(OCCUPANT))

    decision = grid.decide(now=NOW + 700, block=BLOCK)

    assert [(move.to_s, move.cause) for move in decision.moves] == [(NOW + 700, "job 9 left")]
    assert matches_of(decision) == [(1, FIRST)]


def test_match_after_a_reservation_does_not_move_it():
    grid = matcher(provider(), jobs=[occupant(9, 2, until_s=600), LARGE_JOB])
    decide(grid)

    set_jobs(grid, pending_job(2, 2, customer=ALICE, escrow=20))

    assert decide(grid) == [(2, FIRST)]
    assert moved(grid) == []
    assert reservations(grid) == {1: (FIRST, NOW + 600)}
