# SPDX-License-Identifier: Apache-2.0
"""The output of jobs."""

from __future__ import annotations

from typing import Protocol

from gridstead.domain.log import Chunk, LogId, StoredChunk


class LogSink(Protocol):
    """Where jobs' output is kept, chunk by chunk."""

    def append(self, log: LogId, chunk: Chunk) -> None:
        """Store a chunk behind the others; readers see it at once. One that its writer has stored
        before is left out.

        It survives a crash of ours, not yet one of the host.

        Raises:
            LogFull: The log has reached its limit; its last line says so.
        """
        ...

    def sync(self, log: LogId) -> None:
        """Make all lines of the log durable before returning."""
        ...

    def read(self, log: LogId, *, after: int) -> tuple[StoredChunk, ...]:
        """Return chunks behind a position, in order; empty when there is no more yet. 0 is the
        beginning.

        Raises:
            LogDamaged: There is no chunk at this position, or it does not open.
        """
        ...

    def newest(self, owner: str, name: str) -> LogId | None:
        """Return the edition of a name that was begun last, None if there is none."""
        ...

    def names(self, owner: str) -> tuple[str, ...]:
        """Return the names of this owner's logs, sorted."""
        ...

    def sweep(self, now: int) -> int:
        """Remove logs that are too old or too much at a time (Unix seconds), and return how many."""
        ...
