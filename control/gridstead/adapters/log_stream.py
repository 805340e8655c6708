# SPDX-License-Identifier: Apache-2.0
"""A job's output on its way to the logger: from pipes into the spool, from the spool to the logger.

Rule 1: the pipes are always read, so the job never waits. Rule 2: lines are kept until the logger
has said that they are durable. It imports little: this runs beside every job.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from gridstead.adapters.log_spool import Spool
from gridstead.domain.log import Chunk, Stream
from gridstead.errors import ConfigError, GridsteadError, Transient

MAX_LINE_BYTES = 64 * 1024
READ_BYTES = 64 * 1024

AWAY_WAIT_S = 0.2
SLOW_S = 1.0
LAST_WAIT_S = 3.0
_STEP_S = 0.01
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0

Send: TypeAlias = Callable[[Sequence[Chunk]], None]


class LogSender:
    """Takes chunks from the spool and sends them, in a thread of its own.

    Args:
        spool: Where they wait.
        connect: Returns what sends; called in the thread, as connecting costs time.
    """

    def __init__(self, spool: Spool, connect: Callable[[], Send]) -> None:
        self._spool = spool
        self._connect = connect
        self._away = False
        self._trying_since: float | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sender", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def finish(self) -> int:
        """Wait until all is sent, but not long if the logger is away; return how many lines were
        not sent.
        """
        self._ending.set()
        ended = time.monotonic()
        while self._thread.is_alive():
            waited = time.monotonic() - ended
            if waited > (AWAY_WAIT_S if self._is_away() else LAST_WAIT_S):
                break
            self._thread.join(_STEP_S)
        return self._spool.waiting()

    def _is_away(self) -> bool:
        since = self._trying_since
        return self._away or (since is not None and time.monotonic() - since > SLOW_S)

    def _run(self) -> None:
        try:
            send = self._connect()
        except ConfigError:
            return  # the lines are counted as not sent
        while (batch := self._spool.take()) and self._deliver(send, batch):
            self._spool.done()

    def _deliver(self, send: Send, batch: Sequence[Chunk]) -> bool:
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


def pump(sources: Mapping[int, Stream], copy: int, spool: Spool) -> None:
    """Read descriptors to their ends: put each one's lines into the spool, and copy them, so that
    no two mix.
    """
    rests = dict.fromkeys(sources, b"")
    ready = select.poll()
    for source in sources:
        ready.register(source, select.POLLIN)
    copying = True
    while rests:
        for source, _ in ready.poll():
            chunk = os.read(source, READ_BYTES)
            lines, rests[source] = _split(rests[source] + chunk, is_end=not chunk)
            if not chunk:
                ready.unregister(source)
                del rests[source]
            if lines:
                spool.put(lines.removesuffix(b"\n"), sources[source])
                copying = copying and write_all(
                    copy, lines
                )  # what is in the copy is also in the spool
    spool.close()


def _split(data: bytes, *, is_end: bool) -> tuple[bytes, bytes]:
    """Return the whole lines and what follows them; that is taken for a line at the end, or if it
    is too long.
    """
    lines, end, rest = data.rpartition(b"\n")
    if is_end or len(rest) >= MAX_LINE_BYTES:
        return data, b""
    return lines + end, rest


def write_all(fd: int, data: bytes) -> bool:
    """Write all of it and return whether that worked; a full disk is no reason to stop the job."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        return False
    return True
