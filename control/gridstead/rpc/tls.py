# SPDX-License-Identifier: Apache-2.0
"""TLS of the gRPC servers: certificates from files, and the clients that may call.

A server without a client CA accepts every client. With a client CA, a client needs a certificate of
that CA, and the common name of the certificate must be on a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from gridstead.errors import ConfigError

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
SERVER_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),  # so that a second server cannot bind the same port
    # Clients of the grid ping idle connections every 10 or 20 s. By default, gRPC closes the
    # connection of a client that pings more often than every 300 s.
    ("grpc.http2.min_ping_interval_without_data_ms", 5000),
    ("grpc.keepalive_permit_without_calls", 1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The TLS files of a server.

    Attributes:
        certificate: PEM file of the server's certificate and intermediate certificates.
        key: PEM file of the server's private key.
        client_ca: PEM file of the CA of client certificates; None if any client may connect.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Return credentials for a listening port.

    If there is a client CA, the handshake fails for clients without a certificate.

    Raises:
        ConfigError: If a file cannot be read.
    """
    key_and_certificate = (_read(files.key), _read(files.certificate))
    if files.client_ca is None:
        return grpc.ssl_server_credentials([key_and_certificate])
    return grpc.ssl_server_credentials(
        [key_and_certificate],
        root_certificates=_read(files.client_ca),
        require_client_auth=True,
    )


class AllowedNames(grpc.ServerInterceptor):  # type: ignore[misc] # grpc has no types
    """Refuses calls of clients whose common name is not on a list.

    Args:
        names: The common names of the clients that may call.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler | None:
        """Return a handler that checks the client's name before each call."""
        handler = continuation(handler_call_details)
        if handler is None:
            return None
        request_kind = "stream" if handler.request_streaming else "unary"
        response_kind = "stream" if handler.response_streaming else "unary"
        method_type = f"{request_kind}_{response_kind}"  # for example unary_stream
        make_handler = getattr(grpc, f"{method_type}_rpc_method_handler")
        checked_behaviour = self._with_name_check(getattr(handler, method_type))
        return make_handler(
            checked_behaviour, handler.request_deserializer, handler.response_serializer
        )

    def _with_name_check(
        self, behaviour: Callable[[Any, grpc.ServicerContext], Any]
    ) -> Callable[..., Any]:
        def check_and_call(request: object, context: grpc.ServicerContext) -> object:
            name = peer_name(context)
            if name not in self._names:
                context.abort(grpc.StatusCode.PERMISSION_DENIED, f"client {name!r} is not allowed")
            return behaviour(request, context)

        return check_and_call


def peer_name(context: grpc.ServicerContext) -> str:
    """Return the common name of the client's certificate, empty without a certificate."""
    names = context.auth_context().get("x509_common_name", [])
    return names[0].decode(errors="replace") if names else ""


def grpc_server(
    *, threads: int, interceptors: Iterable[grpc.ServerInterceptor] = ()
) -> grpc.Server:
    """Return a server with a bounded thread pool and bounded messages.

    The caller adds servicers and a port, then starts the server.
    """
    pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="grpc")
    return grpc.server(pool, interceptors=tuple(interceptors), options=SERVER_OPTIONS)


def add_health(server: grpc.Server) -> None:
    """Add the service grpc.health.v1, which always reports SERVING, to the server."""
    servicer = health.HealthServicer()
    servicer.set("", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)


def bind(server: grpc.Server, address: str, files: TlsFiles) -> int:
    """Listen with TLS on ``host:port`` and return the port. Port 0 selects a free port.

    Raises:
        ConfigError: If a file cannot be read, or the address cannot be bound.
    """
    try:
        port: int = server.add_secure_port(address, server_credentials(files))
    except RuntimeError as err:
        raise ConfigError(f"could not listen on {address}", detail=str(err)) from err
    return port


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as err:
        raise ConfigError(f"could not read {path}", detail=err.strerror) from err
