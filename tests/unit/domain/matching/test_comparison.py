# SPDX-License-Identifier: Apache-2.0
"""Tests of what a pending job misses at each provider, in figures."""

from dataclasses import replace

import pytest
from tests.unit.domain.builders import job_id
from tests.unit.domain.matching.grids import (
    FIRST,
    NOW,
    SECOND,
    THIRD,
    pending_job,
    placed_job,
    provider,
    resources,
)

from gridstead.domain.jobs.job import Affinity, Label
from gridstead.domain.matching.cluster import Cluster
from gridstead.domain.matching.comparison import Comparison
from gridstead.domain.matching.forecast import Reservation
from gridstead.domain.matching.policies import BALANCED, SOONEST
from gridstead.domain.matching.reasons import REFUSED, Cause
from gridstead.domain.matching.shortfalls import Quantity, Shortfall, nearest_shortfall


def cluster(*arguments, jobs=(), queue_allowance=0, **changes):
    """Return the cluster of a provider (``grids.provider``) with these jobs."""
    result = Cluster(provider(*arguments, **changes), queue_allowance=queue_allowance)
    for job in jobs:
        result.set_job(job)
    return result


def reserve(reserved_cluster, number, cpus, *, start_at):
    """Reserve room for a job at a provider."""
    reserved_cluster.reservation = Reservation(
        job_id=job_id(number),
        resources=resources(cpus),
        start_at=start_at,
        version=reserved_cluster.version,
    )


def explain(job, *clusters, excluded=None, policy=BALANCED):
    comparison = Comparison(clusters, policy=policy, now=NOW)
    return comparison.reason(job, excluded_providers=excluded or {})


def counts(reason):
    """Return how many providers have which obstacle."""
    return {count.obstacle.code: count.providers for count in reason.obstacles}


def nearest(reason, code):
    """Return what is missing at the nearest provider: quantity, needed, available, provider."""
    (shortfall,) = [count.nearest for count in reason.obstacles if count.obstacle.code == code]
    return shortfall.quantity, shortfall.needed, shortfall.available, shortfall.provider


@pytest.mark.parametrize(
    ("job_resources", "expected"),
    [
        (resources(1, gpus=3), (Quantity.GPUS, 3, 2)),
        (resources(8), (Quantity.NODE_CPUS, 8, 4)),
        (resources(2, memory_per_cpu_mb=600), (Quantity.NODE_MEMORY_MB, 1200, 1000)),
        (resources(2, tasks=5), (Quantity.TASKS, 5, 4)),
        (resources(1, memory_per_cpu_mb=0), (Quantity.TASKS, 1, 0)),
    ],
)
def test_too_small_provider_lacks_the_first_of_gpus_cpus_memory_and_tasks(job_resources, expected):
    job = pending_job(1, resources=job_resources)

    reason = explain(job, cluster(FIRST, 4, 4, gpus=2))

    assert reason.cause is Cause.NO_PROVIDER
    assert nearest(reason, "too-small") == (*expected, FIRST)


def test_nearest_provider_is_the_one_that_misses_the_smallest_part():
    job = pending_job(1, resources=resources(8, memory_per_cpu_mb=200), escrow=60)

    reason = explain(
        job, cluster(FIRST, 4), cluster(THIRD, 6), cluster(SECOND, 8), excluded={FIRST: "unused"}
    )

    # SECOND has 1000 of 1600 MB, THIRD has 6 of 8 CPUs.
    assert counts(reason) == {"too-small": 3}
    assert nearest(reason, "too-small") == (Quantity.NODE_CPUS, 8, 6, THIRD)


@pytest.mark.parametrize("larger", [(10, 9), (9, 10)])
def test_nearest_shortfall_has_the_ratio_nearest_to_one_in_both_directions(larger):
    far = Shortfall(Quantity.ESCROW_WEI, 10, 5, FIRST)
    near = Shortfall(Quantity.ESCROW_WEI, *larger, SECOND)

    assert nearest_shortfall([far, near]) == near
    assert nearest_shortfall([near, far]) == near


def test_nearest_of_equal_providers_is_the_one_with_the_lowest_address():
    job = pending_job(1, resources=resources(8))
    clusters = [cluster(SECOND, 4), cluster(FIRST, 4)]

    assert nearest(explain(job, *clusters), "too-small") == (Quantity.NODE_CPUS, 8, 4, FIRST)


def test_too_expensive_providers_show_the_cheapest_price_of_a_minute():
    job = pending_job(1, cpus=4, escrow=60)

    reason = explain(job, cluster(FIRST, price=20), cluster(SECOND, price=16))

    assert nearest(reason, "too-expensive") == (Quantity.ESCROW_WEI, 64, 60, SECOND)


def test_full_providers_show_what_is_free_and_not_what_they_have():
    job = pending_job(1, cpus=4)
    busy = cluster(FIRST, 4, jobs=[placed_job(8, 3)])
    less_busy = cluster(SECOND, 4, jobs=[placed_job(9, 1)])

    reason = explain(job, busy, less_busy)

    assert reason.cause is Cause.WAITS
    assert counts(reason) == {"full": 2}
    assert nearest(reason, "full") == (Quantity.NODE_CPUS, 4, 3, SECOND)


def test_provider_whose_queue_is_full_lacks_a_place_in_the_queue():
    queued = cluster(FIRST, 4, jobs=[placed_job(8, 4), placed_job(9, 4)], queue_allowance=1)

    reason = explain(pending_job(1), queued)

    assert nearest(reason, "full") == (Quantity.QUEUE_PLACES, 1, 0, FIRST)


