# SPDX-License-Identifier: Apache-2.0
"""Tests of the queue of one customer."""

import pytest
from tests.unit.domain.builders import job_id
from tests.unit.domain.matching.grids import resources

from gridstead.domain.matching.candidates import JobClass
from gridstead.domain.matching.queues import CustomerQueue, JobKind

SMALL = JobKind(JobClass(resources(1), ()), 60)
LARGE = JobKind(JobClass(resources(4), ()), 60)


def queue_of(*jobs):
    """Return a queue to which these jobs were added: (number, kind)."""
    queue = CustomerQueue()
    for number, kind in jobs:
        queue.add(job_id(number), kind)
    return queue


def oldest(queue):
    """Return (number, kind) of the oldest job of each kind."""
    return [(job.job_id.number, job.kind) for job in queue.oldest()]


@pytest.mark.parametrize("numbers", [(1, 2, 3), (3, 2, 1), (2, 1, 3)])
def test_oldest_job_of_a_kind_is_first_in_any_order_of_requests(numbers):
    queue = queue_of(*[(number, SMALL) for number in numbers])

    order = []
    while len(queue):
        order.append(queue.oldest_of(SMALL).order)
        queue.remove(job_id(order[-1]))

    assert order == [1, 2, 3]


def test_queue_knows_the_kind_of_each_job():
    queue = queue_of((1, SMALL), (2, LARGE), (3, SMALL))
    queue.remove(job_id(3))

    assert dict(queue.kinds) == {job_id(1): SMALL, job_id(2): LARGE}


def test_each_kind_has_an_oldest_job():
    queue = queue_of((4, SMALL), (2, LARGE), (1, SMALL), (3, LARGE))

    assert sorted(oldest(queue)) == [(1, SMALL), (2, LARGE)]
    assert len(queue) == 4


def test_kind_without_jobs_has_no_oldest_job():
    queue = queue_of((1, SMALL), (2, LARGE))

    queue.remove(job_id(1))

    assert oldest(queue) == [(2, LARGE)]
    assert len(queue) == 1


def test_last_job_of_a_kind_leaves_no_oldest_job():
    queue = queue_of((1, SMALL))

    queue.remove(job_id(1))

    assert queue.oldest_of(SMALL) is None
    assert queue.oldest() == []


def test_removal_of_an_unknown_job_changes_nothing():
    queue = queue_of((1, SMALL))

    queue.remove(job_id(2))

    assert oldest(queue) == [(1, SMALL)]


def test_job_that_is_added_again_is_only_in_its_new_kind():
    queue = queue_of((1, SMALL), (1, LARGE))

    assert oldest(queue) == [(1, LARGE)]
    assert len(queue) == 1


def test_job_that_is_added_twice_leaves_with_one_removal():
    queue = queue_of((1, SMALL), (1, SMALL), (2, SMALL))

    queue.remove(job_id(1))

    assert oldest(queue) == [(2, SMALL)]


def test_job_that_came_back_is_older_than_later_jobs():
    queue = queue_of((1, SMALL), (2, SMALL))
    queue.remove(job_id(1))
    assert oldest(queue) == [(2, SMALL)]

    queue.add(job_id(1), SMALL)

    assert oldest(queue) == [(1, SMALL)]
