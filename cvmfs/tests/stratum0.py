# SPDX-License-Identifier: Apache-2.0
"""A web server for the folder of a publisher: the Stratum 0 of the tests.

A test can set faults. A fault is a function that answers a request instead of the server.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Fault = Callable[["Handler", bytes], None]


class Stratum0:
    """Serves a folder under ``/cvmfs/<name>``.

    Attributes:
        requests: How often each path was requested.
        faults: Faults by the path for which they answer.
        fault_for_all: The fault for all other paths; None for normal answers.
        released: An event that is set when the server stops. The event ends answers that hang.
    """

    def __init__(self, root: Path, name: str, host: str = "127.0.0.1") -> None:
        self.root, self.name = root, name
        self.requests: Counter[str] = Counter()
        self.faults: dict[str, Fault] = {}
        self.fault_for_all: Fault | None = None
        self.released = threading.Event()
        stratum0 = self

        # http.server creates one handler for each connection. All handlers read the class attribute
        # ``stratum0`` to find this object.
        class BoundHandler(Handler):
            stratum0: Stratum0

        BoundHandler.stratum0 = stratum0
        self._server = _Server((host, 0), BoundHandler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()
        self.url = f"http://{host}:{self._server.server_address[1]}/cvmfs/{name}"

    def pop_fetched_paths(self) -> set[str]:
        """Return the paths of the requested objects, and set the counts of all paths to 0."""
        paths = {path for path in self.requests if path.startswith("data/")}
        self.requests.clear()
        return paths

    def close(self) -> None:
        """Stop the server."""
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_arguments: object) -> None:
        """Print nothing, because tests let clients disconnect."""


class Handler(BaseHTTPRequestHandler):
    """Handles one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    stratum0: Any

    def do_GET(self) -> None:
        """Answer a GET request."""
        path = self.path.removeprefix(f"/cvmfs/{self.stratum0.name}/")
        self.stratum0.requests[path] += 1
        file = self.stratum0.root / path
        fault = self.stratum0.faults.get(path, self.stratum0.fault_for_all)
        if fault is not None:
            content = file.read_bytes() if file.is_file() else b""
            fault(self, content)
        elif file.is_file():
            self.answer(file.read_bytes())
        else:
            self.answer(b"no", status=404)

    def answer(self, content: bytes, *, status: int = 200, length: int | None = None) -> None:
        """Send a response. ``length`` replaces the true length of the content."""
        if length is None:
            length = len(content)
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""


def answer_altered(handler: Handler, content: bytes) -> None:
    """Send the content with one flipped bit in its first byte."""
    handler.answer(bytes([content[0] ^ 1]) + content[1:])


def answer_truncated(handler: Handler, content: bytes) -> None:
    """Send half of the content with the length of the full content."""
    handler.close_connection = True
    handler.answer(content[: len(content) // 2], length=len(content))


def answer_shortened(handler: Handler, content: bytes) -> None:
    """Send half of the content with the length of this half."""
    handler.answer(content[: len(content) // 2])


def hang(handler: Handler, _content: bytes) -> None:
    """Send nothing until the server stops, or for 60 s."""
    handler.stratum0.released.wait(60)
    handler.close_connection = True


def disconnect(handler: Handler, _content: bytes) -> None:
    """Close the connection without an answer."""
    handler.close_connection = True


def answer_endlessly(handler: Handler, _content: bytes) -> None:
    """Send data until the client disconnects."""
    handler.close_connection = True
    handler.send_response(200)
    handler.end_headers()
    try:
        while not handler.stratum0.released.is_set():
            handler.wfile.write(b"x" * 65536)
    except OSError:
        return


def refuse_with(status: int, *, times: int = 1_000_000) -> Fault:
    """Return a fault that answers the first ``times`` requests with an error status."""
    remaining = times

    def answer(handler: Handler, content: bytes) -> None:
        nonlocal remaining
        remaining -= 1
        if remaining >= 0:
            handler.answer(b"no", status=status)
        else:
            handler.answer(content)

    return answer
