# SPDX-License-Identifier: Apache-2.0
"""Tests of the candidates of a class of jobs."""

from dataclasses import replace

import pytest
from tests.unit.domain.builders import job_id
from tests.unit.domain.matching.grids import (
    FIRST,
    NOW,
    SECOND,
    THIRD,
    matched_job,
    pending_job,
    placed_job,
    provider,
    resources,
)

from gridstead.domain.jobs.billing import Prices
from gridstead.domain.jobs.job import Affinity, Label
from gridstead.domain.matching.candidates import LABEL_WORK, CandidateCache
from gridstead.domain.matching.cluster import Cluster, ring_position
from gridstead.domain.matching.groups import FreedClusters

ZONE = Label(key="zone", value="lab")


def clusters_of(*providers):
    return {each.address: Cluster(each) for each in providers}


def cache_of(*providers, **limits):
    return CandidateCache(clusters_of(*providers), **limits)


def options(priced):
    """Return (address, price) of each provider."""
    result = []
    for weighted_price, cluster in priced:
        result.append((cluster.provider.address, cluster.plain_price(weighted_price)))
    return result


def candidates_of(cache, job):
    return cache.get(cache.class_of(job))


def on_ring(*prices):
    """Return clusters with these prices and with the positions 0, 10, 20 and so on."""
    clusters = []
    for index, price in enumerate(prices):
        cluster = Cluster(provider(f"0x{index:040x}", price=price))
        cluster.position = index * 10
        clusters.append(cluster)
    return clusters


def cache_on_ring(clusters):
    return CandidateCache({cluster.provider.address: cluster for cluster in clusters})


def with_room(candidates, *, position=0, min_price=0, max_price=100_000):
    return list(candidates.with_room(position, min_price=min_price, max_price=max_price))


def test_jobs_with_equal_requirements_have_the_same_class():
    cache = cache_of()
    job_class = cache.class_of(pending_job(1, uses=(ZONE,)))

    assert cache.class_of(pending_job(2, uses=(ZONE,), escrow=7)) is job_class
    assert cache.class_of(matched_job(3, uses=(ZONE,))) is job_class


@pytest.mark.parametrize(
    "changes",
    [
        {"resources": resources(2)},
        {"uses": (ZONE,)},
        {"affinity": (Affinity(key="zone", operator="==", value="lab"),)},
    ],
)
def test_jobs_with_other_requirements_have_another_class(changes):
    cache = cache_of()
    job_class = cache.class_of(pending_job(1))

    assert cache.class_of(pending_job(2, **changes)) is not job_class


@pytest.mark.parametrize(
    "changes",
    [
        {"is_joined": False},
        {"labels": (Label(key="zone", value="other"),)},
        {"hardware": provider(FIRST, 1).hardware},
    ],
)
def test_unsuitable_provider_is_no_candidate(changes):
    job = pending_job(1, 2, uses=(ZONE,))
    cache = cache_of(
        provider(FIRST, **({"labels": (ZONE,)} | changes)), provider(SECOND, labels=(ZONE,))
    )

    candidates = candidates_of(cache, job)

    assert options(candidates) == [(SECOND, 2)]


def test_candidate_has_all_labels_that_a_job_requires():
    other_label = Label(key="rack", value="1")
    cache = cache_of(provider(FIRST, labels=(ZONE,)), provider(SECOND, labels=(other_label, ZONE)))

    conditions = (
        Affinity(key="zone", operator="==", value="lab"),
        Affinity(key="rack", operator=">", value="0"),
    )
    job = pending_job(1, uses=(ZONE, other_label), affinity=conditions)
    candidates = candidates_of(cache, job)

    assert options(candidates) == [(SECOND, 1)]


def test_only_a_candidate_has_a_price():
    job = pending_job(1, 2)
    clusters = clusters_of(provider(FIRST, price=3), provider(SECOND, is_joined=False))

    candidates = candidates_of(CandidateCache(clusters), job)

    assert candidates.price_of(clusters[FIRST]) == 6
    assert candidates.price_of(clusters[SECOND]) is None


