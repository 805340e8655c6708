# SPDX-License-Identifier: Apache-2.0
"""The gRPC-web server of the logger, which web pages of a portal use."""

from __future__ import annotations

import base64
import time
from urllib.parse import unquote, urlsplit

import httpx
import pytest
from tests.adapters.rpc.web_logger import BINARY, PORTAL, TEXT, WebLogger, frame, frames
from tests.fakes.definitions import Wallet

from gridstead.adapters.logs.client import LoggerClient
from gridstead.domain.logs.access import read_request_text, watch_request_text
from gridstead.domain.logs.log import Chunk, Stream
from gridstead.errors import ConfigError
from gridstead.proto.logger_pb2 import (
    ReadRequest,
    ReadResponse,
    WatchListRequest,
    WatchListResponse,
)
from gridstead.rpc.logs import reading, web
from gridstead.rpc.logs import server as rpc_logger
from gridstead.rpc.logs.reading import Readers
from gridstead.rpc.logs.server import LoggerServer
from gridstead.rpc.logs.web import WebAddress

NAME = "0x" + "07" * 32
# Values of grpc-status.
OK, INVALID_ARGUMENT, DEADLINE_EXCEEDED = "0", "3", "4"
UNAVAILABLE, UNAUTHENTICATED = "14", "16"


def wait_until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def new_web_logger(server_tls, service, authority, monkeypatch):
    """Return a function that starts a logger for web pages of the portal and returns a client."""
    started_servers = []

    def start():
        readers = Readers()
        monkeypatch.setattr(rpc_logger, "Readers", lambda: readers)
        server = LoggerServer(
            "127.0.0.1:0",
            server_tls,
            service,
            WebAddress(host="127.0.0.1", port=0, origins=(PORTAL,)),
        )
        web_logger = WebLogger(server, authority, readers)
        started_servers.append((server, web_logger))
        return web_logger

    yield start
    for server, web_logger in started_servers:
        web_logger.http.close()
        server.stop()


@pytest.fixture
def web_logger(new_web_logger):
    return new_web_logger()


@pytest.fixture
def read_request(owner, clock):
    """Return a function that makes a signed request for the owner's log."""

    def make(signer=owner, now=None, **fields):
        now = now or clock.now()
        text = read_request_text(owner.address, NAME, now)
        return ReadRequest(
            address=owner.address,
            log_name=NAME,
            timestamp=now,
            signed_hash=signer.sign(text.encode()),
            **fields,
        )

    return make


@pytest.fixture
def write(web_logger, access):
    """Return a function that writes lines to the owner's log."""
    client = LoggerClient(web_logger.peer)

    def write_lines(*lines):
        chunks = [Chunk(data=line, timestamp_ns=7, stream=Stream.STDERR) for line in lines]
        client.write(access, chunks)

    yield write_lines
    client.close()


def encoded(body, content_type):
    """Return the body of a request in the encoding of the content type."""
    return base64.b64encode(body) if content_type.startswith(TEXT) else body


class TestCalls:
    @pytest.mark.parametrize(
        "content_type", [TEXT, f"{TEXT}+proto", "application/grpc-web", BINARY]
    )
    def test_log_is_read_to_its_end(self, web_logger, read_request, write, content_type):
        write(b"one", b"\xfftwo", b"")
        body = frame(read_request(until_now=True))

        messages, trailers = web_logger.call("Read", encoded(body, content_type), content_type)

        responses = [ReadResponse.FromString(message) for message in messages]
        assert [response.data for response in responses] == [b"one", b"\xfftwo", b""]
        for number, response in enumerate(responses, 1):
            assert response.line == number
            assert response.timestamp == 7
            assert response.stream == Stream.STDERR
        assert trailers == {"grpc-status": OK, "grpc-message": ""}

    def test_request_can_be_base64_with_padding_in_the_middle(
        self, web_logger, read_request, write
    ):
        write(b"one")
        body = frame(read_request(until_now=True))
        text = base64.b64encode(body[:7]) + base64.b64encode(body[7:])

        (message,), _ = web_logger.call("Read", text)

        assert ReadResponse.FromString(message).data == b"one"

    def test_names_of_the_owners_logs_are_listed(self, web_logger, write, owner, clock):
        write(b"one")
        now = clock.now()
        request = WatchListRequest(
            address=owner.address,
            timestamp=now,
            signed_hash=owner.sign(watch_request_text(owner.address, now).encode()),
        )

        with web_logger.open("WatchList", frame(request), BINARY) as response:
            _, data = next(frames(response.iter_bytes(), is_text=False))

        assert WatchListResponse.FromString(data).log_names == [NAME]

    @pytest.mark.parametrize("content_type", [TEXT, BINARY])
    def test_follower_gets_lines_as_they_are_written(
        self, web_logger, read_request, write, content_type
    ):
        body = encoded(frame(read_request()), content_type)
        with web_logger.open("Read", body, content_type) as response:
            lines = frames(response.iter_bytes(), is_text=content_type == TEXT)
            for text in (b"one", b"two, longer", b"3"):
                write(text)
                _, message = next(lines)
                assert ReadResponse.FromString(message).data == text

    def test_stream_ends_when_the_client_closes_the_connection(
        self, web_logger, read_request, write
    ):
        write(b"one")
        with web_logger.open("Read", base64.b64encode(frame(read_request()))) as response:
            lines = frames(response.iter_bytes(), is_text=True)
            next(lines)
            assert web_logger.readers.count == 1

        wait_until(lambda: web_logger.readers.count == 0)

    def test_stream_ends_after_grpc_timeout(self, web_logger, read_request):
        messages, trailers = web_logger.call(
            "Read",
            base64.b64encode(frame(read_request())),
            **{"grpc-timeout": "200m"},  # 200 milliseconds
        )

        assert messages == []
        assert trailers["grpc-status"] == DEADLINE_EXCEEDED
        wait_until(lambda: web_logger.readers.count == 0)

    def test_stop_ends_open_streams(self, server_tls, service, authority, read_request, write):
        write(b"one")
        server = LoggerServer(
            "127.0.0.1:0",
            server_tls,
            service,
            WebAddress(host="127.0.0.1", port=0, origins=(PORTAL,)),
        )
        web_logger = WebLogger(server, authority, None)
        with web_logger.open("Read", base64.b64encode(frame(read_request()))) as response:
            lines = frames(response.iter_bytes(), is_text=True)
            next(lines)
            server.stop()
            with pytest.raises(httpx.HTTPError):
                next(lines)
        web_logger.http.close()


