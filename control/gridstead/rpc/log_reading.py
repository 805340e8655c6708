# SPDX-License-Identifier: Apache-2.0
"""A reader's stream: what the log has, then what comes, as the old wire or as new readers want it."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from gridstead.domain.log import MAX_LINE_BYTES, LogId, StoredChunk, to_lines
from gridstead.errors import LoggerUnavailable
from gridstead.proto.logger_pb2 import ReadRequest, ReadResponse

MAX_READERS = 3000  # fewer than streams, so that writers always get in
MAX_READERS_PER_OWNER = 100

Name: TypeAlias = tuple[str, str]
"""(owner, log name)."""

Find: TypeAlias = Callable[[str, str, str], LogId | None]
Read: TypeAlias = Callable[[LogId, int], tuple[StoredChunk, ...]]


class Readers:
    """Who waits for news of which log. For one event loop."""

    def __init__(self) -> None:
        self._waiting: defaultdict[Name, set[asyncio.Event]] = defaultdict(set)
        self._owners: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """How many there are."""
        return self._owners.total()

    def tell(self, name: Name) -> None:
        """Wake who waits for this log."""
        for event in self._waiting.get(name, ()):
            event.set()

    @contextmanager
    def reader(self, name: Name) -> Iterator[asyncio.Event]:
        """Give an event that is set whenever the log has news.

        Raises:
            LoggerUnavailable: There are too many readers.
        """
        owner, _ = name
        if self.count >= MAX_READERS or self._owners[owner] >= MAX_READERS_PER_OWNER:
            raise LoggerUnavailable("too many readers", detail="RESOURCE_EXHAUSTED")
        event = asyncio.Event()
        self._owners[owner] += 1
        self._waiting[name].add(event)
        try:
            yield event
        finally:
            self._waiting[name].discard(event)
            if not self._waiting[name]:
                del self._waiting[name]
            self._owners[owner] -= 1
            if not self._owners[owner]:
                del self._owners[owner]


async def responses(
    name: Name, request: ReadRequest, *, find: Find, read: Read, readers: Readers
) -> AsyncGenerator[ReadResponse]:
    """Yield what an authorized request asks for; ends only if it asks for that."""
    position = request.after
    shown = _as_chunks if request.chunks else _as_lines
    log: LogId | None = None
    with readers.reader(name) as news:
        while True:
            news.clear()
            log = log or find(*name, request.edition)
            stored = read(log, position) if log else ()
            for one in stored:
                for response in shown(one):
                    yield response
                position = one.end
            if stored:
                await asyncio.sleep(0)  # a long log is not read in one breath
            elif request.until_now:
                return
            else:
                await news.wait()


def _as_chunks(stored: StoredChunk) -> Iterable[ReadResponse]:
    yield _response(stored, stored.chunk.data, line=stored.first_line, resume=stored.end)


def _as_lines(stored: StoredChunk) -> Iterable[ReadResponse]:
    lines = to_lines(stored.chunk.data)
    for number, line in enumerate(lines, stored.first_line):
        is_last = number == stored.first_line + len(lines) - 1
        for start in range(0, max(len(line), 1), MAX_LINE_BYTES):  # one that is too long for a message comes in parts
            part = line[start : start + MAX_LINE_BYTES]
            whole = is_last and start + MAX_LINE_BYTES >= len(line)
            yield _response(stored, part, line=number, resume=stored.end if whole else stored.start)


def _response(stored: StoredChunk, data: bytes, *, line: int, resume: int) -> ReadResponse:
    chunk = stored.chunk
    return ReadResponse(
        data=data, timestamp=chunk.timestamp_ns, stream=f"STREAM_{chunk.stream.name}", line=line, resume=resume
    )
