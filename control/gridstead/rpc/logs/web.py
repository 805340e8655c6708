# SPDX-License-Identifier: Apache-2.0
"""The logger's server for browsers: Read and WatchList as gRPC-web over HTTPS.

The server supports both modes of gRPC-web, binary and text. A browser cannot read HTTP trailers, so
the last frame contains the status of the call. In text mode, each frame is encoded separately in
base64 with padding, so that the browser can decode it when it arrives.
"""

from __future__ import annotations

import asyncio
import binascii
import re
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeAlias, TypeVar
from urllib.parse import quote

import grpc
import uvicorn
from google.protobuf.message import DecodeError, Message
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from gridstead.errors import ConfigError, GridsteadError, InvalidInput
from gridstead.proto.logger_pb2 import ReadRequest, WatchListRequest
from gridstead.rpc.logs.reading import LogReader, status_of
from gridstead.rpc.origins import allow_origins
from gridstead.rpc.tls import TlsFiles

MAX_CONNECTIONS = 1000
MAX_BODY_BYTES = 16 * 1024  # a request has a name and a signature
BODY_TIMEOUT_S = 10.0  # time in which the body of a request must arrive
MAX_STREAM_S = 3600.0  # the page then sends a new request that continues at its last position

_PATH = "/logger.v1alpha1.LoggerAPI/"
_BINARY, _TEXT = "application/grpc-web", "application/grpc-web-text"
_HEADER_BYTES = 5  # a byte of flags, four of length
_MESSAGE, _TRAILER = 0, 0x80  # flags of a frame
# The units of the header grpc-timeout, whose value is for example 10S.
_SECONDS_PER_UNIT = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_TIMEOUT = re.compile(r"([0-9]{1,8})([HMSmun])")
# One of several base64 texts in a row, with its padding: AAAA or AA==.
_BASE64_TEXT = re.compile(rb"[^=]+={0,2}")
# These options detect a browser whose host has crashed. Accepted connections inherit them.
_KEEPALIVE_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)

