# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a workflow, in the user's words: the place, what was found, what is allowed."""

from __future__ import annotations

import difflib

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from gridstead.errors import Problem
from gridstead.workflow.document import Document, Path, format_path, shorten
from gridstead.workflow.field_paths import fields_of, homes, is_secret, model_at
from gridstead.workflow.schema import Workflow

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


# The names that the reference gives to rules, for programs that read them; what it does not check
# has our own.
_RULES = {
    "missing": "required",
    "greater_than_equal": "gte",
    "less_than_equal": "lte",
    "too_long": "max",
    "string_too_long": "max",
    "too_short": "min",
    "string_too_short": "min",
    "literal_error": "oneof",
    "extra_forbidden": "known",
    **dict.fromkeys(_WANTED, "type"),
}
# Reasons that say what is allowed, and not what was found.
_SAYS_NOT_WHAT = ("value_error", "literal_error", "string_unicode")


def problems_of(
    details: list[ErrorDetails], prefix: Path, document: Document, root: type[BaseModel] = Workflow
) -> list[Problem]:
    """Return what pydantic found in a mapping, at the places of a document."""
    return [_problem(detail, prefix, document, root) for detail in _without_echoes(details)]


def beside_job(key: str, document: Document) -> Problem:
    """Return that a key stands beside ``job``."""
    return _unknown((key,), (key,), document, "stands beside job")


def is_misplaced(detail: ErrorDetails) -> bool:
    """Return whether a field is one of the language that stands where it does nothing."""
    loc = detail["loc"]
    return detail["type"] == "extra_forbidden" and bool(homes(str(loc[-1])))


def misplaced(path: Path, prefix: Path, document: Document) -> Problem:
    """Return that a field stands where it does nothing, and where it belongs in the mapping that is
    at the prefix.
    """
    places = (".".join((*map(str, prefix), home)) for home in homes(str(path[-1])))
    return Problem(
        path=format_path(path),
        reason="stands in a wrong place, where it does nothing",
        hint=f"Its place is {' or '.join(places)}.",
        line=document.line(path),
    )


def _without_echoes(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """A list of nothing but wrong items is also told to be too short; the items say it better."""
    places = {detail["loc"][:length] for detail in details for length in range(len(detail["loc"]))}
    return [
        detail for detail in details if detail["type"] != "too_short" or detail["loc"] not in places
    ]


def _problem(
    detail: ErrorDetails, prefix: Path, document: Document, root: type[BaseModel]
) -> Problem:
    path = (*prefix, *detail["loc"])
    if detail["type"] == "extra_forbidden":
        return _unknown(detail["loc"], path, document, "is not a known field", root)
    reason, hint = _reason(detail)
    if detail["type"] in _SAYS_NOT_WHAT and not is_secret(detail["loc"], root):
        reason += _found(detail["input"])
    rule = _RULES.get(detail["type"], "valid")
    return Problem(
        path=format_path(path), reason=reason, hint=hint, line=document.line(path), rule=rule
    )


def _reason(detail: ErrorDetails) -> tuple[str, str | None]:
    kind, found, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "missing":
        return "is required", None
    if kind in _WANTED:
        quote = kind == "string_type" and isinstance(found, bool | int | float)
        shown = f"{_KINDS.get(type(found), 'something else')}"
        return (
            f"{_WANTED[kind]}, not {shown}",
            "Put it in quotes to make it text." if quote else None,
        )
    if kind in ("greater_than_equal", "less_than_equal"):
        word, bound = ("least", context["ge"]) if "ge" in context else ("most", context["le"])
        return f"must be at {word} {bound}, not {shorten(str(found))}", None
    if kind in ("string_too_long", "too_long"):
        unit = "characters" if isinstance(found, str) else "entries"
        return f"has more than {context['max_length']} {unit}: {len(found)}", None
    if kind in ("string_too_short", "too_short"):
        return "must not be empty", None
    if kind == "string_unicode":
        return "holds a character that no program can be given", None
    if kind == "literal_error":
        return f"must be {context['expected']}", None
    if kind == "value_error":
        return str(context["error"]), None
    return detail["msg"], None


def _found(value: object) -> str:
    """Return what to say of a text or a number that was found; nothing of what holds others."""
    if isinstance(value, str):
        return f"; it is '{shorten(value)}'"
    return f"; it is {value}" if isinstance(value, int) else ""


def _unknown(
    loc: Path, path: Path, document: Document, reason: str, root: type[BaseModel] = Workflow
) -> Problem:
    line = document.line(path)
    model = model_at(loc[:-1], root)
    names = fields_of(model) if model else ()
    near = difflib.get_close_matches(str(loc[-1])[:64], names, n=1)
    hint = (
        f"Did you mean {near[0]}?"
        if near
        else f"Known fields here: {', '.join(names)}."
        if names
        else None
    )
    return Problem(
        path=format_path(path), reason=reason, hint=hint, line=line, rule=_RULES["extra_forbidden"]
    )
