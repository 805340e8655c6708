# SPDX-License-Identifier: Apache-2.0
"""The web pages that may call the servers for browsers: one rule for GraphQL and the logger."""

from __future__ import annotations

import asyncio
from ipaddress import ip_network

import httpx
import pytest
from tests.adapters.rpc.conftest import new_graphql_service

from gridstead.rpc.definitions import graphql
from gridstead.rpc.logs import web
from gridstead.rpc.logs.reading import LogReader, Readers
from gridstead.rpc.origins import ANY_ORIGIN

PORTAL = "https://portal.example"
# The paths and headers of requests from DeepSquare's web applications.
PATHS = {"graphql": "/graphql", "logger": "/logger.v1alpha1.LoggerAPI/Read"}
HEADERS = {
    "graphql": "accept,content-type",
    "logger": "content-type,grpc-timeout,x-grpc-web,x-user-agent",
}


class Client:
    """A client that calls the application of a server without a network."""

    def __init__(self, app):
        self._app = app

    def request(self, method, path, headers):
        """Send a request from an address that may read the metrics."""

        async def send():
            transport = httpx.ASGITransport(self._app, client=("127.0.0.1", 1))
            async with httpx.AsyncClient(transport=transport, base_url="https://grid") as http:
                return await http.request(method, path, headers=headers)

        return asyncio.run(send())


def new_client(server, origins):
    """Return a client of a server for web pages of these origins."""
    if server == "logger":
        return Client(web.make_app(LogReader(None, Readers()), origins))
    service = new_graphql_service(
        lambda *_: "x", origins=origins, metrics_networks=(ip_network("127.0.0.0/8"),)
    )
    return Client(graphql.make_app(service))


def preflight(server, client, origin):
    """Return the answer to the request that a browser sends before a call."""
    headers = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": HEADERS[server],
    }
    return client.request("OPTIONS", PATHS[server], headers=headers)


@pytest.mark.parametrize("server", PATHS)
class TestBothServers:
    @pytest.mark.parametrize("origin", [PORTAL, "http://localhost:3000", "null"])
    def test_page_of_any_origin_may_call_by_default(self, server, origin):
        client = new_client(server, (ANY_ORIGIN,))

        answer = preflight(server, client, origin)

        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "*"
        assert set(HEADERS[server].split(",")) <= allowed_headers(answer)
        answer = client.request("POST", PATHS[server], headers={"origin": origin})
        assert answer.headers["access-control-allow-origin"] == "*"

    def test_page_of_a_configured_origin_may_call(self, server):
        answer = preflight(server, new_client(server, (PORTAL,)), PORTAL)

        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == PORTAL

    @pytest.mark.parametrize("origins", [(PORTAL,), ()])
    @pytest.mark.parametrize(
        "origin",
        ["https://evil.example", f"{PORTAL}.evil.example", "http://portal.example", "null"],
    )
    def test_page_of_another_origin_may_not_call(self, server, origins, origin):
        client = new_client(server, origins)

        answer = preflight(server, client, origin)

        assert answer.status_code == 400
        assert "access-control-allow-origin" not in answer.headers
        answer = client.request("POST", PATHS[server], headers={"origin": origin})
        assert "access-control-allow-origin" not in answer.headers

    @pytest.mark.parametrize("origins", [(ANY_ORIGIN,), (PORTAL,)])
    def test_no_answer_permits_credentials_or_sets_a_cookie(self, server, origins):
        client = new_client(server, origins)
        headers = {"origin": PORTAL, "cookie": "session=1"}

        answers = [
            preflight(server, client, PORTAL),
            client.request("POST", PATHS[server], headers=headers),
        ]

        for answer in answers:
            assert "access-control-allow-credentials" not in answer.headers
            assert "set-cookie" not in answer.headers


def allowed_headers(answer):
    """Return the headers that a page may send, in lower case."""
    return set(answer.headers["access-control-allow-headers"].lower().split(", "))


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics"])
def test_page_cannot_read_the_routes_of_the_operator(path):
    """The caller of /metrics is checked by its network, and a browser can be in this network."""
    client = new_client("graphql", (ANY_ORIGIN,))

    answer = client.request("GET", path, headers={"origin": PORTAL})

    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers


def test_page_can_read_the_schema_of_workflows():
    client = new_client("graphql", (ANY_ORIGIN,))

    answer = client.request("GET", "/workflow.schema.json", headers={"origin": PORTAL})

    assert answer.headers["access-control-allow-origin"] == "*"
