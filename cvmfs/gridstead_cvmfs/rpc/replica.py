# SPDX-License-Identifier: Apache-2.0
"""Serves replicas to CVMFS clients over HTTP.

Rule 1: a path must be in a fixed list or match a strict pattern, so that no path leaves a replica.
Rule 2: there are no directory listings. Answers have no Last-Modified and no ETag, because the name
of an object identifies its content.
Rule 3: caches may keep objects for days and changing files for a minute, and may not keep errors.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from gridstead.rpc.rate_limit import Network, RateLimiter
from gridstead.rpc.status import status_routes
from gridstead_cvmfs.domain.objects import parse_path

CHANGING_FILES = frozenset(
    {
        ".cvmfspublished",
        ".cvmfswhitelist",
        ".cvmfs_status.json",
        ".cvmfs_last_snapshot",
        ".cvmfs_is_snapshotting",
    }
)
CACHE_FOR_DAYS = {"Cache-Control": "max-age=259200"}
CACHE_FOR_A_MINUTE = {"Cache-Control": "max-age=61"}
DO_NOT_CACHE = {"Cache-Control": "no-store"}
CONTENT_TYPE = "application/x-cvmfs"
PIECE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaServerOptions:
    """What the server serves.

    Attributes:
        storage: The folder of all replicas.
        names: The names of the repositories.
        check_ready: Raises a GridsteadError while nothing can be served.
        metrics: Returns OpenMetrics text.
        metrics_networks: The networks that may read the metrics.
        request_limiter: The limit on health checks per caller.
    """

    storage: Path
    names: Collection[str]
    check_ready: Callable[[], None]
    metrics: Callable[[], str]
    metrics_networks: tuple[Network, ...]
    request_limiter: RateLimiter


def make_app(options: ReplicaServerOptions) -> Starlette:
    """Return the application.

    It serves ``/cvmfs/<repository>/…``, ``/cvmfs/info/v1/repositories.json``, and the health and
    metrics routes.
    """
    names = frozenset(options.names)

    def serve_file(request: Request) -> Response:
        name, path = request.path_params["name"], request.path_params["path"]
        # The route ignores a newline at the end of a path, so compare the whole path.
        is_exact = request.scope["path"] == f"/cvmfs/{name}/{path}"
        is_changing = path in CHANGING_FILES
        if not is_exact or name not in names or not (is_changing or parse_path(path)):
            return _not_found()
        headers = CACHE_FOR_A_MINUTE if is_changing else CACHE_FOR_DAYS
        return _file_response(options.storage / name / path, headers)

    def list_repositories(_request: Request) -> Response:
        replicas = [{"name": name, "url": f"/cvmfs/{name}"} for name in sorted(names)]
        content = {"schema": 1, "repositories": [], "replicas": replicas}
        return JSONResponse(content, headers=CACHE_FOR_A_MINUTE)

    routes = [
        Route("/cvmfs/info/v1/repositories.json", list_repositories, methods=["GET"]),
        Route("/cvmfs/{name}/{path:path}", serve_file, methods=["GET"]),
        *status_routes(
            options.check_ready, options.metrics, options.metrics_networks, options.request_limiter
        ),
    ]
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False
    return app


def _file_response(path: Path, headers: dict[str, str]) -> Response:
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")
    except OSError:
        return _not_found()
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        file.close()
        return _not_found()
    if status.st_size <= PIECE_BYTES:
        with file:
            return Response(file.read(), headers=headers, media_type=CONTENT_TYPE)
    length = {"Content-Length": str(status.st_size)}
    closing = BackgroundTask(file.close)
    return StreamingResponse(
        _pieces(file), headers=headers | length, media_type=CONTENT_TYPE, background=closing
    )


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def _not_found() -> Response:
    return PlainTextResponse("not found", status_code=404, headers=DO_NOT_CACHE)
