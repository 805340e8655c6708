# SPDX-License-Identifier: Apache-2.0
"""Unit and service tests can connect only to this host."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.network_guard import NetworkUsed, loopback_only

CHECKOUT = Path(__file__).resolve().parents[2]
ELSEWHERE = ("192.0.2.1", 9)
CAUGHT_IN_A_THREAD = """
import contextlib, socket, threading
from tests.network_guard import network_attempts

def attempt():
    with contextlib.suppress(Exception):
        socket.create_connection(("192.0.2.1", 9), timeout=1)

def test_thread():
    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
"""


def test_connection_to_another_host_is_refused(request):
    """The fixture is requested only after the attempt. It is active without this request."""
    with pytest.raises(NetworkUsed):
        socket.create_connection(ELSEWHERE, timeout=1)

    attempts = request.getfixturevalue("network_attempts")
    assert attempts == ["socket.connect 192.0.2.1"]
    attempts.clear()


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_datagram_to_another_host_is_refused(family):
    address = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}[family]
    with loopback_only() as attempts, socket.socket(family, socket.SOCK_DGRAM) as sender:
        for send in (sender.sendto, lambda data, to: sender.sendmsg([data], [], 0, to)):
            with pytest.raises(NetworkUsed):
                send(b"x", (address, 9))

    assert attempts == [f"socket.sendto {address}", f"socket.sendmsg {address}"]


def test_name_query_is_refused():
    with loopback_only() as attempts:
        for resolve in (socket.gethostbyname, lambda name: socket.getaddrinfo(name, 80)):
            with pytest.raises(NetworkUsed):
                resolve("host.example")

    assert attempts == ["socket.gethostbyname host.example", "socket.getaddrinfo host.example"]


def test_connection_to_the_loopback_is_allowed():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for host in ("127.0.0.1", "localhost"):
            socket.create_connection((host, port), timeout=5).close()


def test_attempt_that_a_thread_suppresses_fails_its_test(tmp_path):
    (tmp_path / "test_caught.py").write_text(CAUGHT_IN_A_THREAD)
    pytest_command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    command = [*pytest_command, "--rootdir", tmp_path, tmp_path]

    result = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)

    assert result.returncode == 1, result.stdout
    assert "socket.connect 192.0.2.1" in result.stdout
