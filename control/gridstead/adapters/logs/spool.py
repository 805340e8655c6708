# SPDX-License-Identifier: Apache-2.0
"""The spool of a job's log: a bounded queue on disk between the pipe and the logger.

Chunks have increasing numbers and are written to segment files. The name of a segment is the number
of its first chunk. A segment is deleted after the logger has confirmed that the segment's chunks
are durable. A writer that was killed and restarted sends the chunks in the segments again and
continues the numbers. The logger ignores chunks that it already has. The job never waits for the
logger: if the spool is full, the writer drops lines, and a message in the log says how many lines
are missing.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections import deque
from pathlib import Path

from gridstead.domain.logs.log import Chunk, Stream

MAX_SPOOL_BYTES = 256 * 1024 * 1024
SEGMENT_BYTES = 8 * 1024 * 1024
MAX_BATCH_BYTES = 1024 * 1024
WRITER_ID_BYTES = 8

_CHUNK_HEADER = struct.Struct(">IQqB")  # length, number, nanoseconds, stream
_WRITER_FILE = "writer"
_SEGMENT_PATTERN = "*.chunks"


class Spool:
    """Chunks that wait to be sent. One thread puts chunks, and another takes them.

    Args:
        folder: Folder of the segments. It is created if it does not exist. The chunks of an earlier
            process are sent again.
        max_bytes: Maximum size of the waiting chunks.

    Raises:
        OSError: If the folder cannot be used.
    """

    def __init__(self, folder: Path, *, max_bytes: int = MAX_SPOOL_BYTES) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self._max_bytes = max_bytes
        self._writer = _read_or_create_writer_id(folder / _WRITER_FILE)
        self._condition = threading.Condition()
        self._is_closed = False
        self._dropped_lines = 0
        self._next_sequence = 1  # number of the next chunk
        self._size_bytes = 0  # size of all segments
        self._unsent_lines = 0  # lines in the segments that the logger has not confirmed
        self._segments: deque[Path] = deque()
        self._taken_chunks: deque[Chunk] = deque()
        self._read_offset = 0  # position in the first segment, after the chunks that were taken
        for path in sorted(folder.glob(_SEGMENT_PATTERN)):
            self._recover(path)
        self._fd = self._open_segment()

    def put(self, data: bytes, stream: Stream) -> None:
        """Add lines of a stream, or count them as missing if there is no room."""
        with self._condition:
            line_count = data.count(b"\n") + 1
            if not self._report_gap():
                # There is no room for a message about earlier missing lines, so these lines are
                # missing too.
                self._dropped_lines += line_count
                return
            if not self._add(data, stream):
                self._dropped_lines = line_count
            self._condition.notify()

    def close(self) -> None:
        """Mark the end of the output."""
        with self._condition:
            self._report_gap()
            self._is_closed = True
            self._condition.notify()

    def take(self) -> list[Chunk]:
        """Wait for chunks and return them. Returns an empty list at the end of the output.

        Repeated calls return the same chunks until confirm() is called.
        """
        with self._condition:
            self._condition.wait_for(self._can_take)
            if not self._taken_chunks and self._unsent_lines:
                self._read_batch()
            return list(self._taken_chunks)

    def _can_take(self) -> bool:
        return bool(self._taken_chunks or self._unsent_lines or self._is_closed)

    def confirm(self) -> None:
        """Delete the chunks that were taken. Call this when the logger has stored them."""
        with self._condition:
            for chunk in self._taken_chunks:
                self._unsent_lines -= chunk.line_count
            self._taken_chunks.clear()
            self._delete_segments()

    def unsent_lines(self) -> int:
        """Return the number of lines that were not sent."""
        with self._condition:
            return self._unsent_lines + self._dropped_lines

    def _report_gap(self) -> bool:
        """Add a message about missing lines, if there are any. Return whether there was room."""
        if self._dropped_lines:
            if not self._add(_gap_message(self._dropped_lines), Stream.GRID):
                return False
            self._dropped_lines = 0
        return True

    def _add(self, data: bytes, stream: Stream) -> bool:
        """Store a chunk, and return whether there was room."""
        record = _CHUNK_HEADER.pack(len(data), self._next_sequence, time.time_ns(), stream) + data
        if self._size_bytes + len(record) > self._max_bytes:
            return False
        try:
            size = os.lseek(self._fd, 0, os.SEEK_END)
            if size >= SEGMENT_BYTES:
                os.close(self._fd)
                self._fd, size = self._open_segment(), 0
            if os.write(self._fd, record) != len(record):
                os.ftruncate(self._fd, size)
                return False
        except OSError:
            return False
        self._next_sequence += 1
        self._size_bytes += len(record)
        self._unsent_lines += data.count(b"\n") + 1
        return True

    def _open_segment(self) -> int:
        """Open a new segment for the next chunks."""
        path = self._folder / f"{self._next_sequence:020d}.chunks"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if not self._segments or self._segments[-1] != path:
            self._segments.append(path)
        return fd

    def _read_batch(self) -> None:
        """Take chunks from the first segment.

        The first segment always has waiting lines, because segments without waiting lines are
        deleted.
        """
        self._delete_segments()
        with self._segments[0].open("rb") as file:
            file.seek(self._read_offset)
            size = 0
            while size < MAX_BATCH_BYTES and (header := file.read(_CHUNK_HEADER.size)):
                length, number, timestamp_ns, stream = _CHUNK_HEADER.unpack(header)
                data = file.read(length)
                self._taken_chunks.append(
                    Chunk(
                        data=data, timestamp_ns=timestamp_ns, stream=Stream(stream),
                        writer=self._writer, sequence=number,
                    )
                )  # fmt: skip
                size += _CHUNK_HEADER.size + length
            self._read_offset += size

    def _delete_segments(self) -> None:
        """Delete segments whose chunks are all sent, except the current segment."""
        while len(self._segments) > 1:
            size = self._segments[0].stat().st_size
            if self._read_offset < size:
                return
            self._size_bytes -= size
            self._segments.popleft().unlink()
            self._read_offset = 0

    def _recover(self, path: Path) -> None:
        """Count the chunks of an earlier process in a segment, and cut off a partial chunk."""
        data = path.read_bytes()
        offset = 0
        self._next_sequence = max(self._next_sequence, int(path.stem))
        while offset + _CHUNK_HEADER.size <= len(data):
            length, number, _, _ = _CHUNK_HEADER.unpack_from(data, offset)
            end = offset + _CHUNK_HEADER.size + length
            if end > len(data):
                break
            self._unsent_lines += data.count(b"\n", offset + _CHUNK_HEADER.size, end) + 1
            self._next_sequence = number + 1
            offset = end
        os.truncate(path, offset)
        self._size_bytes += offset
        self._segments.append(path)


def _read_or_create_writer_id(path: Path) -> int:
    """Return the random number of this job's writer. A restarted writer has the same number."""
    try:
        return int(path.read_text(), 16)
    except (FileNotFoundError, ValueError):
        number = os.urandom(WRITER_ID_BYTES).hex()
        path.write_text(number)
        return int(number, 16)


def _gap_message(lines: int) -> bytes:
    return b"gridstead: %d lines are missing here: the logger was away or too slow" % lines
