# SPDX-License-Identifier: Apache-2.0
"""Open streams of the logger: streams of dead peers, and the limits on the number of streams."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from gridstead.adapters.channel import GrpcPeer
from gridstead.adapters.logs.client import LoggerClient, LogQuery
from gridstead.domain.logs.log import Chunk
from gridstead.errors import ConfigError, LoggerUnavailable
from gridstead.rpc.logs import reading
from gridstead.rpc.logs import server as rpc_logger
from gridstead.rpc.logs.reading import Readers
from gridstead.rpc.logs.server import LoggerServer

LOG_NAME = "0x" + "07" * 32


class Proxy:
    """A TCP proxy for one client. After ``cut``, it drops all data but closes no connection."""

    def __init__(self, port):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = port
        self._connections = []
        self._cut = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def address(self):
        return f"localhost:{self._listener.getsockname()[1]}"

    def cut(self):
        self._cut.set()

    def close(self):
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._listener.close()

    def _serve(self):
        client, _ = self._listener.accept()
        server = socket.create_connection(("127.0.0.1", self._port))
        self._connections += [client, server]
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=self._forward, args=(source, target), daemon=True).start()

    def _forward(self, source, target):
        try:
            while data := source.recv(65536):
                if not self._cut.is_set():
                    target.sendall(data)
        except OSError:
            return


def follow(client, owner, clock):
    """Return a stream of the lines of the owner's log, which waits for new lines at the end."""
    return client.read(
        LogQuery(owner=owner.address, log_name=LOG_NAME), now=clock.now(), sign=owner.sign
    )


@pytest.fixture
def readers(monkeypatch):
    """Return the ``Readers`` of the server that the test creates.

    The server detects dead peers within seconds.
    """
    options = dict(rpc_logger.KEEPALIVE_OPTIONS)
    options["grpc.keepalive_time_ms"] = 1000
    options["grpc.http2.ping_timeout_ms"] = 500
    monkeypatch.setattr(rpc_logger, "KEEPALIVE_OPTIONS", tuple(options.items()))
    readers = Readers()
    monkeypatch.setattr(rpc_logger, "Readers", lambda: readers)
    return readers


def wait_until(condition, *, timeout_s=20):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_stream_of_a_dead_peer_is_closed(  # noqa: PLR0917 # fixtures
    server_tls, service, authority, permit, owner, clock, readers
):
    service.write(permit, Chunk(data=b"one", timestamp_ns=1))
    server = LoggerServer("127.0.0.1:0", server_tls, service)
    proxy = Proxy(server.start())
    client = LoggerClient(GrpcPeer(address=proxy.address, ca=authority.certificate))
    stream = follow(client, owner, clock)
    assert next(stream).lines == (b"one",)
    assert readers.count == 1

    proxy.cut()

    wait_until(lambda: readers.count == 0)
    stream.close()
    client.close()
    proxy.close()
    server.stop()


def test_streams_per_owner_are_limited(  # noqa: PLR0917 # fixtures
    server_tls, service, authority, owner, clock, access, monkeypatch
):
    monkeypatch.setattr(reading, "MAX_READERS_PER_OWNER", 2)
    server = LoggerServer("127.0.0.1:0", server_tls, service)
    client = LoggerClient(GrpcPeer(address=f"localhost:{server.start()}", ca=authority.certificate))
    client.write(access, [Chunk(data=b"one", timestamp_ns=1)])
    first_reader = follow(client, owner, clock)
    second_reader = follow(client, owner, clock)
    next(first_reader)
    next(second_reader)

    with pytest.raises(LoggerUnavailable, match="too many readers"):
        next(follow(client, owner, clock))

    # The logger needs a short time to notice that the client has closed a stream.
    first_reader.close()
    wait_until(lambda: is_accepted(follow(client, owner, clock)))
    second_reader.close()
    client.close()
    server.stop()


def is_accepted(stream):
    """Return whether the logger accepts the stream."""
    try:
        next(stream)
    except LoggerUnavailable:
        return False
    return True


def test_stream_above_the_limit_of_the_server_is_a_transient_error(  # noqa: PLR0917 # fixtures
    server_tls, service, authority, access, permit, owner, clock, monkeypatch
):
    monkeypatch.setattr(rpc_logger, "MAX_STREAMS", 1)
    service.write(permit, Chunk(data=b"one", timestamp_ns=1))
    server = LoggerServer("127.0.0.1:0", server_tls, service)
    client = LoggerClient(GrpcPeer(address=f"localhost:{server.start()}", ca=authority.certificate))
    stream = follow(client, owner, clock)
    next(stream)

    with pytest.raises(LoggerUnavailable, match="RESOURCE_EXHAUSTED"):
        client.write(access, [Chunk(data=b"two", timestamp_ns=2)])

    stream.close()
    client.close()
    server.stop()


def test_port_in_use_is_a_config_error(address, server_tls, service):
    # The server of the fixture ``address`` already listens on this port.
    server = LoggerServer(address.replace("localhost", "127.0.0.1"), server_tls, service)

    with pytest.raises(ConfigError, match="could not listen"):
        server.start()

    server.stop()
