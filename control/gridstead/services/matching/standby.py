# SPDX-License-Identifier: Apache-2.0
"""Delays the matches of a meta-scheduler while another one of the grid is first.

Several meta-schedulers of a grid decide the same matches. The contracts skip a match if another
meta-scheduler has already matched the job, and the skipped match wastes gas. So the meta-scheduler
with the lowest address is first. Each of the others holds its matches for some blocks: the higher
its address, the longer. It drops the matches of jobs that are matched in the meantime. If the time
ends and a held match is still needed, the others seem to be stopped. This meta-scheduler then
holds no matches for ``ALONE_BLOCKS`` blocks, or until another one makes a match.

The events of the contracts show which wallets have the role of a meta-scheduler, so no setting is
needed. The held matches are not stored: after a restart, they are decided again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.jobs.job import Block, Job
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import Match

BLOCKS_PER_RANK = 3  # a match is usually in the first or second block after its decision
ALONE_BLOCKS = 1000  # half an hour if a block takes 2 s


class Standby:
    """The matches that a meta-scheduler holds, because another one is first.

    Args:
        wallet: The address of this meta-scheduler, lower case.
    """

    def __init__(self, wallet: str) -> None:
        self._wallet = wallet
        self._others: set[str] = set()  # the other wallets with the role
        self._alone_until = 0  # up to this block, the others seem to be stopped
        self._held: dict[JobKey, tuple[Block, Match]] = {}

    def read_event(self, event: ChainEvent) -> None:
        """Note which wallets have the role of a meta-scheduler."""
        if event.kind is ChainEventKind.SCHEDULER_ADDED and event.scheduler != self._wallet:
            self._others.add(event.scheduler)
        elif event.kind is ChainEventKind.SCHEDULER_REMOVED:
            self._others.discard(event.scheduler)

    def note_change(self, job: Job, own_matches: Mapping[JobKey, Match], head: Block) -> None:
        """Hold matches again if another meta-scheduler has just matched this job.

        Args:
            job: The job.
            own_matches: The matches in the outbox that are neither final nor rejected.
            head: The block at which the job was read.
        """
        is_new_match = job.state is JobState.META_SCHEDULED and job.state_block >= head.number - 1
        if is_new_match and job.job_key not in own_matches:
            self._alone_until = 0

    def hold(self, matches: Iterable[Match], block: Block) -> bool:
        """Hold matches if another meta-scheduler is first, and return whether it is.

        Args:
            matches: The matches.
            block: The block at which they were decided.
        """
        if self._delay(block) == 0:
            return False
        for match in matches:
            self._held[match.job_key] = (block, match)
        return True

    def held(self, pending_jobs: Mapping[JobId, Job]) -> dict[JobKey, Match]:
        """Drop the matches of jobs that are not pending any more, and return the others."""
        for job_key in list(self._held):
            job = pending_jobs.get(job_key.job_id)
            if job is None or job.job_key != job_key:
                del self._held[job_key]
        return {job_key: match for job_key, (_, match) in self._held.items()}

    def release(self, head: Block) -> Iterator[tuple[Block, list[Match]]]:
        """Release the matches that no other meta-scheduler has made in time.

        Yields the blocks at which they were decided, each with its matches.
        """
        delay = self._delay(head)
        due_matches: dict[Block, list[Match]] = {}
        for job_key, (block, match) in list(self._held.items()):
            if head.number - block.number >= delay:
                due_matches.setdefault(block, []).append(match)
                del self._held[job_key]
        if due_matches and delay:
            self._alone_until = head.number + ALONE_BLOCKS
        yield from due_matches.items()

    def _delay(self, block: Block) -> int:
        """Return for how many blocks matches are held."""
        if block.number <= self._alone_until:
            return 0
        rank = sum(other < self._wallet for other in self._others)
        return BLOCKS_PER_RANK * rank
