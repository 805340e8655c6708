# SPDX-License-Identifier: Apache-2.0
"""Tests of the download of a report from a server that may be hostile."""

import socket
import ssl
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.fakes.certificates import Authority

from gridstead.adapters.benchmarks.download import download_report, is_public
from gridstead.domain.benchmarks.public_report import MAX_BYTES
from gridstead.errors import InvalidInput, Transient


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.paths.append(self.path)
        self.server.answer(self)

    def log_message(self, *_arguments):
        """Print nothing."""


def answer_with(body, *, status=200, **headers):
    def answer(handler):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@contextmanager
def serving(authority, answer):
    """Serve an answer over HTTPS. Yields the server, which has its URL."""
    files = authority.issue("server")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.block_on_close = False
    server.answer, server.paths = answer, []
    server.url = f"https://localhost:{server.server_port}/report.json"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


def download(server, authority, **options):
    options = {"ca": authority.certificate, "allow_private": True} | options
    return download_report(server.url, **options)


def test_file_is_downloaded(authority):
    with serving(authority, answer_with(b'{"report":{}}')) as server:
        assert download(server, authority) == b'{"report":{}}'

    assert server.paths == ["/report.json"]


def test_private_address_gets_no_request(authority):
    with (
        serving(authority, answer_with(b"secret")) as server,
        pytest.raises(InvalidInput, match=r"localhost has the address .* not public"),
    ):
        download(server, authority, allow_private=False)

    assert server.paths == []


def test_name_with_one_private_address_is_refused(monkeypatch):
    """Otherwise, the server's name could resolve to the private address at the connection."""
    infos = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443))
        for address in ("93.184.216.34", "10.0.0.1")
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_arguments, **_options: infos)

    with pytest.raises(InvalidInput, match=r"provider\.test has the address 10\.0\.0\.1"):
        download_report("https://provider.test/r", ca=None, allow_private=False)


@pytest.mark.parametrize("status", [301, 302, 307, 404, 500])
def test_redirect_and_error_are_not_followed(authority, status):
    with (
        serving(authority, answer_with(b"", status=status, Location="/other")) as server,
        pytest.raises(Transient, match=f"the server answered with status {status}"),
    ):
        download(server, authority)

    assert server.paths == ["/report.json"]


def test_large_file_is_refused(authority):
    with serving(authority, answer_with(b"x" * MAX_BYTES)) as server:
        assert len(download(server, authority)) == MAX_BYTES
    with (
        serving(authority, answer_with(b"x" * (MAX_BYTES + 1))) as server,
        pytest.raises(InvalidInput, match="more than 1048576 bytes"),
    ):
        download(server, authority)


def drip_body(handler):
    handler.send_response(200)
    handler.end_headers()
    drip(handler)


def drip(handler):
    """Send a byte again and again, so that no single read takes long."""
    while True:
        try:
            handler.wfile.write(b"x")
        except OSError:
            return
        time.sleep(0.05)


@pytest.mark.parametrize("answer", [drip, drip_body])
def test_slow_answer_ends_with_the_time_of_the_download(authority, answer):
    """Without a limit for all reads together, the download would not end."""
    with (
        serving(authority, answer) as server,
        pytest.raises(Transient, match=r"did not answer within 0\.5 seconds"),
    ):
        download(server, authority, timeout_s=0.5)


def test_certificate_of_an_unknown_authority_is_refused(authority):
    with (
        serving(authority, answer_with(b"{}")) as server,
        pytest.raises(Transient, match="could not download the report") as caught,
    ):
        download(server, authority, ca=None)

    assert "CERTIFICATE_VERIFY_FAILED" in caught.value.detail


def test_server_that_does_not_listen_is_an_error(authority):
    with serving(authority, answer_with(b"{}")) as server:
        pass

    with pytest.raises(Transient, match="could not download the report"):
        download(server, authority)


def test_next_address_is_used_if_the_first_does_not_answer(authority, monkeypatch):
    def resolve(host, port, *_arguments, **_options):
        # The server listens only on the second address.
        addresses = ("127.0.0.2", "127.0.0.1") if host == "localhost" else (host,)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    with serving(authority, answer_with(b"{}")) as server:
        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        assert download(server, authority) == b"{}"


def test_name_that_cannot_be_resolved_is_an_error(monkeypatch):
    def fail(*_arguments, **_options):
        raise socket.gaierror("unknown name")

    monkeypatch.setattr(socket, "getaddrinfo", fail)

    with pytest.raises(Transient, match="could not download the report"):
        download_report("https://provider.test/r", ca=None, allow_private=False)


@pytest.mark.parametrize(
    "url",
    [
        "http://provider.test/r",
        "file:///etc/passwd",
        "https://",
        "https:///r",
        "https://me@provider.test/r",
        "https://provider.test:port/r",
        "https://provider.test:0/r",
        "https://provider.test/a b",
        "https://provider.test/\r\nHost: other",
        "https://[::1/r",
        "",
    ],
)
def test_url_that_is_not_permitted_is_refused(url):
    with pytest.raises(InvalidInput, match="is not a URL of the form"):
        download_report(url, ca=None, allow_private=True)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0",
        "fd00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::",
        "64:ff9b::a00:1",
    ],
)  # fmt: skip
def test_address_in_a_private_network_is_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34", "64:ff9b::5db8:d822"]
)
def test_address_on_the_internet_is_public(address):
    assert is_public(address)
