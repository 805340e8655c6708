# SPDX-License-Identifier: Apache-2.0
"""The grid's logger, as a client: lines in with a job's token, lines out with the owner's
signature.

The log writer on compute nodes imports this module, so it imports little: grpc, the messages, the
names of things.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import grpc

from gridstead.adapters.channel import GrpcPeer, open_channel
from gridstead.domain.log import Chunk, Stream, to_lines
from gridstead.domain.log_access import read_text, watch_text
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

WRITE_TIMEOUT_S = 5.0

Sign: TypeAlias = Callable[[bytes], bytes]
"""Message to its EIP-191 signature, 65 bytes."""

_REFUSALS: dict[grpc.StatusCode, type[GridsteadError]] = {
    grpc.StatusCode.UNAUTHENTICATED: NotAllowed,
    grpc.StatusCode.PERMISSION_DENIED: NotAllowed,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidInput,
    grpc.StatusCode.OUT_OF_RANGE: LogFull,
    grpc.StatusCode.DATA_LOSS: LogDamaged,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAccess:
    """A log and the right to write it."""

    owner: str
    log_name: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a reader wants.

    Attributes:
        owner: Address, lower case, whose wallet signs.
        log_name: The log; it need not exist yet.
        edition: Which of this name; the newest if not given.
        after: Where to go on: 0, or what lines that came before gave as ``resume``.
        until_now: Whether the stream ends where the log does now.
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
        lines: The lines without their ends; at least one.
        timestamp_ns: When they were written, nanoseconds since the epoch.
        stream: Where they came from.
        first: Number of the first in the log, from 1.
        resume: Where to go on behind them.
    """

    lines: tuple[bytes, ...]
    timestamp_ns: int
    stream: Stream
    first: int
    resume: int


class LoggerClient:
    """A connection to the logger; safe to use from many threads.

    Args:
        peer: Where it listens.
    """

    def __init__(self, peer: GrpcPeer) -> None:
        self._peer = peer
        self._channel = open_channel(peer)
        self._stub = LoggerAPIStub(self._channel)  # type: ignore[no-untyped-call] # generated

    def close(self) -> None:
        """Let go of the connection."""
        self._channel.close()

    def write(
        self, access: WriteAccess, chunks: Iterable[Chunk], *, timeout_s: float = WRITE_TIMEOUT_S
    ) -> None:
        """Store chunks; their lines are durable when this returns.

        It may be repeated: a numbered chunk that is stored already is not stored again.

        Raises:
            LoggerUnavailable: It is not known whether they are stored.
            NotAllowed: The token is not the log's, or has ended.
            LogFull: The log takes no more.
        """
        requests = (
            WriteRequest(
                log_name=access.log_name,
                user=access.owner,
                data=chunk.data,
                timestamp=chunk.timestamp_ns,
                stream=f"STREAM_{chunk.stream.name}",
                writer=chunk.writer,
                sequence=chunk.sequence,
            )
            for chunk in chunks
        )
        metadata = (("authorization", f"Bearer {access.token}"),)
        try:
            self._stub.Write(requests, metadata=metadata, timeout=timeout_s)
        except grpc.RpcError as err:
            raise self._translate(err, "write") from err

    def read(self, wanted: Wanted, *, now: int, sign: Sign) -> Iterator[Lines]:
        """Yield a log's lines, then each new one; does not end by itself, unless that is wanted.

        Args:
            wanted: Which log, from where on.
            now: Unix seconds.
            sign: Signs for the owner.

        Raises:
            LoggerUnavailable: The stream broke off.
            NotAllowed: The signature is not the owner's, or a clock is wrong.
            LogDamaged: The log does not open.
        """
        request = ReadRequest(
            address=wanted.owner,
            log_name=wanted.log_name,
            timestamp=now,
            signed_hash=sign(read_text(wanted.owner, wanted.log_name, now).encode()),
            log_identity=wanted.log_identity,
            after=wanted.after,
            chunks=True,
            until_now=wanted.until_now,
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
                    first=response.line or count + 1,  # a logger of DeepSquare's gives no numbers
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
            LoggerUnavailable: The logger did not answer.
            NotAllowed: The signature is not the owner's, or a clock is wrong.
        """
        request = WatchListRequest(
            address=owner, timestamp=now, signed_hash=sign(watch_text(owner, now).encode())
        )
        stream = self._stub.WatchList(request, timeout=WRITE_TIMEOUT_S)
        try:
            for response in stream:
                return tuple(response.log_names)
        except grpc.RpcError as err:
            raise self._translate(err, "read") from err
        finally:
            stream.cancel()
        return ()

    def _translate(self, err: grpc.RpcError, verb: str) -> GridsteadError:
        code = err.code()
        kind = _REFUSALS.get(code, LoggerUnavailable)
        return kind(
            f"could not {verb} at the logger {self._peer.address}",
            detail=f"{code.name}: {err.details()!r}",
        )
