# SPDX-License-Identifier: Apache-2.0
"""Knows from the chain whose a script is, keeps it as long as its jobs are hot, and removes it
afterwards.

Ids of scripts are public on the chain, so a job that names one proves nothing: anybody can ask for
such a job. A script is the customer's who named it first, in the order of the chain, or who was
named when it was submitted; jobs of others never open it.
"""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from gridstead.domain.events import ChainEvent, ChainEventKind
from gridstead.domain.job import Block
from gridstead.domain.job_definition import ScriptUse, StoredScript, is_missing, use_of
from gridstead.domain.lifecycle import COLD
from gridstead.errors import TooMuch
from gridstead.ports import Clock, Ledger, ScriptStore
from gridstead.services.follower import Follower

log = structlog.get_logger()

JOBS_PER_READ = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long and how much is kept.

    Attributes:
        after_end_s: Seconds that a script is kept after the last of its jobs has ended.
        unused_s: Seconds that one is kept that no job names.
        unused_bytes: How large all may be together that have no hot job, before it and after its
            end; beyond it nothing is taken.
    """

    after_end_s: int
    unused_s: int
    unused_bytes: int


class ScriptKeeper:
    """The keeper; safe to call from many threads.

    Args:
        store: Where scripts lie.
        ledger: The chain.
        follower: Its events, since the store was made.
        clock: Wall time.
        retention: How long and how much is kept.
    """

    def __init__(
        self,
        *,
        store: ScriptStore,
        ledger: Ledger,
        follower: Follower,
        clock: Clock,
        retention: Retention,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._follower = follower
        self._clock = clock
        self._retention = retention
        self._unused_bytes = store.holdings().unused_bytes
        self._missing: set[ScriptUse] = set()
        self._unreadable: set[str] = set()

    def keep(self, batch_location_hash: str, record: str, *, owner: str) -> None:
        """Store a script that no job names yet.

        Raises:
            TooMuch: Too many scripts without a hot job are stored, before one or after its end.
        """
        size = len(record)  # near enough; the next sweep counts again
        if self._unused_bytes + size > self._retention.unused_bytes:
            detail = "too many scripts without a hot job are stored"
            hint = "Try again later: they are removed some time after their submission, or after their job's end."
            raise TooMuch("cannot store the workflow now", detail=detail, hint=hint)
        ends_at = self._clock.now() + self._retention.unused_s
        self._store.put(batch_location_hash, record, owner=owner, ends_at=ends_at)
        self._unused_bytes += size

    def find(self, batch_location_hash: str) -> StoredScript | None:
        """Return a script, None if there is none; without an owner while the chain has no job that
        names it.

        Raises:
            ConfigError: The operator took away the key that it is sealed with.
            ScriptDamaged: It was altered.
        """
        stored = self._store.get(batch_location_hash)
        if stored is None or stored.owner:
            return stored
        self.learn()
        return self._store.get(batch_location_hash)

    def learn(self) -> None:
        """Store which jobs name scripts, up to the newest block."""
        with self._store.alone():
            self._follower.follow(self._take)

    def sweep(self) -> None:
        """Remove scripts that nobody needs any more, and seal anew what an old key holds."""
        self.learn()  # a job may have named a script while nobody looked
        now = self._clock.now()
        self._release(now)
        removed = self._store.sweep(now)
        if removed:
            log.info("scripts_removed", count=removed)
        self._unused_bytes = self._store.holdings().unused_bytes
        self._reseal()

    def _release(self, now: int) -> None:
        """Let go of scripts whose jobs are over.

        A job that the chain does not show is over when two sweeps did not see it: one of several
        servers behind an endpoint may lag behind the others.
        """
        missing: set[ScriptUse] = set()
        uses = self._store.uses()
        head = self._ledger.head()
        for first in range(0, len(uses), JOBS_PER_READ):
            some = uses[first : first + JOBS_PER_READ]
            jobs = self._ledger.jobs([one.job_number for one in some], at_block=head)
            unseen = {one for one in some if is_missing(one, jobs.get(one.job_number))}
            missing |= unseen
            cold = [one for one in some if one not in unseen and jobs[one.job_number].state in COLD]
            over = [*cold, *(unseen & self._missing)]
            if over:
                self._store.release(over, ends_at=now + self._retention.after_end_s)
        self._missing = missing

    def _reseal(self) -> None:
        count = 0
        unreadable: set[str] = set()
        some = self._store.reseal(after="")
        while some.last is not None:
            count += some.count
            unreadable.update(some.unreadable)
            some = self._store.reseal(after=some.last)
        for batch_location_hash in sorted(unreadable - self._unreadable):
            log.error("script_unreadable", batch_location_hash=batch_location_hash)
        self._unreadable = unreadable
        if count:
            log.info("scripts_resealed", count=count)

    def _take(self, events: tuple[ChainEvent, ...], head: Block) -> None:
        numbers = {
            event.job_number
            for event in events
            if event.kind is ChainEventKind.JOB_REQUESTED and event.job_number is not None
        }
        jobs = self._ledger.jobs(numbers, at_block=head)
        uses = [use for number in sorted(jobs) if (use := use_of(jobs[number])) is not None]
        if uses:
            self._store.use(uses)
