# SPDX-License-Identifier: Apache-2.0
"""The state of a meta-scheduler after a tick, from which another process can continue.

A snapshot contains what a restarted meta-scheduler could only learn by reading all events since the
first block, and what it could not learn at all: the reservations and the nodes on which it placed
jobs. What follows from these values, such as the queues of the customers, is computed again. Caches
are omitted.

Each field of a part is one value, a tuple or a mapping. ``adapters/store/snapshot_codec.py`` stores
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gridstead.domain.chain.events import ChainEvent
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Block, Job, Provider
from gridstead.domain.matching.decisions import Move
from gridstead.domain.matching.matcher import MatcherSnapshot
from gridstead.domain.matching.reputation import ReputationSnapshot
from gridstead.domain.matching.skips import SkipsSnapshot
from gridstead.domain.transactions.calls import Match


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the chain was read, and what was decided last.

    Attributes:
        history: The last blocks up to which events were read, newest first. Not empty.
        decided_block: The block of the last decision.
        last_moves: The last move of each reservation that became later, by job.
    """

    history: tuple[Block, ...]
    decided_block: Block | None
    last_moves: Mapping[JobId, Move]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySnapshot:
    """The jobs and the approved providers.

    Attributes:
        block: The block at which they were read.
        jobs: The jobs.
        job_events: The block of the last event about each job.
        unread_jobs: The jobs that must be read again.
        providers: The providers.
        provider_events: The block of the last event about each provider.
        unread_providers: The providers that must be read again.
        approved: The addresses of all providers that were ever approved.
    """

    block: Block | None
    jobs: tuple[Job, ...]
    job_events: Mapping[JobId, int]
    unread_jobs: tuple[JobId, ...]
    providers: tuple[Provider, ...]
    provider_events: Mapping[str, int]
    unread_providers: tuple[str, ...]
    approved: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GridSnapshot:
    """What the events show about jobs and credits.

    Attributes:
        requested_blocks: The block of the request of each job.
        matched_blocks: The block of the last match of each job.
        top_ups: The block and the amount of each top-up, by job.
        new_transfers: The transfers of credits that are not counted yet.
        counted_to: The newest block whose transfers are counted. -1 if there is none.
        assumed_jobs: The jobs that are PENDING on the chain but count as matched, as they count.
        is_matcher_new: Whether no job and no provider were shown to the matcher yet.
    """

    requested_blocks: Mapping[JobId, int]
    matched_blocks: Mapping[JobId, int]
    top_ups: Mapping[JobId, tuple[tuple[int, int], ...]]
    new_transfers: tuple[ChainEvent, ...]
    counted_to: int
    assumed_jobs: tuple[Job, ...]
    is_matcher_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimsSnapshot:
    """What the events show about claims and returned jobs.

    Attributes:
        returns: The claims and the returns of each job, by job and customer.
        claim_blocks: The blocks of the last claims of each provider, ascending.
        claim_times: The claim times of jobs that have not started, Unix seconds, by job.
    """

    returns: Mapping[tuple[JobId, str], tuple[ChainEvent, ...]]
    claim_blocks: Mapping[str, tuple[int, ...]]
    claim_times: Mapping[JobId, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbySnapshot:
    """The other meta-schedulers, and the matches that are held because of them.

    Attributes:
        others: The other wallets with the role.
        alone_since: The block since which the others seem to be stopped. None if they do not.
        read_to: The block of the last tick.
        held: The held matches with the blocks at which they were decided, by job.
    """

    others: tuple[str, ...]
    alone_since: int | None
    read_to: int
    held: Mapping[JobId, tuple[Block, Match]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of a meta-scheduler after a complete tick. Its values never change."""

    progress: Progress
    memory: MemorySnapshot
    grid: GridSnapshot
    matcher: MatcherSnapshot
    reputation: ReputationSnapshot
    claims: ClaimsSnapshot
    standby: StandbySnapshot
    skips: SkipsSnapshot

    @property
    def block(self) -> Block:
        """The newest block whose events were read."""
        return self.progress.history[0]
