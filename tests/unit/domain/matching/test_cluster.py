# SPDX-License-Identifier: Apache-2.0
"""Tests of the occupation of one provider."""

import hashlib

import pytest
from tests.unit.domain.builders import job_id
from tests.unit.domain.matching.grids import (
    BLOCK,
    FIRST,
    NOW,
    cluster,
    placed_job,
    provider,
    resources,
)

from gridstead.domain.matching.cluster import ring_position


@pytest.mark.parametrize(
    ("started_at", "ends_at"),
    [
        (0, NOW + 600),  # it is expected to start now
        (NOW - 100, NOW + 500),
        (NOW - 600, NOW),
        (NOW - 700, NOW + 100),  # it is 100 s late, and is expected to need as long again
    ],
)
def test_job_is_expected_to_run_as_long_as_its_escrow_pays(started_at, ends_at):
    assert placed_job(1, paid_s=600, started_at=started_at).ends_at(NOW) == ends_at


def test_job_that_does_not_fit_on_the_empty_nodes_does_not_block_the_provider():
    node = cluster(8, jobs=[placed_job(1, 8)])

    node.set_provider(provider(FIRST, 4))

    assert node.waiting_count == 0
    assert node.has_room(resources(4))


def test_matched_job_occupies_its_place_until_it_is_removed():
    node = cluster(4, jobs=[placed_job(1, 3)])

    assert (node.job_count, node.free.free_cpus) == (1, 1)
    assert not node.has_room(resources(2))

    node.remove_job(job_id(1))

    assert (node.job_count, node.free.free_cpus) == (0, 4)
    assert node.has_room(resources(4))


def test_job_that_is_set_again_occupies_its_place_once():
    node = cluster(4, jobs=[placed_job(1, 3)])
    assert node.free.free_cpus == 1

    node.set_job(placed_job(1, 3, started_at=NOW))

    assert (node.job_count, node.free.free_cpus, node.waiting_count) == (1, 1, 0)


def test_job_that_is_set_again_before_it_is_placed_occupies_its_place_once():
    node = cluster(4, jobs=[placed_job(1, 3), placed_job(1, 3, started_at=NOW)])

    assert (node.job_count, node.free.free_cpus, node.waiting_count) == (1, 1, 0)


@pytest.mark.parametrize(
    "large_job",
    [
        placed_job(1, 4, matched_block=BLOCK + 1),
        placed_job(4, 4, matched_block=BLOCK),  # in the same block, but requested later
    ],
)
def test_jobs_are_placed_in_the_order_of_their_matches(large_job):
    """The jobs 2 and 3 were matched earlier than the large job, and fill the node."""
    node = cluster(4, jobs=[large_job, placed_job(3, 2), placed_job(2, 2)])

    assert node.waiting_count == 1


def test_waiting_job_is_placed_when_another_job_leaves():
    node = cluster(4, jobs=[placed_job(1, 3), placed_job(2, 4)])
    assert (node.waiting_count, node.free.free_cpus) == (1, 1)

    node.remove_job(job_id(1))

    assert (node.waiting_count, node.free.free_cpus) == (0, 0)


def test_waiting_job_that_is_removed_gets_no_place_later():
    node = cluster(4, jobs=[placed_job(1, 3), placed_job(2, 4)])
    assert node.waiting_count == 1

    node.remove_job(job_id(2))
    node.remove_job(job_id(1))

    assert (node.waiting_count, node.free.free_cpus) == (0, 4)


def test_removal_of_an_unknown_job_changes_nothing():
    node = cluster(4, jobs=[placed_job(1)])
    version = node.version

    node.remove_job(job_id(2))

    assert (node.version, node.job_count) == (version, 1)


def test_job_with_equal_values_changes_nothing():
    node = cluster(4, jobs=[placed_job(1)])
    version = node.version

    node.set_job(placed_job(1))

    assert node.version == version


def test_last_change_is_described():
    node = cluster(4)
    changes = []
    node.set_job(placed_job(1, paid_s=60))
    changes.append(node.change)
    node.set_job(placed_job(1, paid_s=120))
    changes.append(node.change)
    node.set_job(placed_job(1, paid_s=120, started_at=NOW))
    changes.append(node.change)
    node.remove_job(job_id(1))
    changes.append(node.change)
    node.set_provider(provider(FIRST, 8))
    changes.append(node.change)

    assert changes == [
        "job 1 was matched",
        "credits were added to job 1",
        "job 1 was changed",
        "job 1 left",
        "its nodes changed",
    ]
    assert node.version == 5


