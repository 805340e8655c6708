# SPDX-License-Identifier: Apache-2.0
"""Requests the expiry of jobs whose providers do not act (``domain/matching/expiry.py``).

The limits of the jobs are in two heaps, so that a tick reads only the jobs whose limit has passed.
The limit of a matched job is a block number, that of a claimed or running job is a time.

If a job changes or ends, its old limit remains in a heap until this limit has passed. The limit of
a large escrow may pass after years. So the heaps are built again if most of their limits are old.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping

import structlog

from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Block, Job
from gridstead.domain.jobs.lifecycle import COLD, JobState
from gridstead.domain.matching.expiry import ClaimBlocks, Timeouts, expiry, has_expired
from gridstead.domain.transactions.calls import Expire, outbox_key
from gridstead.errors import GridsteadError
from gridstead.ports import Ledger, Outbox

log = structlog.get_logger()

MAX_OLD_LIMITS = 1000  # in addition to two limits per job

# Limit, serial number, job. The serial number decides between equal limits.
_Limit = tuple[int, int, Job]


class Expiries:
    """The limits of the matched, claimed and running jobs.

    Args:
        ledger: The chain.
        outbox: The outbox of the meta-scheduler's wallet.
    """

    def __init__(self, ledger: Ledger, outbox: Outbox) -> None:
        self._ledger = ledger
        self._outbox = outbox
        self._jobs: dict[JobId, Job] = {}
        self._new_jobs: dict[JobId, Job] = {}  # their limits are not in the heaps yet
        self._limits_by_block: list[_Limit] = []
        self._limits_by_time: list[_Limit] = []
        self._serials = itertools.count()
        self._timeouts: Timeouts | None = None  # used for the limits in the heaps
        self._claimed_at: dict[JobId, int] = {}  # Unix seconds
        self._due: dict[JobId, Job] = {}  # the jobs whose limit has passed
        self._requested: set[JobId] = set()  # the due jobs whose expiry is in the outbox

    def claim_times(self) -> dict[JobId, int]:
        """Return the known claim times of jobs that have not started, Unix seconds, by job."""
        return self._claimed_at.copy()

    def restore_claim_times(self, claim_times: Mapping[JobId, int]) -> None:
        """Restore the times that ``claim_times`` returned. The jobs must have been set before."""
        self._claimed_at = dict(claim_times)

    def set_job(self, job_id: JobId, job: Job | None) -> None:
        """Add a job, or replace its values. None if the job does not exist any more."""
        if job is not None and job == self._jobs.get(job_id):
            return
        for values in (self._jobs, self._new_jobs, self._claimed_at, self._due):
            values.pop(job_id, None)
        self._requested.discard(job_id)
        if job is not None and job.state not in COLD and job.state is not JobState.PENDING:
            self._jobs[job_id] = job
            self._new_jobs[job_id] = job

    def request_due(self, head: Block, timeouts: Timeouts, claim_blocks: ClaimBlocks) -> None:
        """Request the expiry of every overdue job. A repeated request has no effect.

        If a call cannot be stored, the next tick repeats it. Other calls are not delayed.

        Args:
            head: The block at which the jobs were read.
            timeouts: The timeouts of the grid at this block.
            claim_blocks: The block of the last claim of each provider.

        Raises:
            ChainUnavailable: If the time of a claim could not be read.
        """
        if timeouts != self._timeouts or self._has_many_old_limits():
            self._limits_by_block.clear()
            self._limits_by_time.clear()
            self._due.clear()
            self._new_jobs = dict(self._jobs)
            self._timeouts = timeouts
        self._add_limits(timeouts)
        self._move_due(self._limits_by_block, head.number)
        self._move_due(self._limits_by_time, head.timestamp)
        for job in self._due.values():
            is_expired = has_expired(
                job,
                head=head,
                timeouts=timeouts,
                claimed_at=self._claimed_at.get(job.id),
                last_claim_block=claim_blocks.last(job.provider),
            )
            if is_expired:
                self._request(job)

    def _has_many_old_limits(self) -> bool:
        limit_count = len(self._limits_by_block) + len(self._limits_by_time)
        return limit_count > 2 * len(self._jobs) + MAX_OLD_LIMITS

    def _add_limits(self, timeouts: Timeouts) -> None:
        """Add the limits of the new jobs to the heaps.

        A claimed job remains a new job while the block of its claim is missing.
        """
        self._read_claim_times(timeouts)
        for job_id, job in list(self._new_jobs.items()):
            limit = expiry(job, timeouts, claimed_at=self._claimed_at.get(job_id))
            is_matched = job.state is JobState.META_SCHEDULED
            heap = self._limits_by_block if is_matched else self._limits_by_time
            if limit is not None:
                heapq.heappush(heap, (limit, next(self._serials), job))
            elif job.state is JobState.SCHEDULED and timeouts.start_s is not None:
                continue  # the block of the claim is missing
            del self._new_jobs[job_id]

    def _read_claim_times(self, timeouts: Timeouts) -> None:
        """Read the claim times of the new jobs that have not started.

        After a reorg a stored time may be wrong. In this case the contracts reject the expiry.
        """
        if timeouts.start_s is None:
            return
        blocks: dict[int, Block | None] = {}
        for job_id, job in self._new_jobs.items():
            if job.state is not JobState.SCHEDULED or job_id in self._claimed_at:
                continue
            if job.state_block not in blocks:
                blocks[job.state_block] = self._ledger.block(job.state_block)
            block = blocks[job.state_block]
            if block is not None:
                self._claimed_at[job_id] = block.timestamp

    def _move_due(self, heap: list[_Limit], current: int) -> None:
        """Move the jobs whose limit has passed from a heap to the due jobs."""
        while heap and heap[0][0] < current:
            _, _, job = heapq.heappop(heap)
            if self._jobs.get(job.id) is job:  # the job has not changed since
                self._due[job.id] = job

    def _request(self, job: Job) -> None:
        """Put the expiry into the outbox. Every failure is logged, but only the first success."""
        state = job.state.name
        call = Expire(job_key=job.job_key, state=job.state, state_block=job.state_block)
        try:
            self._outbox.put(outbox_key(call), call)
        except GridsteadError as error:
            log.warning("expiry_failed", job_id=job.id, state=state, reason=str(error))
            self._requested.discard(job.id)
            return
        if job.id not in self._requested:
            self._requested.add(job.id)
            log.warning("expiry_requested", job_id=job.id, state=state, provider=job.provider)
