# SPDX-License-Identifier: Apache-2.0
"""The GraphQL schema of the Job Definition service: its resolvers and the format of errors.

The text of the schema is in job_definitions.graphql. If a workflow breaks rules, the status is 200
and ``errors`` has an error for each rule, because clients treat any other status as a broken
connection. If a request is not GraphQL or does not conform to the schema, the status is 422.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import resources
from traceback import extract_tb
from typing import Any

from ariadne import MutationType, QueryType, graphql_sync, make_executable_schema
from graphql import (
    ASTValidationRule,
    DocumentNode,
    FieldNode,
    GraphQLError,
    GraphQLResolveInfo,
    GraphQLSchema,
    NoSchemaIntrospectionCustomRule,
    ValidationRule,
    parse,
)
from graphql import validate as validate_document
from graphql.utilities.type_info import TypeInfo

from gridstead.errors import (
    GridsteadError,
    InvalidInput,
    InvalidWorkflow,
    LimitExceeded,
    WorkflowProblem,
)

MAX_QUERY_CHARS = 16 * 1024
MAX_QUERY_TOKENS = 1000
MAX_CACHED_DOCUMENTS = 64
MAX_CACHED_QUERY_CHARS = 1024
# _format_error adds this key to the extensions of an error, and _split_by_rule removes the key.
_PROBLEMS_KEY = "problems"

# Errors may quote the caller's workflow and must not be logged. This logger drops all errors.
_SILENT = logging.Logger("silent", level=logging.CRITICAL + 1)  # noqa: LOG001

CountBytes = Callable[[int], None]
"""Counts bytes against the caller's limit. Raises LimitExceeded above the limit."""

Submit = Callable[[Mapping[str, object], str, CountBytes], str]
"""Takes (workflow, address of the owner or empty, byte counter). Returns the script's id."""
Validate = Callable[[Mapping[str, object]], str]
"""Takes a module. Returns "valid", or the rules that the module breaks."""


def make_schema(submit: Submit, validate: Validate) -> GraphQLSchema:
    """Return the schema with its resolvers."""
    query, mutation = QueryType(), MutationType()

    @query.field("job")
    def job(_root: object, _info: object, **_arguments: object) -> str:
        raise GraphQLError(
            "only the provider of its job may read a script", extensions={"type": "forbidden"}
        )

    @mutation.field("submit")
    def resolve_submit(
        _root: object,
        info: GraphQLResolveInfo[CountBytes],
        job: Mapping[str, object],
        customer: str = "",
    ) -> str:
        return submit(job, customer, info.context)

    @mutation.field("validate")
    def resolve_validate(_root: object, _info: object, module: Mapping[str, object]) -> str:
        return validate(module)

    schema_file = resources.files(__package__).joinpath("job_definitions.graphql")
    text = schema_file.read_text(encoding="utf-8")
    return make_executable_schema(text, query, mutation)


class GraphqlExecutor:
    """Answers GraphQL requests. Safe to call from many threads.

    Valid queries are cached, because clients send the same few queries with their workflows as
    variables. A query with string literals is never cached, because a literal may be a part of a
    workflow.

    Args:
        schema: The schema with its resolvers.
        introspection: Whether clients may query the schema.
    """

    def __init__(self, schema: GraphQLSchema, *, introspection: bool) -> None:
        self._schema = schema
        self._rules: list[type[ASTValidationRule]] = [_SingleWorkflow]
        if not introspection:
            self._rules.append(NoSchemaIntrospectionCustomRule)
        self._valid_documents: OrderedDict[str, DocumentNode] = OrderedDict()
        self._lock = threading.Lock()

    def answer(
        self, graphql_request: Mapping[str, Any], count_bytes: CountBytes
    ) -> tuple[int, dict[str, Any]]:
        """Return the HTTP status and the response for a request.

        Args:
            graphql_request: The request as parsed JSON.
            count_bytes: Counts stored bytes against the caller's limit.
        """
        names = ("query", "variables", "operationName")
        known_fields = {
            name: graphql_request[name] for name in names if graphql_request.get(name) is not None
        }
        _, answer = graphql_sync(
            self._schema,
            known_fields,
            context_value=count_bytes,
            introspection=True,  # a validation rule refuses introspection that is not allowed
            query_parser=self._load_document,
            query_validator=self._validate,
            validation_rules=self._rules,
            error_formatter=_format_error,
            logger=_SILENT,
        )
        errors: list[dict[str, Any]] = []
        for error in answer.get("errors", ()):
            errors += _split_by_rule(error)
        if errors:
            answer["errors"] = errors
        is_executed = all("path" in error for error in errors)  # an error in a field has a path
        status = 200 if is_executed else 422
        return status, answer

    def _load_document(self, _context: object, graphql_request: Mapping[str, Any]) -> DocumentNode:
        with self._lock:
            cached_document = self._valid_documents.get(graphql_request["query"])
        return cached_document or _parse_query(graphql_request["query"])

    def _validate(
        self,
        schema: GraphQLSchema,
        document_ast: DocumentNode,
        rules: Collection[type[ASTValidationRule]] | None = None,
        max_errors: int | None = None,
        type_info: TypeInfo | None = None,  # noqa: ARG002 # the library passes it by name
    ) -> list[GraphQLError]:
        document = document_ast
        query = document.loc.source.body if document.loc else ""
        with self._lock:
            if self._valid_documents.get(query) is document:
                self._valid_documents.move_to_end(query)
                return []
        errors = validate_document(schema, document, rules=rules, max_errors=max_errors)
        has_string_literals = '"' in query
        if not errors and len(query) <= MAX_CACHED_QUERY_CHARS and not has_string_literals:
            with self._lock:
                self._valid_documents[query] = document
                if len(self._valid_documents) > MAX_CACHED_DOCUMENTS:
                    self._valid_documents.popitem(last=False)
        return errors


