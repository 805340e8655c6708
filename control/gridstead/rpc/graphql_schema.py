# SPDX-License-Identifier: Apache-2.0
"""GraphQL of the Job Definition service: the schema text beside this file, its resolvers, and how
errors are told.

Rules that a workflow breaks are status 200 with ``errors``, one for each, as clients take any other
status for a broken connection; a request that is not GraphQL, or does not fit the schema, is 422.
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

from gridstead.errors import GridsteadError, InvalidInput, InvalidWorkflow, Problem, TooMuch

MAX_QUERY_CHARS = 16 * 1024
MAX_QUERY_TOKENS = 1000
MAX_KEPT = 64
MAX_KEPT_CHARS = 1024
_RULES = "problems"  # between formatting an error and answering

# Errors of callers may quote their workflow, so they go nowhere: this logger hangs in no tree.
_SILENT = logging.Logger("silent", level=logging.CRITICAL + 1)  # noqa: LOG001

Charge = Callable[[int], None]
"""Counts so many bytes for the caller, or raises TooMuch."""


Submit = Callable[[Mapping[str, object], str, Charge], str]
"""(workflow, address of the customer whose jobs alone it is for, or nothing, the caller) to the id of its script."""
Validate = Callable[[Mapping[str, object]], str]
"""A module to "valid", or to which rules it breaks."""


def make_schema(submit: Submit, validate: Validate) -> GraphQLSchema:
    """Return the schema with its resolvers."""
    query, mutation = QueryType(), MutationType()

    @query.field("job")
    def job(_root: object, _info: object, **_arguments: object) -> str:
        raise GraphQLError(
            "a script is for the provider that holds its job", extensions={"type": "forbidden"}
        )

    @mutation.field("submit")
    def resolve_submit(
        _root: object,
        info: GraphQLResolveInfo[Charge],
        job: Mapping[str, object],
        customer: str = "",
    ) -> str:
        return submit(job, customer, info.context)

    @mutation.field("validate")
    def resolve_validate(_root: object, _info: object, module: Mapping[str, object]) -> str:
        return validate(module)

    text = (
        resources.files(__package__).joinpath("job_definitions.graphql").read_text(encoding="utf-8")
    )
    return make_executable_schema(text, query, mutation)


class Requests:
    """Answers GraphQL requests; safe to call from many threads.

    Clients send the same few texts over and over, with their workflows as variables. A text that
    was good is not looked at again; one with strings in it is never kept, as these may be anything
    of a workflow.

    Args:
        schema: With its resolvers.
        introspection: Whether the schema may be asked for.
    """

    def __init__(self, schema: GraphQLSchema, *, introspection: bool) -> None:
        self._schema = schema
        self._rules = (
            [_OneWorkflow] if introspection else [_OneWorkflow, NoSchemaIntrospectionCustomRule]
        )
        self._good: OrderedDict[str, DocumentNode] = OrderedDict()
        self._lock = threading.Lock()

    def answer(self, data: Mapping[str, Any], charge: Charge) -> tuple[int, dict[str, Any]]:
        """Return status and answer of a request, given as JSON has it, of a caller."""
        known = {
            name: data[name]
            for name in ("query", "variables", "operationName")
            if data.get(name) is not None
        }
        _, answer = graphql_sync(
            self._schema,
            known,
            context_value=charge,
            introspection=True,  # the rule above decides, with a message of GraphQL's own
            query_parser=self._parse,
            query_validator=self._validate,
            validation_rules=self._rules,
            error_formatter=_format,
            logger=_SILENT,
        )
        errors = answer.get("errors", ())
        if errors:
            errors = answer["errors"] = [one for error in errors for one in _rule_by_rule(error)]
        return (
            200 if all("path" in error for error in errors) else 422
        ), answer  # an error in a field has a path

    def _parse(self, _context: object, data: Mapping[str, Any]) -> DocumentNode:
        with self._lock:
            good = self._good.get(data["query"])
        return good or _parse(data["query"])

    def _validate(
        self,
        schema: GraphQLSchema,
        document_ast: DocumentNode,
        rules: Collection[type[ASTValidationRule]] | None = None,
        max_errors: int | None = None,
        type_info: TypeInfo | None = None,  # noqa: ARG002 # the name is the caller's
    ) -> list[GraphQLError]:
        document = document_ast
        body = document.loc.source.body if document.loc else ""
        with self._lock:
            if self._good.get(body) is document:
                self._good.move_to_end(body)
                return []
        errors = validate_document(schema, document, rules=rules, max_errors=max_errors)
        if not errors and len(body) <= MAX_KEPT_CHARS and '"' not in body:
            with self._lock:
                self._good[body] = document
                if len(self._good) > MAX_KEPT:
                    self._good.popitem(last=False)
        return errors


def _parse(text: str) -> DocumentNode:
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
        return _wire(
            error,
            str(original),
            {"type": "validation", "code": original.code, _RULES: original.problems},
        )
    if isinstance(original, InvalidInput):
        return _wire(error, str(original), {"type": "validation", "code": original.code})
    if isinstance(original, TooMuch):
        return _wire(
            error, f"{original}. {original.hint}", {"type": "internal", "code": original.code}
        )
    if isinstance(original, GridsteadError):
        return _wire(error, original.message, {"type": "internal", "code": original.code})
    if original is not None and not isinstance(original, GraphQLError):
        # Its message may quote the workflow.
        places = " < ".join(
            f"{one.filename}:{one.lineno}" for one in reversed(extract_tb(original.__traceback__))
        )
        logging.getLogger(__name__).error(
            "internal error: %s at %s", type(original).__name__, places
        )
        return _wire(error, "internal error", {"type": "internal"})
    return _wire(error, error.message, {"type": "validation", **(error.extensions or {})})


def _rule_by_rule(error: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield an error, or one for each broken rule that it tells of, which is the wire's way."""
    problems: tuple[Problem, ...] = error["extensions"].pop(_RULES, ())
    if not problems:
        yield error
    for problem in problems:
        about = {
            "tag": problem.rule,
            "namespace": problem.path,
            "field": problem.path.rpartition(".")[2],
        }
        about["original_message"] = problem.reason
        if problem.hint:
            about["hint"] = problem.hint
        yield error | {"message": str(problem), "extensions": error["extensions"] | about}


def _wire(error: GraphQLError, message: str, extensions: dict[str, Any]) -> dict[str, Any]:
    return {
        "message": message,
        **({"path": error.path} if error.path else {}),
        "extensions": extensions,
    }


class _OneWorkflow(ValidationRule):
    """One request brings at most one workflow or module, so that a small request is never much
    work.
    """

    _brought = 0

    def enter_field(self, node: FieldNode, *_arguments: object) -> None:
        self._brought += node.name.value in {"submit", "validate"}
        if self._brought > 1:
            self.report_error(
                GraphQLError("a request submits or validates at most one workflow", [node])
            )
