# SPDX-License-Identifier: Apache-2.0
"""The logger's gRPC server: LoggerAPI on DeepSquare's wire, with TLS.

Followers are long streams, so this server is asyncio in a thread of its own: a stream costs memory, not a thread.
What it calls is quick (a write into the page cache, a read of new lines), save for making lines durable, which is done
beside.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Protocol

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from gridstead.domain.log import MAX_SEQUENCE, Chunk, LogId, StoredChunk, Stream, to_chunk_data
from gridstead.domain.log_access import Permit
from gridstead.errors import ConfigError, GridsteadError, InvalidInput, LogDamaged, LogFull, NotAllowed
from gridstead.proto.logger_pb2 import (
    ReadRequest,
    ReadResponse,
    WatchListRequest,
    WatchListResponse,
    WriteRequest,
    WriteResponse,
)
from gridstead.proto.logger_pb2_grpc import LoggerAPIServicer, add_LoggerAPIServicer_to_server
from gridstead.rpc.log_reading import Readers, responses
from gridstead.rpc.tls import SERVER_OPTIONS, TlsFiles, server_credentials

WATCH_S = 10.0
MAX_STREAMS = 4000
START_S = 10.0
STOP_S = 1.0
# A reader whose host vanished says nothing more; without pings its stream would be served for ever.
KEEPALIVE_OPTIONS = (
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
)

_CODES: dict[type[GridsteadError], grpc.StatusCode] = {
    NotAllowed: grpc.StatusCode.UNAUTHENTICATED,
    InvalidInput: grpc.StatusCode.INVALID_ARGUMENT,
    LogDamaged: grpc.StatusCode.DATA_LOSS,
    LogFull: grpc.StatusCode.OUT_OF_RANGE,  # grpc itself says RESOURCE_EXHAUSTED when there are too many streams
}


_STREAMS = frozenset(Stream)


class LogService(Protocol):
    """What the server calls."""

    def authorize_write(self, token: str, owner: str, log_name: str) -> Permit:
        """Return what the token lets its holder do with this log."""
        ...

    def write(self, permit: Permit, chunk: Chunk) -> None:
        """Store what one message holds."""
        ...

    def finish(self, permit: Permit) -> None:
        """Make durable what was written."""
        ...

    def authorize_read(self, address: str, log_name: str, timestamp: int, signature: bytes) -> tuple[str, str]:
        """Return (owner, log name) that a signed request may read."""
        ...

    def authorize_watch(self, address: str, timestamp: int, signature: bytes) -> str:
        """Return the owner whose logs a signed request may list."""
        ...

    def find(self, owner: str, log_name: str, edition: str) -> LogId | None:
        """Return the log of an edition, the newest without one."""
        ...

    def read(self, log_id: LogId, after: int) -> tuple[StoredChunk, ...]:
        """Return chunks behind a position."""
        ...

    def names(self, owner: str) -> tuple[str, ...]:
        """Return the names of the owner's logs."""
        ...


class LoggerServer:
    """The server.

    Args:
        address: ``host:port`` to listen on; port 0 takes a free one.
        tls: Its identity.
        service: What it calls.
    """

    def __init__(self, address: str, tls: TlsFiles, service: LogService) -> None:
        self._address = address
        self._credentials = server_credentials(tls)
        self._service = service
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="logger", daemon=True)
        self._server: grpc.aio.Server | None = None

    def start(self) -> int:
        """Begin to answer and return the port.

        Raises:
            ConfigError: If the address cannot be listened on.
        """
        self._thread.start()
        return asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(START_S)

    def stop(self) -> None:
        """Answer no more: streams end, calls that run get a second."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(START_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> int:
        options = (*SERVER_OPTIONS, *KEEPALIVE_OPTIONS)
        server = grpc.aio.server(options=options, maximum_concurrent_rpcs=MAX_STREAMS)
        add_LoggerAPIServicer_to_server(_Servicer(self._service), server)  # type: ignore[no-untyped-call] # generated
        servicer = health.aio.HealthServicer()
        await servicer.set("", health_pb2.HealthCheckResponse.SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
        try:
            port: int = server.add_secure_port(self._address, self._credentials)
        except RuntimeError as err:
            raise ConfigError(f"could not listen on {self._address}", detail=str(err)) from err
        await server.start()
        self._server = server
        return port

    async def _stop(self) -> None:
        if self._server is not None:
            await self._server.stop(STOP_S)


class _Servicer(LoggerAPIServicer):
    """LoggerAPI over the service."""

    def __init__(self, service: LogService) -> None:
        self._service = service
        self._readers = Readers()

    async def Write(  # noqa: N802 # the wire's name
        self, request_iterator: AsyncIterator[WriteRequest], context: grpc.aio.ServicerContext
    ) -> WriteResponse:
        token = _token(context)
        permits: dict[tuple[str, str], Permit] = {}
        async with _answering(context):
            async for request in request_iterator:
                name = (request.user, request.log_name)
                if name not in permits:
                    permits[name] = self._service.authorize_write(token, *name)
                self._service.write(permits[name], _to_chunk(request))
                self._readers.tell(name)
            for permit in permits.values():
                await asyncio.to_thread(self._service.finish, permit)
        return WriteResponse()

    async def Read(  # noqa: N802
        self, request: ReadRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[ReadResponse]:
        async with _answering(context):
            name = self._service.authorize_read(
                request.address, request.log_name, request.timestamp, request.signed_hash
            )
            stream = responses(name, request, find=self._service.find, read=self._service.read, readers=self._readers)
            async with aclosing(stream):
                async for response in stream:
                    yield response

    async def WatchList(  # noqa: N802
        self, request: WatchListRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[WatchListResponse]:
        async with _answering(context):
            owner = self._service.authorize_watch(request.address, request.timestamp, request.signed_hash)
            while True:
                yield WatchListResponse(log_names=self._service.names(owner))
                await asyncio.sleep(WATCH_S)


@asynccontextmanager
async def _answering(context: grpc.aio.ServicerContext) -> AsyncIterator[None]:
    """Tell the caller an error of ours by its status code."""
    try:
        yield
    except GridsteadError as err:
        code = next((code for kind, code in _CODES.items() if isinstance(err, kind)), grpc.StatusCode.UNAVAILABLE)
        await context.abort(code, str(err))


def _to_chunk(request: WriteRequest) -> Chunk:
    number = int(request.stream)
    return Chunk(
        data=to_chunk_data(request.data),
        timestamp_ns=request.timestamp,
        stream=Stream(number) if number in _STREAMS else Stream.UNKNOWN,
        writer=request.writer,
        sequence=min(request.sequence, MAX_SEQUENCE),
    )


def _token(context: grpc.aio.ServicerContext) -> str:
    metadata: Any = context.invocation_metadata() or ()
    values = [value for key, value in metadata if key == "authorization"]
    scheme, _, token = values[0].partition(" ") if values else ("", "", "")
    return token if scheme.lower() == "bearer" else ""
