# SPDX-License-Identifier: Apache-2.0
"""Tests of the candidates of a class of jobs."""

import pytest
from tests.unit.domain.matching.grids import (
    FIRST,
    SECOND,
    THIRD,
    matched_job,
    pending_job,
    provider,
    resources,
)

from gridstead.domain.jobs.job import Affinity, Label
from gridstead.domain.matching.candidates import CandidateCache, FreedClusters, PricedClusters
from gridstead.domain.matching.cluster import Cluster, ring_position

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


def on_ring(count):
    """Return clusters with small positions 0, 10, 20 and so on."""
    clusters = []
    for index in range(count):
        cluster = Cluster(provider(f"0x{index:040x}"))
        cluster.position = index * 10
        clusters.append(cluster)
    return clusters


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

    assert options(candidates.all) == [(SECOND, 2)]


def test_candidate_has_all_labels_that_a_job_requires():
    other_label = Label(key="rack", value="1")
    cache = cache_of(provider(FIRST, labels=(ZONE,)), provider(SECOND, labels=(other_label, ZONE)))

    conditions = (
        Affinity(key="zone", operator="==", value="lab"),
        Affinity(key="rack", operator=">", value="0"),
    )
    job = pending_job(1, uses=(ZONE, other_label), affinity=conditions)
    candidates = candidates_of(cache, job)

    assert options(candidates.all) == [(SECOND, 1)]


def test_only_a_candidate_has_a_price():
    job = pending_job(1, 2)
    clusters = clusters_of(provider(FIRST, price=3), provider(SECOND, is_joined=False))

    candidates = candidates_of(CandidateCache(clusters), job)

    assert candidates.price_of(clusters[FIRST]) == 6
    assert candidates.price_of(clusters[SECOND]) is None


def test_candidates_are_sorted_by_price_and_by_position():
    addresses = sorted((FIRST, SECOND), key=ring_position)
    cache = cache_of(provider(FIRST, price=2), provider(THIRD, price=1), provider(SECOND, price=2))

    priced = candidates_of(cache, pending_job(1)).all

    assert options(priced) == [(THIRD, 1), (addresses[0], 2), (addresses[1], 2)]
    assert len(priced) == 3


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
    clusters = on_ring(5)
    clusters[3].position = 10
    priced = PricedClusters([1, 1, 1, 2, 2], clusters)

    order = [clusters.index(cluster) for _, cluster in priced.from_position(position)]

    assert order == expected


@pytest.mark.parametrize("removed", [(0,), (1,), (2,), (1, 2), (2, 0), (0, 1, 2), (3,), (2, 3)])
def test_provider_that_was_yielded_last_may_be_removed(removed):
    clusters = on_ring(4)
    priced = PricedClusters([1, 1, 1, 2], clusters.copy())

    order = []
    for price, cluster in priced.from_position(10):
        order.append(clusters.index(cluster))
        if order[-1] in removed:
            priced.remove(price, cluster)

    left = [clusters.index(cluster) for _, cluster in priced]
    assert order == [1, 2, 0, 3]
    assert left == [index for index in range(4) if index not in removed]


def test_provider_is_added_at_its_price_and_position():
    clusters = on_ring(4)
    priced = PricedClusters([1, 1, 2], [clusters[0], clusters[2], clusters[3]])

    priced.add(1, clusters[1])

    assert list(priced) == [(1, clusters[0]), (1, clusters[1]), (1, clusters[2]), (2, clusters[3])]


def test_provider_is_added_at_the_end():
    clusters = on_ring(2)
    priced = PricedClusters([1], [clusters[0]])

    priced.add(1, clusters[1])

    assert list(priced) == [(1, clusters[0]), (1, clusters[1])]


def test_provider_is_added_once():
    clusters = on_ring(2)
    priced = PricedClusters([1, 1], clusters.copy())

    priced.add(1, clusters[0])

    assert list(priced) == [(1, clusters[0]), (1, clusters[1])]


