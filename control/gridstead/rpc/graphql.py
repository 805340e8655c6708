# SPDX-License-Identifier: Apache-2.0
"""The Job Definition service's HTTPS server: GraphQL for customers, from the schema text beside this file.

A rule that a workflow breaks is status 200 with ``errors``, as clients take any other status for a broken connection;
a request that is not GraphQL, or does not fit the schema, is 422.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

import uvicorn
from ariadne import MutationType, QueryType, graphql_sync, make_executable_schema
from graphql import (
    DocumentNode,
    FieldNode,
    GraphQLError,
    GraphQLSchema,
    NoSchemaIntrospectionCustomRule,
    ValidationRule,
    parse,
)
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from gridstead.errors import ConfigError, GridsteadError, InvalidWorkflow
from gridstead.rpc.tls import TlsFiles
from gridstead.workflow.json_schema import json_schema

MAX_BODY_BYTES = 512 * 1024  # a workflow of 256 KiB, escaped
MAX_QUERY_CHARS = 16 * 1024
MAX_QUERY_TOKENS = 1000
MAX_JSON_DEPTH = 32
START_S = 10.0
_STEP_S = 0.01

_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)

# Errors of callers may quote their workflow, so they go nowhere: this logger hangs in no tree.
_SILENT = logging.Logger("silent", level=logging.CRITICAL + 1)  # noqa: LOG001

Submit = Callable[[Mapping[str, object]], str]


class GraphqlServer:
    """The server.

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        tls: Its identity.
        submit: Stores a workflow and returns its id.
        introspection: Whether the schema may be asked for.
    """

    def __init__(self, *, host: str, port: int, tls: TlsFiles, submit: Submit, introspection: bool = False) -> None:
        for path in (tls.certificate, tls.key):
            if not path.is_file():
                raise ConfigError(f"could not read {path}", detail="there is no such file")
        config = uvicorn.Config(
            make_app(submit, introspection=introspection),
            host=host, port=port, ssl_certfile=str(tls.certificate), ssl_keyfile=str(tls.key),
            log_config=None, access_log=False, lifespan="off", ws="none", timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._address = f"{host}:{port}"
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="graphql", daemon=True)

    def start(self) -> int:
        """Begin to answer and return the port.

        Raises:
            ConfigError: If the address cannot be listened on.
        """
        self._thread.start()
        deadline = time.monotonic() + START_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise ConfigError(f"could not listen on {self._address}")
            time.sleep(_STEP_S)
        port: int = self._server.servers[0].sockets[0].getsockname()[1]
        return port

    def stop(self) -> None:
        """Answer no more."""
        self._server.should_exit = True
        self._thread.join()

    def _run(self) -> None:
        try:
            self._server.run()
        except SystemExit:
            return  # uvicorn's way to say that it could not start; start() sees that it is gone


def make_app(submit: Submit, *, introspection: bool) -> Starlette:
    """Return the application: ``/graphql``, ``/workflow.schema.json`` for editors, and ``/health``."""
    schema = make_schema(submit)

    async def graphql(request: Request) -> Response:
        body = await _body(request)
        if body is None:
            return _failed(413, f"the request is larger than {MAX_BODY_BYTES // 1024} KiB")
        if not _is_shallow(body):
            return _failed(400, f"the request is nested deeper than {MAX_JSON_DEPTH} levels")
        try:
            data = json.loads(body)
        except ValueError:
            return _failed(400, "the request is not JSON")
        if not isinstance(data, dict):
            return _failed(400, "the request is not a JSON object")
        status, answer = await run_in_threadpool(_execute, schema, data, introspection=introspection)
        return JSONResponse(answer, status_code=status)

    async def workflow_schema(_request: Request) -> Response:
        return JSONResponse(json_schema(), media_type="application/schema+json")

    async def health(_request: Request) -> Response:
        return PlainTextResponse("ok")

    cors = Middleware(
        CORSMiddleware,
        allow_origin_regex=r"https?://.*",
        allow_methods=["POST"],
        allow_headers=["Accept", "Content-Type"],
    )
    routes = [
        Route("/graphql", graphql, methods=["POST"]),
        Route("/workflow.schema.json", workflow_schema, methods=["GET"]),
        Route("/health", health, methods=["GET"]),
    ]
    return Starlette(routes=routes, middleware=[cors])


def make_schema(submit: Submit) -> GraphQLSchema:
    """Return the schema with its resolvers."""
    query, mutation = QueryType(), MutationType()

    @query.field("job")
    def job(_root: object, _info: object, **_arguments: object) -> str:
        raise GraphQLError("a script is for the provider that holds its job", extensions={"type": "forbidden"})

    @mutation.field("submit")
    def resolve_submit(_root: object, _info: object, job: Mapping[str, object]) -> str:
        return submit(job)

    text = resources.files(__package__).joinpath("job_definitions.graphql").read_text(encoding="utf-8")
    return make_executable_schema(text, query, mutation)


def _is_shallow(body: bytes) -> bool:
    """Return whether JSON is nested within bounds, without recursion.

    A library of the chain's raises Python's recursion limit so far that deep JSON ends the process.
    """
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(body):
        first = token[0][:1]
        depth += first in b"[{"
        depth -= first in b"]}"
        if depth > MAX_JSON_DEPTH:
            return False
    return True


async def _body(request: Request) -> bytes | None:
    """Return the request's body, None if it is too large; never more than that is read."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            return None
    return body


