# SPDX-License-Identifier: Apache-2.0
"""Opens a public port on a bore server that forwards to a port of this host.

The protocol is that of DeepSquare's bore server over SSH: no SSH authentication, a global request
``set-id`` with the token of the route, a session in which the server prints the public address, and
SSH's remote port forwarding with a port that the server chooses. The host key of the server is not
checked, because no trusted copy exists: a man in the middle can read the traffic.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import paramiko

from gridstead.errors import NotAllowed, TunnelBroken

CONNECT_S = 10.0
KEEPALIVE_S = 30
USER_TIMEOUT_MS = 90_000
CHUNK_BYTES = 64 * 1024

Print = Callable[[bytes], object]
"""Receives the output of the server as it arrives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoreTunnel:
    """A tunnel from a bore server to this host.

    Attributes:
        host: The bore server.
        port: SSH port of the bore server.
        target_port: Port of this host.
        token: Identifies the route; empty for none.
    """

    host: str
    port: int
    target_port: int
    token: str = field(default="", repr=False)


def forward(bore: BoreTunnel, output: Print) -> None:
    """Open the public port and forward its connections until the server disconnects.

    Raises:
        NotAllowed: If the server refused the token.
        TunnelBroken: If the server could not be reached, or refused the tunnel.
    """
    try:
        with socket.create_connection((bore.host, bore.port), timeout=CONNECT_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
            transport = paramiko.Transport(connection)
            try:
                _forward(transport, bore, output)
            finally:
                transport.close()
    except (OSError, EOFError, paramiko.SSHException) as err:
        raise TunnelBroken(
            f"could not open a port at {bore.host}:{bore.port}", detail=str(err)
        ) from err


def _forward(transport: paramiko.Transport, bore: BoreTunnel, output: Print) -> None:
    transport.start_client(timeout=CONNECT_S)
    transport.auth_none("")
    transport.set_keepalive(KEEPALIVE_S)
    if bore.token and transport.global_request("set-id", (bore.token,)) is None:
        raise NotAllowed(f"bore server {bore.host}:{bore.port} refused the token")
    session = transport.open_session(timeout=CONNECT_S)

    def serve(channel: paramiko.Channel, _origin: object, _server: object) -> None:
        threading.Thread(
            target=_forward_connection, args=(channel, bore.target_port), daemon=True
        ).start()

    transport.request_port_forward("0.0.0.0", 0, serve)  # noqa: S104 # the server's port is public
    while text := session.recv(CHUNK_BYTES):
        output(text)
    transport.join()


def _forward_connection(channel: paramiko.Channel, port: int) -> None:
    """Forward a connection in both directions, each until its end."""
    with channel:
        try:
            with socket.create_connection(("localhost", port), timeout=CONNECT_S) as target:
                target.settimeout(None)
                answers = threading.Thread(
                    target=_copy_stream, args=(target.recv, channel.sendall, channel.shutdown_write)
                )
                answers.start()
                _copy_stream(channel.recv, target.sendall, lambda: target.shutdown(socket.SHUT_WR))
                answers.join()
        except OSError:
            return  # nothing listens on the target port; the connection is closed


def _copy_stream(
    take: Callable[[int], bytes], give: Callable[[bytes], None], end: Callable[[], None]
) -> None:
    try:
        while data := take(CHUNK_BYTES):
            give(data)
        end()
    except OSError:
        return  # the other side has closed the connection
