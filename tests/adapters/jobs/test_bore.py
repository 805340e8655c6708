# SPDX-License-Identifier: Apache-2.0
"""Tunnels that make a port of a job reachable from the internet through a bore server.

A *visitor* connects to the bore server, and the tunnel forwards the connection to the target port.
The tests use an SSH server that behaves like DeepSquare's bore server.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import paramiko
import pytest
from tests.fakes.bore_server import TOKEN, URL, BoreServer

from gridstead.adapters.jobs.bore import BoreTunnel, forward
from gridstead.errors import NotAllowed, TunnelBroken

TIMEOUT_S = 10


@pytest.fixture
def server():
    server = BoreServer()
    yield server
    server.stop()


@pytest.fixture
def target():
    """Yield the port of a server that answers one connection with ``heard`` and the input."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                # Read until the client closes its sending direction.
                received_data = read_to_end(connection)
                connection.sendall(b"heard " + received_data)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


def exchange(channel, data):
    """Send data, close the sending direction, and return the whole answer."""
    channel.settimeout(TIMEOUT_S)
    channel.sendall(data)
    channel.shutdown_write()
    return read_to_end(channel)


def read_to_end(connection):
    """Return the data that the other side sends until it closes its sending direction."""
    received_data = b""
    while data := connection.recv(100):
        received_data += data
    return received_data


def make_tunnel(server, *, target_port=1, token=""):
    return BoreTunnel(host="localhost", port=server.port, target_port=target_port, token=token)


@pytest.fixture
def program(server, target):
    """Start `gridstead-bore`, which makes a tunnel to the target, as a separate process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gridstead.cli.bore", f"localhost:{server.port}", str(target)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={"PYTHONPATH": "control"},
    )  # fmt: skip
    process.stdin.write(f"{TOKEN}\n".encode())
    process.stdin.close()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_visitor_reaches_the_target(server, program):
    answer = exchange(server.connect_visitor(), b"x" * 300_000)

    assert answer == b"heard " + b"x" * 300_000
    assert program.stdout.readline() == URL
    assert server.tokens == [TOKEN]
    assert server.forwards == [("0.0.0.0", 0)]  # port 0: the server chooses the port


@pytest.mark.usefixtures("program")
def test_no_command_line_contains_the_token(server):
    server.connect_visitor()  # A visitor can connect only after the program sent the token.

    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert TOKEN.encode() not in process.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue


def test_connection_of_a_visitor_is_closed_if_the_target_port_is_closed(server):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    tunnel = make_tunnel(server, target_port=port)
    thread = threading.Thread(target=forward, args=(tunnel, lambda _: None))
    thread.start()

    try:
        received_data = server.connect_visitor().recv(1)
    except paramiko.SSHException:  # The channel was closed before paramiko returned it.
        received_data = b""
    assert received_data == b""
    assert server.transports[-1].is_active()
    server.disconnect()
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()
    assert server.tokens == []


def test_wrong_token_raises_not_allowed(server):
    with pytest.raises(NotAllowed):
        forward(make_tunnel(server, token="wrong"), lambda _: None)

    assert server.forwards == []


def test_unreachable_server_raises_tunnel_broken(server):
    tunnel = make_tunnel(server)
    server.stop_listening()

    with pytest.raises(TunnelBroken):
        forward(tunnel, lambda _: None)


def test_server_without_ssh_raises_tunnel_broken():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            listener.accept()[0].close()

        threading.Thread(target=serve, daemon=True).start()
        tunnel = BoreTunnel(host="127.0.0.1", port=listener.getsockname()[1], target_port=1)

        with pytest.raises(TunnelBroken):
            forward(tunnel, lambda _: None)
