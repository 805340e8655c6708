# SPDX-License-Identifier: Apache-2.0
"""A workflow from a user's file or from the wire, with every broken rule in the user's words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gridstead.errors import InvalidWorkflow, Problem
from gridstead.workflow.checks import broken_rules
from gridstead.workflow.document import Document, Path, format_path, load, shorten
from gridstead.workflow.schema import LATER, Workflow, model_in

MAX_PROBLEMS = 100

_KINDS = {
    bool: "true or false", int: "a number", float: "a number with a fraction", str: "text", list: "a list",
    tuple: "a list", dict: "a mapping", type(None): "nothing",
}  # fmt: skip
_WANTED = {
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "string_type": "must be text",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "dict_type": "must be a mapping",
}


def parse_workflow(text: str) -> Workflow:
    """Return the workflow that a YAML file holds, at its top level or under ``job:``.

    Raises:
        InvalidWorkflow: If it breaks a rule; with every broken rule and its line.
    """
    document = load(text)
    value: object = document.value
    prefix: Path = ()
    if isinstance(value, dict) and "job" in value:
        beside = [_unknown((key,), Workflow, document, "stands beside job") for key in value if key != "job"]
        document = Document(value=value, lines=document.lines, problems=(*document.problems, *beside))
        value, prefix = value["job"], ("job",)
    return _check(value, prefix, document)


def from_graphql(mapping: Mapping[str, object]) -> Workflow:
    """Return the workflow that came over the wire.

    Raises:
        InvalidWorkflow: If it breaks a rule; with every broken rule.
    """
    return _check(dict(mapping), (), Document(value=None, lines={}))


def _check(value: object, prefix: Path, document: Document) -> Workflow:
    try:
        workflow = Workflow.model_validate(_without_nothing(value))
    except ValidationError as err:
        details = _without_echoes(err.errors(include_url=False))
        raise _invalid((*document.problems, *(_problem(detail, prefix, document) for detail in details))) from err
    problems = [*document.problems, *_broken(workflow, prefix, document)]
    if problems:
        raise _invalid(problems)
    return workflow


def _invalid(problems: Iterable[Problem]) -> InvalidWorkflow:
    ordered = sorted(problems, key=lambda problem: problem.line or 0)
    shown, more = ordered[:MAX_PROBLEMS], len(ordered) - MAX_PROBLEMS
    if more > 0:
        shown.append(Problem(path="", reason=f"breaks {more} more rules"))
    return InvalidWorkflow(*shown)


def _without_echoes(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """A list of nothing but wrong items is also told to be too short; the items say it better."""
    places = {detail["loc"][:length] for detail in details for length in range(len(detail["loc"]))}
    return [detail for detail in details if detail["type"] != "too_short" or detail["loc"] not in places]


def _without_nothing(value: object) -> object:
    """A field with no value is a field that is not there, in YAML as on the wire."""
    if isinstance(value, dict):
        return {key: _without_nothing(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_nothing(item) for item in value]
    return value


def _problem(detail: ErrorDetails, prefix: Path, document: Document) -> Problem:
    path = (*prefix, *detail["loc"])
    if detail["type"] == "extra_forbidden":
        return _unknown(path, _model_at(detail["loc"][:-1]), document, "is not a known field")
    reason, hint = _reason(detail)
    return Problem(path=format_path(path), reason=reason, hint=hint, line=document.line(path))


def _reason(detail: ErrorDetails) -> tuple[str, str | None]:
    kind, found, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "missing":
        return "is required", None
    if kind in _WANTED:
        quote = kind == "string_type" and isinstance(found, bool | int | float)
        shown = f"{_KINDS.get(type(found), 'something else')}"
        return f"{_WANTED[kind]}, not {shown}", "Put it in quotes to make it text." if quote else None
    if kind in ("greater_than_equal", "less_than_equal"):
        word, bound = ("least", context["ge"]) if "ge" in context else ("most", context["le"])
        return f"must be at {word} {bound}, not {shorten(str(found))}", None
    if kind in ("string_too_long", "too_long"):
        unit = "characters" if isinstance(found, str) else "entries"
        return f"has more than {context['max_length']} {unit}", None
    if kind in ("string_too_short", "too_short"):
        return "must not be empty", None
    if kind == "value_error":
        return str(context["error"]), None
    return detail["msg"], None


def _unknown(path: Path, model: type[BaseModel] | None, document: Document, reason: str) -> Problem:
    key = str(path[-1])
    line = document.line(path)
    if key in LATER:
        reason = f"is not supported by this grid yet: {LATER[key]} come later"
        return Problem(path=format_path(path), reason=reason, line=line)
    names = [field.alias or name for name, field in model.model_fields.items()] if model else []
    near = difflib.get_close_matches(key[:64], names, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Known fields here: {', '.join(names)}." if names else None
    return Problem(path=format_path(path), reason=reason, hint=hint, line=line)


def _model_at(loc: Path) -> type[BaseModel] | None:
    model: type[BaseModel] | None = Workflow
    for part in loc:
        if isinstance(part, int) or model is None:
            continue
        field = next((field for field in model.model_fields.values() if field.alias == part), None)
        model = model_in(field.annotation) if field else None
    return model


def _broken(workflow: Workflow, prefix: Path, document: Document) -> Iterable[Problem]:
    for place, reason in broken_rules(workflow):
        path = (*prefix, *place)
        yield Problem(path=format_path(path), reason=reason, line=document.line(path))
