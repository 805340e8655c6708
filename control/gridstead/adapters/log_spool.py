# SPDX-License-Identifier: Apache-2.0
"""A job's output between the pipe and the logger: a bounded queue on disk.

Chunks get rising numbers and go into segment files, each named by its first number; a segment goes
when the logger has said that its chunks are durable. A writer that was killed and started again
finds the segments, sends what they hold once more, and counts on: the logger drops what it has by
the numbers. Nothing here waits for the logger: what finds no room is counted, and the count stands
in the log where the lines are missing.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections import deque
from pathlib import Path

from gridstead.domain.log import Chunk, Stream

MAX_SPOOL_BYTES = 256 * 1024 * 1024
SEGMENT_BYTES = 8 * 1024 * 1024
MAX_BATCH_BYTES = 1024 * 1024
WRITER_BYTES = 8

_HEAD = struct.Struct(">IQqB")  # length, number, nanoseconds, stream
_WRITER = "writer"
_SEGMENT = "*.chunks"


class Spool:
    """Chunks that wait to be sent; one thread puts, one takes.

    Args:
        folder: Where they lie; made if it is not there. What an earlier process left there is sent
            again.
        max_bytes: How much may wait.

    Raises:
        OSError: The folder cannot be used.
    """

    def __init__(self, folder: Path, *, max_bytes: int = MAX_SPOOL_BYTES) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self._max_bytes = max_bytes
        self._writer = _writer(folder / _WRITER)
        self._changed = threading.Condition()
        self._closed = False
        self._gap = 0
        self._next = 1
        self._bytes = 0
        self._lines = 0
        self._segments: deque[Path] = deque()
        self._taken: deque[Chunk] = deque()
        self._place = 0  # in the first segment, behind what was taken
        for path in sorted(folder.glob(_SEGMENT)):
            self._find(path)
        self._fd = self._begin()

    def put(self, data: bytes, stream: Stream) -> None:
        """Add lines of a stream, or count them as missing if there is no room."""
        with self._changed:
            if self._gap and not self._add(_missing(self._gap), Stream.GRID):
                self._gap += data.count(b"\n") + 1
                return
            self._gap = 0
            if not self._add(data, stream):
                self._gap = data.count(b"\n") + 1
            self._changed.notify()

    def close(self) -> None:
        """Say that nothing follows."""
        with self._changed:
            if self._gap and self._add(_missing(self._gap), Stream.GRID):
                self._gap = 0
            self._closed = True
            self._changed.notify()

    def take(self) -> list[Chunk]:
        """Return the next chunks, waiting for the first; the same ones until done() is called.
        Empty at the end.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._taken or self._lines or self._closed)
            if not self._taken and self._lines:
                self._read()
            return list(self._taken)

    def done(self) -> None:
        """Forget what was taken: the logger has it."""
        with self._changed:
            for chunk in self._taken:
                self._lines -= chunk.lines
            self._taken.clear()
            self._drop()

    def waiting(self) -> int:
        """Return how many lines the logger has not got."""
        with self._changed:
            return self._lines + self._gap

    def _add(self, data: bytes, stream: Stream) -> bool:
        """Return whether there was room."""
        record = _HEAD.pack(len(data), self._next, time.time_ns(), stream) + data
        if self._bytes + len(record) > self._max_bytes:
            return False
        try:
            size = os.lseek(self._fd, 0, os.SEEK_END)
            if size >= SEGMENT_BYTES:
                os.close(self._fd)
                self._fd, size = self._begin(), 0
            if os.write(self._fd, record) != len(record):
                os.ftruncate(self._fd, size)
                return False
        except OSError:
            return False
        self._next += 1
        self._bytes += len(record)
        self._lines += data.count(b"\n") + 1
        return True

    def _begin(self) -> int:
        """Open a new segment for what comes next."""
        path = self._folder / f"{self._next:020d}.chunks"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if not self._segments or self._segments[-1] != path:
            self._segments.append(path)
        return fd

    def _read(self) -> None:
        """Take chunks from the first segment; lines that wait are there, as segments go when all of
        theirs are done.
        """
        self._drop()
        with self._segments[0].open("rb") as file:
            file.seek(self._place)
            size = 0
            while size < MAX_BATCH_BYTES and (head := file.read(_HEAD.size)):
                length, number, timestamp_ns, stream = _HEAD.unpack(head)
                data = file.read(length)
                self._taken.append(
                    Chunk(
                        data=data, timestamp_ns=timestamp_ns, stream=Stream(stream),
                        writer=self._writer, sequence=number,
                    )
                )  # fmt: skip
                size += _HEAD.size + length
            self._place += size

    def _drop(self) -> None:
        """Remove segments whose chunks are all done, but the one that is written to."""
        while len(self._segments) > 1 and self._place >= (size := self._segments[0].stat().st_size):
            self._bytes -= size
            self._segments.popleft().unlink()
            self._place = 0

    def _find(self, path: Path) -> None:
        """Count what an earlier process left in a segment, and cut off what it did not finish."""
        data = path.read_bytes()
        place = 0
        self._next = max(self._next, int(path.stem))
        while place + _HEAD.size <= len(data):
            length, number, _, _ = _HEAD.unpack_from(data, place)
            end = place + _HEAD.size + length
            if end > len(data):
                break
            self._lines += data.count(b"\n", place + _HEAD.size, end) + 1
            self._next = number + 1
            place = end
        os.truncate(path, place)
        self._bytes += place
        self._segments.append(path)


def _writer(path: Path) -> int:
    """Return the random number of this job's writer, the same after a restart."""
    try:
        return int(path.read_text(), 16)
    except (FileNotFoundError, ValueError):
        number = os.urandom(WRITER_BYTES).hex()
        path.write_text(number)
        return int(number, 16)


def _missing(lines: int) -> bytes:
    return b"gridstead: %d lines are missing here: the logger was away or too slow" % lines
