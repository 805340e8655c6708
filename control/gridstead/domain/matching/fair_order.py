# SPDX-License-Identifier: Apache-2.0
"""Estimates how many pending jobs are matched before a pending job.

The estimate assumes that there is room for one job after the other, so that the customers take
turns as in ``turn.py`` until all jobs are matched. In fact, a job for which no provider has room
does not delay the others, and jobs that no provider can run are counted too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Job


class Account(NamedTuple):
    """The usage and the weight of a customer (``shares.py``), wei."""

    usage: int
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsAhead:
    """How many pending jobs are probably matched before a job.

    Attributes:
        own: The older pending jobs of the same customer.
        others: The pending jobs of other customers.
    """

    own: int
    others: int


class FairOrder:
    """The pending jobs in the order of the turns.

    Args:
        jobs: The pending jobs without an open match.
        accounts: The usage and the weight of each customer.
    """

    def __init__(self, jobs: Iterable[Job], accounts: Mapping[str, Account]) -> None:
        self._accounts = accounts
        self._places: dict[JobId, tuple[str, int]] = {}  # the customer, and the index in its jobs
        # For each job of a customer, oldest first: twice the escrow of the older jobs, plus the
        # escrow of the job. Half of this counts as used at the turn of the job.
        self._used: dict[str, list[int]] = {}
        older_escrow: dict[str, int] = {}
        for job in sorted(jobs, key=lambda job: job.id.request_order):
            customer = job.customer
            used = self._used.setdefault(customer, [])
            self._places[job.id] = (customer, len(used))
            used.append(2 * older_escrow.get(customer, 0) + job.escrow)
            older_escrow[customer] = older_escrow.get(customer, 0) + job.escrow

    def ahead_of(self, job_id: JobId) -> JobsAhead | None:
        """Return how many jobs are ahead of a job. None if the job is not in the order."""
        place = self._places.get(job_id)
        if place is None:
            return None
        customer, index = place
        usage, weight = self._accounts[customer]
        used_at_turn = 2 * usage + self._used[customer][index]
        others = 0
        for other_customer, used in self._used.items():
            if other_customer == customer:
                continue
            # A job is ahead if (2 x usage + used) / weight of its customer is lower.
            other_usage, other_weight = self._accounts[other_customer]
            limit = -(-used_at_turn * max(1, other_weight) // max(1, weight)) - 2 * other_usage
            others += bisect_left(used, limit)
        return JobsAhead(own=index, others=others)
