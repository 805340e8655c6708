# SPDX-License-Identifier: Apache-2.0
"""Tests of the fixture that stops unit and service tests from connecting to other hosts."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.network_guard import NetworkUsed, loopback_only

CHECKOUT = Path(__file__).resolve().parents[2]
OTHER_HOST = ("192.0.2.1", 9)
TEST_WITH_SUPPRESSED_ERROR = """
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
    """The fixture refuses connections even in a test that does not request the fixture."""
    with pytest.raises(NetworkUsed):
        socket.create_connection(OTHER_HOST, timeout=1)

    attempts = request.getfixturevalue("network_attempts")
    assert attempts == ["socket.connect 192.0.2.1"]
    attempts.clear()


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")]
)
def test_datagram_to_another_host_is_refused(family, address):
    with loopback_only() as attempts, socket.socket(family, socket.SOCK_DGRAM) as sender:
        with pytest.raises(NetworkUsed):
            sender.sendto(b"x", (address, 9))
        with pytest.raises(NetworkUsed):
            sender.sendmsg([b"x"], [], 0, (address, 9))

    assert attempts == [f"socket.sendto {address}", f"socket.sendmsg {address}"]


def test_name_resolution_is_refused():
    with loopback_only() as attempts:
        with pytest.raises(NetworkUsed):
            socket.gethostbyname("host.example")
        with pytest.raises(NetworkUsed):
            socket.getaddrinfo("host.example", 80)

    assert attempts == ["socket.gethostbyname host.example", "socket.getaddrinfo host.example"]


def test_connection_to_the_loopback_is_allowed():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for host in ("127.0.0.1", "localhost"):
            connection = socket.create_connection((host, port), timeout=5)
            connection.close()


def test_suppressed_attempt_of_a_thread_fails_its_test(tmp_path):
    (tmp_path / "test_caught.py").write_text(TEST_WITH_SUPPRESSED_ERROR)
    pytest_command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    command = [*pytest_command, "--rootdir", tmp_path, tmp_path]

    # The test needs no plugins. Their imports take most of the time of a small run.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    result = subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
    )

    assert result.returncode == 1, result.stdout
    assert "socket.connect 192.0.2.1" in result.stdout
