# SPDX-License-Identifier: Apache-2.0
"""Tests of the jobs that a provider admits with and without a reservation."""

import pytest
from tests.unit.domain.builders import job_id
from tests.unit.domain.matching.grids import (
    FIRST,
    HOUR_S,
    NOW,
    cluster,
    hardware,
    placed_job,
    provider,
    resources,
)

from gridstead.domain.matching.forecast import Reservation

RESERVED = job_id(9)


def reserve(of_cluster, requested, *, start_at, number=9):
    of_cluster.reservation = Reservation(
        job_id=job_id(number), resources=requested, start_at=start_at, version=0
    )


def admits(of_cluster, cpus, *, paid_s, job=RESERVED, now=NOW):
    return of_cluster.admits(resources(cpus), job_id=job, paid_s=paid_s, now=now)


def test_job_with_room_is_admitted_if_there_is_no_reservation():
    assert admits(cluster(4), 4, paid_s=HOUR_S)


def test_job_with_the_reservation_is_admitted():
    node = cluster(4)
    reserve(node, resources(4), start_at=NOW)

    assert admits(node, 4, paid_s=HOUR_S)


@pytest.mark.parametrize(
    ("cpus", "paid_s", "is_admitted"),
    [
        (2, 600, True),  # it ends when the reserved job starts
        (2, 601, False),
        (1, 601, True),  # the reserved job needs 3 of the 4 CPUs
    ],
)
def test_job_is_admitted_if_it_does_not_delay_the_reserved_job(cpus, paid_s, is_admitted):
    node = cluster(4, jobs=[placed_job(1, 2, paid_s=600, started_at=NOW)])
    reserve(node, resources(3), start_at=NOW + 600)

    assert admits(node, cpus, paid_s=paid_s, job=job_id(2)) is is_admitted


def test_gpus_of_the_reserved_job_are_kept():
    node = cluster(8, jobs=[placed_job(1, gpus=1, paid_s=600, started_at=NOW)], gpus=2)
    reserve(node, resources(1, gpus=2), start_at=NOW + 600)
    with_gpu = resources(1, gpus=1)

    assert node.admits(with_gpu, job_id=job_id(2), paid_s=600, now=NOW)
    assert not node.admits(with_gpu, job_id=job_id(2), paid_s=601, now=NOW)
    assert admits(node, 1, paid_s=601, job=job_id(2))


def test_each_match_reduces_what_later_jobs_may_use_with_a_reservation():
    """The reserved job needs 2 of the 4 CPUs from NOW + 600 on. Job 1 uses 1 CPU until then."""
    node = cluster(4, jobs=[placed_job(1, 1, paid_s=600, started_at=NOW)])
    reserve(node, resources(2), start_at=NOW + 600)
    assert admits(node, 2, paid_s=HOUR_S, job=job_id(2))

    node.match(placed_job(2, 1), now=NOW)

    assert not admits(node, 2, paid_s=HOUR_S, job=job_id(3))
    assert admits(node, 1, paid_s=HOUR_S, job=job_id(3))


def test_long_job_is_placed_on_other_nodes_than_the_reserved_job():
    """The reserved job needs node 0 at NOW + 600. A long job would fit best on this node."""
    node = cluster(4, 8, jobs=[placed_job(1, 1, paid_s=600, started_at=NOW)])
    reserve(node, resources(4), start_at=NOW + 600)

    node.match(placed_job(2, 2), now=NOW)

    assert node.free.largest_node()[0] == 6
    assert node.earliest_start(resources(4, tasks=2), now=NOW) == NOW + 600


def test_short_job_is_placed_where_the_reserved_job_starts_later():
    node = cluster(4, 8, jobs=[placed_job(1, 1, paid_s=600, started_at=NOW)])
    reserve(node, resources(4), start_at=NOW + 600)

    node.match(placed_job(2, 2, paid_s=600), now=NOW)

    assert node.free.largest_node()[0] == 8


def test_reserved_job_may_use_its_own_reservation():
    node = cluster(4)
    reserve(node, resources(4), start_at=NOW)

    node.match(placed_job(9, 4), now=NOW)

    assert (node.free.free_cpus, node.waiting_count) == (0, 0)


def test_reservation_is_kept_free_if_an_earlier_job_ends_later_than_expected():
    """Job 1 had to end at NOW + 600, but it starts only now. The reserved job needs both nodes."""
    node = cluster(4, 4, jobs=[placed_job(1, 4, paid_s=HOUR_S, started_at=0)])
    reserve(node, resources(4, tasks=2), start_at=NOW + 600)

    assert not admits(node, 4, paid_s=601, job=job_id(2))
    assert admits(node, 4, paid_s=600, job=job_id(2))


def test_reservation_of_a_job_that_can_never_run_keeps_nothing_free():
    node = cluster(4)
    reserve(node, resources(5), start_at=NOW)

    assert admits(node, 4, paid_s=HOUR_S, job=job_id(2))


def test_waiting_job_frees_no_room_for_a_reservation():
    """Job 3 waits. The reserved job starts on the node of job 1, so the node of job 2 is left."""
    jobs = [
        placed_job(1, 4, paid_s=600, started_at=NOW),
        placed_job(2, 1, paid_s=900, started_at=NOW),
        placed_job(3, 4, paid_s=300),
    ]
    node = cluster(4, 4, jobs=jobs, queue_allowance=2)
    assert node.waiting_count == 1
    reserve(node, resources(4), start_at=NOW + 600)

    assert admits(node, 3, paid_s=601, job=job_id(4))
    assert not admits(node, 4, paid_s=601, job=job_id(4))


def test_removed_reservation_keeps_nothing_free():
    node = cluster(4)
    reserve(node, resources(4), start_at=NOW)
    assert not admits(node, 1, paid_s=HOUR_S, job=job_id(2))

    node.reservation = None

    assert admits(node, 1, paid_s=HOUR_S, job=job_id(2))


def test_new_reservation_replaces_what_was_kept_free():
    node = cluster(4)
    reserve(node, resources(4), start_at=NOW)
    assert not admits(node, 1, paid_s=HOUR_S, job=job_id(2))

    reserve(node, resources(1), start_at=NOW)

    assert admits(node, 3, paid_s=HOUR_S, job=job_id(2))


def test_spare_room_of_changed_nodes_is_computed_again():
    node = cluster(4)
    reserve(node, resources(4), start_at=NOW)
    assert not admits(node, 1, paid_s=HOUR_S, job=job_id(2))

    node.set_provider(provider(FIRST, 4, 2))

    assert admits(node, 2, paid_s=HOUR_S, job=job_id(2))
    assert node.provider.hardware == hardware(4, 2)
