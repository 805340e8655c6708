# SPDX-License-Identifier: Apache-2.0
"""The logger's gRPC server: LoggerAPI of DeepSquare's wire format, with TLS.

A reader that follows a log keeps its stream open. With asyncio, an open stream needs no thread of
its own: one thread runs the event loop. Most functions of the service are fast: they write to the
page cache or read new lines. ``finish`` is slow and is therefore called in another thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Protocol

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from gridstead.domain.logs.access import WritePermit
from gridstead.domain.logs.log import MAX_SEQUENCE, Chunk, Stream, to_chunk_data
from gridstead.errors import ConfigError, GridsteadError
from gridstead.proto.logger_pb2 import (
    ReadRequest,
    ReadResponse,
    WatchListRequest,
    WatchListResponse,
    WriteRequest,
    WriteResponse,
)
from gridstead.proto.logger_pb2_grpc import LoggerAPIServicer, add_LoggerAPIServicer_to_server
from gridstead.rpc.logs.reading import LogReader, Readers, ReadService, status_of
from gridstead.rpc.logs.web import LogWebServer, WebAddress
from gridstead.rpc.tls import SERVER_OPTIONS, TlsFiles, server_credentials

MAX_STREAMS = 4000
CALL_TIMEOUT_S = 10.0  # for a call from another thread into the event loop
STOP_GRACE_S = 1.0
# Pings detect that the host of a reader has crashed, so that the reader's stream ends.
KEEPALIVE_OPTIONS = (
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
)


class LogService(ReadService, Protocol):
    """The service that ``LoggerServer`` calls."""

    def authorize_write(self, token: str, owner: str, log_name: str) -> WritePermit:
        """Return the permit that a token grants for this log."""
        ...

    def write(self, permit: WritePermit, chunk: Chunk) -> None:
        """Store one chunk of output."""
        ...

    def finish(self, permit: WritePermit) -> None:
        """Make the written output durable."""
        ...


class LoggerServer:
    """The server.

    Args:
        address: ``host:port`` to listen on. Port 0 selects a free port.
        tls: Certificate and key of the server.
        service: Checks the requests, and reads and writes the logs.
        web: The address for browsers; None if browsers are not served.
    """

    def __init__(
        self, address: str, tls: TlsFiles, service: LogService, web: WebAddress | None = None
    ) -> None:
        self._address = address
        self._credentials = server_credentials(tls)
        self._service = service
        self._open_readers = Readers()
        self._log_reader = LogReader(service, self._open_readers)
        self._web = LogWebServer(web, tls, self._log_reader) if web else None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="logger", daemon=True)
        self._server: grpc.aio.Server | None = None

    @property
    def web_port(self) -> int:
        """The port for browsers, or 0 if browsers are not served."""
        return self._web.port if self._web else 0

    def start(self) -> int:
        """Start the server and return the port.

        Raises:
            ConfigError: If the address cannot be bound.
        """
        self._thread.start()
        return asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(CALL_TIMEOUT_S)

    def stop(self) -> None:
        """Stop the server. Streams end, and other calls in progress have a second to finish."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(CALL_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> int:
        options = (*SERVER_OPTIONS, *KEEPALIVE_OPTIONS)
        server = grpc.aio.server(options=options, maximum_concurrent_rpcs=MAX_STREAMS)
        servicer = _Servicer(self._service, self._log_reader, self._open_readers)
        # The generated function has no types.
        add_LoggerAPIServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
        health_servicer = health.aio.HealthServicer()
        await health_servicer.set("", health_pb2.HealthCheckResponse.SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
        try:
            port: int = server.add_secure_port(self._address, self._credentials)
        except RuntimeError as err:
            raise ConfigError(f"could not listen on {self._address}", detail=str(err)) from err
        if self._web is not None:
            await self._web.start()
        await server.start()
        self._server = server
        return port

    async def _stop(self) -> None:
        if self._web is not None:
            await self._web.stop()
        if self._server is not None:
            await self._server.stop(STOP_GRACE_S)


class _Servicer(LoggerAPIServicer):
    """Implements LoggerAPI by calls of the service."""

    def __init__(self, service: LogService, log_reader: LogReader, open_readers: Readers) -> None:
        self._service = service
        self._log_reader = log_reader
        self._open_readers = open_readers

    async def Write(  # noqa: N802 # the wire's name
        self, request_iterator: AsyncIterator[WriteRequest], context: grpc.aio.ServicerContext
    ) -> WriteResponse:
        token = _token(context)
        permits: dict[tuple[str, str], WritePermit] = {}
        async with _abort_on_error(context):
            async for request in request_iterator:
                log_key = (request.user, request.log_name)
                if log_key not in permits:
                    permits[log_key] = self._service.authorize_write(token, *log_key)
                self._service.write(permits[log_key], _to_chunk(request))
                self._open_readers.notify(log_key)
            for permit in permits.values():
                await asyncio.to_thread(self._service.finish, permit)
        return WriteResponse()

    async def Read(  # noqa: N802
        self, request: ReadRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[ReadResponse]:
        async with _abort_on_error(context), aclosing(self._log_reader.read(request)) as stream:
            async for response in stream:
                yield response

    async def WatchList(  # noqa: N802
        self, request: WatchListRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[WatchListResponse]:
        async with _abort_on_error(context), aclosing(self._log_reader.watch(request)) as stream:
            async for response in stream:
                yield response


@asynccontextmanager
async def _abort_on_error(context: grpc.aio.ServicerContext) -> AsyncIterator[None]:
    """End the call with the status code of a GridsteadError."""
    try:
        yield
    except GridsteadError as err:
        await context.abort(status_of(err), str(err))


def _to_chunk(request: WriteRequest) -> Chunk:
    return Chunk(
        data=to_chunk_data(request.data),
        timestamp_ns=request.timestamp,
        stream=_to_stream(request.stream),
        writer=request.writer,
        sequence=min(request.sequence, MAX_SEQUENCE),
    )


def _to_stream(number: int) -> Stream:
    """Return the stream with a number of the wire format. Unknown numbers mean UNKNOWN."""
    try:
        return Stream(number)
    except ValueError:
        return Stream.UNKNOWN


def _token(context: grpc.aio.ServicerContext) -> str:
    """Return the token of the metadata ``authorization: Bearer TOKEN``, or an empty text."""
    metadata: Any = context.invocation_metadata() or ()
    values = [value for key, value in metadata if key == "authorization"]
    if not values:
        return ""
    scheme, _, token = values[0].partition(" ")
    return token if scheme.lower() == "bearer" else ""
