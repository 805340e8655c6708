# SPDX-License-Identifier: Apache-2.0
"""The routes of a web server for monitoring: ``/health``, ``/ready`` and ``/metrics``."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gridstead.errors import GridsteadError
from gridstead.rpc.metrics import CONTENT_TYPE
from gridstead.rpc.rate_limit import FORWARDED_HEADER, Network, RateLimiter, RemoteCaller, is_in


def status_routes(
    check_ready: Callable[[], None],
    metrics: Callable[[], str],
    metrics_networks: Iterable[Network],
    request_limiter: RateLimiter,
) -> list[Route]:
    """Return the routes ``/health``, ``/ready`` and ``/metrics``.

    Args:
        check_ready: Raises a GridsteadError while the service is not ready.
        metrics: Returns OpenMetrics text.
        metrics_networks: Networks that may read the metrics.
        request_limiter: Rate limit of ``/ready``.
    """
    networks = tuple(metrics_networks)

    async def health(_request: Request) -> Response:
        return PlainTextResponse("ok")

    def ready(request: Request) -> Response:
        try:
            request_limiter.take(caller_of(request))
            check_ready()
        except GridsteadError as err:
            return PlainTextResponse(err.message, status_code=503)
        return PlainTextResponse("ok")

    def read_metrics(request: Request) -> Response:
        if not is_in(caller_of(request).host, networks):
            return PlainTextResponse("this address may not read the metrics", status_code=403)
        try:
            return Response(metrics(), media_type=CONTENT_TYPE)
        except GridsteadError as err:
            return PlainTextResponse(err.message, status_code=503)

    return [
        Route("/health", health, methods=["GET"]),
        Route("/ready", ready, methods=["GET"]),
        Route("/metrics", read_metrics, methods=["GET"]),
    ]


def caller_of(request: Request) -> RemoteCaller:
    """Return the caller of a request."""
    host = request.client.host if request.client else ""
    return RemoteCaller(host, tuple(request.headers.getlist(FORWARDED_HEADER)))