def test_candidates_are_sorted_by_price_and_by_position():
    addresses = sorted((FIRST, SECOND), key=ring_position)
    cache = cache_of(provider(FIRST, price=2), provider(THIRD, price=1), provider(SECOND, price=2))

    priced = candidates_of(cache, pending_job(1))

    assert options(priced) == [(THIRD, 1), (addresses[0], 2), (addresses[1], 2)]


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (0, [0, 1, 2, 3, 4]),
        (10, [1, 2, 0, 3, 4]),  # the position of a provider is included
        (11, [2, 0, 1, 4, 3]),
        (41, [0, 1, 2, 3, 4]),
    ],
)
def test_ring_is_read_from_a_position_for_each_price(position, expected):
    """The providers 0 to 2 have the positions 0, 10, 20, and 3 and 4 have 10 and 40."""
    clusters = on_ring(1, 1, 1, 2, 2)
    clusters[3].position = 10
    candidates = candidates_of(cache_on_ring(clusters), pending_job(1))

    order = [clusters.index(cluster) for _, cluster in candidates.from_position(position)]
    open_order = [cluster for _, cluster in with_room(candidates, position=position)]

    assert order == expected
    assert [clusters.index(cluster) for cluster in open_order] == expected


def test_groups_with_equal_prices_for_a_job_share_a_ring():
    """Their prices of memory differ, but the job is so small that only the CPU costs something."""
    clusters = on_ring(1, 1, 1)
    prices = Prices(cpu_per_min=1, gpu_per_min=7, memory_mb_per_min=0)
    clusters[1].set_provider(replace(clusters[1].provider, prices=prices))
    candidates = candidates_of(cache_on_ring(clusters), pending_job(1))

    order = [clusters.index(cluster) for _, cluster in with_room(candidates, position=5)]

    assert order == [1, 2, 0]
    assert [cluster for _, cluster in candidates.from_position(5)] == [
        clusters[index] for index in order
    ]


def test_only_candidates_between_two_prices_are_searched():
    clusters = on_ring(1, 2, 3, 4)
    candidates = candidates_of(cache_on_ring(clusters), pending_job(1))

    prices = [price for price, _ in with_room(candidates, min_price=200, max_price=300)]

    assert prices == [200, 300]


def test_provider_without_room_is_left_out_until_a_job_ends():
    clusters = clusters_of(provider(FIRST), provider(SECOND, price=2))
    cache = CandidateCache(clusters)
    job = pending_job(1, 4)
    assert options(with_room(candidates_of(cache, job))) == [(FIRST, 4), (SECOND, 8)]

    clusters[FIRST].match(placed_job(2), now=NOW)
    assert options(with_room(candidates_of(cache, job))) == [(SECOND, 8)]

    clusters[FIRST].remove_job(placed_job(2).job_id)
    assert options(with_room(candidates_of(cache, job))) == [(SECOND, 8)]
    cache.add_freed(clusters[FIRST])
    assert options(with_room(candidates_of(cache, job))) == [(FIRST, 4), (SECOND, 8)]


def test_freed_provider_returns_to_its_place_on_the_ring():
    clusters = on_ring(1, 1, 1, 2)
    cache = cache_on_ring(clusters)
    job = pending_job(1, 4)
    for number, cluster in enumerate(clusters, start=2):
        cluster.match(placed_job(number, 4), now=NOW)
    assert with_room(candidates_of(cache, job)) == []

    for index in (2, 1):
        clusters[index].remove_job(job_id(index + 2))
        cache.add_freed(clusters[index])
    cache.add_freed(clusters[1])

    order = [clusters.index(cluster) for _, cluster in with_room(candidates_of(cache, job))]
    assert order == [1, 2]


def test_freed_provider_that_was_not_searched_yet_is_searched_once():
    clusters = on_ring(1, 2)
    cache = cache_on_ring(clusters)
    job = pending_job(1)
    assert with_room(candidates_of(cache, job), max_price=100) == [(100, clusters[0])]

    cache.add_freed(clusters[0])
    cache.add_freed(clusters[1])

    candidates = candidates_of(cache, job)
    assert with_room(candidates) == [(100, clusters[0]), (200, clusters[1])]


def test_freed_provider_without_the_labels_is_not_searched():
    clusters = clusters_of(provider(FIRST), provider(SECOND, labels=(ZONE,)))
    cache = CandidateCache(clusters)
    job = pending_job(1, uses=(ZONE,))
    candidates_of(cache, job)

    cache.add_freed(clusters[FIRST])

    assert options(with_room(candidates_of(cache, job))) == [(SECOND, 1)]


