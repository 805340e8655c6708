# SPDX-License-Identifier: Apache-2.0
"""Pings of clients on silent connections: every gRPC server accepts one every 5 s.

The test over a silent minute runs only with GRIDSTEAD_SILENT_MINUTE=1.
"""

from __future__ import annotations

import ast
import os
import re
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest
from grpc._cython import cygrpc
from tests.adapters.rpc.conftest import new_sbatch_server
from tests.adapters.rpc.raw_http2 import ENHANCE_YOUR_CALM, RawHttp2

from gridstead.rpc import tls
from gridstead.rpc.logs import server as rpc_logger
from gridstead.rpc.logs.server import LoggerServer
from gridstead.rpc.slurm import AgentServer
from gridstead.rpc.users import SshKeyServer

LISTEN = "127.0.0.1:0"
HEALTH_WATCH = "/grpc.health.v1.Health/Watch"  # a call that is silent after its first answer
MIN_PING_INTERVAL = "grpc.http2.min_ping_interval_without_data_ms"
OPTION = re.compile(r"grpc\.[a-z]")


class Servers:
    """Starts a server of each kind and connects raw clients."""

    def __init__(self, authority, server_tls, service, stack):
        self._ca = authority.certificate
        self._client_tls = authority.issue("supervisor")
        self._tls = server_tls
        self._service = service
        self._stack = stack

    def agent(self):
        server = AgentServer(
            LISTEN,
            replace(self._tls, client_ca=self._ca),
            scheduler=None,
            list_records=None,
            reports=None,
            report_texts=None,
            benchmarks=None,
            allowed_client="supervisor",
        )
        server.start()
        self._stack.callback(server.stop)
        return self._connect(server.port, self._client_tls)

    def job_definitions(self):
        return self._start(new_sbatch_server(self._tls))

    def ssh_keys(self):
        return self._start(SshKeyServer(LISTEN, self._tls, authorized_keys=lambda: ""))

    def logger(self):
        return self._start(LoggerServer(LISTEN, self._tls, self._service))

    def logger_with_an_open_call(self):
        client = self.logger()
        client.call(HEALTH_WATCH)
        return client

    def _start(self, server):
        port = server.start()
        self._stack.callback(server.stop)
        return self._connect(port)

    def _connect(self, port, client_tls=None):
        client = RawHttp2(port, self._ca, client_tls)
        return self._stack.enter_context(closing(client))


KINDS = ("agent", "job_definitions", "ssh_keys", "logger", "logger_with_an_open_call")


@pytest.fixture
def servers(authority, server_tls, service):
    with ExitStack() as stack:
        yield Servers(authority, server_tls, service, stack)


@pytest.fixture
def short_interval(monkeypatch):
    """Lower the minimum interval of all servers from 5 s to 50 ms."""
    options = dict(tls.SERVER_OPTIONS)
    assert options[MIN_PING_INTERVAL] == 5000
    options[MIN_PING_INTERVAL] = 50
    for module in (tls, rpc_logger):
        monkeypatch.setattr(module, "SERVER_OPTIONS", tuple(options.items()))


@pytest.mark.usefixtures("short_interval")
@pytest.mark.parametrize("kind", KINDS)
def test_client_that_pings_slower_than_the_minimum_interval_stays_connected(servers, kind):
    client = getattr(servers, kind)()

    for _ in range(8):
        client.ping()
        client.receive_for(0.2)

    client.receive_until(lambda: client.is_closed or client.acknowledged_pings == 8)
    assert client.acknowledged_pings == 8
    assert client.goaway is None


@pytest.mark.parametrize("kind", KINDS)
def test_client_that_floods_pings_is_disconnected(servers, kind):
    client = getattr(servers, kind)()

    client.ping(count=20)

    client.receive_until(lambda: client.is_closed)
    assert client.goaway == ENHANCE_YOUR_CALM


@pytest.mark.skipif("GRIDSTEAD_SILENT_MINUTE" not in os.environ, reason="takes a minute")
def test_client_that_pings_every_6_s_survives_a_silent_minute(servers):
    clients = {kind: getattr(servers, kind)() for kind in KINDS}

    for _ in range(11):
        for client in clients.values():
            client.ping()
        for client in clients.values():
            client.receive_for(6 / len(clients))

    states = {kind: (client.is_closed, client.goaway) for kind, client in clients.items()}
    assert states == dict.fromkeys(KINDS, (False, None))


def option_names():
    """Return the names of the gRPC options in the control plane.

    An option is a pair, and its name starts with "grpc.", but not with "grpc._", as the names of
    Python's loggers do.
    """
    names = set()
    for path in Path(tls.__file__).parents[1].rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Tuple(elts=[ast.Constant(value=str(name)), _]) if OPTION.match(name):
                    names.add(name)
    return names


def test_every_grpc_option_is_known_to_grpc():
    """gRPC ignores an option with an unknown name."""
    library = Path(cygrpc.__file__).read_bytes()
    names = option_names()

    assert set(dict(tls.SERVER_OPTIONS)) < names
    assert {name for name in names if name.encode() + b"\0" not in library} == set()
