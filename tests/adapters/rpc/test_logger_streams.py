# SPDX-License-Identifier: Apache-2.0
"""Streams of the logger that end in no proper way, and more of them than it serves."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from gridstead.adapters.channel import Peer
from gridstead.adapters.logger import LoggerClient
from gridstead.errors import LoggerUnavailable
from gridstead.rpc import logger as rpc_logger
from gridstead.rpc.logger import LoggerServer

NAME = "0x" + "07" * 32


class Wire:
    """A way to a server that can be cut without a word to either side."""

    def __init__(self, port):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = port
        self._ends = []
        self._cut = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def address(self):
        return f"localhost:{self._listener.getsockname()[1]}"

    def cut(self):
        self._cut.set()

    def close(self):
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._listener.close()

    def _serve(self):
        near, _ = self._listener.accept()
        far = socket.create_connection(("127.0.0.1", self._port))
        self._ends += [near, far]
        for source, target in ((near, far), (far, near)):
            threading.Thread(target=self._carry, args=(source, target), daemon=True).start()

    def _carry(self, source, target):
        try:
            while data := source.recv(65536):
                if not self._cut.is_set():
                    target.sendall(data)
        except OSError:
            return


def test_reader_that_vanished_is_let_go(server_tls, service, authority, owner, clock, monkeypatch):
    quick = {"grpc.keepalive_time_ms": 1000, "grpc.http2.ping_timeout_ms": 500}
    options = tuple((name, quick.get(name, value)) for name, value in rpc_logger.KEEPALIVE_OPTIONS)
    monkeypatch.setattr(rpc_logger, "KEEPALIVE_OPTIONS", options)
    service.write(owner.address, NAME, b"one", 1)
    reads = []
    monkeypatch.setattr(service, "read", lambda *log, read=service.read: reads.append(time.monotonic()) or read(*log))
    server = LoggerServer("127.0.0.1:0", server_tls, service)
    wire = Wire(server.start())
    client = LoggerClient(Peer(address=wire.address, ca=authority.certificate))
    lines = client.read(owner.address, NAME, now=clock.now(), sign=owner.sign)
    assert next(lines) == (b"one", 1)

    wire.cut()

    deadline = time.monotonic() + 20
    while time.monotonic() - reads[-1] < 10 * rpc_logger.FOLLOW_S and time.monotonic() < deadline:
        time.sleep(rpc_logger.FOLLOW_S)
    assert time.monotonic() - reads[-1] >= 10 * rpc_logger.FOLLOW_S

    lines.close()
    client.close()
    wire.close()
    server.stop()


def test_logger_with_too_many_streams_is_one_to_come_back_to(  # noqa: PLR0917 # fixtures
    server_tls, service, authority, access, owner, clock, monkeypatch
):
    monkeypatch.setattr(rpc_logger, "MAX_STREAMS", 1)
    service.write(owner.address, NAME, b"one", 1)
    server = LoggerServer("127.0.0.1:0", server_tls, service)
    client = LoggerClient(Peer(address=f"localhost:{server.start()}", ca=authority.certificate))
    lines = client.read(owner.address, NAME, now=clock.now(), sign=owner.sign)
    next(lines)

    with pytest.raises(LoggerUnavailable, match="RESOURCE_EXHAUSTED"):
        client.write(access, [(b"two", 2)])

    lines.close()
    client.close()
    server.stop()