def _execute(schema: GraphQLSchema, data: dict[str, Any], *, introspection: bool) -> tuple[int, dict[str, Any]]:
    rules: list[type[ValidationRule]] = [_OneSubmit]
    if not introspection:
        rules.append(NoSchemaIntrospectionCustomRule)
    known = {name: data[name] for name in ("query", "variables", "operationName") if data.get(name) is not None}
    _, answer = graphql_sync(
        schema,
        known,
        introspection=True,  # the rule above decides, with a message of GraphQL's own
        query_parser=_parse,
        validation_rules=rules,
        error_formatter=_format,
        logger=_SILENT,
    )
    errors = answer.get("errors", ())
    return (200 if all("path" in error for error in errors) else 422), answer  # an error in a field has a path


def _parse(_context: object, data: Mapping[str, Any]) -> DocumentNode:
    text = data["query"]
    if len(text) > MAX_QUERY_CHARS:
        raise GraphQLError(f"the query is longer than {MAX_QUERY_CHARS} characters")
    try:
        return parse(text, max_tokens=MAX_QUERY_TOKENS)
    except RecursionError as err:
        raise GraphQLError("the query is nested too deeply") from err


def _format(error: GraphQLError, _debug: object) -> dict[str, Any]:
    """Return one error as the wire has it; what is not an error of the caller is not described."""
    original = error.original_error
    if isinstance(original, InvalidWorkflow):
        problems = [
            {"path": problem.path, "reason": problem.reason, "hint": problem.hint} for problem in original.problems
        ]
        return _wire(error, str(original), {"type": "validation", "code": original.code, "problems": problems})
    if isinstance(original, GridsteadError):
        return _wire(error, original.message, {"type": "internal", "code": original.code})
    if original is not None and not isinstance(original, GraphQLError):
        logging.getLogger(__name__).error("internal error", exc_info=original)
        return _wire(error, "internal error", {"type": "internal"})
    return _wire(error, error.message, {"type": "validation", **(error.extensions or {})})


def _wire(error: GraphQLError, message: str, extensions: dict[str, Any]) -> dict[str, Any]:
    return {"message": message, **({"path": error.path} if error.path else {}), "extensions": extensions}


def _failed(status: int, message: str) -> Response:
    return JSONResponse({"errors": [{"message": message}]}, status_code=status)


class _OneSubmit(ValidationRule):
    """One request submits at most one workflow, so that a small request is never much work."""

    _submits = 0

    def enter_field(self, node: FieldNode, *_arguments: object) -> None:
        self._submits += node.name.value == "submit"
        if self._submits > 1:
            self.report_error(GraphQLError("a request submits at most one workflow", [node]))
