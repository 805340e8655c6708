# SPDX-License-Identifier: Apache-2.0
"""The Job Definition service's HTTPS server: GraphQL for customers, and how the service is for its
operator.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gridstead.errors import TooMuch
from gridstead.rpc.condition import caller_of, condition_routes
from gridstead.rpc.graphql_schema import Requests, Submit, Validate, make_schema
from gridstead.rpc.peer_limit import Network, PeerLimit
from gridstead.rpc.tls import TlsFiles
from gridstead.rpc.web import WebServer
from gridstead.workflow.json_schema import json_schema

MAX_BODY_BYTES = 512 * 1024  # a workflow of 256 KiB, escaped
MAX_JSON_DEPTH = 32
MAX_JSON_VALUES = 20_000  # each that is wrong takes 2 KiB while it is told
WORKERS = 16

_STRING_OR_SIGN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{},]', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What the server does.

    Attributes:
        submit: Stores a workflow, for the jobs of a customer or of whoever names it first, and
            returns its id.
        validate: Returns whether a module is valid, in words.
        check: Raises a Transient error while a peer of the service does not answer.
        metrics: Returns OpenMetrics text.
        metrics_for: Networks that may read it.
        requests: How many requests a caller has.
        request_bytes: How many bytes a caller may send, and have stored.
        introspection: Whether the schema may be asked for.
    """

    submit: Submit
    validate: Validate
    check: Callable[[], None]
    metrics: Callable[[], str]
    metrics_for: tuple[Network, ...]
    requests: PeerLimit
    request_bytes: PeerLimit
    introspection: bool = False


def graphql_server(*, host: str, port: int, tls: TlsFiles, offer: Offer) -> WebServer:
    """Return the server.

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        tls: Its identity.
        offer: What it does.
    """
    return WebServer(make_app(offer), name="graphql", host=host, port=port, tls=tls)


def make_app(offer: Offer) -> Starlette:
    """Return the application: ``/graphql``, ``/workflow.schema.json`` for editors, and what its
    operator asks.
    """
    requests = Requests(
        make_schema(offer.submit, offer.validate), introspection=offer.introspection
    )
    workers = ThreadPoolExecutor(
        WORKERS, thread_name_prefix="graphql"
    )  # of its own, so that the operator is answered

    async def graphql(request: Request) -> Response:
        caller = caller_of(request)
        try:
            offer.requests.take(caller)
            body = await _body(request)
            offer.request_bytes.take(caller, MAX_BODY_BYTES if body is None else len(body))
        except TooMuch as err:
            return _failed(429, f"{err}. {err.hint}", {"type": "internal", "code": err.code})
        if body is None:
            return _failed(413, f"the request is larger than {MAX_BODY_BYTES // 1024} KiB")
        if excess := _excess(body):
            return _failed(400, f"the request {excess}")
        try:
            data = json.loads(body)
        except ValueError:
            return _failed(400, "the request is not JSON")
        if not isinstance(data, dict):
            return _failed(400, "the request is not a JSON object")
        charge = partial(offer.request_bytes.take, caller)
        status, answer = await asyncio.get_running_loop().run_in_executor(
            workers, requests.answer, data, charge
        )
        return Response(
            json.dumps(answer), status_code=status, media_type="application/json"
        )  # all text, in ASCII

    async def workflow_schema(_request: Request) -> Response:
        return JSONResponse(json_schema(), media_type="application/schema+json")

    cors = Middleware(
        CORSMiddleware,
        allow_origin_regex=r"https?://.*",
        allow_methods=["POST"],
        allow_headers=["Accept", "Content-Type"],
    )
    routes = [
        Route("/graphql", graphql, methods=["POST"]),
        Route("/workflow.schema.json", workflow_schema, methods=["GET"]),
        *condition_routes(offer.check, offer.metrics, offer.metrics_for, offer.requests),
    ]
    return Starlette(routes=routes, middleware=[cors])


def _excess(body: bytes) -> str | None:
    """Return in which way JSON is too much, without reading it; None if it is not.

    A library of the chain's raises Python's recursion limit so far that deep JSON ends the process.
    """
    depth = values = 0
    for token in _STRING_OR_SIGN.finditer(body):
        first = token[0][:1]
        depth += first in b"[{"
        depth -= first in b"]}"
        values += first in b"[{,"
        if depth > MAX_JSON_DEPTH:
            return f"is nested deeper than {MAX_JSON_DEPTH} levels"
        if values > MAX_JSON_VALUES:
            return f"holds more than {MAX_JSON_VALUES} values"
    return None


async def _body(request: Request) -> bytes | None:
    """Return the request's body, None if it is too large; never more than that is read."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            return None
    return body


def _failed(status: int, message: str, extensions: dict[str, str] | None = None) -> Response:
    error = {"message": message} | ({"extensions": extensions} if extensions else {})
    return JSONResponse({"errors": [error]}, status_code=status)
