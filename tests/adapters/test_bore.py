# SPDX-License-Identifier: Apache-2.0
"""Ports that a bore server opens, against a real SSH server on the loopback that speaks as
DeepSquare's does.
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

from gridstead.adapters.bore import BoreTunnel, forward
from gridstead.errors import NotAllowed, TunnelBroken

PATIENCE_S = 10


@pytest.fixture
def server():
    server = BoreServer()
    yield server
    server.stop()


@pytest.fixture
def target():
    """A program of the job that says what it hears, to its end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                heard = b"".join(iter(lambda: connection.recv(100), b""))
                connection.sendall(b"heard " + heard)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


def ask(channel, words):
    """Say something to its end, and return the answer to its end."""
    channel.settimeout(PATIENCE_S)
    channel.sendall(words)
    channel.shutdown_write()
    return b"".join(iter(lambda: channel.recv(100), b""))


@pytest.fixture
def program(server, target):
    """`gridstead-bore` as a process of its own."""
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


def test_who_comes_reaches_the_target_and_the_token_is_on_no_command_line(server, program):
    answer = ask(server.visit(), b"x" * 300_000)

    assert answer == b"heard " + b"x" * 300_000
    assert program.stdout.readline() == URL
    assert server.tokens == [TOKEN]
    assert server.forwards == [("0.0.0.0", 0)]
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert TOKEN.encode() not in process.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue


def test_port_without_a_program_ends_who_comes(server):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    thread = threading.Thread(target=forward, args=(bore(server, port=port), lambda _: None))
    thread.start()

    try:
        heard = server.visit().recv(1)
    except paramiko.SSHException:  # it ended before paramiko could hand it over
        heard = b""
    assert heard == b""
    assert server.transports[-1].is_active()
    server.drop()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert server.tokens == []


def test_wrong_token_is_told(server):
    with pytest.raises(NotAllowed):
        forward(bore(server, token="wrong"), lambda _: None)

    assert server.forwards == []


def test_server_that_is_not_there_is_told(server):
    absent = bore(server)
    server.deafen()

    with pytest.raises(TunnelBroken):
        forward(absent, lambda _: None)


def test_server_that_speaks_something_else_is_told():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            listener.accept()[0].close()

        threading.Thread(target=serve, daemon=True).start()

        with pytest.raises(TunnelBroken):
            forward(
                BoreTunnel(host="127.0.0.1", port=listener.getsockname()[1], target_port=1),
                lambda _: None,
            )


def bore(server, *, port=1, token=""):
    return BoreTunnel(host="localhost", port=server.port, target_port=port, token=token)
