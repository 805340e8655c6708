# SPDX-License-Identifier: Apache-2.0
"""The HTTPS server of the meta-scheduler's queue view.

``/`` returns the matched and running jobs, for DeepSquare's clients. ``/pending`` returns the
pending jobs with the reasons why they wait. Both paths return a JSON object whose keys are job
numbers: 0x and 64 hexadecimal digits. ``/pending/<job number>`` returns why one of these jobs
waits, with figures (``explanation.py``). ``/excluded`` returns the providers that are excluded from
all jobs, with the reasons, as a JSON object whose keys are addresses. ``/keys`` returns the
reserved keys that the matcher understands in the conditions of a job, as a JSON object with a list
of operators for each key. ``/decisions/N`` returns some records of the decision log from number N
on, as a JSON list. ``/metrics`` returns OpenMetrics text. Web pages of any origin may read all
paths except ``/metrics``.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gridstead.domain.jobs.ids import JobId, parse_slurm_job_name
from gridstead.domain.matching.decision_log import SignedRecord
from gridstead.domain.matching.reasons import Explanation
from gridstead.errors import ConfigError
from gridstead.rpc.explanation import explanation_as_json
from gridstead.rpc.metrics import CONTENT_TYPE
from gridstead.rpc.tls import TlsFiles

SOCKET_TIMEOUT_S = 10
JSON_TYPE = "application/json"
PENDING_PATH = "/pending/"
_DECISIONS_PATH = re.compile(r"/decisions/([0-9]{1,18})")
JobView = Callable[[], Mapping[JobId, str]]
Page = tuple[str, Callable[[], str]]  # the content type, and a function that returns the body


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """The functions that return the content of the queue view. Each may run in any thread.

    Attributes:
        matched_and_running: Returns the matched and running jobs.
        pending: Returns the pending jobs with the reasons why they wait.
        explanation: Returns why the pending job with a number waits. None if there is no such job.
        excluded: Returns the excluded providers with the reasons, by address.
        metrics: Returns OpenMetrics text.
        keys: The reserved keys that the matcher understands, each with its operators.
        decisions: Returns records of the decision log from a number on.
    """

    matched_and_running: JobView
    pending: JobView
    explanation: Callable[[int], Explanation | None]
    excluded: Callable[[], Mapping[str, str]]
    metrics: Callable[[], str]
    keys: Mapping[str, Sequence[str]]
    decisions: Callable[[int], Iterable[SignedRecord]] = lambda _: ()


class QueueViewServer:
    """Serves the paths of the queue view.

    Args:
        address: ``host:port``.
        tls: The server's certificate.
        views: Return the content.
    """

    def __init__(self, address: str, tls: TlsFiles, views: Views) -> None:
        host, _, port = address.rpartition(":")
        pages: dict[str, Page] = {
            "/": (JSON_TYPE, lambda: _jobs_as_json(views.matched_and_running())),
            "/pending": (JSON_TYPE, lambda: _jobs_as_json(views.pending())),
            "/excluded": (JSON_TYPE, lambda: json.dumps(dict(views.excluded()))),
            "/keys": (JSON_TYPE, lambda: json.dumps(dict(views.keys))),
            "/metrics": (CONTENT_TYPE, views.metrics),
        }

        class QueueHandler(_PageHandler):
            def find_page(self, path: str) -> Page | None:
                return (
                    pages.get(path)
                    or _explanation_page(path, views)
                    or _decisions_page(path, views)
                )

        tls_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            tls_context.load_cert_chain(tls.certificate, tls.key)
            self._server = ThreadingHTTPServer((host, int(port)), QueueHandler)
        except OSError as error:
            raise ConfigError(
                f"could not serve the queue view on {address}", detail=str(error)
            ) from error
        # The TLS handshake is made in the thread of the connection, so that a slow client does not
        # block other clients.
        self._server.socket = tls_context.wrap_socket(
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


class _PageHandler(BaseHTTPRequestHandler):
    timeout = SOCKET_TIMEOUT_S

    def find_page(self, path: str) -> Page | None:
        """Return the page of a path. Returns None for an unknown path. Subclasses override it."""
        raise AssertionError(path)

    def do_GET(self) -> None:  # http.server's name
        """Answer a GET request."""
        page = self.find_page(self.path)
        if page is None:
            self.send_error(404)
            return
        content_type, read_text = page
        body = read_text().encode()
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if content_type == JSON_TYPE:
            self.send_header("Access-Control-Allow-Origin", "*")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Do not log requests."""


def _explanation_page(path: str, views: Views) -> Page | None:
    """Return the page of a pending job. Returns None if the path does not name one."""
    if not path.startswith(PENDING_PATH):
        return None
    number = parse_slurm_job_name(path.removeprefix(PENDING_PATH))
    explanation = None if number is None else views.explanation(number)
    if explanation is None:
        return None
    return JSON_TYPE, lambda: json.dumps(explanation_as_json(explanation))


def _decisions_page(path: str, views: Views) -> Page | None:
    """Return the page of the decision log for ``/decisions/N``. Returns None for other paths."""
    match = _DECISIONS_PATH.fullmatch(path)
    if match is None:
        return None
    first = int(match[1])
    return JSON_TYPE, lambda: json.dumps(list(map(asdict, views.decisions(first))))


def _jobs_as_json(texts_by_job: Mapping[JobId, str]) -> str:
    texts_by_name = {}
    for job_id, text in texts_by_job.items():
        texts_by_name[job_id.slurm_job_name] = text
    return json.dumps(texts_by_name)
