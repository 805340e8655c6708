# SPDX-License-Identifier: Apache-2.0
"""The grid's logger, as a client: lines in with a job's token, lines out with the owner's signature.

The log writer on compute nodes imports this module, so it imports little: grpc, the messages, the names of things.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import grpc

from gridstead.adapters.channel import Peer, open_channel
from gridstead.domain.log_access import read_text, watch_text
from gridstead.errors import GridsteadError, InvalidInput, LogFull, LoggerUnavailable, NotAllowed
from gridstead.proto.logger_pb2 import ReadRequest, WatchListRequest, WriteRequest
from gridstead.proto.logger_pb2_grpc import LoggerAPIStub

WRITE_TIMEOUT_S = 5.0

Line: TypeAlias = tuple[bytes, int]
"""A line without its end, and when it was written: nanoseconds since the epoch."""

Sign: TypeAlias = Callable[[bytes], bytes]
"""Message to its EIP-191 signature, 65 bytes."""

_REFUSALS: dict[grpc.StatusCode, type[GridsteadError]] = {
    grpc.StatusCode.UNAUTHENTICATED: NotAllowed,
    grpc.StatusCode.PERMISSION_DENIED: NotAllowed,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidInput,
    grpc.StatusCode.OUT_OF_RANGE: LogFull,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAccess:
    """A log and the right to write it."""

    owner: str
    log_name: str
    token: str = field(repr=False)


class LoggerClient:
    """A connection to the logger; safe to use from many threads.

    Args:
        peer: Where it listens.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._channel = open_channel(peer)
        self._stub = LoggerAPIStub(self._channel)  # type: ignore[no-untyped-call] # generated

    def close(self) -> None:
        """Let go of the connection."""
        self._channel.close()

    def write(self, access: WriteAccess, lines: Iterable[Line], *, timeout_s: float = WRITE_TIMEOUT_S) -> None:
        """Store lines; they are durable when this returns. Lines may be stored twice if it is repeated.

        An entry may also hold several lines, with a line feed between each two.

        Raises:
            LoggerUnavailable: It is not known whether they are stored.
            NotAllowed: The token is not the log's.
            LogFull: The log takes no more.
        """
        requests = (
            WriteRequest(log_name=access.log_name, user=access.owner, data=data, timestamp=timestamp)
            for data, timestamp in lines
        )
        metadata = (("authorization", f"Bearer {access.token}"),)
        try:
            self._stub.Write(requests, metadata=metadata, timeout=timeout_s)
        except grpc.RpcError as err:
            raise self._translate(err, "write") from err

    def read(self, owner: str, log_name: str, *, now: int, sign: Sign) -> Iterator[Line]:
        """Yield the log's lines from its first, then each new one; does not end by itself.

        Args:
            owner: Address, lower case, whose wallet signs.
            log_name: The log; it need not exist yet.
            now: Unix seconds.
            sign: Signs for the owner.

        Raises:
            LoggerUnavailable: The stream broke off.
            NotAllowed: The signature is not the owner's, or a clock is wrong.
        """
        signature = sign(read_text(owner, log_name, now).encode())
        request = ReadRequest(address=owner, log_name=log_name, timestamp=now, signed_hash=signature)
        stream = self._stub.Read(request)
        try:
            for response in stream:
                yield response.data, response.timestamp
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
        request = WatchListRequest(address=owner, timestamp=now, signed_hash=sign(watch_text(owner, now).encode()))
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
        return kind(f"could not {verb} at the logger {self._peer.address}", detail=f"{code.name}: {err.details()!r}")
