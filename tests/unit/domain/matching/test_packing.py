# SPDX-License-Identifier: Apache-2.0
"""Tests of the placement of jobs on nodes."""

import pytest
from tests.unit.domain.matching.grids import hardware, resources

from gridstead.domain.jobs.job import Hardware
from gridstead.domain.matching.packing import Nodes


@pytest.mark.parametrize(
    ("requested", "has_room"),
    [
        (resources(4, tasks=2), True),
        (resources(4, tasks=3), False),
        (resources(5), False),
        (resources(4, memory_per_cpu_mb=250), True),
        (resources(4, memory_per_cpu_mb=251), False),
        (resources(1, tasks=8, memory_per_cpu_mb=250), True),
        (resources(1, tasks=7, memory_per_cpu_mb=300), False),  # 3 tasks on each node
        (resources(1, gpus=2), True),
        (resources(1, gpus=3), False),
    ],
)
def test_each_task_needs_cpus_and_memory_of_one_node(requested, has_room):
    nodes = Nodes(hardware(4, 4, memory_mb=1000, gpus=2))

    assert nodes.has_room(requested) is has_room
    assert (nodes.find(requested) is not None) is has_room


def test_node_with_the_fewest_free_cpus_is_used_first():
    nodes = Nodes(hardware(8, 2, 4))

    assert nodes.find(resources(2)) == ((1, 1),)
    assert nodes.find(resources(3)) == ((2, 1),)
    assert nodes.find(resources(2, tasks=5)) == ((1, 1), (2, 2), (0, 2))


def test_node_with_the_least_free_memory_is_used_first_among_equal_cpus():
    nodes = Nodes(
        Hardware(gpus_per_node=(0, 0), cpus_per_node=(4, 4), memory_per_node_mb=(1000, 500))
    )

    assert nodes.find(resources(1)) == ((1, 1),)


def test_node_with_the_lowest_number_is_used_first_among_equal_nodes():
    nodes = Nodes(hardware(4, 4, 4))
    job = resources(4)
    nodes.use(job, ((0, 1),))
    nodes.use(job, ((1, 1),))
    nodes.release(job, ((0, 1),))

    assert nodes.find(job) == ((0, 1),)


def test_placed_job_uses_cpus_memory_and_gpus_until_it_is_released():
    nodes = Nodes(hardware(4, 2, memory_mb=1000, gpus=1))
    job = resources(2, tasks=2, gpus=1, memory_per_cpu_mb=400)

    placement = nodes.find(job)
    nodes.use(job, placement)

    assert placement == ((1, 1), (0, 1))
    assert (nodes.free_cpus, nodes.free_gpus) == (2, 0)
    assert nodes.largest_node() == (2, 200)

    nodes.release(job, placement)

    assert (nodes.free_cpus, nodes.free_gpus) == (6, 1)
    assert nodes.largest_node() == (4, 1000)


def test_largest_node_of_no_nodes_has_nothing():
    no_nodes = Hardware(gpus_per_node=(), cpus_per_node=(), memory_per_node_mb=())

    assert Nodes(no_nodes).largest_node() == (0, 0)


def test_copy_is_independent():
    nodes = Nodes(hardware(4, gpus=1))
    copy = nodes.copy()

    copy.use(resources(4, gpus=1), ((0, 1),))

    assert (copy.free_cpus, copy.free_gpus, copy.largest_node()) == (0, 0, (0, 0))
    assert (nodes.free_cpus, nodes.free_gpus, nodes.largest_node()) == (4, 1, (4, 1000))
    assert not copy.has_room(resources(1))
    assert nodes.has_room(resources(4, gpus=1))


def test_minimum_has_room_only_where_both_have_room():
    nodes = Nodes(hardware(4, 4, gpus=2))
    other_nodes = nodes.copy()
    nodes.use(resources(3, gpus=1), ((0, 1),))
    other_nodes.use(resources(2, gpus=2), ((1, 1),))

    minimum = nodes.minimum(other_nodes)

    assert (minimum.free_cpus, minimum.free_gpus) == (3, 0)
    assert minimum.find(resources(1)) == ((0, 1),)
    assert minimum.find(resources(2)) == ((1, 1),)
    assert not minimum.has_room(resources(3))