def test_copy_is_independent():
    clusters = on_ring(2)
    priced = PricedClusters([1, 1], clusters.copy())

    priced.copy().remove(1, clusters[0])

    assert len(priced) == 2


def test_provider_without_room_is_left_out_until_a_job_ends():
    clusters = clusters_of(provider(FIRST), provider(SECOND, price=2))
    cache = CandidateCache(clusters)
    candidates = candidates_of(cache, pending_job(1))
    candidates.open().remove(1, clusters[FIRST])
    assert options(candidates.open()) == [(SECOND, 2)]

    cache.add_freed(clusters[FIRST])

    assert options(candidates.open()) == [(FIRST, 1), (SECOND, 2)]
    assert options(candidates.all) == [(FIRST, 1), (SECOND, 2)]


def test_provider_that_was_freed_earlier_is_not_added_again():
    clusters = clusters_of(provider(FIRST))
    cache = CandidateCache(clusters)
    candidates = candidates_of(cache, pending_job(1))
    candidates.open()
    cache.add_freed(clusters[FIRST])
    candidates.open().remove(1, clusters[FIRST])

    assert options(candidates.open()) == []


def test_freed_provider_that_is_no_candidate_is_not_added():
    clusters = clusters_of(provider(FIRST), provider(SECOND, 1))
    cache = CandidateCache(clusters)
    candidates = candidates_of(cache, pending_job(1, 2))
    candidates.open()

    cache.add_freed(clusters[SECOND])

    assert options(candidates.open()) == [(FIRST, 2)]


def test_all_candidates_are_open_again_if_the_changes_are_not_kept():
    clusters = clusters_of(provider(FIRST), provider(SECOND))
    cache = CandidateCache(clusters)
    cache._freed = FreedClusters(max_length=1)
    candidates = candidates_of(cache, pending_job(1))
    candidates.open().remove(1, clusters[FIRST])

    cache.add_freed(clusters[SECOND])
    cache.add_freed(clusters[SECOND])

    assert {address for address, _ in options(candidates.open())} == {FIRST, SECOND}


def test_freed_providers_are_counted():
    first, second, third = on_ring(3)
    freed = FreedClusters(max_length=2)
    freed.add(first)
    freed.add(second)
    assert (freed.first, freed.end, freed.since(1)) == (0, 2, [second])

    freed.add(third)

    assert (freed.first, freed.end, freed.since(2)) == (2, 3, [third])


def test_candidates_are_kept_until_the_cache_is_cleared():
    clusters = clusters_of(provider(FIRST))
    cache = CandidateCache(clusters)
    job_class = cache.class_of(pending_job(1))
    assert not cache.has(job_class)
    candidates = cache.get(job_class)
    assert cache.has(job_class)
    clusters[SECOND] = Cluster(provider(SECOND, price=2))
    assert cache.get(job_class) is candidates

    cache.clear()

    assert not cache.has(job_class)
    assert options(cache.get(job_class).all) == [(FIRST, 1), (SECOND, 2)]


def test_oldest_class_is_dropped_from_a_full_cache():
    cache = cache_of(provider(FIRST), max_classes=2)
    classes = [cache.class_of(pending_job(cpus, cpus)) for cpus in (1, 2, 3)]
    for job_class in classes:
        cache.get(job_class)

    assert [cache.has(job_class) for job_class in classes] == [False, True, True]


def test_labels_are_compared_once_for_all_classes_with_equal_labels():
    clusters = clusters_of(provider(FIRST))
    cache = CandidateCache(clusters)
    candidates_of(cache, pending_job(1, 1))
    clusters[SECOND] = Cluster(provider(SECOND, price=2))

    assert options(candidates_of(cache, pending_job(2, 2)).all) == [(FIRST, 2)]
    labelled = pending_job(3, affinity=(Affinity(key="zone", operator="==", value="lab"),))
    assert options(candidates_of(cache, labelled).all) == []
