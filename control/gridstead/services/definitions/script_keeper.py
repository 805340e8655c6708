# SPDX-License-Identifier: Apache-2.0
"""The script keeper: finds the owners of scripts on the chain, and deletes scripts of ended jobs.

Script ids are public on the chain, so a customer can request a job that names the script of another
customer. The owner of a script is the customer given at the script's submission. Without a given
customer, the owner is the first customer on the chain whose job names the script. A job of another
customer never receives the script.

A job is *hot* until it is settled.
"""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.definitions.job_definition import (
    ScriptUse,
    StoredScript,
    is_use_missing,
    script_use_of,
)
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Block
from gridstead.domain.jobs.lifecycle import COLD
from gridstead.errors import LimitExceeded
from gridstead.ports import Clock, Ledger, ScriptStore
from gridstead.services.chain.follower import Follower

log = structlog.get_logger()

JOBS_PER_READ = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long scripts are kept, and how much space unused scripts may take.

    Attributes:
        after_end_s: Seconds that a script is kept after its last job has ended.
        unused_s: Seconds that a script is kept if no job names it.
        max_unused_bytes: Size limit for all scripts without a hot job. The jobs of these scripts
            have ended or were not requested yet. When the limit is reached, no new script is
            accepted.
    """

    after_end_s: int
    unused_s: int
    max_unused_bytes: int


class ScriptKeeper:
    """Stores and deletes scripts. Safe to call from many threads.

    Args:
        store: The store of the scripts.
        ledger: The chain.
        follower: Reads the chain's events since the store was created.
        clock: Wall time.
        retention: How long scripts are kept.
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
        self._unused_bytes = store.totals().unused_bytes
        self._missing_uses: set[ScriptUse] = set()
        self._unreadable_ids: set[str] = set()

    def add(self, batch_location_hash: str, record: str, *, owner: str) -> None:
        """Store a script that no job names yet.

        Raises:
            LimitExceeded: If the scripts without a hot job have reached the size limit.
        """
        size = len(record)  # an estimate, which the next sweep replaces by the exact size
        if self._unused_bytes + size > self._retention.max_unused_bytes:
            raise LimitExceeded(
                "could not store the workflow",
                detail="too many scripts without a hot job are stored",
                hint="Try again later: unused scripts expire.",
            )
        expires_at = self._clock.now() + self._retention.unused_s
        self._store.put(batch_location_hash, record, owner=owner, expires_at=expires_at)
        self._unused_bytes += size

    def find(self, batch_location_hash: str) -> StoredScript | None:
        """Return a script. Returns None if no script has this id.

        A script has no owner if it was submitted without owner and no job on the chain names it.

        Raises:
            ConfigError: If the operator removed the key that encrypted the script.
            ScriptDamaged: If the script was altered.
        """
        stored_script = self._store.get(batch_location_hash)
        if stored_script is None or stored_script.owner:
            return stored_script
        self.read_chain()
        return self._store.get(batch_location_hash)

    def read_chain(self) -> None:
        """Store which jobs on the chain name which scripts, up to the newest block."""
        with self._store.exclusive():
            self._follower.follow(self._store_uses)

    def sweep(self) -> None:
        """Delete expired scripts. Encrypt scripts with an older key again, with the newest key."""
        self.read_chain()  # a job may have named a script since the last read
        now = self._clock.now()
        self._release_ended(now)
        removed_count = self._store.sweep(now)
        if removed_count:
            log.info("scripts_removed", count=removed_count)
        self._unused_bytes = self._store.totals().unused_bytes
        self._reseal()

    def _release_ended(self, now: int) -> None:
        """Release scripts whose jobs have ended.

        A job counts as ended if it is not on the chain in two sweeps in a row. One sweep is not
        enough: an endpoint may have several servers, and one of them may lack the newest blocks.
        """
        missing_uses: set[ScriptUse] = set()
        uses = self._store.uses()
        head = self._ledger.head()
        for first in range(0, len(uses), JOBS_PER_READ):
            page = uses[first : first + JOBS_PER_READ]
            jobs = self._ledger.jobs([use.job_id for use in page], at_block=head)
            ended_uses: list[ScriptUse] = []
            for use in page:
                job = jobs.get(use.job_id)
                if job is None or is_use_missing(use, job):
                    missing_uses.add(use)
                    if use in self._missing_uses:
                        ended_uses.append(use)
                elif job.state in COLD:
                    ended_uses.append(use)
            if ended_uses:
                self._store.release(ended_uses, expires_at=now + self._retention.after_end_s)
        self._missing_uses = missing_uses

    def _reseal(self) -> None:
        resealed_count = 0
        unreadable_ids: set[str] = set()
        resealed_batch = self._store.reseal(after_id="")
        while resealed_batch.last is not None:
            resealed_count += resealed_batch.count
            unreadable_ids.update(resealed_batch.unreadable)
            resealed_batch = self._store.reseal(after_id=resealed_batch.last)
        for batch_location_hash in sorted(unreadable_ids - self._unreadable_ids):
            log.error("script_unreadable", batch_location_hash=batch_location_hash)
        self._unreadable_ids = unreadable_ids
        if resealed_count:
            log.info("scripts_resealed", count=resealed_count)

    def _store_uses(self, events: tuple[ChainEvent, ...], state_block: Block) -> None:
        job_ids: set[JobId] = set()
        for event in events:
            is_request = event.kind is ChainEventKind.JOB_REQUESTED
            if is_request and event.job_id is not None:
                job_ids.add(event.job_id)
        uses: list[ScriptUse] = []
        jobs = self._ledger.jobs(job_ids, at_block=state_block)
        for job_id in sorted(jobs):
            use = script_use_of(jobs[job_id])
            if use is not None:
                uses.append(use)
        if uses:
            self._store.add_uses(uses)
