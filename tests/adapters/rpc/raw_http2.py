# SPDX-License-Identifier: Apache-2.0
"""An HTTP/2 client that sends single frames, for pings that no gRPC client would send."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time

DATA_FRAME, HEADERS_FRAME, SETTINGS_FRAME, PING_FRAME, GOAWAY_FRAME = 0, 1, 4, 6, 7
ACK = END_STREAM = 1  # the same bit: ACK in SETTINGS and PING, END_STREAM in DATA
END_HEADERS = 4
ENHANCE_YOUR_CALM = 11  # the error code of a GOAWAY frame to a client that pings too often
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_BYTES = 9
TIMEOUT_S = 10


class RawHttp2:
    """A connection to a gRPC server.

    Acknowledges the pings and the settings of the server.

    Attributes:
        acknowledged_pings: How many pings the server has acknowledged.
        goaway: The error code of the server's GOAWAY frame, None without such a frame.
        is_closed: Whether the server has closed the connection.
    """

    def __init__(self, port, ca, client_tls=None):
        context = ssl.create_default_context(cafile=ca)
        context.set_alpn_protocols(["h2"])
        if client_tls:
            context.load_cert_chain(client_tls.certificate, client_tls.key)
        connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self._socket = context.wrap_socket(connection, server_hostname="localhost")
        self._received = b""
        self.acknowledged_pings = 0
        self.goaway = None
        self.is_closed = False
        self._socket.sendall(PREFACE + _frame(SETTINGS_FRAME))

    def close(self):
        self._socket.close()

    def call(self, path, message=b""):
        """Start a call with one message. Its answers are dropped."""
        fields = {
            ":method": "POST",
            ":scheme": "https",
            ":path": path,
            ":authority": "localhost",
            "content-type": "application/grpc",
            "te": "trailers",
        }
        header_block = b"".join(_header_field(name, value) for name, value in fields.items())
        data = b"\0" + len(message).to_bytes(4) + message
        self._send(_frame(HEADERS_FRAME, header_block, flags=END_HEADERS, stream=1))
        self._send(_frame(DATA_FRAME, data, flags=END_STREAM, stream=1))

    def ping(self, count=1):
        """Send pings, all in one write."""
        self._send(_frame(PING_FRAME, b"8 bytes!") * count)

    def receive_for(self, duration_s):
        """Receive frames for some seconds, or until the server closes the connection."""
        deadline = time.monotonic() + duration_s
        while not self.is_closed and (remaining_s := deadline - time.monotonic()) > 0:
            self._receive(remaining_s)

    def receive_until(self, condition):
        """Receive frames until a condition is true."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline
            self._receive(1)

    def _receive(self, timeout_s):
        self._socket.settimeout(timeout_s)
        try:
            data = self._socket.recv(65536)
        except TimeoutError:
            return
        except OSError:  # the connection was reset
            data = b""
        self.is_closed = not data
        self._received += data
        self._handle_frames()

    def _handle_frames(self):
        while len(self._received) >= HEADER_BYTES:
            end = HEADER_BYTES + int.from_bytes(self._received[:3])
            if len(self._received) < end:
                return
            kind, flags = self._received[3:5]
            self._handle_frame(kind, flags, self._received[HEADER_BYTES:end])
            self._received = self._received[end:]

    def _handle_frame(self, kind, flags, payload):
        if kind == GOAWAY_FRAME:
            self.goaway = int.from_bytes(payload[4:8])
        elif kind == PING_FRAME and flags & ACK:
            self.acknowledged_pings += 1
        elif kind == PING_FRAME:
            self._send(_frame(PING_FRAME, payload, flags=ACK))
        elif kind == SETTINGS_FRAME and not flags & ACK:
            self._send(_frame(SETTINGS_FRAME, flags=ACK))

    def _send(self, data):
        self._socket.settimeout(TIMEOUT_S)
        with contextlib.suppress(OSError):  # if the server has closed the connection
            self._socket.sendall(data)


def _frame(kind, payload=b"", *, flags=0, stream=0):
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def _header_field(name, value):
    """Return a field in HPACK, as a literal with a new name, without compression."""
    texts = (name.encode(), value.encode())
    return b"\0" + b"".join(bytes([len(text)]) + text for text in texts)
