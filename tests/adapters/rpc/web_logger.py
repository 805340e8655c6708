# SPDX-License-Identifier: Apache-2.0
"""A gRPC-web client of the logger, which encodes and decodes gRPC-web frames itself."""

from __future__ import annotations

import base64
import ssl

import httpx

from gridstead.adapters.channel import GrpcPeer

PORTAL = "https://portal.example"
TEXT, BINARY = "application/grpc-web-text", "application/grpc-web+proto"
TRAILER_FLAG = 0x80  # the flag of the frame with the trailers


class WebLogger:
    """A client that sends the requests of a browser to a logger with a gRPC-web server."""

    def __init__(self, server, authority, readers):
        self.peer = GrpcPeer(address=f"localhost:{server.start()}", ca=authority.certificate)
        self.url = f"https://localhost:{server.web_port}/logger.v1alpha1.LoggerAPI/"
        self.readers = readers
        self.http = httpx.Client(
            verify=ssl.create_default_context(cafile=authority.certificate), trust_env=False
        )

    def open(self, method, body, content_type=TEXT, **headers):
        """Start a call. Return a context manager that yields the response."""
        all_headers = {
            "content-type": content_type,
            "accept": content_type,
            "x-grpc-web": "1",
            "origin": PORTAL,
            **headers,
        }
        return self.http.stream(
            "POST", self.url + method, content=body, timeout=10, headers=all_headers
        )

    def call(self, method, body, content_type=TEXT, **headers):
        """Make a call, wait for its end, and return the messages and the trailers."""
        with self.open(method, body, content_type, **headers) as response:
            assert response.status_code == 200
            all_frames = frames(response.iter_bytes(), is_text=content_type.startswith(TEXT))
            *message_frames, (trailer_flags, trailer) = all_frames
        assert trailer_flags == TRAILER_FLAG
        messages = []
        for flags, data in message_frames:
            assert flags == 0
            messages.append(data)
        trailers = dict(line.split(": ", 1) for line in trailer.decode().splitlines())
        return messages, trailers


def frame(message):
    """Return a message as a gRPC-web frame: flags (one byte), length (four bytes), message."""
    data = message.SerializeToString()
    return b"\0" + len(data).to_bytes(4, "big") + data


def frames(pieces, *, is_text):
    """Yield (flags, data) of each frame. ``pieces`` are the parts of the body as they arrive."""
    data = b""
    for piece in decode_base64(pieces) if is_text else pieces:
        data += piece
        while len(data) >= 5:
            end = 5 + int.from_bytes(data[1:5], "big")
            if len(data) < end:
                break
            yield data[0], data[5:end]
            data = data[end:]
    assert data == b""


def decode_base64(pieces):
    """Yield the bytes of base64 text. Padding may occur after any four characters."""
    text = b""
    for piece in pieces:
        text += piece
        while len(text) >= 4:
            yield base64.b64decode(text[:4], validate=True)
            text = text[4:]
    assert text == b""
