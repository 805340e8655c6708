# SPDX-License-Identifier: Apache-2.0
"""Saves the state of the meta-scheduler, so that a restart need not read all events again.

Rule 1: a snapshot is the state after a complete tick. A restart from it is like a pause: the next
tick reads the events since then, and after a reorg the follower goes back as usual.

Rule 2: a snapshot is used only if the follower needs no older events. If a reorg may have been
deeper than the confirmations, or if the snapshot cannot be read, all events are read again.
"""

from __future__ import annotations

import threading
import time

import structlog

from gridstead.domain.matching.snapshot import Snapshot
from gridstead.errors import GridsteadError, UnexpectedOutput
from gridstead.ports import Chain, Cursor, SnapshotStore
from gridstead.services.matching.meta_scheduler import MetaScheduler

log = structlog.get_logger()

INTERVAL_S = 600


class Snapshots:
    """Runs the ticks of a meta-scheduler, and saves its state between them.

    Args:
        service: The meta-scheduler, which has just been created.
        cursor: The cursor of its follower, which is empty.
        chain: The chain.
        store: Stores the snapshot.
        confirmations: How many blocks a reorg may remove without all events being read again.
    """

    def __init__(
        self,
        service: MetaScheduler,
        cursor: Cursor,
        chain: Chain,
        store: SnapshotStore,
        *,
        confirmations: int,
    ) -> None:
        self._service = service
        self._cursor = cursor
        self._chain = chain
        self._store = store
        self._confirmations = confirmations
        self._lock = threading.Lock()  # ``tick`` and ``save`` run in different threads
        self._is_started = False
        self._is_complete = False  # whether the last tick ended without an error

    def tick(self) -> None:
        """Run a tick of the meta-scheduler. The first call restores the stored snapshot."""
        with self._lock:
            if not self._is_started:
                self._restore()
                self._is_started = True
            self._is_complete = False
            self._service.tick()
            self._is_complete = True

    def save(self) -> None:
        """Save the state after the last tick. No effect if the tick failed.

        The next tick may run while the snapshot is written.
        """
        with self._lock:
            start_s = time.monotonic()
            snapshot = self._take()
            delay_s = time.monotonic() - start_s
        if snapshot is None:
            return
        self._store.save(snapshot)
        log.info(
            "snapshot_saved",
            block=snapshot.block.number,
            jobs=len(snapshot.memory.jobs),
            delay_s=round(delay_s, 3),  # of a tick that became due meanwhile
            duration_s=round(time.monotonic() - start_s, 3),
        )

    def save_at_stop(self) -> None:
        """Save the state at the end of the process. A failure is logged.

        After a bug, a tick may still run. In this case nothing is saved.
        """
        if self._lock.locked():
            return
        try:
            self.save()
        except GridsteadError as error:
            log.warning("snapshot_failed", reason=str(error))

    def _take(self) -> Snapshot | None:
        return self._service.snapshot(self._cursor.history()) if self._is_complete else None

    def _restore(self) -> None:
        """Restore the stored snapshot, or log why all events are read again."""
        try:
            snapshot = self._store.load()
        except UnexpectedOutput as error:
            log.warning("snapshot_not_used", reason=error.detail)
            return
        if snapshot is None:
            log.info("snapshot_not_used", reason="there is none")
            return
        block = snapshot.block.number
        if not self._is_on_chain(snapshot):
            reason = f"the reorg may be deeper than {self._confirmations} blocks"
            log.warning("snapshot_not_used", block=block, reason=reason)
            return
        self._service.restore(snapshot)
        for saved_block in reversed(snapshot.progress.history):
            self._cursor.save(saved_block)
        log.info("snapshot_restored", block=block, jobs=len(snapshot.memory.jobs))

    def _is_on_chain(self, snapshot: Snapshot) -> bool:
        """Return whether the follower can continue: see ``Follower``, rules 2 and 3."""
        for saved_block in snapshot.progress.history:
            if snapshot.block.number - saved_block.number > self._confirmations:
                return False
            block = self._chain.block(saved_block.number)
            if block is not None and block.hash == saved_block.hash:
                return True
        return False
