# SPDX-License-Identifier: Apache-2.0
"""Sends a job's output to the logger: from pipes to the spool, and from the spool to the logger.

Rule 1: the pipes are always read, so the job never waits. Rule 2: the spool retains lines until the
logger has confirmed that it has stored them. This module has few imports, because it runs in every
job.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from gridstead.adapters.logs.spool import Spool
from gridstead.domain.logs.log import Chunk, Stream
from gridstead.errors import ConfigError, GridsteadError, Transient

MAX_LINE_BYTES = 64 * 1024
READ_BYTES = 64 * 1024

UNREACHABLE_WAIT_S = 0.2  # how long finish() waits while the logger is unreachable
UNREACHABLE_AFTER_S = 1.0  # the logger counts as unreachable if it does not answer for longer
REACHABLE_WAIT_S = 3.0  # how long finish() waits while the logger answers
_POLL_INTERVAL_S = 0.01
_MIN_BACKOFF_S = 0.1
_MAX_BACKOFF_S = 2.0

Send: TypeAlias = Callable[[Sequence[Chunk]], None]


class LogSender:
    """Sends the chunks of a spool in a thread.

    Args:
        spool: The chunks to send.
        connect: Connects to the logger and returns the function that sends chunks. The thread calls
            ``connect``, because a connection takes time.
    """

    def __init__(self, spool: Spool, connect: Callable[[], Send]) -> None:
        self._spool = spool
        self._connect = connect
        self._has_failed = False  # whether the last attempt failed
        self._attempt_started_at: float | None = None
        self._finish_requested = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sender", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def finish(self) -> int:
        """Wait for the thread to send all chunks, and return the number of lines not sent.

        The wait ends after a short time if the logger is unreachable.
        """
        self._finish_requested.set()
        wait_started_at = time.monotonic()
        while self._thread.is_alive():
            limit_s = UNREACHABLE_WAIT_S if self._is_unreachable() else REACHABLE_WAIT_S
            if time.monotonic() - wait_started_at > limit_s:
                break
            self._thread.join(_POLL_INTERVAL_S)
        return self._spool.unsent_lines()

    def _is_unreachable(self) -> bool:
        if self._has_failed:
            return True
        since = self._attempt_started_at
        return since is not None and time.monotonic() - since > UNREACHABLE_AFTER_S

    def _run(self) -> None:
        try:
            send = self._connect()
        except ConfigError:
            return  # the lines are counted as not sent
        while batch := self._spool.take():
            if not self._deliver(send, batch):
                return
            self._spool.confirm()

    def _deliver(self, send: Send, batch: Sequence[Chunk]) -> bool:
        """Send a batch, with retries. Return False if the logger rejects the batch for good."""
        pause_s = _MIN_BACKOFF_S
        while True:
            self._attempt_started_at = time.monotonic()
            try:
                send(batch)
            except Transient:
                self._has_failed = True
            except GridsteadError:
                return False
            else:
                self._has_failed = False
                return True
            finally:
                self._attempt_started_at = None
            is_finishing = self._finish_requested.wait(pause_s)
            if is_finishing:  # wait() does not pause any more, so a short pause follows
                time.sleep(_MIN_BACKOFF_S)
            pause_s = min(2 * pause_s, _MAX_BACKOFF_S)


def pump(sources: Mapping[int, Stream], copy_fd: int, spool: Spool) -> None:
    """Read the job's output to its end, and write its lines to the spool and to ``copy_fd``.

    Each line contains text of only one descriptor. When all descriptors except that of
    ``Stream.GRID`` have ended, the messages that are already in the descriptor of ``Stream.GRID``
    are read. The function does not wait for later messages.
    """
    partial_lines = dict.fromkeys(sources, b"")
    poll = select.poll()
    for source in sources:
        poll.register(source, select.POLLIN)
    is_copying = True
    while partial_lines:
        is_output_open = any(sources[source] is not Stream.GRID for source in partial_lines)
        timeout_ms = None if is_output_open else 0
        ready_sources = [source for source, _ in poll.poll(timeout_ms)]
        if not ready_sources:
            break
        for source in ready_sources:
            new_data = os.read(source, READ_BYTES)
            is_end = not new_data
            data = partial_lines[source] + new_data
            lines, partial_lines[source] = _split_lines(data, is_end=is_end)
            if is_end:
                poll.unregister(source)
                del partial_lines[source]
            if lines:
                spool.put(lines.removesuffix(b"\n"), sources[source])
                # The copy is written last, so each of its lines is also in the spool.
                is_copying = is_copying and write_all(copy_fd, lines)
    spool.close()


def _split_lines(data: bytes, *, is_end: bool) -> tuple[bytes, bytes]:
    """Return the complete lines and the partial line after them.

    A partial line counts as complete at the end of the stream, or if it is too long.
    """
    lines, end, rest = data.rpartition(b"\n")
    if is_end or len(rest) >= MAX_LINE_BYTES:
        return data, b""
    return lines + end, rest


def write_all(fd: int, data: bytes) -> bool:
    """Write all data. Return False after an error, because a full disk must not end the job."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        return False
    return True