class TestRefusals:
    @pytest.mark.parametrize(
        ("changes", "status"),
        [
            ({"signer": Wallet()}, UNAUTHENTICATED),  # not the owner
            ({"now": 1000}, UNAUTHENTICATED),  # too old
            ({"log_identity": "../x"}, INVALID_ARGUMENT),
        ],
    )  # fmt: skip
    def test_invalid_request_is_refused_with_a_status_of_grpc(
        self, web_logger, read_request, changes, status
    ):
        body = base64.b64encode(frame(read_request(**changes)))

        messages, trailers = web_logger.call("Read", body)

        assert messages == []
        assert trailers["grpc-status"] == status
        assert unquote(trailers["grpc-message"])

    @pytest.mark.parametrize(
        "body",
        [
            b"", b"A", b"!!!!", b"AA=A",  # empty, or not base64
            base64.b64encode(b"\0\0\0\0\x05abc"),  # shorter than its length
            base64.b64encode(b"\x01\0\0\0\0"),  # a compressed message
            base64.b64encode(b"\0\0\0\0\x01\xff"),  # not a protobuf message
            base64.b64encode(b"\0\0\0\0\0\0\0\0\0\0"),  # two messages
            b"A" * 20_000,  # too large
        ],
    )  # fmt: skip
    def test_invalid_body_is_reported_in_trailers(self, web_logger, body):
        messages, trailers = web_logger.call("Read", body)

        assert messages == []
        assert trailers["grpc-status"] == INVALID_ARGUMENT

    def test_streams_per_owner_are_limited(self, web_logger, read_request, write, monkeypatch):
        monkeypatch.setattr(reading, "MAX_READERS_PER_OWNER", 1)
        write(b"one")
        body = base64.b64encode(frame(read_request()))
        with web_logger.open("Read", body) as response:
            lines = frames(response.iter_bytes(), is_text=True)
            next(lines)

            _, trailers = web_logger.call("Read", body)

        assert trailers["grpc-status"] == UNAVAILABLE
        assert unquote(trailers["grpc-message"]).startswith("too many readers")

    def test_connections_are_limited(self, new_web_logger, read_request, monkeypatch):
        monkeypatch.setattr(web, "MAX_CONNECTIONS", 2)
        web_logger = new_web_logger()
        body = base64.b64encode(frame(read_request()))
        with web_logger.open("Read", body) as first:
            wait_until(lambda: web_logger.readers.count == 1)
            with web_logger.open("Read", body) as second:
                assert first.status_code == 200
                assert second.status_code == 503

    @pytest.mark.parametrize(
        ("method", "content_type", "status"),
        [
            ("Read", "application/grpc", 415),
            ("Read", "application/json", 415),
            ("Write", TEXT, 404),
            ("", TEXT, 404),
        ],
    )
    def test_other_methods_and_content_types_are_refused(
        self, web_logger, method, content_type, status
    ):
        empty_message = b"AAAAAAA="  # the frame header: flags 0 and length 0
        with web_logger.open(method, empty_message, content_type) as response:
            assert response.status_code == status

    def test_port_in_use_is_a_config_error(self, web_logger, server_tls, service):
        port = urlsplit(web_logger.url).port
        server = LoggerServer(
            "127.0.0.1:0",
            server_tls,
            service,
            WebAddress(host="127.0.0.1", port=port, origins=(PORTAL,)),
        )

        with pytest.raises(ConfigError, match="could not listen"):
            server.start()

        server.stop()


class TestOrigins:
    def test_page_can_read_the_status_of_a_call(self, web_logger, read_request):
        with web_logger.open(
            "Read", base64.b64encode(frame(read_request(until_now=True)))
        ) as response:
            assert response.headers["access-control-allow-origin"] == PORTAL
            assert response.headers["access-control-expose-headers"] == "Grpc-Status, Grpc-Message"

    def test_logger_without_origins_has_no_web_port(self, server_tls, service):
        server = LoggerServer("127.0.0.1:0", server_tls, service)
        server.start()

        assert server.web_port == 0
        server.stop()