def _parse_query(text: str) -> DocumentNode:
    if len(text) > MAX_QUERY_CHARS:
        raise GraphQLError(f"the query is longer than {MAX_QUERY_CHARS} characters")
    try:
        return parse(text, max_tokens=MAX_QUERY_TOKENS)
    except RecursionError as err:
        raise GraphQLError("the query is nested too deeply") from err


def _format_error(error: GraphQLError, _debug: object) -> dict[str, Any]:
    """Return an error in the wire format. Errors that the caller did not cause have no details."""
    cause = error.original_error
    if isinstance(cause, InvalidWorkflow):
        return _wire_error(
            error,
            str(cause),
            {"type": "validation", "code": cause.code, _PROBLEMS_KEY: cause.problems},
        )
    if isinstance(cause, InvalidInput):
        return _wire_error(error, str(cause), {"type": "validation", "code": cause.code})
    if isinstance(cause, LimitExceeded):
        return _wire_error(
            error, f"{cause}. {cause.hint}", {"type": "internal", "code": cause.code}
        )
    if isinstance(cause, GridsteadError):
        return _wire_error(error, cause.message, {"type": "internal", "code": cause.code})
    if cause is not None and not isinstance(cause, GraphQLError):
        # The message may quote the workflow, so only the traceback is logged.
        frames = reversed(extract_tb(cause.__traceback__))
        trace = " < ".join(f"{frame.filename}:{frame.lineno}" for frame in frames)
        logging.getLogger(__name__).error("internal error: %s at %s", type(cause).__name__, trace)
        return _wire_error(error, "internal error", {"type": "internal"})
    return _wire_error(error, error.message, {"type": "validation", **(error.extensions or {})})


def _split_by_rule(error: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield one error for each broken rule. If there is none, yield the error itself."""
    problems: tuple[WorkflowProblem, ...] = error["extensions"].pop(_PROBLEMS_KEY, ())
    if not problems:
        yield error
    for problem in problems:
        extensions = error["extensions"] | {
            "tag": problem.rule,
            "namespace": problem.path,
            "field": problem.path.rpartition(".")[2],
            "original_message": problem.reason,
        }
        if problem.hint:
            extensions["hint"] = problem.hint
        yield error | {"message": str(problem), "extensions": extensions}


def _wire_error(error: GraphQLError, message: str, extensions: dict[str, Any]) -> dict[str, Any]:
    wire_error: dict[str, Any] = {"message": message}
    if error.path:
        wire_error["path"] = error.path
    wire_error["extensions"] = extensions
    return wire_error


class _SingleWorkflow(ValidationRule):
    """Limits a request to one workflow or module, because each takes much work."""

    _call_count = 0

    def enter_field(self, node: FieldNode, *_arguments: object) -> None:
        if node.name.value in {"submit", "validate"}:
            self._call_count += 1
        if self._call_count > 1:
            self.report_error(
                GraphQLError("a request submits or validates at most one workflow", [node])
            )
