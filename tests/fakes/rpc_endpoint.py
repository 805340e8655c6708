# SPDX-License-Identifier: Apache-2.0
"""A JSON-RPC endpoint whose answers the test determines. It records the requests."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def batch_answer(requests, result="0x7"):
    """Return the body of an answer with this result for each request of a batch."""
    answers = [{"jsonrpc": "2.0", "id": request["id"], "result": result} for request in requests]
    return json.dumps(answers).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        """Do not print the error of a client that has left."""


class RpcEndpoint:
    """A server on a free port.

    Attributes:
        answer: Called with the requests of a batch. Returns the body of the answer, or None to
            close the connection without an answer.
        status: The HTTP status of the answers.
        headers: Additional headers of the answers.
        batches: The batches that were received.
        paths: The path of each request.
        credentials: The header ``Authorization`` of each request.
        url: The URL of the server.
    """

    def __init__(self, context=None):
        self.answer = batch_answer
        self.status = 200
        self.headers = {}
        self.batches, self.paths, self.credentials = [], [], []
        self._server = _Server(("127.0.0.1", 0), self._handler())
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        scheme = "https" if context else "http"
        self.address = f"127.0.0.1:{self._server.server_port}"
        self.url = f"{scheme}://{self.address}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self):
        """Stop the server."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(endpoint):  # noqa: N805 - the handler's methods have their own self
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                requests = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.batches.append(requests)
                endpoint.paths.append(self.path)
                endpoint.credentials.append(self.headers["Authorization"])
                body = endpoint.answer(requests)
                if body is None:
                    self.close_connection = True
                    return
                self.send_response(endpoint.status)
                for name, value in endpoint.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                """Do not log the request."""

        return Handler
