# SPDX-License-Identifier: Apache-2.0
"""Tests of decisions about jobs with conditions on price, time or policy.

FIRST costs 1 wei per CPU and minute, SECOND costs 2 wei. The escrow of 120 wei pays 2 hours at
FIRST and 1 hour at SECOND.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.domain.builders import job_id
from tests.unit.domain.matching.grids import (
    BLOCK,
    BOB,
    FIRST,
    HOUR_S,
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

from gridstead.domain.jobs.job import Affinity, Label
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.policies import BALANCED, CHEAPEST, SOONEST, paid_seconds

# Four jobs with one CPU on two nodes with two CPUs: (job number, hours until the end). They are
# placed in this order, so that one job on each node ends after an hour.
SPLIT = ((6, 1), (7, 2), (8, 1), (9, 2))


def job_with(*conditions, number=1, cpus=1, escrow=120, **changes):
    """Return a pending job with conditions such as ``queue.wait.s <= 60``."""
    affinity = []
    for text in conditions:
        key, operator, value = text.split()
        affinity.append(Affinity(key=key, operator=operator, value=value))
    return pending_job(number, cpus, escrow=escrow, affinity=tuple(affinity), **changes)


def grid_with(*jobs, providers=None, **rules):
    """Return a grid with FIRST, SECOND, and these jobs."""
    return matcher(*(providers or (provider(FIRST), provider(SECOND, price=2))), jobs=jobs, **rules)


@pytest.mark.parametrize(
    ("limit", "matched"),
    [
        ("< 0.000000000000000001", []),
        ("<= 0.000000000000000001", [(1, FIRST)]),
        ("<= 1", [(1, FIRST)]),
    ],
)
def test_job_gets_no_provider_that_is_dearer_than_its_limit(limit, matched):
    assert decide(grid_with(job_with(f"price.per-min {limit}"))) == matched


def test_price_limit_is_for_the_whole_job():
    limit = "price.per-min <= 0.000000000000000002"

    assert decide(grid_with(job_with(limit, cpus=2))) == [(1, FIRST)]
    assert decide(grid_with(job_with(limit, cpus=3))) == []


def test_job_with_a_price_limit_waits_for_a_provider_that_it_permits():
    job = job_with("price.per-min <= 0.000000000000000001")
    grid = grid_with(job, occupant(9, until_s=36_000), policy=SOONEST)

    assert decide(grid) == []
    assert reservations(grid) == {1: (FIRST, NOW + 36_000)}


@pytest.mark.parametrize(("limit", "matched"), [("0.75", [(1, FIRST)]), ("0.750001", [])])
def test_job_gets_no_provider_with_a_lower_reputation_than_it_permits(limit, matched):
    """Votes of 3 customers with faults, of 12 votes, are 25 % of faults."""
    grid = grid_with(job_with(f"reputation.success >= {limit}"), providers=[provider(FIRST)])
    for number in range(1000, 1003):
        job = matched_job(number, customer=f"0x{number:040x}", started_at=NOW)
        panicked_job = replace(job, state=JobState.PANICKED, state_block=BLOCK)
        set_jobs(grid, panicked_job)
        grid.forget_job(panicked_job.id, matched_block=BLOCK)

    assert decide(grid) == matched


def test_provider_whose_price_rises_above_the_limit_loses_the_reservation():
    job = job_with("price.per-min <= 0.000000000000000001")
    grid = grid_with(job, occupant(9, until_s=HOUR_S), providers=[provider(FIRST)])
    decide(grid)
    assert reservations(grid) == {1: (FIRST, NOW + HOUR_S)}

    grid.set_provider(provider(FIRST, price=2))
    decide(grid)

    assert reservations(grid) == {}


def measured_at(time, address=FIRST):
    """Return a provider whose benchmarks ended at this time."""
    return provider(address, labels=(Label(key="benchmark.time", value=str(time)),))


@pytest.mark.parametrize(
    ("time", "matched"),
    [
        (NOW - 3 * HOUR_S + 1, [(1, FIRST)]),
        (NOW - 3 * HOUR_S, []),
        (NOW + HOUR_S, [(1, FIRST)]),  # the clocks may differ by an hour
        (NOW + HOUR_S + 1, []),
        ("yesterday", []),
        (-1, []),
    ],
)
def test_age_of_benchmarks_is_compared_in_whole_hours(time, matched):
    grid = grid_with(job_with("benchmark.age.h <= 2"), providers=[measured_at(time)])

    assert decide(grid) == matched


def test_benchmarks_become_too_old_while_a_job_waits():
    """The first job occupies the provider. In the next hour, its benchmarks are too old."""
    jobs = [job_with("benchmark.age.h < 1", cpus=4, number=number) for number in (1, 2)]
    grid = grid_with(*jobs, occupant(9, until_s=60), providers=[measured_at(NOW - 3500)])
    decide(grid)
    assert reservations(grid) == {1: (FIRST, NOW + 60)}

    grid.remove_job(job_id(9))

    assert decide(grid, now=NOW + 100) == []
    assert reservations(grid) == {}


def test_waiting_job_gets_a_provider_whose_benchmarks_are_new():
    grid = grid_with(job_with("benchmark.age.h < 1"), providers=[measured_at(NOW - HOUR_S)])
    assert decide(grid) == []

    grid.set_provider(measured_at(NOW))

    assert decide(grid) == [(1, FIRST)]


def test_time_of_benchmarks_in_the_future_comes_into_range():
    grid = grid_with(job_with("benchmark.age.h < 1"), providers=[measured_at(NOW + HOUR_S + 9)])
    assert decide(grid) == []

    assert decide(grid, now=NOW + 9) == [(1, FIRST)]


def test_job_with_an_impossible_condition_gets_no_provider():
    assert decide(grid_with(job_with("policy = dearest"))) == []


def test_provider_cannot_satisfy_a_reserved_condition_by_a_label():
    labels = (Label(key="benchmark.age.h", value="1"), Label(key="price.per-min", value="0"))
    first = provider(FIRST, labels=labels)

    assert decide(grid_with(job_with("benchmark.age.h <= 2"), providers=[first])) == []
    assert decide(grid_with(job_with("price.per-min < 0.1"), providers=[first])) == [(1, FIRST)]


@pytest.mark.parametrize(
    ("time_left_s", "matched"),
    [
        (2 * HOUR_S, [(1, FIRST)]),
        (2 * HOUR_S - 1, [(1, SECOND)]),
        (HOUR_S, [(1, SECOND)]),
        (HOUR_S - 1, []),
        (-1, []),
    ],
)
def test_paid_time_of_a_job_ends_by_its_deadline(time_left_s, matched):
    job = job_with(f"deadline.unix <= {NOW + time_left_s}")

    assert decide(grid_with(job)) == matched


def test_job_does_not_wait_for_a_provider_at_which_it_would_miss_its_deadline():
    in_time = f"deadline.unix <= {NOW + 3 * HOUR_S}"
    too_late = f"deadline.unix < {NOW + 3 * HOUR_S}"
    occupied = occupant(9, until_s=HOUR_S)

    assert decide(grid_with(job_with(in_time), occupied, policy=CHEAPEST)) == []
    assert decide(grid_with(job_with(too_late), occupied, policy=CHEAPEST)) == [(1, SECOND)]


def test_job_does_not_wait_longer_than_it_permits():
    occupied = occupant(9, until_s=HOUR_S)
    patient = job_with(f"queue.wait.s <= {HOUR_S}")
    impatient = job_with(f"queue.wait.s < {HOUR_S}")

    assert decide(grid_with(patient, occupied, policy=CHEAPEST)) == []
    assert decide(grid_with(impatient, occupied, policy=CHEAPEST)) == [(1, SECOND)]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(f"<= {HOUR_S}", {1: (FIRST, NOW + HOUR_S)}), (f"< {HOUR_S}", {})],
)
def test_job_gets_no_reservation_after_the_wait_that_it_permits(limit, expected):
    grid = grid_with(
        job_with(f"queue.wait.s {limit}"),
        occupant(9, until_s=HOUR_S),
        providers=[provider(FIRST)],
    )

    decide(grid)

    assert reservations(grid) == expected


def test_job_does_not_wait_for_room_that_is_split_among_nodes():
    """After an hour, two CPUs are free at FIRST, but on two nodes."""
    job = job_with(f"queue.wait.s <= {HOUR_S}", cpus=2, escrow=240)
    running = [occupant(number, 1, until_s=hours * HOUR_S) for number, hours in SPLIT]
    first = provider(FIRST, 2, 2)
    grid = grid_with(job, *running, providers=[first, provider(SECOND, price=2)], policy=CHEAPEST)

    assert decide(grid) == [(1, SECOND)]


def test_job_gets_no_reservation_of_room_that_is_split_among_nodes():
    job = job_with(f"queue.wait.s <= {HOUR_S}", cpus=2, escrow=240)
    running = [occupant(number, 1, until_s=hours * HOUR_S) for number, hours in SPLIT]
    grid = grid_with(job, *running, providers=[provider(FIRST, 2, 2)])

    decide(grid)

    assert reservations(grid) == {}


def test_later_job_gets_a_reservation_if_the_oldest_one_cannot_wait_so_long():
    """Only one job of a customer with conditions on time is tried in a decision."""
    impatient = [job_with("queue.wait.s < 60", number=number, cpus=number) for number in (1, 2)]
    grid = grid_with(
        *impatient,
        job_with(f"queue.wait.s <= {HOUR_S}", number=3),
        job_with(number=4),
        occupant(9, until_s=HOUR_S),
        providers=[provider(FIRST)],
    )

    decide(grid)

    assert reservations(grid) == {4: (FIRST, NOW + HOUR_S)}


def test_reservation_that_becomes_too_late_is_removed():
    job = job_with(f"queue.wait.s <= {HOUR_S}")
    running = occupant(9, until_s=HOUR_S)
    grid = grid_with(job, running, providers=[provider(FIRST)])
    decide(grid)
    assert job_id(1) in grid.reserved

    set_jobs(grid, occupant(9, until_s=2 * HOUR_S))  # credits were added
    decide(grid)
    decide(grid)

    assert reservations(grid) == {}


def test_deadline_removes_a_reservation():
    end = NOW + 3 * HOUR_S
    grid = grid_with(
        job_with(f"deadline.unix <= {end}"),
        occupant(9, until_s=HOUR_S),
        providers=[provider(FIRST)],
    )
    decide(grid)
    assert reservations(grid) == {1: (FIRST, NOW + HOUR_S)}

    decide(grid, now=NOW + HOUR_S + 1)

    assert reservations(grid) == {}


@pytest.mark.parametrize(("limit", "matched"), [("7200", [(1, FIRST)]), ("7199", [])])
def test_wait_includes_matched_jobs_that_wait_for_room(limit, matched):
    """Job 9 runs for an hour, and job 8 then runs for an hour."""
    jobs = [occupant(9, until_s=HOUR_S), matched_job(8, 4, escrow=240, customer=BOB)]
    grid = grid_with(
        job_with(f"queue.wait.s <= {limit}"),
        *jobs,
        providers=[provider(FIRST)],
        queue_allowance=5,
    )

    assert decide(grid) == matched


@pytest.mark.parametrize(
    ("grid_policy", "job_policy", "matched"),
    [
        (CHEAPEST, "soonest", [(1, SECOND)]),
        (SOONEST, "cheapest", []),
        (CHEAPEST, "balanced", [(1, SECOND)]),
        (BALANCED, "cheapest", []),
    ],
)
def test_policy_of_the_job_replaces_that_of_the_grid(grid_policy, job_policy, matched):
    occupied = occupant(9, until_s=10 * HOUR_S)
    grid = grid_with(job_with(f"policy = {job_policy}"), occupied, policy=grid_policy)

    assert decide(grid) == matched


@pytest.mark.parametrize(("job_policy", "reserved"), [("cheapest", FIRST), ("soonest", SECOND)])
def test_policy_of_the_job_decides_where_it_gets_a_reservation(job_policy, reserved):
    occupants = [
        occupant(8, until_s=10 * HOUR_S),
        occupant(9, until_s=HOUR_S, address=SECOND, price=2),
    ]
    grid = grid_with(job_with(f"policy = {job_policy}"), *occupants, policy=BALANCED)

    decide(grid)

    assert reservations(grid)[1][0] == reserved


@given(
    nodes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    prices=st.lists(st.integers(1, 4), min_size=3, max_size=3),
    limits=st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 2 * HOUR_S), st.integers(1, 4)),
        min_size=1,
        max_size=8,
    ),
)
def test_each_match_satisfies_the_conditions_on_price_and_end(nodes, prices, limits):
    providers = []
    for address, price in zip((FIRST, SECOND, THIRD), prices, strict=True):
        providers.append(provider(address, *nodes, price=price))
    jobs = []
    for number, (max_price_wei, time_left_s, cpus) in enumerate(limits, start=1):
        job = job_with(
            f"price.per-min <= 0.{max_price_wei:018}",
            f"deadline.unix <= {NOW + time_left_s}",
            number=number,
            cpus=cpus,
        )
        jobs.append(job)

    for pairing in grid_with(*jobs, providers=providers).decide(now=NOW, block=BLOCK).matches:
        max_price_wei, time_left_s, _ = limits[pairing.job.id.number - 1]
        assert pairing.price_per_min <= max_price_wei
        assert paid_seconds(pairing.job.escrow, pairing.price_per_min) <= time_left_s