def test_all_candidates_are_searched_again_if_the_changes_are_not_kept():
    clusters = clusters_of(provider(FIRST))
    cache = CandidateCache(clusters)
    cache._freed = FreedClusters(max_length=1)
    job = pending_job(1, 4)
    clusters[FIRST].match(placed_job(2, 4), now=NOW)
    assert with_room(candidates_of(cache, job)) == []

    clusters[FIRST].remove_job(job_id(2))
    cache.add_freed(clusters[FIRST])
    cache.add_freed(clusters[FIRST])

    assert options(with_room(candidates_of(cache, job))) == [(FIRST, 4)]


def test_provider_with_room_but_without_the_labels_is_not_searched():
    cache = cache_of(provider(FIRST), provider(SECOND, labels=(ZONE,)))

    candidates = candidates_of(cache, pending_job(1, uses=(ZONE,)))

    assert options(with_room(candidates)) == [(SECOND, 1)]


def full_grid():
    """Return clusters without room for a job of 4 CPUs, their cache and the class of the job."""
    clusters = clusters_of(provider(FIRST), provider(SECOND, price=2))
    for number, cluster in enumerate(clusters.values(), start=2):
        cluster.match(placed_job(number), now=NOW)
    cache = CandidateCache(clusters)
    job_class = cache.class_of(pending_job(1, 4))
    assert not cache.is_full(job_class)
    cache.note_full(job_class)
    return clusters, cache, job_class


def test_class_is_full_until_a_provider_has_room():
    clusters, cache, job_class = full_grid()
    assert cache.is_full(job_class)
    assert cache.is_full(job_class, max_price=100_000)

    cache.add_freed(clusters[SECOND])  # for example, another job took the room at once
    assert cache.is_full(job_class)

    clusters[SECOND].remove_job(placed_job(3).job_id)
    cache.add_freed(clusters[SECOND])
    assert not cache.is_full(job_class)


def test_class_may_be_full_only_below_a_price():
    clusters, cache, job_class = full_grid()
    clusters[SECOND].remove_job(placed_job(3).job_id)
    cache.add_freed(clusters[SECOND])

    cache.note_full(job_class)

    assert not cache.is_full(job_class)
    assert cache.is_full(job_class, max_price=799)
    assert not cache.is_full(job_class, max_price=800)


def test_class_is_not_full_after_a_change_of_a_provider():
    _, cache, job_class = full_grid()

    cache.clear()

    assert not cache.is_full(job_class)


def test_change_of_a_provider_that_accepts_no_jobs_has_no_effect():
    clusters = clusters_of(provider(FIRST), provider(SECOND, is_joined=False))
    cache = CandidateCache(clusters)
    job = pending_job(1)
    candidates_of(cache, job)

    cache.add_freed(clusters[SECOND])

    assert options(with_room(candidates_of(cache, job))) == [(FIRST, 1)]


def test_candidates_are_kept_until_the_cache_is_cleared():
    clusters = clusters_of(provider(FIRST))
    cache = CandidateCache(clusters)
    job_class = cache.class_of(pending_job(1))
    assert cache.work_for(job_class) == LABEL_WORK
    candidates = cache.get(job_class)
    assert cache.work_for(job_class) == 0
    clusters[SECOND] = Cluster(provider(SECOND, price=2))
    assert cache.get(job_class) is candidates

    cache.clear()

    assert cache.work_for(job_class) == LABEL_WORK
    assert options(cache.get(job_class)) == [(FIRST, 1), (SECOND, 2)]


def test_oldest_class_is_dropped_from_a_full_cache():
    cache = cache_of(provider(FIRST), max_classes=2)
    classes = [cache.class_of(pending_job(cpus, cpus)) for cpus in (1, 2, 3)]
    for job_class in classes:
        cache.get(job_class)

    assert [cache.work_for(job_class) for job_class in classes] == [1, 0, 0]


def test_labels_are_compared_once_for_all_classes_with_equal_labels():
    clusters = clusters_of(provider(FIRST))
    cache = CandidateCache(clusters)
    candidates_of(cache, pending_job(1, 1))
    clusters[SECOND] = Cluster(provider(SECOND, price=2))

    assert options(candidates_of(cache, pending_job(2, 2))) == [(FIRST, 2)]
    labelled = pending_job(3, affinity=(Affinity(key="zone", operator="==", value="lab"),))
    assert options(candidates_of(cache, labelled)) == []