def test_jobs_are_placed_again_when_the_nodes_change():
    node = cluster(4, jobs=[placed_job(1, 4), placed_job(2, 4)])
    assert node.waiting_count == 1

    node.set_provider(provider(FIRST, 4, 4))

    assert (node.waiting_count, node.free.free_cpus) == (0, 0)
    assert node.can_run(resources(4, tasks=2))


def test_new_prices_change_no_placement():
    node = cluster(4, jobs=[placed_job(1, 3)])
    version = node.version

    node.set_provider(provider(FIRST, 4, price=2))

    assert (node.version, node.free.free_cpus) == (version, 1)
    assert node.provider.prices.cpu_per_min == 2


def test_provider_can_run_a_job_for_which_its_empty_nodes_have_room():
    node = cluster(4, jobs=[placed_job(1, 4)])

    assert node.can_run(resources(4))
    assert not node.can_run(resources(5))


def test_no_job_is_admitted_before_a_waiting_job_has_room():
    node = cluster(4, jobs=[placed_job(1, 3), placed_job(2, 3)])

    assert not node.has_room(resources(1))


def test_queue_allowance_limits_the_number_of_waiting_jobs():
    node = cluster(4, jobs=[placed_job(1, 4)], queue_allowance=2)
    has_room = [node.has_room(resources(4))]
    for number in (2, 3):
        node.match(placed_job(number, 4), now=NOW)
        has_room.append(node.has_room(resources(4)))

    assert has_room == [True, True, False]
    assert node.waiting_count == 2


def test_match_uses_the_room_at_once():
    node = cluster(4)

    node.match(placed_job(1, 3), now=NOW)

    assert (node.version, node.job_count, node.free.free_cpus) == (1, 1, 1)


RUNNING = [
    placed_job(1, 2, paid_s=600, started_at=NOW),
    placed_job(2, 2, paid_s=1200, started_at=NOW, gpus=1),
]


@pytest.mark.parametrize(
    ("requested", "start", "obstacle"),
    [
        (resources(1), NOW, None),
        (resources(2), NOW + 600, 1),
        (resources(3), NOW + 600, 1),
        (resources(4), NOW + 1200, 2),
        (resources(1, gpus=1), NOW + 1200, 2),
    ],
)
def test_job_starts_when_enough_jobs_have_ended(requested, start, obstacle):
    node = cluster(5, jobs=RUNNING, gpus=1)

    last_obstacle = node.last_obstacle(requested, now=NOW)

    assert node.earliest_start(requested, now=NOW) == start
    assert node.estimated_start(requested, now=NOW) == start
    assert (last_obstacle.job_id.number if last_obstacle else None) == obstacle


def test_estimated_start_ignores_that_a_task_needs_one_node():
    """The job needs an empty node, and the first node is empty at NOW + 600."""
    node = cluster(4, 4, jobs=[placed_job(1, 2, paid_s=600), placed_job(2, 3, paid_s=900)])

    assert node.estimated_start(resources(3), now=NOW) == NOW
    assert node.earliest_start(resources(3), now=NOW) == NOW + 600


def test_waiting_job_frees_no_room_when_it_ends():
    node = cluster(4, jobs=[placed_job(1, 4, paid_s=900), placed_job(2, 4, paid_s=600)])
    assert node.waiting_count == 1

    assert node.earliest_start(resources(4), now=NOW) == NOW + 900


def test_estimated_start_is_computed_again_after_a_change():
    node = cluster(4)
    starts = [node.estimated_start(resources(4), now=NOW)]
    node.match(placed_job(1, 4, paid_s=600), now=NOW)
    starts.append(node.estimated_start(resources(4), now=NOW))
    starts.append(node.estimated_start(resources(4), now=NOW + 50))

    assert starts == [NOW, NOW + 600, NOW + 650]


def test_estimated_start_of_a_job_that_is_too_large_is_the_last_end():
    node = cluster(4, jobs=[placed_job(1, 2, paid_s=600)])

    assert node.estimated_start(resources(5), now=NOW) == NOW + 600


def test_ring_position_is_the_start_of_a_hash():
    """The first 8 bytes of SHA-256 of the text "abc", as FIPS 180-2 lists them."""
    assert ring_position("abc") == 0xBA7816BF8F01CFEA
    digest = hashlib.sha256(FIRST.encode()).hexdigest()
    assert cluster(4).position == int(digest[:16], 16)
