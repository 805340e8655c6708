# SPDX-License-Identifier: Apache-2.0
"""The client of the grid's logger.

A writer needs the job's write token. A reader needs the owner's signature. This module has few
imports, because every job starts a log writer, and the log writer imports this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import grpc

from gridstead.adapters.channel import GrpcPeer, open_channel
from gridstead.domain.logs.access import read_request_text, watch_request_text
from gridstead.domain.logs.log import Chunk, Stream, to_lines
from gridstead.errors import (
    GridsteadError,
    InvalidInput,
    LogDamaged,
    LogFull,
    LoggerUnavailable,
    NotAllowed,
)
from gridstead.proto.logger_pb2 import ReadRequest, WatchListRequest, WriteRequest
from gridstead.proto.logger_pb2_grpc import LoggerAPIStub

CALL_TIMEOUT_S = 5.0

Sign: TypeAlias = Callable[[bytes], bytes]
"""Returns the EIP-191 signature of a message, 65 bytes."""

_REFUSALS: dict[grpc.StatusCode, type[GridsteadError]] = {
    grpc.StatusCode.UNAUTHENTICATED: NotAllowed,
    grpc.StatusCode.PERMISSION_DENIED: NotAllowed,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidInput,
    grpc.StatusCode.OUT_OF_RANGE: LogFull,
    grpc.StatusCode.DATA_LOSS: LogDamaged,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAccess:
    """A log and the token to write it."""

    owner: str
    log_name: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """The log to read, and the part of it to read.

    Attributes:
        owner: Address of the owner, lower case. The owner's wallet signs the request.
        log_name: Name of the log. The log need not exist yet.
        log_identity: Distinguishes the logs with the same name. Empty for the newest of these logs.
        after: Position at which to start: 0, or attribute ``resume`` of received ``Lines``.
        until_now: Whether the stream ends at the current end of the log.
    """

    owner: str
    log_name: str
    log_identity: str = ""
    after: int = 0
    until_now: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Some lines of a log.

    Attributes:
        lines: One or more lines, without line ends.
        timestamp_ns: When the lines were written. Unit: ns since 1970, UTC.
        stream: The source of the lines.
        first: Number of the first line in the log, from 1.
        resume: Position after these lines.
    """

    lines: tuple[bytes, ...]
    timestamp_ns: int
    stream: Stream
    first: int
    resume: int


class LoggerClient:
    """A connection to the logger. Safe to call from many threads.

    Args:
        peer: Address and certificates of the logger.
    """

    def __init__(self, peer: GrpcPeer) -> None:
        self._peer = peer
        self._channel = open_channel(peer)
        self._stub = LoggerAPIStub(self._channel)  # type: ignore[no-untyped-call] # generated

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def write(
        self, access: WriteAccess, chunks: Iterable[Chunk], *, timeout_s: float = CALL_TIMEOUT_S
    ) -> None:
        """Store chunks, and return when their lines are durable.

        A call can be repeated: the logger ignores a numbered chunk that it has already stored.

        Raises:
            LoggerUnavailable: If it is unknown whether the chunks are stored.
            NotAllowed: If the token is not valid for the log, or has expired.
            LogFull: If the log has reached its size limit.
        """
        requests = (_write_request(access, chunk) for chunk in chunks)
        metadata = (("authorization", f"Bearer {access.token}"),)
        try:
            self._stub.Write(requests, metadata=metadata, timeout=timeout_s)
        except grpc.RpcError as err:
            raise self._translate(err, "write") from err

    def read(self, query: LogQuery, *, now: int, sign: Sign) -> Iterator[Lines]:
        """Yield the lines of a log. Without ``until_now``, also yield new lines, without end.

        Args:
            query: The log to read, and the part of the log.
            now: Unix seconds.
            sign: Signs a text with the owner's wallet.

        Raises:
            LoggerUnavailable: If the connection was lost.
            NotAllowed: If the signature is not the owner's, or a clock is wrong.
            LogDamaged: If the log was altered.
        """
        request = ReadRequest(
            address=query.owner,
            log_name=query.log_name,
            timestamp=now,
            signed_hash=sign(read_request_text(query.owner, query.log_name, now).encode()),
            log_identity=query.log_identity,
            after=query.after,
            chunks=True,
            until_now=query.until_now,
        )
        stream = self._stub.Read(request)
        count = 0
        try:
            for response in stream:
                lines = tuple(to_lines(response.data))
                yield Lines(
                    lines=lines,
                    timestamp_ns=response.timestamp,
                    stream=Stream(response.stream),
                    first=response.line or count + 1,  # DeepSquare's logger sends no numbers
                    resume=response.resume,
                )
                count += len(lines)
        except grpc.RpcError as err:
            raise self._translate(err, "read") from err
        finally:
            stream.cancel()

    def names(self, owner: str, *, now: int, sign: Sign) -> tuple[str, ...]:
        """Return the names of the owner's logs, sorted.

        Raises:
            LoggerUnavailable: If the logger did not answer.
            NotAllowed: If the signature is not the owner's, or a clock is wrong.
        """
        request = WatchListRequest(
            address=owner, timestamp=now, signed_hash=sign(watch_request_text(owner, now).encode())
        )
        stream = self._stub.WatchList(request, timeout=CALL_TIMEOUT_S)
        try:
            for response in stream:  # The first answer has all names.
                return tuple(response.log_names)
        except grpc.RpcError as err:
            raise self._translate(err, "read") from err
        finally:
            stream.cancel()
        return ()

    def _translate(self, err: grpc.RpcError, verb: str) -> GridsteadError:
        code = err.code()
        error_type = _REFUSALS.get(code, LoggerUnavailable)
        return error_type(
            f"could not {verb} logs at {self._peer.address}",
            detail=f"{code.name}: {err.details()!r}",
        )


def _write_request(access: WriteAccess, chunk: Chunk) -> WriteRequest:
    return WriteRequest(
        log_name=access.log_name,
        user=access.owner,
        data=chunk.data,
        timestamp=chunk.timestamp_ns,
        stream=f"STREAM_{chunk.stream.name}",
        writer=chunk.writer,
        sequence=chunk.sequence,
    )
