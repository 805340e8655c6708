# SPDX-License-Identifier: Apache-2.0
"""Opens a public port on a bore server, which forwards connections to a port of this host.

The protocol is that of DeepSquare's bore server over SSH:

1. The client does not authenticate.
2. The client sends the global request ``set-id`` with its token.
3. The client opens a session. In the session, the server prints the public address.
4. The client requests SSH's remote port forwarding. The server chooses the port.

The client does not check the host key of the server, because the client has no trusted copy of the
key. Therefore, a man in the middle can read the traffic.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import paramiko

from gridstead.errors import NotAllowed, TunnelBroken

CONNECT_TIMEOUT_S = 10.0
KEEPALIVE_INTERVAL_S = 30
TCP_USER_TIMEOUT_MS = 90_000
CHUNK_BYTES = 64 * 1024

Output = Callable[[bytes], object]
"""Receives the output of the server as it arrives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoreTunnel:
    """A tunnel from a bore server to this host.

    Attributes:
        host: The bore server.
        port: The SSH port of the bore server.
        target_port: The port of this host to which connections are forwarded.
        token: The token that the bore server requires. Empty if it requires none.
    """

    host: str
    port: int
    target_port: int
    token: str = field(default="", repr=False)


def forward(tunnel: BoreTunnel, output: Output) -> None:
    """Open the public port and forward its connections until the server disconnects.

    Raises:
        NotAllowed: If the server refused the token.
        TunnelBroken: If the server could not be reached, or refused the tunnel.
    """
    try:
        with socket.create_connection(
            (tunnel.host, tunnel.port), timeout=CONNECT_TIMEOUT_S
        ) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, TCP_USER_TIMEOUT_MS)
            transport = paramiko.Transport(connection)
            try:
                _forward_through(transport, tunnel, output)
            finally:
                transport.close()
    except (OSError, EOFError, paramiko.SSHException) as err:
        raise TunnelBroken(
            f"could not open a port at {tunnel.host}:{tunnel.port}", detail=str(err)
        ) from err


def _forward_through(transport: paramiko.Transport, tunnel: BoreTunnel, output: Output) -> None:
    transport.start_client(timeout=CONNECT_TIMEOUT_S)
    transport.auth_none("")
    transport.set_keepalive(KEEPALIVE_INTERVAL_S)
    if tunnel.token and transport.global_request("set-id", (tunnel.token,)) is None:
        raise NotAllowed(f"bore server {tunnel.host}:{tunnel.port} refused the token")
    session = transport.open_session(timeout=CONNECT_TIMEOUT_S)

    def start_forwarding(channel: paramiko.Channel, _origin: object, _server: object) -> None:
        threading.Thread(
            target=_forward_connection, args=(channel, tunnel.target_port), daemon=True
        ).start()

    any_address = "0.0.0.0"  # noqa: S104 # the port is public
    transport.request_port_forward(any_address, 0, start_forwarding)
    while printed := session.recv(CHUNK_BYTES):
        output(printed)
    transport.join()


def _forward_connection(channel: paramiko.Channel, port: int) -> None:
    """Copy data in both directions, until both ends have closed the connection."""
    with channel:
        try:
            with socket.create_connection(("localhost", port), timeout=CONNECT_TIMEOUT_S) as target:
                target.settimeout(None)
                target_to_channel = threading.Thread(
                    target=_copy_stream,
                    args=(target.recv, channel.sendall, channel.shutdown_write),
                )
                target_to_channel.start()
                _copy_stream(
                    channel.recv,
                    target.sendall,
                    lambda: target.shutdown(socket.SHUT_WR),
                )
                target_to_channel.join()
        except OSError:
            return  # Nothing listens on the target port. The connection is closed.


def _copy_stream(
    receive: Callable[[int], bytes], send: Callable[[bytes], None], close: Callable[[], None]
) -> None:
    """Copy data until the end of the stream, and then close the sending direction."""
    try:
        while data := receive(CHUNK_BYTES):
            send(data)
        close()
    except OSError:
        return  # The other side has closed the connection.
