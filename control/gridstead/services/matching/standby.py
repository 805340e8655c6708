# SPDX-License-Identifier: Apache-2.0
"""Delays the matches of a meta-scheduler while another one of the grid is first.

Several meta-schedulers of a grid decide the same matches. The contracts skip a match if another
meta-scheduler has already matched the job, and the skipped match wastes gas. So the meta-scheduler
with the lowest address is first. Each of the others holds its matches for some blocks: the higher
its address, the longer. It drops the match of a job if the job has an event in the meantime, for
example because another one has matched it. If the time ends and a match is still held, the others
seem to be stopped. This meta-scheduler then holds no matches for ``ALONE_BLOCKS`` blocks, or until
another one makes a match.

The events of the contracts show which wallets have the role of a meta-scheduler, so no setting is
needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.jobs.job import Block, Job
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.snapshot import StandbySnapshot
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
        # The block since which the others seem to be stopped. None if they do not.
        self._alone_since: int | None = None
        self._read_to = 0  # the block of the last tick
        self._held: dict[JobId, tuple[Block, Match]] = {}

    def snapshot(self) -> StandbySnapshot:
        """Return all values. Later changes do not change the result."""
        return StandbySnapshot(
            others=tuple(self._others),
            alone_since=self._alone_since,
            read_to=self._read_to,
            held=self._held.copy(),
        )

    def restore(self, snapshot: StandbySnapshot) -> None:
        """Restore all values."""
        self._others = set(snapshot.others)
        self._alone_since = snapshot.alone_since
        self._read_to = snapshot.read_to
        self._held = dict(snapshot.held)

    def read_event(self, event: ChainEvent) -> None:
        """Note which wallets have the role of a meta-scheduler. Drop the match of a changed job.

        A job that was matched and returned within one tick is pending again, but the provider that
        returned it may be excluded. If such a match is still needed, it is decided again. A job
        that is only read again, without an event, keeps its match.
        """
        if event.job_id is not None:
            self._held.pop(event.job_id, None)
        if event.kind is ChainEventKind.SCHEDULER_ADDED and event.scheduler != self._wallet:
            self._others.add(event.scheduler)
        elif event.kind is ChainEventKind.SCHEDULER_REMOVED:
            self._others.discard(event.scheduler)

    def note_change(self, job: Job, own_matches: Mapping[JobKey, Match]) -> None:
        """Hold matches again if another meta-scheduler has matched this job since the last tick.

        A match of this meta-scheduler may be final while its job is read again. So older matches
        have no effect.

        Args:
            job: The job.
            own_matches: The matches in the outbox that are neither final nor rejected.
        """
        if self._alone_since is None or job.state is not JobState.META_SCHEDULED:
            return
        is_new_match = job.state_block > max(self._alone_since, self._read_to)
        if is_new_match and job.job_key not in own_matches:
            self._alone_since = None

    def hold(self, matches: Iterable[Match], block: Block) -> bool:
        """Hold matches if another meta-scheduler is first, and return whether it is.

        Args:
            matches: The matches.
            block: The block at which they were decided.
        """
        if self._delay(block) == 0:
            return False
        for match in matches:
            self._held[match.job_key.job_id] = (block, match)
        return True

    def held(self, pending_jobs: Mapping[JobId, Job]) -> dict[JobKey, Match]:
        """Drop the matches of jobs that are not pending any more, and return the others."""
        matches: dict[JobKey, Match] = {}
        for job_id, (_, match) in list(self._held.items()):
            job = pending_jobs.get(job_id)
            if job is None or job.job_key != match.job_key:
                del self._held[job_id]
            else:
                matches[match.job_key] = match
        return matches

    def release(self, head: Block) -> Iterator[tuple[Block, list[Match]]]:
        """Release the matches that no other meta-scheduler has made in time.

        Yields the blocks at which they were decided, each with its matches.

        Args:
            head: The block of this tick.
        """
        self._read_to = head.number
        delay = self._delay(head)
        due_matches: dict[Block, list[Match]] = {}
        for job_id, (block, match) in list(self._held.items()):
            if head.number - block.number >= delay:
                due_matches.setdefault(block, []).append(match)
                del self._held[job_id]
        if due_matches and delay:
            self._alone_since = head.number
        yield from due_matches.items()

    def _delay(self, block: Block) -> int:
        """Return for how many blocks matches are held."""
        if self._alone_since is not None and block.number <= self._alone_since + ALONE_BLOCKS:
            return 0
        rank = sum(other < self._wallet for other in self._others)
        return BLOCKS_PER_RANK * rank
