# SPDX-License-Identifier: Apache-2.0
"""Fixtures: options of module traefik_configuration, and services behind a gateway."""

import http.server
import json
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from tests.fakes.certificates import Authority
from tests.roles.conftest import LoadedInventory
from tests.roles.traefik.gateway import LDAPS, ROUTE, module_options, render_configuration


@pytest.fixture
def folder(tmp_path):
    """A folder with the certificate and the key that the configuration names."""
    files = Authority(tmp_path).issue("gateway", "a.test")
    files.certificate.rename(tmp_path / "tls.crt")
    files.key.rename(tmp_path / "tls.key")
    return tmp_path


@pytest.fixture
def options(site: LoadedInventory, folder):
    """The module's options for a valid route."""
    static, dynamic = render_configuration(
        site,
        folder,
        traefik_ca_file=f"{folder}/ca.crt",
        traefik_routes=[{**ROUTE, "allowed": ["127.0.0.1"]}],
        **LDAPS,
    )
    return module_options(folder, static, dynamic)


class EchoHandler(http.server.BaseHTTPRequestHandler):
    """An HTTP handler that answers with the method, the path and the headers of the request."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        echo = {"method": self.command, "path": self.path, "headers": dict(self.headers)}
        body = json.dumps(echo).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.do_GET()

    def do_OPTIONS(self):
        self.do_GET()

    def log_message(self, *_args):
        """Print nothing."""


@pytest.fixture(scope="module")
def folder_and_ca(tmp_path_factory):
    """The pair (folder with the gateway's certificate, CA of the site)."""
    folder = tmp_path_factory.mktemp("gateway")
    authority = Authority(folder)
    install(folder, authority.issue("gateway", "http.test", "grpc.test", "closed.test"))
    return folder, authority


def install(folder, files):
    """Replace the gateway's certificate and key."""
    files.certificate.replace(folder / "tls.crt")
    files.key.replace(folder / "tls.key")


@pytest.fixture(scope="module")
def http_port(folder_and_ca):
    """The port of an HTTPS service behind the gateway."""
    _, authority = folder_and_ca
    files = authority.issue("http-back")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), EchoHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def grpc_port(folder_and_ca):
    """The port of a gRPC service behind the gateway. Its method Count counts streamed messages."""
    _, authority = folder_and_ca
    files = authority.issue("grpc-back")

    def count(messages, _context):
        return str(len(list(messages))).encode()

    method = grpc.stream_unary_rpc_method_handler(count)
    handler = grpc.method_handlers_generic_handler("test.Api", {"Count": method})
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((handler,))
    key_and_certificate = (files.key.read_bytes(), files.certificate.read_bytes())
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([key_and_certificate]))
    server.start()
    yield port
    server.stop(None).wait()
