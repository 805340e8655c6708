# SPDX-License-Identifier: Apache-2.0
"""The logger for browsers: real HTTPS, frames made and read by hand as the public description of
gRPC-web has them.
"""

from __future__ import annotations

import base64
import ssl
import time
from urllib.parse import unquote

import httpx
import pytest
from tests.fakes.definitions import Wallet

from gridstead.adapters.channel import GrpcPeer
from gridstead.adapters.logger import LoggerClient
from gridstead.domain.log import Chunk, Stream
from gridstead.domain.log_access import read_text, watch_text
from gridstead.errors import ConfigError
from gridstead.proto.logger_pb2 import (
    ReadRequest,
    ReadResponse,
    WatchListRequest,
    WatchListResponse,
)
from gridstead.rpc import log_reading, log_web
from gridstead.rpc import logger as rpc_logger
from gridstead.rpc.log_reading import Readers
from gridstead.rpc.log_web import Web
from gridstead.rpc.logger import LoggerServer

NAME = "0x" + "07" * 32
PORTAL = "https://portal.example"
TEXT, BINARY = "application/grpc-web-text", "application/grpc-web+proto"
OK, INVALID, DEADLINE, UNAVAILABLE, UNAUTHENTICATED = "0", "3", "4", "14", "16"


class Site:
    """A logger that serves browsers, and a browser's side of it."""

    def __init__(self, server, authority, readers):
        self.peer = GrpcPeer(address=f"localhost:{server.start()}", ca=authority.certificate)
        self.url = f"https://localhost:{server.web_port}/logger.v1alpha1.LoggerAPI/"
        self.readers = readers
        self.http = httpx.Client(
            verify=ssl.create_default_context(cafile=authority.certificate), trust_env=False
        )

    def open(self, method, body, kind=TEXT, **headers):
        return self.http.stream(
            "POST", self.url + method, content=body, timeout=10,
            headers={"content-type": kind, "accept": kind, "x-grpc-web": "1", "origin": PORTAL, **headers},
        )  # fmt: skip

    def call(self, method, body, kind=TEXT, **headers):
        """The messages of a call that ends, and its trailers."""
        with self.open(method, body, kind, **headers) as response:
            assert response.status_code == 200
            *messages, (flags, trailer) = frames(
                response.iter_bytes(), is_text=kind.startswith(TEXT)
            )
        assert flags == 0x80
        assert all(flags == 0 for flags, _ in messages)
        pairs = (line.split(": ", 1) for line in trailer.decode().splitlines())
        return [data for _, data in messages], dict(pairs)


def frame(message):
    data = message.SerializeToString()
    return b"\0" + len(data).to_bytes(4, "big") + data


def frames(pieces, *, is_text):
    """Yields (flags, data) as soon as they are there, however the bytes are cut."""
    encoded = data = b""
    for piece in pieces:
        encoded += piece
        if is_text:  # what a browser does: four letters at a time, padding anywhere
            whole = len(encoded) // 4 * 4
            data += b"".join(
                base64.b64decode(encoded[at : at + 4], validate=True) for at in range(0, whole, 4)
            )
            encoded = encoded[whole:]
        else:
            data, encoded = data + encoded, b""
        while len(data) >= 5 and len(data) >= (end := 5 + int.from_bytes(data[1:5], "big")):
            yield data[0], data[5:end]
            data = data[end:]
    assert (encoded, data) == (b"", b"")


def wait_until(is_so):
    deadline = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def new_site(server_tls, service, authority, monkeypatch):
    """Begins a logger for pages of the portal."""
    made, begun = [], []
    monkeypatch.setattr(rpc_logger, "Readers", lambda: made.append(Readers()) or made[-1])

    def begin():
        server = LoggerServer(
            "127.0.0.1:0", server_tls, service, Web(host="127.0.0.1", port=0, origins=(PORTAL,))
        )
        begun.append((server, Site(server, authority, made[-1])))
        return begun[-1][1]

    yield begin
    for server, site in begun:
        site.http.close()
        server.stop()


@pytest.fixture
def site(new_site):
    return new_site()