def test_reserved_room_shows_for_how_long_it_is_free_and_for_which_job():
    job = pending_job(1, escrow=60)  # is paid for an hour
    kept = cluster(FIRST, 4, jobs=[placed_job(8, 2, paid_s=600, started_at=NOW)])
    reserve(kept, 5, 4, start_at=NOW + 600)

    reason = explain(job, kept)

    assert reason.cause is Cause.WAITS
    assert nearest(reason, "reserved") == (Quantity.FREE_S, 3600, 600, FIRST)
    assert reason.obstacles[0].nearest.reserved_for == job_id(5)


def test_room_for_an_overdue_reservation_is_free_for_no_time():
    kept = cluster(FIRST, 4)
    reserve(kept, 5, 4, start_at=NOW - 5)

    assert nearest(explain(pending_job(1), kept), "reserved")[1:3] == (3600, 0)


def test_provider_with_room_shows_the_price_of_the_cheaper_one_that_is_full():
    full = cluster(FIRST, 4, price=2, jobs=[placed_job(8)])

    reason = explain(pending_job(1, cpus=4), full, cluster(SECOND, price=3))

    assert counts(reason) == {"full": 1, "policy": 1}
    assert nearest(reason, "policy") == (Quantity.PRICE_PER_MIN_WEI, 8, 12, SECOND)


@pytest.mark.parametrize(("full_price", "policy"), [(3, BALANCED), (4, BALANCED), (2, SOONEST)])
def test_job_that_waits_for_no_cheaper_provider_was_not_tried(full_price, policy):
    full = cluster(FIRST, 4, price=full_price, jobs=[placed_job(8)])

    reason = explain(pending_job(1, cpus=4), full, cluster(SECOND, price=3), policy=policy)

    assert counts(reason) == {"full": 1, "not-tried": 1}


def test_obstacles_that_are_no_matter_of_numbers_have_no_shortfall():
    joined = cluster(FIRST)
    left = Cluster(provider(SECOND, is_joined=False))
    refusing = cluster(THIRD)

    reason = explain(
        pending_job(1), joined, left, refusing, excluded={FIRST: "is excluded", THIRD: REFUSED}
    )

    assert counts(reason) == {"not-accepting": 1, "excluded": 1, "refused": 1}
    assert [count.nearest for count in reason.obstacles] == [None, None, None]
    assert reason.obstacles[2].obstacle.text == "is excluded"
    assert reason.cause is Cause.WAITS  # the exclusion ends


def labelled(address, **labels):
    return cluster(
        address, labels=tuple(Label(key=key, value=value) for key, value in labels.items())
    )


def test_required_label_shows_how_many_providers_have_another_value():
    job = replace(pending_job(1), uses=(Label(key="region", value="eu"),))

    reason = explain(
        job,
        labelled(FIRST, region="us"),
        labelled(SECOND, region="asia"),
        labelled(THIRD),
        labelled("0x04", region="eu"),
    )

    (label,) = reason.labels
    assert label.requirement == "region=eu"
    assert (label.missing_count, label.other_count) == (1, 2)
    assert label.values == ("asia", "us")
    assert reason.labels_compared == 4


def test_condition_shows_the_nearest_numbers_first_and_satisfied_ones_are_left_out():
    conditions = (
        Affinity(key="zone", operator="in", value="lab"),
        Affinity(key="gflops", operator=">=", value="1000"),
    )
    job = replace(pending_job(1), affinity=conditions)

    reason = explain(
        job,
        labelled(FIRST, gflops="90", zone="lab1"),
        labelled(SECOND, gflops="0-slow", zone="lab1"),
        labelled(THIRD, gflops="200.5", zone="lab2"),
        labelled("0x04", gflops="200.6", zone="lab2"),
    )

    (label,) = reason.labels
    assert label.requirement == "gflops>=1000"
    assert label.values == ("200.6", "200.5", "90")
    assert label.other_count == 4


def test_conditions_with_a_reserved_key_are_not_about_labels():
    conditions = (
        Affinity(key="price.per-min", operator="<", value="1"),
        Affinity(key="zone", operator="=", value="lab"),
    )
    job = replace(pending_job(1), affinity=conditions)

    reason = explain(job, labelled(FIRST, policy="soonest"))

    assert [label.requirement for label in reason.labels] == ["zone=lab"]


def test_provider_that_a_condition_excludes_has_its_own_obstacle():
    condition = Affinity(key="deadline.unix", operator="<", value=str(NOW))

    reason = explain(replace(pending_job(1), affinity=(condition,)), cluster(FIRST))

    assert reason.cause is Cause.NO_PROVIDER
    assert counts(reason) == {"condition": 1}


def test_operator_that_is_a_word_has_spaces_around_it():
    condition = Affinity(key="zone", operator="in", value="lab")

    reason = explain(replace(pending_job(1), affinity=(condition,)), labelled(FIRST))

    assert reason.labels[0].requirement == "zone in lab"


def test_refused_and_banned_providers_are_not_compared_by_label():
    job = replace(pending_job(1), uses=(Label(key="region", value="eu"),))

    reason = explain(
        job, labelled(FIRST), Cluster(provider(SECOND, is_joined=False)), excluded={FIRST: REFUSED}
    )

    assert (reason.labels, reason.labels_compared) == ((), 0)


def test_jobs_of_different_sizes_are_compared_with_the_same_nodes():
    """The sizes of the nodes are computed only once."""
    busy = cluster(FIRST, 4, jobs=[placed_job(8, 3)])
    comparison = Comparison([busy], policy=BALANCED, now=NOW)

    figures = []
    for cpus, code in ((4, "full"), (2, "full"), (8, "too-small"), (6, "too-small")):
        reason = comparison.reason(pending_job(1, cpus=cpus), excluded_providers={})
        figures.append(nearest(reason, code)[1:3])

    assert figures == [(4, 1), (2, 1), (8, 4), (6, 4)]
