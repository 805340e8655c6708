# SPDX-License-Identifier: Apache-2.0
"""A document as one of the language's mappings, with every rule that it breaks by itself.

A field of the language in a place where it does nothing is a warning: published workflows have
such, and run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gridstead.errors import InvalidWorkflow, Problem
from gridstead.workflow.document import MAX_DEPTH, Document, Path, format_path
from gridstead.workflow.messages import is_misplaced, misplaced, problems_of

MAX_PROBLEMS = 100

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadWorkflow(Generic[M]):
    """A mapping that breaks no rule by itself.

    Attributes:
        model: What it says.
        warnings: Fields that stand where they do nothing, in the order of the file.
    """

    model: M
    warnings: tuple[Problem, ...]


def read(
    value: object, prefix: Path, document: Document, model: type[M], *, strict: bool
) -> ReadWorkflow[M]:
    """Return what a value of a document says.

    Args:
        value: The mapping.
        prefix: Its place in the document.
        document: What it stands in.
        model: What it should be.
        strict: Whether a field in the wrong place is an error.

    Raises:
        InvalidWorkflow: If it breaks a rule; with every broken rule and its line.
    """
    value = _without_nothing(value, prefix)
    found, details = _validated(value, model)
    places = [detail["loc"] for detail in details if is_misplaced(detail)]
    warnings = [misplaced((*prefix, *place), prefix, document) for place in places]
    if places:
        found, details = _validated(_without(value, places), model)
    problems = [
        *document.problems, *(warnings if strict else ()), *problems_of(details, prefix, document, model)
    ]  # fmt: skip
    if found is None or problems:
        raise invalid(problems)
    return ReadWorkflow(
        model=found, warnings=tuple(sorted(warnings, key=lambda warning: warning.line or 0))
    )


def invalid(problems: Iterable[Problem]) -> InvalidWorkflow:
    """Return problems, at least one, as an error: in the order of the file, and not very many."""
    ordered = sorted(problems, key=lambda problem: problem.line or 0)
    shown, more = ordered[:MAX_PROBLEMS], len(ordered) - MAX_PROBLEMS
    if more > 0:
        shown.append(Problem(path="", reason=f"breaks {more} more rules"))
    return InvalidWorkflow(*shown)


def _validated(value: object, model: type[M]) -> tuple[M | None, list[ErrorDetails]]:
    try:
        return model.model_validate(value), []
    except ValidationError as err:
        return None, err.errors(include_url=False)


def _without_nothing(value: object, path: Path) -> object:
    """A field with no value is a field that is not there, in YAML as on the wire. What is too deep
    is an error.
    """
    if len(path) > MAX_DEPTH:
        raise InvalidWorkflow(
            Problem(path=format_path(path), reason=f"is nested deeper than {MAX_DEPTH} levels")
        )
    if isinstance(value, dict):
        return {
            key: _without_nothing(item, (*path, key))
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list | tuple):
        return [_without_nothing(item, (*path, number)) for number, item in enumerate(value)]
    return value


def _without(value: object, places: Iterable[Path]) -> object:
    """Return the value without what stands at these places."""
    gone = set(places)

    def kept(value: object, path: Path) -> object:
        if isinstance(value, dict):
            return {
                key: kept(item, (*path, key))
                for key, item in value.items()
                if (*path, key) not in gone
            }
        if isinstance(value, list):
            return [kept(item, (*path, number)) for number, item in enumerate(value)]
        return value

    return kept(value, ())
