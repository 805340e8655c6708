# SPDX-License-Identifier: Apache-2.0
"""Port of the stored output of jobs."""

from __future__ import annotations

from typing import Protocol

from gridstead.domain.logs.log import Chunk, LogId, StoredChunk


class LogStore(Protocol):
    """Stores the output of jobs in chunks."""

    def append(self, log: LogId, chunk: Chunk) -> None:
        """Append a chunk. Readers see it at once. A repeated chunk is ignored.

        The chunk survives a crash of the service. After ``sync`` it also survives a crash of the
        host.

        Raises:
            LogFull: If the log has reached its size limit. The last line of the log says so.
        """
        ...

    def sync(self, log: LogId) -> None:
        """Write all lines of the log to the disk (fsync) before returning."""
        ...

    def read(self, log: LogId, *, after: int) -> tuple[StoredChunk, ...]:
        """Return the chunks after a position, in order. Empty if there are no more chunks now.

        Position 0 is the beginning.

        Raises:
            LogDamaged: If there is no chunk at this position, or if it cannot be decrypted.
        """
        ...

    def newest(self, owner: str, name: str) -> LogId | None:
        """Return the owner's newest log with a name. Returns None if there is no such log."""
        ...

    def names(self, owner: str) -> tuple[str, ...]:
        """Return the names of this owner's logs, sorted."""
        ...

    def sweep(self, now: int) -> int:
        """Remove logs that are too old or exceed the size limits. Return how many were removed.

        Unit: ``now`` Unix seconds.
        """
        ...
