# SPDX-License-Identifier: Apache-2.0
"""A job's output on its way to the logger: a bounded buffer between a pipe and a sender.

Rule 1: the pipe is always read, so the job never waits. Rule 2: what does not fit while the logger is away is dropped
and counted, and the count stands in the log where the lines are missing. Rule 3: lines are kept until the logger has
said that they are durable. Standard library and errors only: this runs beside every job.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from gridstead.errors import ConfigError, GridsteadError, Transient

MAX_BUFFER_BYTES = 8 * 1024 * 1024
MAX_BATCH_BYTES = 256 * 1024
MAX_LINE_BYTES = 64 * 1024
READ_BYTES = 64 * 1024
BLOCK_BYTES = 128  # what a block costs beside its text, so that small ones are bounded too

AWAY_WAIT_S = 0.4
SLOW_S = 1.0
LAST_WAIT_S = 3.0
_STEP_S = 0.01
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0

Block: TypeAlias = tuple[bytes, int]
"""One or more lines, with a line feed between each two, and when they were read: nanoseconds since the epoch."""

Send: TypeAlias = Callable[[Sequence[Block]], None]


class Buffer:
    """Blocks of lines that wait to be sent; one thread puts, one takes.

    Args:
        max_bytes: How much may wait.
    """

    def __init__(self, max_bytes: int = MAX_BUFFER_BYTES) -> None:
        self._max_bytes = max_bytes
        self._blocks: deque[Block] = deque()
        self._bytes = 0
        self._gap = 0
        self._closed = False
        self._changed = threading.Condition()

    def put(self, data: bytes) -> None:
        """Add a block, or count its lines as dropped if there is no room."""
        with self._changed:
            if self._bytes + len(data) + BLOCK_BYTES > self._max_bytes:
                self._gap += count_lines(data)
                return
            self._mark_gap()
            self._add(data)
            self._changed.notify()

    def close(self) -> None:
        """Say that nothing follows."""
        with self._changed:
            self._mark_gap()
            self._closed = True
            self._changed.notify()

    def take(self) -> list[Block]:
        """Return the next blocks, waiting for the first; empty when all are taken and nothing follows."""
        with self._changed:
            self._changed.wait_for(lambda: self._blocks or self._closed)
            batch: list[Block] = []
            size = 0
            while self._blocks and size < MAX_BATCH_BYTES:
                block = self._blocks.popleft()
                size += len(block[0]) + BLOCK_BYTES
                batch.append(block)
            self._bytes -= size
            return batch

    def waiting(self) -> int:
        """Return how many lines wait."""
        with self._changed:
            return sum(count_lines(data) for data, _ in self._blocks)

    def _mark_gap(self) -> None:
        if self._gap:
            self._add(b"gridstead: %d lines are missing here: the logger was away or too slow" % self._gap)
            self._gap = 0

    def _add(self, data: bytes) -> None:
        self._blocks.append((data, time.time_ns()))
        self._bytes += len(data) + BLOCK_BYTES


def count_lines(data: bytes) -> int:
    """Return how many lines a block holds."""
    return data.count(b"\n") + 1


class Sender:
    """Takes lines from the buffer and sends them, in a thread of its own.

    Args:
        buffer: Where lines wait.
        connect: Returns what sends; called in the thread, as connecting costs time.
    """

    def __init__(self, buffer: Buffer, connect: Callable[[], Send]) -> None:
        self._buffer = buffer
        self._connect = connect
        self._in_hand = 0
        self._away = False
        self._trying_since: float | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sender", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def finish(self) -> int:
        """Wait until all is sent, but not long if the logger is away; return how many lines were not sent."""
        self._ending.set()
        ended = time.monotonic()
        while self._thread.is_alive():
            waited = time.monotonic() - ended
            if waited > (AWAY_WAIT_S if self._is_away() else LAST_WAIT_S):
                break
            self._thread.join(_STEP_S)
        return self._buffer.waiting() + self._in_hand

    def _is_away(self) -> bool:
        since = self._trying_since
        return self._away or (since is not None and time.monotonic() - since > SLOW_S)

    def _run(self) -> None:
        try:
            send = self._connect()
        except ConfigError:
            return  # the lines are counted as not sent
        while batch := self._buffer.take():
            self._in_hand = sum(count_lines(data) for data, _ in batch)
            if not self._deliver(send, batch):
                return
            self._in_hand = 0

    def _deliver(self, send: Send, batch: Sequence[Block]) -> bool:
        """Send until it is done; return False if the logger will never take it."""
        pause_s = _FIRST_PAUSE_S
        while True:
            self._trying_since = time.monotonic()
            try:
                send(batch)
            except Transient:
                self._away = True
            except GridsteadError:
                return False
            else:
                self._away = False
                return True
            finally:
                self._trying_since = None
            if self._ending.wait(pause_s):
                time.sleep(_FIRST_PAUSE_S)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def pump(source: int, copy: int, buffer: Buffer) -> None:
    """Read a descriptor to its end: copy it to another one as it is, and put its lines into the buffer."""
    rest = b""
    copying = True
    while chunk := os.read(source, READ_BYTES):
        copying = copying and write_all(copy, chunk)
        lines, end, rest = (rest + chunk).rpartition(b"\n")
        if end:
            buffer.put(lines)
        if len(rest) >= MAX_LINE_BYTES:
            buffer.put(rest)
            rest = b""
    if rest:
        buffer.put(rest)
    buffer.close()


def write_all(fd: int, data: bytes) -> bool:
    """Write all of it and return whether that worked; a full disk is no reason to stop the job."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        return False
    return True