@pytest.fixture
def asked(owner, clock):
    """A signed request for the owner's log."""

    def make(signer=owner, now=None, **fields):
        now = now or clock.now()
        text = read_text(owner.address, NAME, now)
        return ReadRequest(
            address=owner.address,
            log_name=NAME,
            timestamp=now,
            signed_hash=signer.sign(text.encode()),
            **fields,
        )

    return make


@pytest.fixture
def write(site, access):
    client = LoggerClient(site.peer)
    yield lambda *lines: client.write(
        access, [Chunk(data=line, timestamp_ns=7, stream=Stream.STDERR) for line in lines]
    )
    client.close()


class TestCalls:
    @pytest.mark.parametrize("kind", [TEXT, f"{TEXT}+proto", "application/grpc-web", BINARY])
    def test_log_is_read_to_its_end(self, site, asked, write, kind):
        write(b"one", b"\xfftwo", b"")
        body = frame(asked(until_now=True))

        messages, trailers = site.call(
            "Read", base64.b64encode(body) if kind.startswith(TEXT) else body, kind
        )

        read = [ReadResponse.FromString(message) for message in messages]
        assert [(one.data, one.timestamp, one.stream, one.line) for one in read] == [
            (b"one", 7, Stream.STDERR, 1), (b"\xfftwo", 7, Stream.STDERR, 2), (b"", 7, Stream.STDERR, 3),
        ]  # fmt: skip
        assert trailers == {"grpc-status": OK, "grpc-message": ""}

    def test_request_may_be_base64_in_pieces(self, site, asked, write):
        write(b"one")
        body = frame(asked(until_now=True))
        pieces = b"".join(base64.b64encode(body[at : at + 7]) for at in range(0, len(body), 7))

        messages, _ = site.call("Read", pieces)

        assert [ReadResponse.FromString(message).data for message in messages] == [b"one"]

    def test_names_are_listed(self, site, write, owner, clock):
        write(b"one")
        now = clock.now()
        request = WatchListRequest(
            address=owner.address,
            timestamp=now,
            signed_hash=owner.sign(watch_text(owner.address, now).encode()),
        )

        with site.open("WatchList", frame(request), BINARY) as response:
            _, data = next(frames(response.iter_bytes(), is_text=False))

        assert WatchListResponse.FromString(data).log_names == [NAME]

    @pytest.mark.parametrize("kind", [TEXT, BINARY])
    def test_follower_gets_lines_as_they_come(self, site, asked, write, kind):
        body = frame(asked())
        with site.open("Read", base64.b64encode(body) if kind == TEXT else body, kind) as response:
            lines = frames(response.iter_bytes(), is_text=kind == TEXT)
            for text in (b"one", b"two, longer", b"3"):
                write(text)
                assert ReadResponse.FromString(next(lines)[1]).data == text

    def test_browser_that_leaves_is_let_go(self, site, asked, write):
        write(b"one")
        with site.open("Read", base64.b64encode(frame(asked()))) as response:
            lines = frames(response.iter_bytes(), is_text=True)
            next(lines)
            assert site.readers.count == 1

        wait_until(lambda: site.readers.count == 0)

    def test_stream_ends_with_the_patience_of_its_caller(self, site, asked):
        messages, trailers = site.call(
            "Read", base64.b64encode(frame(asked())), **{"grpc-timeout": "200m"}
        )

        assert (messages, trailers["grpc-status"]) == ([], DEADLINE)
        wait_until(lambda: site.readers.count == 0)

    def test_server_that_stops_ends_streams(self, server_tls, service, authority, asked, write):
        write(b"one")
        server = LoggerServer(
            "127.0.0.1:0", server_tls, service, Web(host="127.0.0.1", port=0, origins=(PORTAL,))
        )
        site = Site(server, authority, None)
        with site.open("Read", base64.b64encode(frame(asked()))) as response:
            lines = frames(response.iter_bytes(), is_text=True)
            next(lines)
            server.stop()
            with pytest.raises(httpx.HTTPError):
                next(lines)
        site.http.close()


