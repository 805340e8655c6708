# SPDX-License-Identifier: Apache-2.0
"""Answers to readers of logs, over gRPC and gRPC-web: the lines of a log, and the names of logs.

A response has one line for DeepSquare's readers, and several lines for readers that accept chunks.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeAlias

import grpc

from gridstead.domain.logs.log import MAX_LINE_BYTES, LogId, StoredChunk, to_lines
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

WATCH_INTERVAL_S = 10.0
MAX_READERS = 3000  # fewer than MAX_STREAMS, so that some streams remain for writers
MAX_READERS_PER_OWNER = 100

LogKey: TypeAlias = tuple[str, str]
"""(owner, log name)."""

_STATUS_CODES: dict[type[GridsteadError], grpc.StatusCode] = {
    NotAllowed: grpc.StatusCode.UNAUTHENTICATED,
    InvalidInput: grpc.StatusCode.INVALID_ARGUMENT,
    LogDamaged: grpc.StatusCode.DATA_LOSS,
    LogFull: grpc.StatusCode.OUT_OF_RANGE,  # gRPC uses RESOURCE_EXHAUSTED for too many streams
}


class ReadService(Protocol):
    """The service that ``LogReader`` calls."""

    def authorize_read(
        self, address: str, log_name: str, timestamp: int, signature: bytes
    ) -> tuple[str, str]:
        """Check the signature of a request. Return (owner, log name) of the log to read."""
        ...

    def authorize_watch(self, address: str, timestamp: int, signature: bytes) -> str:
        """Check the signature of a request. Return the owner of the log names to list."""
        ...

    def find(self, owner: str, log_name: str, log_identity: str) -> LogId | None:
        """Return the log with this name and identity.

        If the identity is empty, return the newest log with the name.
        """
        ...

    def read(self, log_id: LogId, after: int) -> tuple[StoredChunk, ...]:
        """Return the chunks of a log after a position."""
        ...

    def names(self, owner: str) -> tuple[str, ...]:
        """Return the names of the owner's logs."""
        ...


class Readers:
    """The readers that follow logs. Not thread-safe: only one event loop may use an object."""

    def __init__(self) -> None:
        self._waiting_readers: defaultdict[LogKey, set[asyncio.Event]] = defaultdict(set)
        self._reader_counts: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """The number of readers."""
        return self._reader_counts.total()

    def notify(self, log_key: LogKey) -> None:
        """Wake the readers of this log."""
        for event in self._waiting_readers.get(log_key, ()):
            event.set()

    @contextmanager
    def reader(self, log_key: LogKey) -> Iterator[asyncio.Event]:
        """Yield an event that is set when the log has new lines.

        Raises:
            LoggerUnavailable: If there are too many readers.
        """
        owner, _ = log_key
        if self.count >= MAX_READERS or self._reader_counts[owner] >= MAX_READERS_PER_OWNER:
            raise LoggerUnavailable("too many readers", detail="RESOURCE_EXHAUSTED")
        event = asyncio.Event()
        self._reader_counts[owner] += 1
        self._waiting_readers[log_key].add(event)
        try:
            yield event
        finally:
            self._waiting_readers[log_key].discard(event)
            if not self._waiting_readers[log_key]:
                del self._waiting_readers[log_key]
            self._reader_counts[owner] -= 1
            if not self._reader_counts[owner]:
                del self._reader_counts[owner]


class LogReader:
    """Answers readers. Not thread-safe: only one event loop may use an object.

    Args:
        service: Checks the requests and reads the logs.
        readers: The readers that wait for new lines.
    """

    def __init__(self, service: ReadService, readers: Readers) -> None:
        self._service = service
        self._readers = readers

    async def read(self, request: ReadRequest) -> AsyncGenerator[ReadResponse]:
        """Yield the lines of a log, and wait for new lines unless the request has ``until_now``."""
        log_key = self._service.authorize_read(
            request.address, request.log_name, request.timestamp, request.signed_hash
        )
        position = request.after
        to_responses = _as_chunks if request.chunks else _as_lines
        log: LogId | None = None
        with self._readers.reader(log_key) as new_lines:
            while True:
                new_lines.clear()
                log = log or self._service.find(*log_key, request.log_identity)
                stored_chunks = self._service.read(log, position) if log else ()
                for chunk in stored_chunks:
                    for response in to_responses(chunk):
                        yield response
                    position = chunk.end
                if stored_chunks:
                    await asyncio.sleep(0)  # a long log must not block the event loop
                elif request.until_now:
                    return
                else:
                    await new_lines.wait()

    async def watch(self, request: WatchListRequest) -> AsyncGenerator[WatchListResponse]:
        """Yield the names of the owner's logs at regular intervals."""
        owner = self._service.authorize_watch(
            request.address, request.timestamp, request.signed_hash
        )
        while True:
            yield WatchListResponse(log_names=self._service.names(owner))
            await asyncio.sleep(WATCH_INTERVAL_S)


def status_of(err: GridsteadError) -> grpc.StatusCode:
    """Return the status code of an error."""
    for error_type, code in _STATUS_CODES.items():
        if isinstance(err, error_type):
            return code
    return grpc.StatusCode.UNAVAILABLE


def _as_chunks(stored: StoredChunk) -> Iterable[ReadResponse]:
    """Yield one response with all lines of a chunk."""
    yield _response(stored, stored.chunk.data, line=stored.first_line, resume=stored.end)


def _as_lines(stored: StoredChunk) -> Iterable[ReadResponse]:
    """Yield a response for each line of a chunk, or several responses for a very long line."""
    lines = to_lines(stored.chunk.data)
    for number, line in enumerate(lines, stored.first_line):
        is_last = number == stored.first_line + len(lines) - 1
        # A line that is too long for a message is sent in parts.
        for start in range(0, max(len(line), 1), MAX_LINE_BYTES):
            part = line[start : start + MAX_LINE_BYTES]
            is_last_part = is_last and start + MAX_LINE_BYTES >= len(line)
            # A reader that received only a part of a chunk must resume at the start of the chunk.
            resume = stored.end if is_last_part else stored.start
            yield _response(stored, part, line=number, resume=resume)


def _response(stored: StoredChunk, data: bytes, *, line: int, resume: int) -> ReadResponse:
    chunk = stored.chunk
    return ReadResponse(
        data=data,
        timestamp=chunk.timestamp_ns,
        stream=f"STREAM_{chunk.stream.name}",
        line=line,
        resume=resume,
    )
