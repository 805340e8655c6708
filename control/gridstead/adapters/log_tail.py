# SPDX-License-Identifier: Apache-2.0
"""Where a log file ends: found after a start, mended after a crash.

A crash can leave part of a chunk behind the last whole one; that part was never acknowledged and is
cut off. More than one chunk's worth that does not open is no such part: it is damage, and is kept
beside the log for who wants to look.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from gridstead.adapters.log_file import (
    CHUNK_HEAD_BYTES,
    FILE_HEAD_BYTES,
    MAX_SEALED_BYTES,
    ChunkHead,
    LogSeal,
    parse_chunk_head,
)
from gridstead.errors import LogDamaged

FULL = 2**64 - 1
"""Sequence of the chunk that says that a log is full; no writer counts so far."""

MAX_WRITERS = 64
_WINDOW_BYTES = 1024 * 1024


@dataclass(slots=True, kw_only=True)
class Tail:
    """What the next chunk of a file needs.

    Attributes:
        seal: The file's.
        end: Where it will stand.
        next_line: Number of its first line.
        writers: The last sequence of each of the latest writers that number their chunks, oldest
            first.
        full: Nothing is taken any more.
        named: The file's name is durable.
    """

    seal: LogSeal
    end: int = FILE_HEAD_BYTES
    next_line: int = 1
    writers: dict[int, int] = field(default_factory=dict)
    full: bool = False
    named: bool = False

    def add(self, size: int, *, lines: int, writer: int, sequence: int) -> None:
        """Count a chunk that was written."""
        self.end += size
        self.next_line += lines
        self.full = sequence == FULL
        if writer:
            self.writers.pop(writer, None)
            self.writers[writer] = sequence
            if len(self.writers) > MAX_WRITERS:
                del self.writers[next(iter(self.writers))]


def find_tail(fd: int, seal: LogSeal, path: Path) -> Tail:
    """Return where the file ends, cutting off what is behind its last whole chunk."""
    size = os.fstat(fd).st_size
    heads = _heads(fd, size)
    end = FILE_HEAD_BYTES + sum(head.size for head in heads)
    while heads and not _opens(fd, seal, end - heads[-1].size, heads[-1].size):
        end -= heads.pop().size
    if end < size:
        if size - end > CHUNK_HEAD_BYTES + MAX_SEALED_BYTES:
            _keep(fd, end, path)
        os.ftruncate(fd, end)
    tail = Tail(seal=seal)
    for head in heads:
        tail.add(head.size, lines=head.lines, writer=head.writer, sequence=head.sequence)
    return tail


def _heads(fd: int, size: int) -> list[ChunkHead]:
    """Return the heads of the chunks that follow each other from the beginning and end before the
    file does.
    """
    heads = []
    position = FILE_HEAD_BYTES
    window, begins = b"", 0
    while position < size:
        if position + CHUNK_HEAD_BYTES > begins + len(window):
            window, begins = os.pread(fd, _WINDOW_BYTES, position), position
        head = parse_chunk_head(memoryview(window)[position - begins :])
        if head is None or position + head.size > size:
            break
        heads.append(head)
        position += head.size
    return heads


def _opens(fd: int, seal: LogSeal, position: int, size: int) -> bool:
    try:
        seal.open(os.pread(fd, size, position), position=position)
    except LogDamaged:
        return False
    return True


def _keep(fd: int, start: int, path: Path) -> None:
    """Copy what will be cut off to a file beside the log."""
    with path.with_suffix(f".damaged-{start}").open("wb") as file:
        while data := os.pread(fd, _WINDOW_BYTES, start):
            file.write(data)
            start += len(data)
