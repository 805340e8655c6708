# SPDX-License-Identifier: Apache-2.0
"""Messages about broken rules: the path of a field, its value, and the allowed values."""

from __future__ import annotations

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from gridstead.errors import WorkflowProblem
from gridstead.workflow.document import Document
from gridstead.workflow.field_paths import is_secret
from gridstead.workflow.paths import Path, format_path, shorten
from gridstead.workflow.schema import Workflow
from gridstead.workflow.schema.base import RuleError

_TYPE_NAMES = {
    bool: "true or false",
    int: "a number",
    float: "a number with a fraction",
    str: "text",
    list: "a list",
    tuple: "a list",
    dict: "a mapping",
    type(None): "nothing",
}
_TYPE_REASONS = {
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "string_type": "must be text",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "dict_type": "must be a mapping",
}


# The name of the broken rule for each error type of pydantic. Programs read these names. The
# names are those of DeepSquare's implementation, except for rules that DeepSquare does not check.
_RULES = {
    "missing": "required",
    "greater_than_equal": "gte",
    "less_than_equal": "lte",
    "too_long": "max",
    "string_too_long": "max",
    "too_short": "min",
    "string_too_short": "min",
    "literal_error": "oneof",
    **dict.fromkeys(_TYPE_REASONS, "type"),
}
# The error types for which _problem() adds the value to the reason.
_TYPES_WITH_ADDED_VALUE = ("value_error", "literal_error", "string_unicode")


def problems_of(
    details: list[ErrorDetails], prefix: Path, document: Document, root: type[BaseModel] = Workflow
) -> list[WorkflowProblem]:
    """Return the problems for pydantic's errors in a mapping, with their paths and lines.

    Args:
        details: The errors.
        prefix: The path of the mapping in the document.
        document: The document.
        root: The model of the mapping.
    """
    return [_problem(detail, prefix, document, root) for detail in details]


def without_repeated(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """Return the errors except "the list is too short" for lists whose items have errors."""
    paths_with_inner_errors: set[Path] = set()
    for detail in details:
        loc = detail["loc"]
        # All paths that enclose the path of the error.
        paths_with_inner_errors.update(loc[:length] for length in range(len(loc)))

    def is_repeated(detail: ErrorDetails) -> bool:
        return detail["type"] == "too_short" and detail["loc"] in paths_with_inner_errors

    return [detail for detail in details if not is_repeated(detail)]


def _problem(
    detail: ErrorDetails, prefix: Path, document: Document, root: type[BaseModel]
) -> WorkflowProblem:
    path = (*prefix, *detail["loc"])
    reason, hint = _reason(detail)
    if detail["type"] in _TYPES_WITH_ADDED_VALUE and not is_secret(detail["loc"], root):
        reason += _value_text(detail["input"])
    rule = _RULES.get(detail["type"], "valid")
    line = document.line((*path, *_key_of_rule(detail)))
    return WorkflowProblem(path=format_path(path), reason=reason, hint=hint, line=line, rule=rule)


def _key_of_rule(detail: ErrorDetails) -> Path:
    """Return the path from a mapping to the field that a rule over several fields names."""
    error = detail.get("ctx", {}).get("error")
    return (error.key,) if isinstance(error, RuleError) else ()


def _reason(detail: ErrorDetails) -> tuple[str, str | None]:
    """Return the reason and the hint of the problem for an error."""
    error_type, value = detail["type"], detail["input"]
    if error_type in _TYPE_REASONS:
        is_unquoted = error_type == "string_type" and isinstance(value, bool | int | float)
        hint = "Put it in quotes to make it text." if is_unquoted else None
        type_name = _TYPE_NAMES.get(type(value), "something else")
        return f"{_TYPE_REASONS[error_type]}, not {type_name}", hint
    return _limit_reason(detail) or _other_reason(detail), None


def _limit_reason(detail: ErrorDetails) -> str | None:
    error_type, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if error_type == "greater_than_equal":
        return f"must be at least {context['ge']}, not {shorten(str(value))}"
    if error_type == "less_than_equal":
        return f"must be at most {context['le']}, not {shorten(str(value))}"
    if error_type in ("string_too_long", "too_long"):
        unit = "characters" if isinstance(value, str) else "entries"
        return f"has more than {context['max_length']} {unit}: {len(value)}"
    if error_type in ("string_too_short", "too_short"):
        return "must not be empty"
    return None


def _other_reason(detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    match detail["type"]:
        case "missing":
            return "is required"
        case "string_unicode":
            return "contains a character that cannot be passed to a program"
        case "literal_error":
            return f"must be {context['expected']}"
        case "value_error":
            return str(context["error"])
        case _:
            return detail["msg"]


def _value_text(value: object) -> str:
    """Return the part of a message that quotes a string or an integer. Empty for other values."""
    if isinstance(value, str):
        return f"; it is '{shorten(value)}'"
    return f"; it is {value}" if isinstance(value, int) else ""
