# SPDX-License-Identifier: Apache-2.0
"""Finds the end of a log file after a start of the logger, and repairs the file after a crash.

A crash can leave a partial chunk at the end of the file. The logger has not confirmed this chunk to
its writer, so the chunk is cut off. If the data to cut off is larger than one chunk, the file is
damaged. In this case, the data is copied to a file next to the log before it is cut off.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from gridstead.adapters.logs.file import (
    CHUNK_HEADER_BYTES,
    FILE_HEADER_BYTES,
    MAX_SEALED_BYTES,
    ChunkHeader,
    LogSeal,
    parse_chunk_header,
)
from gridstead.errors import LogDamaged

FULL_SEQUENCE = 2**64 - 1
"""Sequence number of the chunk that marks a log as full. Writers never reach this number."""

MAX_WRITERS = 64
_WINDOW_BYTES = 1024 * 1024


@dataclass(slots=True, kw_only=True)
class Tail:
    """The state of a log file that is needed to append a chunk to the file.

    Attributes:
        seal: Encrypts the chunks of the file.
        end: Position of the next chunk.
        next_line: Number of the next chunk's first line.
        writers: The last sequence number of each recent writer that numbers its chunks, oldest
            writer first.
        is_full: Whether the log has reached its size limit.
        is_name_durable: Whether the directory entry of the file survives a power cut.
    """

    seal: LogSeal
    end: int = FILE_HEADER_BYTES
    next_line: int = 1
    writers: dict[int, int] = field(default_factory=dict)
    is_full: bool = False
    is_name_durable: bool = False

    def add(self, size: int, *, lines: int, writer: int, sequence: int) -> None:
        """Update the state after a chunk was written."""
        self.end += size
        self.next_line += lines
        self.is_full = sequence == FULL_SEQUENCE
        if writer:
            self.writers.pop(writer, None)
            self.writers[writer] = sequence
            if len(self.writers) > MAX_WRITERS:
                del self.writers[next(iter(self.writers))]


def find_tail(fd: int, seal: LogSeal, path: Path) -> Tail:
    """Return the tail of a file and cut off the data after its last complete chunk."""
    size = os.fstat(fd).st_size
    headers = _headers(fd, size)
    end = FILE_HEADER_BYTES + sum(header.size for header in headers)
    # A crash can damage the last chunks, so chunks are removed until the last one can be opened.
    while headers and not _can_be_opened(fd, seal, end - headers[-1].size, headers[-1].size):
        end -= headers.pop().size
    if end < size:
        if size - end > CHUNK_HEADER_BYTES + MAX_SEALED_BYTES:
            _save_damaged(fd, end, path)
        os.ftruncate(fd, end)
    tail = Tail(seal=seal)
    for header in headers:
        tail.add(header.size, lines=header.lines, writer=header.writer, sequence=header.sequence)
    return tail


def _headers(fd: int, size: int) -> list[ChunkHeader]:
    """Return the headers of the consecutive complete chunks from the start of the file."""
    headers = []
    position = FILE_HEADER_BYTES
    window, window_start = b"", 0
    # The headers are read from a part of the file, the window. If the next header is not completely
    # in the window, a new window is read.
    while position < size:
        if position + CHUNK_HEADER_BYTES > window_start + len(window):
            window, window_start = os.pread(fd, _WINDOW_BYTES, position), position
        header = parse_chunk_header(memoryview(window)[position - window_start :])
        if header is None or position + header.size > size:
            break
        headers.append(header)
        position += header.size
    return headers


def _can_be_opened(fd: int, seal: LogSeal, position: int, size: int) -> bool:
    try:
        seal.open(os.pread(fd, size, position), position=position)
    except LogDamaged:
        return False
    return True


def _save_damaged(fd: int, start: int, path: Path) -> None:
    """Copy the data from position ``start`` to the end of ``fd`` to a file next to the log."""
    position = start
    with path.with_suffix(f".damaged-{start}").open("wb") as file:
        while data := os.pread(fd, _WINDOW_BYTES, position):
            file.write(data)
            position += len(data)