class TestRefusals:
    @pytest.mark.parametrize(
        ("changed", "status"),
        [
            ({"signer": Wallet()}, UNAUTHENTICATED), ({"now": 1000}, UNAUTHENTICATED),
            ({"log_identity": "../x"}, INVALID),
        ],
    )  # fmt: skip
    def test_authentication_is_that_of_grpc(self, site, asked, changed, status):
        messages, trailers = site.call("Read", base64.b64encode(frame(asked(**changed))))

        assert (messages, trailers["grpc-status"]) == ([], status)
        assert unquote(trailers["grpc-message"])

    @pytest.mark.parametrize(
        "body",
        [
            b"", b"A", b"!!!!", b"AA=A", base64.b64encode(b"\0\0\0\0\x05abc"), base64.b64encode(b"\x01\0\0\0\0"),
            base64.b64encode(b"\0\0\0\0\x01\xff"), base64.b64encode(b"\0\0\0\0\0\0\0\0\0\0"), b"A" * 20_000,
        ],
    )  # fmt: skip
    def test_what_is_no_request_is_told_in_trailers(self, site, body):
        messages, trailers = site.call("Read", body)

        assert (messages, trailers["grpc-status"]) == ([], INVALID)

    def test_one_owner_cannot_take_all_streams(self, site, asked, write, monkeypatch):
        monkeypatch.setattr(log_reading, "MAX_READERS_PER_OWNER", 1)
        write(b"one")
        body = base64.b64encode(frame(asked()))
        with site.open("Read", body) as response:
            lines = frames(response.iter_bytes(), is_text=True)
            next(lines)

            _, trailers = site.call("Read", body)

        assert trailers["grpc-status"] == UNAVAILABLE
        assert unquote(trailers["grpc-message"]).startswith("too many readers")

    def test_connections_are_bounded(self, new_site, asked, monkeypatch):
        monkeypatch.setattr(log_web, "MAX_CONNECTIONS", 2)
        site = new_site()
        body = base64.b64encode(frame(asked()))
        with site.open("Read", body) as one:
            wait_until(lambda: site.readers.count == 1)
            with site.open("Read", body) as two:
                assert (one.status_code, two.status_code) == (200, 503)

    @pytest.mark.parametrize(
        ("method", "kind", "status"),
        [
            ("Read", "application/grpc", 415),
            ("Read", "application/json", 415),
            ("Write", TEXT, 404),
            ("", TEXT, 404),
        ],
    )
    def test_nothing_else_is_served(self, site, method, kind, status):
        with site.open(method, b"AAAAAAA=", kind) as response:
            assert response.status_code == status

    def test_port_that_is_taken_is_the_operators(self, site, server_tls, service):
        port = int(site.url.split(":")[2].split("/")[0])
        server = LoggerServer(
            "127.0.0.1:0", server_tls, service, Web(host="127.0.0.1", port=port, origins=(PORTAL,))
        )

        with pytest.raises(ConfigError, match="could not listen"):
            server.start()

        server.stop()


class TestOrigins:
    WANTED = {  # noqa: RUF012
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type,grpc-timeout,x-grpc-web,x-user-agent",
    }

    def test_page_of_a_named_origin_may_ask(self, site):
        answer = site.http.options(site.url + "Read", headers={"origin": PORTAL, **self.WANTED})

        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == PORTAL
        allowed = answer.headers["access-control-allow-headers"].lower()
        assert all(
            name in allowed for name in self.WANTED["access-control-request-headers"].split(",")
        )

    @pytest.mark.parametrize(
        "origin",
        ["https://evil.example", f"{PORTAL}.evil.example", "http://portal.example", "null"],
    )
    def test_page_of_another_origin_may_not(self, site, asked, write, origin):
        write(b"one")
        answer = site.http.options(site.url + "Read", headers={"origin": origin, **self.WANTED})

        assert answer.status_code == 400
        assert "access-control-allow-origin" not in answer.headers
        with site.open(
            "Read", base64.b64encode(frame(asked(until_now=True))), origin=origin
        ) as response:
            assert "access-control-allow-origin" not in response.headers

    def test_page_may_see_how_a_call_ended(self, site, asked):
        with site.open("Read", base64.b64encode(frame(asked(until_now=True)))) as response:
            assert response.headers["access-control-allow-origin"] == PORTAL
            assert response.headers["access-control-expose-headers"] == "Grpc-Status, Grpc-Message"

    def test_browsers_are_not_served_unasked(self, server_tls, service):
        server = LoggerServer("127.0.0.1:0", server_tls, service)
        server.start()

        assert server.web_port == 0
        server.stop()
