# SPDX-License-Identifier: Apache-2.0
"""Errors do not contain the URL of a node's endpoint, because its path may contain an API key."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from gridstead import config
from gridstead.adapters.chain.node import Node
from gridstead.errors import ChainUnavailable, ConfigError
from gridstead.wiring.chain import open_chain

API_KEY = "3f9c0ffee"


class Handler(BaseHTTPRequestHandler):
    """Answers with status 429 on paths below /busy, and with chain id 7 on all other paths."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'[{"jsonrpc": "2.0", "id": 1, "result": "0x7"}]'
        status = 429 if self.path.startswith("/busy") else 200
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Do not log the request."""


@pytest.fixture
def endpoint():
    """The URL of a server that answers as ``Handler`` does."""
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_refusal_of_a_node_is_reported_without_its_url(endpoint):
    with pytest.raises(ChainUnavailable) as refusal:
        Node(f"{endpoint}/busy/{API_KEY}").ask("eth_chainId")

    assert refusal.value.detail == "the node answers 429 Too Many Requests"


def test_endpoint_of_another_chain_is_reported_without_its_url(endpoint):
    settings = config.Chain(
        rpc_url=f"{endpoint}/{API_KEY}", chain_id=8, contract=f"0x{'12' * 20}", confirmations=1
    )

    with pytest.raises(ConfigError) as refusal:
        open_chain(settings)

    assert str(refusal.value).startswith("chain.rpc_url serves chain 7")
    for text in (str(refusal.value), refusal.value.detail, refusal.value.hint):
        assert API_KEY not in text
