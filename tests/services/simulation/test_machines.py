# SPDX-License-Identifier: Apache-2.0
"""Tests of the simulated Slurm cluster."""

from __future__ import annotations

import pytest
from tests.services.simulation.builders import hardware, resources

from gridstead.services.simulation.machines import Machines


def started(machines, now, *jobs):
    """Submit jobs (number, resources, limit), and return those that start."""
    for number, job_resources, limit_s in jobs:
        machines.submit(number, job_resources, limit_s=limit_s)
    return machines.start_jobs(now)


def test_jobs_start_in_order_while_there_is_room():
    machines = Machines(hardware(4))

    assert started(machines, 0, (1, resources(3), 60), (2, resources(1), 60)) == [1, 2]
    assert started(machines, 0, (3, resources(1), 60)) == []


def test_waiting_job_starts_when_a_job_ends():
    machines = Machines(hardware(4))
    started(machines, 0, (1, resources(4), 60), (2, resources(4), 60))

    machines.end(1)

    assert machines.start_jobs(30) == [2]


@pytest.mark.parametrize(
    ("job", "fits"),
    [
        (resources(4, tasks=2), True),
        (resources(5), False),  # a task runs on one node
        (resources(3, tasks=3), False),
        (resources(2, tasks=4), True),
        (resources(1, memory_per_cpu_mb=1000), True),
        (resources(1, memory_per_cpu_mb=1001), False),
        (resources(2, memory_per_cpu_mb=501), False),
        (resources(1, gpus=4), True),  # GPUs may be on any nodes
        (resources(1, gpus=5), False),
    ],
)
def test_job_starts_if_its_tasks_fit_on_the_nodes(job, fits):
    machines = Machines(hardware(4, 4, memory_mb=1000, gpus=2))

    assert started(machines, 0, (1, job, 60)) == ([1] if fits else [])


def test_tasks_are_placed_on_the_fullest_node_that_has_room():
    machines = Machines(hardware(4, 4))
    started(machines, 0, (1, resources(2), 60), (2, resources(2), 60))

    assert started(machines, 0, (3, resources(4), 60)) == [3]


def test_short_job_starts_before_a_job_that_waits():
    machines = Machines(hardware(4))
    started(machines, 0, (1, resources(3), 100), (2, resources(4), 60))

    assert started(machines, 0, (3, resources(1), 100)) == [3]


def test_long_job_does_not_delay_the_first_job_that_waits():
    machines = Machines(hardware(4))
    started(machines, 0, (1, resources(3), 100), (2, resources(4), 60))

    assert started(machines, 0, (3, resources(1), 101)) == []


def test_long_job_starts_on_nodes_that_the_first_job_does_not_need():
    machines = Machines(hardware(4, 2))
    started(machines, 0, (1, resources(3), 100), (2, resources(4), 60))

    assert started(machines, 0, (3, resources(2), 10_000)) == [3]
