# SPDX-License-Identifier: Apache-2.0
"""Unit and service tests reach no other host than this one."""

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


def test_a_connection_to_another_host_is_refused(request):
    """The fixture is asked for afterwards only, so this shows that each test here has it."""
    with pytest.raises(NetworkUsed):
        socket.create_connection(ELSEWHERE, timeout=1)

    attempts = request.getfixturevalue("network_attempts")
    assert attempts == ["socket.connect 192.0.2.1"]
    attempts.clear()


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_datagram_to_another_host_is_refused(family):
    address = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}[family]
    with loopback_only() as attempts, socket.socket(family, socket.SOCK_DGRAM) as sender:
        for send in (sender.sendto, lambda data, to: sender.sendmsg([data], [], 0, to)):
            with pytest.raises(NetworkUsed):
                send(b"x", (address, 9))

    assert attempts == [f"socket.sendto {address}", f"socket.sendmsg {address}"]


def test_a_query_of_a_name_is_refused():
    with loopback_only() as attempts:
        for ask in (socket.gethostbyname, lambda name: socket.getaddrinfo(name, 80)):
            with pytest.raises(NetworkUsed):
                ask("host.example")

    assert attempts == ["socket.gethostbyname host.example", "socket.getaddrinfo host.example"]


def test_the_loopback_is_reached():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for host in ("127.0.0.1", "localhost"):
            socket.create_connection((host, port), timeout=5).close()


def test_an_attempt_that_is_caught_in_a_thread_fails_its_test(tmp_path):
    (tmp_path / "test_caught.py").write_text(CAUGHT_IN_A_THREAD)
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        tmp_path,
        tmp_path,
    ]

    done = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, check=False)

    assert done.returncode == 1, done.stdout
    assert "socket.connect 192.0.2.1" in done.stdout
