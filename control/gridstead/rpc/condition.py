# SPDX-License-Identifier: Apache-2.0
"""What a web server tells of itself: whether the process lives, whether it can work, and what it did."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gridstead.errors import GridsteadError
from gridstead.rpc.metrics import CONTENT_TYPE
from gridstead.rpc.peer_limit import PeerLimit, to_peer

Network = IPv4Network | IPv6Network


def condition_routes(
    check: Callable[[], None], metrics: Callable[[], str], metrics_for: Iterable[Network], requests: PeerLimit
) -> list[Route]:
    """Return the routes ``/health``, ``/ready`` and ``/metrics``.

    Args:
        check: Raises an error of ours while the service cannot work.
        metrics: Returns OpenMetrics text.
        metrics_for: Networks that may read it.
        requests: How often a caller may have the check made.
    """
    networks = tuple(metrics_for)

    async def health(_request: Request) -> Response:
        return PlainTextResponse("ok")

    def ready(request: Request) -> Response:
        try:
            requests.take(peer_of(request))
            check()
        except GridsteadError as err:
            return PlainTextResponse(err.message, status_code=503)
        return PlainTextResponse("ok")

    def told(request: Request) -> Response:
        if not _is_in(request.client.host if request.client else "", networks):
            return PlainTextResponse("not for this address", status_code=403)
        try:
            return Response(metrics(), media_type=CONTENT_TYPE)
        except GridsteadError as err:
            return PlainTextResponse(err.message, status_code=503)

    return [
        Route("/health", health, methods=["GET"]),
        Route("/ready", ready, methods=["GET"]),
        Route("/metrics", told, methods=["GET"]),
    ]


def peer_of(request: Request) -> str:
    """Return who sent a request."""
    return to_peer(request.client.host) if request.client else ""


def _is_in(host: str, networks: Iterable[Network]) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return any((mapped or address) in network for network in networks)
