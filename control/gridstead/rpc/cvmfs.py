# SPDX-License-Identifier: Apache-2.0
"""Serves replicas to CVMFS clients, over HTTP: files that never change, and few that do.

Rule 1: only names of a closed list or of a strict form are looked up, so no path leads out of a
replica. Rule 2: no listing, no Last-Modified, no ETag: an object's name is its content. Rule 3: an
object may be cached for days, what changes for a minute, what is not there not at all.
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

from gridstead.domain.cvmfs.objects import parse_path
from gridstead.rpc.condition import condition_routes
from gridstead.rpc.peer_limit import Network, PeerLimit

SIGNED_FILES = frozenset(
    {
        ".cvmfspublished",
        ".cvmfswhitelist",
        ".cvmfs_status.json",
        ".cvmfs_last_snapshot",
        ".cvmfs_is_snapshotting",
    }
)
FOR_DAYS = {"Cache-Control": "max-age=259200"}
FOR_A_MINUTE = {"Cache-Control": "max-age=61"}
NOT_AT_ALL = {"Cache-Control": "no-store"}
CONTENT_TYPE = "application/x-cvmfs"
PIECE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOffer:
    """What the server does.

    Attributes:
        storage: Folder of all replicas.
        names: Of the repositories.
        check: Raises an error of ours while nothing can be served.
        metrics: Returns OpenMetrics text.
        metrics_for: Networks that may read it.
        requests: How often a caller may have the check made.
    """

    storage: Path
    names: Collection[str]
    check: Callable[[], None]
    metrics: Callable[[], str]
    metrics_for: tuple[Network, ...]
    requests: PeerLimit


def make_app(offer: ReplicaOffer) -> Starlette:
    """Return the application: ``/cvmfs/<repository>/…``, ``/cvmfs/info/v1/repositories.json``, and
    its condition.
    """
    names = frozenset(offer.names)

    def file(request: Request) -> Response:
        name, path = request.path_params["name"], request.path_params["path"]
        exact = (
            request.scope["path"] == f"/cvmfs/{name}/{path}"
        )  # a route takes a line end after its path, too
        if not exact or name not in names or not (path in SIGNED_FILES or parse_path(path)):
            return _not_found()
        return _file(
            offer.storage / name / path, FOR_A_MINUTE if path in SIGNED_FILES else FOR_DAYS
        )

    def repositories(_request: Request) -> Response:
        replicas = [{"name": name, "url": f"/cvmfs/{name}"} for name in sorted(names)]
        told = {"schema": 1, "repositories": [], "replicas": replicas}
        return JSONResponse(told, headers=FOR_A_MINUTE)

    routes = [
        Route("/cvmfs/info/v1/repositories.json", repositories, methods=["GET"]),
        Route("/cvmfs/{name}/{path:path}", file, methods=["GET"]),
        *condition_routes(offer.check, offer.metrics, offer.metrics_for, offer.requests),
    ]
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False
    return app


def _file(path: Path, headers: dict[str, str]) -> Response:
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
    return PlainTextResponse("not here", status_code=404, headers=NOT_AT_ALL)
