# SPDX-License-Identifier: Apache-2.0
"""Keeps the jobs and the approved providers in memory, and reads changed ones again.

Rule 1: a job or a provider is read after each event about it, at the block up to which the events
were read. So the memory always has the state at this block.

Rule 2: after a reorg, each job and provider with an event in a removed block is read again.

Rule 3: some contracts change jobs and providers without an event
(``Ledger.has_all_change_events``). With these contracts, everything is also read again in rotation,
a part at each update.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Block, Job, Provider
from gridstead.domain.jobs.lifecycle import COLD
from gridstead.domain.matching.snapshot import MemorySnapshot
from gridstead.ports import Ledger

ROTATION_TICKS = 60

K = TypeVar("K", JobId, str)
V = TypeVar("V", Job, Provider)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What an update of the memory has read.

    Attributes:
        block: The block at which the memory now has the state of the chain.
        job_ids: The jobs that were read. Those that do not exist are not in the memory any more.
        providers: The addresses of the providers that were read. Those without an approved record
            are not in the memory any more.
    """

    block: Block
    job_ids: frozenset[JobId]
    providers: frozenset[str]


class _Records(Generic[K, V]):
    """The remembered records of one type.

    Attributes:
        records: The records by key.
        unread: The keys of the records that must be read again.
        event_blocks: The block of the last event about each key.
    """

    def __init__(self) -> None:
        self.records: dict[K, V] = {}
        self.unread: set[K] = set()
        self.event_blocks: dict[K, int] = {}
        self._rotation: list[K] = []

    def note_event(self, key: K, block: int) -> None:
        """Mark a record as unread because of an event."""
        self.unread.add(key)
        self.event_blocks[key] = block

    def rewind(self, first_block: int) -> None:
        """Mark the records as unread that have events in a block or after it."""
        for key, block in self.event_blocks.items():
            if block >= first_block:
                self.unread.add(key)

    def rotate(self) -> None:
        """Mark the next part of the records as unread."""
        for _ in range(max(1, len(self.records) // ROTATION_TICKS)):
            if not self._rotation:
                self._rotation = list(self.records)
            if self._rotation:
                self.unread.add(self._rotation.pop())

    def replace(self, keys: Collection[K], records: Mapping[K, V]) -> None:
        """Store the records of some keys. Keys without a record do not exist."""
        for key in keys:
            if key in records:
                self.records[key] = records[key]
            else:
                self.records.pop(key, None)
        self.unread -= set(keys)

    def forget(self, key: K) -> None:
        """Forget a record and the events about it."""
        self.records.pop(key, None)
        self.unread.discard(key)
        self.event_blocks.pop(key, None)


class ChainMemory:
    """The jobs and the approved providers of the grid at one block.

    Args:
        ledger: The chain.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._block: Block | None = None
        self._jobs: _Records[JobId, Job] = _Records()
        self._providers: _Records[str, Provider] = _Records()
        # All providers that were ever approved. A removed provider remains in the set: if a reorg
        # reverts the removal, the follower does not deliver the event of the approval again.
        self._approved: set[str] = set()
        self._ended_ids: set[JobId] = set()

    @property
    def jobs(self) -> Mapping[JobId, Job]:
        """The jobs that were not forgotten, by id."""
        return self._jobs.records

    @property
    def providers(self) -> Mapping[str, Provider]:
        """The approved providers, by address."""
        return self._providers.records

    @property
    def is_empty(self) -> bool:
        """Whether there is no job, neither in the memory nor in events since the last update."""
        return not self._jobs.records and not self._jobs.unread

    def snapshot(self) -> MemorySnapshot:
        """Return all values except the rotation. Later changes do not change the result."""
        return MemorySnapshot(
            block=self._block,
            jobs=tuple(self._jobs.records.values()),
            job_events=self._jobs.event_blocks.copy(),
            unread_jobs=tuple(self._jobs.unread),
            providers=tuple(self._providers.records.values()),
            provider_events=self._providers.event_blocks.copy(),
            unread_providers=tuple(self._providers.unread),
            approved=tuple(self._approved),
        )

    def restore(self, snapshot: MemorySnapshot) -> None:
        """Restore the values. The memory must be new."""
        self._block = snapshot.block
        self._jobs.records = {job.id: job for job in snapshot.jobs}
        self._jobs.event_blocks = dict(snapshot.job_events)
        self._jobs.unread = set(snapshot.unread_jobs)
        self._providers.records = {each.address: each for each in snapshot.providers}
        self._providers.event_blocks = dict(snapshot.provider_events)
        self._providers.unread = set(snapshot.unread_providers)
        self._approved = set(snapshot.approved)
        self._ended_ids = {job.id for job in snapshot.jobs if job.state in COLD}

    def read_event(self, event: ChainEvent) -> None:
        """Note that the job or the provider of an event must be read again."""
        if event.job_id is not None:
            self._jobs.note_event(event.job_id, event.block)
        elif event.kind is ChainEventKind.PROVIDER_APPROVED:
            self._approved.add(event.provider)
            self._providers.note_event(event.provider, event.block)
        elif event.provider in self._approved:
            self._providers.note_event(event.provider, event.block)

    def rewind(self, first_block: int) -> None:
        """Note that the events from a block on may not exist any more."""
        self._block = None
        self._jobs.rewind(first_block)
        self._providers.rewind(first_block)

    def update(self, followed_to: Block) -> Update:
        """Read the jobs and the providers that had events since the last update.

        Args:
            followed_to: The newest block whose events were read, as the follower returned it. If
                the server lags, this block may be older than that of the last update. The memory
                then remains at the newer block.

        Raises:
            ChainUnavailable: If the chain did not answer. The next update reads the same records.
        """
        if self._block is None or followed_to.number >= self._block.number:
            self._block = followed_to
        if not self._ledger.has_all_change_events:
            self._jobs.rotate()
            self._providers.rotate()
        job_ids = frozenset(self._jobs.unread)
        addresses = frozenset(self._providers.unread)
        jobs: Mapping[JobId, Job] = {}
        providers: Mapping[str, Provider] = {}
        if job_ids:
            jobs = self._ledger.jobs(job_ids, at_block=self._block)
        if addresses:
            providers = self._ledger.approved_providers(addresses, at_block=self._block)
        self._jobs.replace(job_ids, jobs)
        for job_id in job_ids:
            self._note_end(job_id)
        self._providers.replace(addresses, providers)
        return Update(block=self._block, job_ids=job_ids, providers=addresses)

    def ended_jobs(self, *, confirmed_block: int) -> list[Job]:
        """Return the jobs that ended in a block or before it."""
        ended_jobs = map(self._jobs.records.__getitem__, self._ended_ids)
        return [job for job in ended_jobs if job.state_block <= confirmed_block]

    def forget_job(self, job_id: JobId) -> None:
        """Forget a job that has ended."""
        self._jobs.forget(job_id)
        self._ended_ids.discard(job_id)

    def _note_end(self, job_id: JobId) -> None:
        """Note whether a job that was read has ended. Forget it if it does not exist."""
        job = self._jobs.records.get(job_id)
        if job is None:
            self.forget_job(job_id)
        elif job.state in COLD:
            self._ended_ids.add(job_id)
        else:
            self._ended_ids.discard(job_id)
