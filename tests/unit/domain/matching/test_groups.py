# SPDX-License-Identifier: Apache-2.0
"""Tests of the groups of providers."""

import pytest
from tests.unit.domain.builders import job_id
from tests.unit.domain.matching.grids import (
    FIRST,
    NOW,
    SECOND,
    THIRD,
    placed_job,
    provider,
    resources,
)

from gridstead.domain.matching.cluster import Cluster, ring_position
from gridstead.domain.matching.groups import ClusterGroup, FreedClusters, group_by_prices


def test_providers_with_equal_prices_are_a_group():
    providers = (
        provider(FIRST),
        provider(SECOND, price=2),
        provider(THIRD),
        provider("0x" + "f4" * 20, is_joined=False),
    )

    groups = group_by_prices([Cluster(each) for each in providers])

    first, second = groups
    assert [cluster.provider.address for cluster in first.clusters] == sorted(
        (FIRST, THIRD), key=ring_position
    )
    assert [cluster.provider.address for cluster in second.clusters] == [SECOND]
    assert [group.prices.cpu_per_min for group in groups] == [1, 2]


@pytest.mark.parametrize(
    "too_large",
    [
        resources(5),
        resources(2, tasks=7),
        resources(1, gpus=3),
        resources(1, memory_per_cpu_mb=11),
    ],
)
def test_group_has_room_if_a_provider_has_room(too_large):
    """The bounds are 4 CPUs and 10 MB on a node, and 12 CPUs and 2 GPUs of a provider."""
    first = Cluster(provider(FIRST, 4, memory_mb=10, gpus=2))
    second = Cluster(provider(SECOND, 3, 3, 3, 3, memory_mb=10))
    group = ClusterGroup([first, second])

    assert group.with_room(resources(4)) == [first]
    assert group.has_room(resources(3, tasks=4))
    assert group.with_room(too_large) == []
    assert not group.has_room(too_large)


def test_search_for_less_memory_finds_more_providers():
    """The providers are searched again only for less memory than in an earlier search."""
    first = Cluster(provider(FIRST, 4, memory_mb=4))
    second = Cluster(provider(SECOND, 4, memory_mb=8))
    group = ClusterGroup([first, second])

    searches = [group.with_room(resources(4, memory_per_cpu_mb=mb)) for mb in (2, 3, 1, 2)]

    assert list(map(len, searches)) == [1, 0, 2, 1]


def test_full_provider_is_not_searched_for_more_memory_before_an_update():
    first = Cluster(provider(FIRST, 4))
    second = Cluster(provider(SECOND, 4, 4, 4))
    group = ClusterGroup([first, second])
    assert len(group.with_room(resources(2))) == 2
    second.set_job(placed_job(1, 1, tasks=11))
    first.set_job(placed_job(2, 4))
    assert group.with_room(resources(2, memory_per_cpu_mb=2)) == []

    first.remove_job(job_id(2))
    assert group.with_room(resources(2)) == []

    group.update()
    assert group.with_room(resources(2)) == [first]


def test_job_within_the_bounds_may_have_no_room():
    clusters = [Cluster(provider(FIRST, 4)), Cluster(provider(SECOND, 1, 1, gpus=1))]
    group = ClusterGroup(clusters)

    assert group.with_room(resources(2, gpus=1)) == []
    assert not group.has_room(resources(2, gpus=1))


def test_group_has_room_again_after_an_update():
    cluster = Cluster(provider(FIRST, 4))
    cluster.match(placed_job(1, 4), now=NOW)
    group = ClusterGroup([cluster])
    cluster.remove_job(placed_job(1).job_id)

    assert not group.has_room(resources(1))
    group.update()
    assert group.has_room(resources(1))


def test_group_of_providers_with_waiting_jobs_has_no_room():
    cluster = Cluster(provider(FIRST, 4))
    cluster.set_job(placed_job(1, 3))
    cluster.set_job(placed_job(2, 3))

    assert not ClusterGroup([cluster]).has_room(resources(1))


def test_freed_providers_are_counted():
    first, second, third = [Cluster(provider(address)) for address in (FIRST, SECOND, THIRD)]
    freed = FreedClusters(max_length=2)
    freed.add(first)
    freed.add(second)
    assert (freed.first, freed.end) == (1, 3)
    assert freed.since(2).clusters == [second]
    assert freed.since(2) is freed.since(2)

    freed.add(third)

    assert freed.first > 3
    assert freed.since(freed.first).clusters == [third]
