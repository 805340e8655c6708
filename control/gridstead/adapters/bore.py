# SPDX-License-Identifier: Apache-2.0
"""A port of this host, opened to everybody by a bore server: an SSH connection that carries what
comes to it.

The words are those of DeepSquare's bore server: no authentication of SSH's own, a global request
``set-id`` with the route's token, a session by which the server says where the port is, then SSH's
forwarding of a port that the server chooses. The server's key is not checked, as nobody says what
it should be: whoever sits between may read what comes.
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
GONE_MS = 90_000
CHUNK_BYTES = 64 * 1024

Say = Callable[[bytes], object]
"""Gets what the server says, as it comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoreTunnel:
    """What to open.

    Attributes:
        host: The bore server.
        port: Its SSH port.
        target_port: Port of this host.
        token: Says whose route it is; empty without one.
    """

    host: str
    port: int
    target_port: int
    token: str = field(default="", repr=False)


def carry(bore: BoreTunnel, say: Say) -> None:
    """Open the port and carry what comes to it, until the connection to the server ends.

    Raises:
        NotAllowed: The server refused the token.
        TunnelBroken: It could not be reached, or refused.
    """
    try:
        with socket.create_connection((bore.host, bore.port), timeout=CONNECT_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, GONE_MS)
            transport = paramiko.Transport(connection)
            try:
                _carry(transport, bore, say)
            finally:
                transport.close()
    except (OSError, EOFError, paramiko.SSHException) as err:
        raise TunnelBroken(
            f"could not open a port at {bore.host}:{bore.port}", detail=str(err)
        ) from err


def _carry(transport: paramiko.Transport, bore: BoreTunnel, say: Say) -> None:
    transport.start_client(timeout=CONNECT_S)
    transport.auth_none("")
    transport.set_keepalive(KEEPALIVE_S)
    if bore.token and transport.global_request("set-id", (bore.token,)) is None:
        raise NotAllowed(f"bore server {bore.host}:{bore.port} refused the token")
    session = transport.open_session(timeout=CONNECT_S)

    def serve(channel: paramiko.Channel, _origin: object, _server: object) -> None:
        threading.Thread(target=_connect, args=(channel, bore.target_port), daemon=True).start()

    transport.request_port_forward("0.0.0.0", 0, serve)  # noqa: S104 # of the server: everybody is whom it is for
    while said := session.recv(CHUNK_BYTES):
        say(said)
    transport.join()


def _connect(channel: paramiko.Channel, port: int) -> None:
    """Carry one connection both ways, each until its end."""
    with channel:
        try:
            with socket.create_connection(("localhost", port), timeout=CONNECT_S) as target:
                target.settimeout(None)
                answers = threading.Thread(
                    target=_copy, args=(target.recv, channel.sendall, channel.shutdown_write)
                )
                answers.start()
                _copy(channel.recv, target.sendall, lambda: target.shutdown(socket.SHUT_WR))
                answers.join()
        except OSError:
            return  # nobody listens; who comes sees the end


def _copy(
    take: Callable[[int], bytes], give: Callable[[bytes], None], end: Callable[[], None]
) -> None:
    try:
        while data := take(CHUNK_BYTES):
            give(data)
        end()
    except OSError:
        return  # the other end went away
