# SPDX-License-Identifier: Apache-2.0
"""The Job Definition service's HTTPS server.

It serves GraphQL for customers, and health checks and metrics for the operator.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from gridstead.errors import LimitExceeded
from gridstead.rpc.definitions.graphql_schema import GraphqlExecutor, Submit, Validate, make_schema
from gridstead.rpc.origins import ANY_ORIGIN, allow_origins
from gridstead.rpc.rate_limit import Network, RateLimiter
from gridstead.rpc.status import caller_of, status_routes
from gridstead.rpc.tls import TlsFiles
from gridstead.rpc.web import WebServer
from gridstead.workflow.json_schema import json_schema

MAX_BODY_BYTES = 512 * 1024  # enough for a workflow of 256 KiB with JSON escapes
MAX_JSON_DEPTH = 32
MAX_JSON_VALUES = 20_000  # the error message for each wrong value takes 2 KiB of memory
WORKERS = 16

# Matches a JSON string with its quotes, a bracket, a brace or a comma. "*+" prevents backtracking.
_STRING_OR_PUNCTUATION = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{},]', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphqlService:
    """The functions and limits of the server.

    Attributes:
        submit: Stores a workflow and returns the id of its script.
        validate: Returns whether a module is valid, as text.
        check_ready: Raises a Transient error while the store or the chain does not answer.
        metrics: Returns OpenMetrics text.
        metrics_networks: Networks that may read the metrics.
        request_limiter: Limits the number of requests of each caller.
        byte_limiter: Limits the bytes that each caller sends and that are stored for it.
        origins: Origins of the web pages that may call, see ``gridstead.rpc.origins``.
        introspection: Whether clients may query the schema.
    """

    submit: Submit
    validate: Validate
    check_ready: Callable[[], None]
    metrics: Callable[[], str]
    metrics_networks: tuple[Network, ...]
    request_limiter: RateLimiter
    byte_limiter: RateLimiter
    origins: tuple[str, ...] = (ANY_ORIGIN,)
    introspection: bool = False


def graphql_server(*, host: str, port: int, tls: TlsFiles, service: GraphqlService) -> WebServer:
    """Return the server.

    Args:
        host: Address to listen on.
        port: Port to listen on. 0 selects a free port.
        tls: Certificate and key of the server.
        service: The functions and limits of the server.
    """
    return WebServer(make_app(service), name="graphql", host=host, port=port, tls=tls)


def make_app(service: GraphqlService) -> Starlette:
    """Return the application.

    It serves ``/graphql`` and ``/workflow.schema.json`` for programs and web pages, and the
    operator's routes for programs only.
    """
    cors = allow_origins(service.origins, headers=["Accept", "Content-Type"])
    public_routes = [
        Route("/graphql", _GraphqlEndpoint(service).answer, methods=["POST"]),
        Route("/workflow.schema.json", _workflow_schema, methods=["GET"]),
    ]
    routes = [
        *status_routes(
            service.check_ready, service.metrics, service.metrics_networks, service.request_limiter
        ),
        Mount("/", routes=public_routes, middleware=[cors]),
    ]
    return Starlette(routes=routes)


async def _workflow_schema(_request: Request) -> Response:
    return JSONResponse(json_schema(), media_type="application/schema+json")


class _GraphqlEndpoint:
    def __init__(self, service: GraphqlService) -> None:
        self._service = service
        schema = make_schema(service.submit, service.validate)
        self._executor = GraphqlExecutor(schema, introspection=service.introspection)
        # A separate pool, so that GraphQL requests cannot delay the operator's routes.
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="graphql")

    async def answer(self, request: Request) -> Response:
        service, caller = self._service, caller_of(request)
        try:
            service.request_limiter.take(caller)
            body = await _read_body(request)
            # A body that is too large counts as a body of the maximum size.
            size = MAX_BODY_BYTES if body is None else len(body)
            service.byte_limiter.take(caller, size)
        except LimitExceeded as err:
            extensions = {"type": "internal", "code": err.code}
            return _error_response(429, f"{err}. {err.hint}", extensions)
        if body is None:
            return _error_response(413, f"the request is larger than {MAX_BODY_BYTES // 1024} KiB")
        try:
            data = _parse(body)
        except ValueError as err:
            return _error_response(400, f"the request {err}")
        count_bytes = partial(service.byte_limiter.take, caller)
        loop = asyncio.get_running_loop()
        status, answer = await loop.run_in_executor(
            self._workers, self._executor.answer, data, count_bytes
        )
        return Response(json.dumps(answer), status_code=status, media_type="application/json")


def _parse(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a request.

    Raises:
        ValueError: With the reason, if the body is not a JSON object or exceeds a limit.
    """
    reason = _exceeded_limit(body)
    if reason:
        raise ValueError(reason)
    try:
        data = json.loads(body)
    except ValueError as err:
        raise ValueError("is not JSON") from err
    if not isinstance(data, dict):
        raise ValueError("is not a JSON object")  # noqa: TRY004 # one error for all bad bodies
    return data


def _exceeded_limit(body: bytes) -> str | None:
    """Return which limit a JSON text exceeds, or None.

    The limits are checked before the text is parsed. The parser can crash on deeply nested JSON,
    because a library for the chain raises Python's recursion limit.
    """
    depth = values = 0
    for token in _STRING_OR_PUNCTUATION.finditer(body):
        first = token[0][:1]
        if first in b"[{":
            depth += 1
        if first in b"]}":
            depth -= 1
        if first in b"[{,":
            values += 1
        if depth > MAX_JSON_DEPTH:
            return f"is nested deeper than {MAX_JSON_DEPTH} levels"
        if values > MAX_JSON_VALUES:
            return f"has more than {MAX_JSON_VALUES} values"
    return None


async def _read_body(request: Request) -> bytes | None:
    """Return the body of a request. If the body is too large, stop reading and return None."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            return None
    return body


def _error_response(
    status: int, message: str, extensions: dict[str, str] | None = None
) -> Response:
    error: dict[str, object] = {"message": message}
    if extensions:
        error["extensions"] = extensions
    return JSONResponse({"errors": [error]}, status_code=status)