RequestMessage = TypeVar("RequestMessage", bound=Message)
Answer: TypeAlias = Callable[[RequestMessage], AsyncGenerator[Message]]
Status: TypeAlias = tuple[grpc.StatusCode, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebAddress:
    """The address on which the server listens, and the web pages that may call the server.

    Attributes:
        host: Address to listen on.
        port: Port to listen on. 0 selects a free port.
        origins: Origins of the pages that may call, see ``gridstead.rpc.origins``.
    """

    host: str
    port: int
    origins: tuple[str, ...]


class LogWebServer:
    """The server for browsers. Runs in the event loop of the caller.

    Args:
        web: The address and the allowed origins.
        tls: Certificate and key of the server.
        reader: Answers the calls.
    """

    def __init__(self, web: WebAddress, tls: TlsFiles, reader: LogReader) -> None:
        self._web = web
        self._server = uvicorn.Server(
            uvicorn.Config(
                make_app(reader, web.origins),
                ssl_certfile=str(tls.certificate),
                ssl_keyfile=str(tls.key),
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                limit_concurrency=MAX_CONNECTIONS,
                timeout_graceful_shutdown=1,
                proxy_headers=False,
            )
        )
        self._server_task: asyncio.Task[None] | None = None
        self.port = 0
        """The port, after the start."""

    async def start(self) -> None:
        """Start the server.

        Raises:
            ConfigError: If the address cannot be bound, or the certificate is invalid.
        """
        try:
            self._server.config.load()
        except OSError as err:
            raise ConfigError(
                "could not use the certificate for browsers", detail=str(err)
            ) from err
        listener = _listen(self._web)
        self.port = listener.getsockname()[1]
        self._server_task = asyncio.create_task(self._server.serve(sockets=[listener]))

    async def stop(self) -> None:
        """Close all streams and stop the server."""
        for connection in tuple(self._server.server_state.connections):
            connection.transport.abort()
        self._server.should_exit = True
        if self._server_task is not None:
            await self._server_task


def make_app(reader: LogReader, origins: tuple[str, ...]) -> Starlette:
    """Return the application with Read and WatchList, for web pages of these origins."""
    cors = allow_origins(
        origins,
        headers=["Accept", "Content-Type", "Grpc-Timeout", "X-Grpc-Web", "X-User-Agent"],
        exposed_headers=["Grpc-Status", "Grpc-Message"],
    )
    routes = [
        Route(f"{_PATH}Read", _endpoint(ReadRequest, reader.read), methods=["POST"]),
        Route(f"{_PATH}WatchList", _endpoint(WatchListRequest, reader.watch), methods=["POST"]),
    ]
    return Starlette(routes=routes, middleware=[cors])


def _endpoint(
    message_type: type[RequestMessage], answer: Answer[RequestMessage]
) -> Callable[[Request], object]:
    async def call(request: Request) -> Response:
        content_type = request.headers.get("content-type", "")
        type_name, _, _ = content_type.partition(";")
        media_type = type_name.strip().lower().removesuffix("+proto")
        if media_type not in (_BINARY, _TEXT):
            return PlainTextResponse("gRPC-web only", status_code=415)
        is_text = media_type == _TEXT
        try:
            request_body = await _read_body(request)
            message = _parse_message(message_type, request_body, is_text=is_text)
            frames = _frames(answer(message), _timeout_s(request))
        except InvalidInput as err:
            frames = _single_frame(_trailer(status_of(err), str(err)))
        except ClientDisconnect:
            return Response(status_code=400)
        body = _to_base64(frames) if is_text else frames
        return StreamingResponse(body, media_type=f"{media_type}+proto")

    return call


async def _frames(responses: AsyncGenerator[Message], timeout_s: float) -> AsyncIterator[bytes]:
    deadline = asyncio.get_running_loop().time() + timeout_s
    status = grpc.StatusCode.OK, ""
    async with aclosing(responses):
        try:
            while True:
                async with asyncio.timeout_at(deadline):
                    response = await anext(responses)
                yield _frame(_MESSAGE, response.SerializeToString())
        except StopAsyncIteration:
            pass
        except TimeoutError:
            status = grpc.StatusCode.DEADLINE_EXCEEDED, "the stream has reached its time limit"
        except GridsteadError as err:
            status = status_of(err), str(err)
    yield _trailer(*status)


async def _to_base64(frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for frame in frames:
        yield binascii.b2a_base64(frame, newline=False)


async def _single_frame(frame: bytes) -> AsyncIterator[bytes]:
    yield frame


def _frame(flags: int, data: bytes) -> bytes:
    return bytes([flags]) + len(data).to_bytes(4) + data


def _trailer(code: grpc.StatusCode, message: str) -> bytes:
    number, _ = code.value
    text = f"grpc-status: {number}\r\ngrpc-message: {quote(message, safe=' ')}\r\n"
    return _frame(_TRAILER, text.encode())


def _parse_message(
    message_type: type[RequestMessage], body: bytes, *, is_text: bool
) -> RequestMessage:
    """Return the message of a request. In text mode, the body is one or more base64 texts."""
    try:
        data = _from_base64(body) if is_text else body
        # The first byte has the flags: _MESSAGE means an uncompressed message.
        flags, message_length = data[:1], int.from_bytes(data[1:_HEADER_BYTES])
        if flags != bytes([_MESSAGE]) or len(data) != _HEADER_BYTES + message_length:
            raise InvalidInput("the request is not exactly one uncompressed message")
        return message_type.FromString(data[_HEADER_BYTES:])
    except (binascii.Error, DecodeError) as err:
        raise InvalidInput("the request is not gRPC-web", detail=str(err)) from err


def _from_base64(body: bytes) -> bytes:
    return b"".join(
        binascii.a2b_base64(base64_text, strict_mode=True)
        for base64_text in _BASE64_TEXT.findall(body)
    )


async def _read_body(request: Request) -> bytes:
    body = b""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise InvalidInput(f"the request is larger than {MAX_BODY_BYTES // 1024} KiB")
    except TimeoutError as err:
        raise InvalidInput(f"the request did not arrive within {BODY_TIMEOUT_S:.0f} s") from err
    return body


def _timeout_s(request: Request) -> float:
    """Return the timeout of the caller, at most MAX_STREAM_S."""
    match = _TIMEOUT.fullmatch(request.headers.get("grpc-timeout", ""))
    if match is None:
        return MAX_STREAM_S
    number, unit = match.groups()
    timeout_s = int(number) * _SECONDS_PER_UNIT[unit]
    return min(timeout_s, MAX_STREAM_S)


def _listen(address: WebAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listener = socket.create_server(
            (address.host.strip("[]"), address.port), family=family, backlog=128
        )
    except OSError as err:
        raise ConfigError(
            f"could not listen on {address.host}:{address.port}", detail=err.strerror
        ) from err
    for option in _KEEPALIVE_OPTIONS:
        listener.setsockopt(*option)
    return listener
