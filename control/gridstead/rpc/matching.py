# SPDX-License-Identifier: Apache-2.0
"""The HTTPS server of the meta-scheduler's queue view.

``/`` returns the matched and running jobs, for DeepSquare's clients. ``/pending`` returns the
pending jobs with the reasons why they wait. Both paths return a JSON object whose keys are job
numbers: 0x and 64 hexadecimal digits.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gridstead.domain.jobs.ids import JobId
from gridstead.errors import ConfigError
from gridstead.rpc.tls import TlsFiles

QueueView = Callable[[], Mapping[JobId, str]]
SOCKET_TIMEOUT_S = 10


class QueueViewServer:
    """Serves the two paths of the queue view.

    Args:
        address: ``host:port``.
        tls: The server's certificate.
        matched_and_running: Returns the matched and running jobs.
        pending: Returns the pending jobs with the reasons why they wait.
    """

    def __init__(
        self, address: str, tls: TlsFiles, *, matched_and_running: QueueView, pending: QueueView
    ) -> None:
        host, _, port = address.rpartition(":")
        views = {"/": matched_and_running, "/pending": pending}

        class QueueHandler(_Handler):
            def view(self, path: str) -> QueueView | None:
                return views.get(path)

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(tls.certificate, tls.key)
            self._server = ThreadingHTTPServer((host, int(port)), QueueHandler)
        except OSError as error:
            raise ConfigError(
                f"could not serve the queue view on {address}", detail=str(error)
            ) from error
        # The TLS handshake is made in the thread of the connection, so that a slow client does not
        # block other clients.
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="queue-view", daemon=True
        )

    def start(self) -> int:
        """Start the server and return the port."""
        self._thread.start()
        return int(self._server.server_address[1])

    def stop(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    timeout = SOCKET_TIMEOUT_S

    def view(self, path: str) -> QueueView | None:
        """Return the view of a path. Returns None for an unknown path. Subclasses override it."""
        raise AssertionError(path)

    def do_GET(self) -> None:  # http.server's name
        """Answer a GET request."""
        view = self.view(self.path)
        if view is None:
            self.send_error(404)
            return
        texts_by_job = {}
        for job_id, text in view().items():
            texts_by_job[job_id.slurm_job_name] = text
        body = json.dumps(texts_by_job).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Access-Control-Allow-Origin", "*")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Do not log requests."""
