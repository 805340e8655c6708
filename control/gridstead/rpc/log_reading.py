# SPDX-License-Identifier: Apache-2.0
"""What readers ask for, whatever they speak: a log's lines, as old readers or as new ones want
them, and names.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeAlias

import grpc

from gridstead.domain.log import MAX_LINE_BYTES, LogId, StoredChunk, to_lines
from gridstead.errors import (
    GridsteadError,
    InvalidInput,
    LogDamaged,
    LogFull,
    LoggerUnavailable,
    NotAllowed,
)
from gridstead.proto.logger_pb2 import (
    ReadRequest,
    ReadResponse,
    WatchListRequest,
    WatchListResponse,
)

WATCH_S = 10.0
MAX_READERS = 3000  # fewer than streams, so that writers always get in
MAX_READERS_PER_OWNER = 100

Name: TypeAlias = tuple[str, str]
"""(owner, log name)."""

_CODES: dict[type[GridsteadError], grpc.StatusCode] = {
    NotAllowed: grpc.StatusCode.UNAUTHENTICATED,
    InvalidInput: grpc.StatusCode.INVALID_ARGUMENT,
    LogDamaged: grpc.StatusCode.DATA_LOSS,
    LogFull: grpc.StatusCode.OUT_OF_RANGE,  # grpc itself says RESOURCE_EXHAUSTED when there are too many streams
}


class ReadService(Protocol):
    """What is called for readers."""

    def authorize_read(
        self, address: str, log_name: str, timestamp: int, signature: bytes
    ) -> tuple[str, str]:
        """Return (owner, log name) that a signed request may read."""
        ...

    def authorize_watch(self, address: str, timestamp: int, signature: bytes) -> str:
        """Return the owner whose logs a signed request may list."""
        ...

    def find(self, owner: str, log_name: str, log_identity: str) -> LogId | None:
        """Return the log of an edition, the newest without one."""
        ...

    def read(self, log_id: LogId, after: int) -> tuple[StoredChunk, ...]:
        """Return chunks behind a position."""
        ...

    def names(self, owner: str) -> tuple[str, ...]:
        """Return the names of the owner's logs."""
        ...


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


class Reading:
    """Answers readers. For one event loop.

    Args:
        service: What it calls.
        readers: Who waits for news.
    """

    def __init__(self, service: ReadService, readers: Readers) -> None:
        self._service = service
        self._readers = readers

    async def read(self, request: ReadRequest) -> AsyncGenerator[ReadResponse]:
        """Yield what a request asks for; ends only if it asks for that."""
        name = self._service.authorize_read(
            request.address, request.log_name, request.timestamp, request.signed_hash
        )
        position = request.after
        shown = _as_chunks if request.chunks else _as_lines
        log: LogId | None = None
        with self._readers.reader(name) as news:
            while True:
                news.clear()
                log = log or self._service.find(*name, request.log_identity)
                stored = self._service.read(log, position) if log else ()
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

    async def watch(self, request: WatchListRequest) -> AsyncGenerator[WatchListResponse]:
        """Yield the names of the owner's logs, again and again."""
        owner = self._service.authorize_watch(
            request.address, request.timestamp, request.signed_hash
        )
        while True:
            yield WatchListResponse(log_names=self._service.names(owner))
            await asyncio.sleep(WATCH_S)


def status_of(err: GridsteadError) -> grpc.StatusCode:
    """Return the code that tells a caller of an error."""
    return next(
        (code for kind, code in _CODES.items() if isinstance(err, kind)),
        grpc.StatusCode.UNAVAILABLE,
    )


def _as_chunks(stored: StoredChunk) -> Iterable[ReadResponse]:
    yield _response(stored, stored.chunk.data, line=stored.first_line, resume=stored.end)


def _as_lines(stored: StoredChunk) -> Iterable[ReadResponse]:
    lines = to_lines(stored.chunk.data)
    for number, line in enumerate(lines, stored.first_line):
        is_last = number == stored.first_line + len(lines) - 1
        for start in range(
            0, max(len(line), 1), MAX_LINE_BYTES
        ):  # one that is too long for a message comes in parts
            part = line[start : start + MAX_LINE_BYTES]
            whole = is_last and start + MAX_LINE_BYTES >= len(line)
            yield _response(stored, part, line=number, resume=stored.end if whole else stored.start)


def _response(stored: StoredChunk, data: bytes, *, line: int, resume: int) -> ReadResponse:
    chunk = stored.chunk
    return ReadResponse(
        data=data,
        timestamp=chunk.timestamp_ns,
        stream=f"STREAM_{chunk.stream.name}",
        line=line,
        resume=resume,
    )
