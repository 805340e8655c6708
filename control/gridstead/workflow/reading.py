# SPDX-License-Identifier: Apache-2.0
"""Reads a mapping of the language from a document, and checks the rules of single fields.

A misplaced field is a field of another mapping of the language. It has no effect and is only a
warning, because published workflows have misplaced fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gridstead.errors import InvalidWorkflow, WorkflowProblem
from gridstead.workflow.document import MAX_DEPTH, Document, Path, format_path
from gridstead.workflow.messages import is_misplaced, misplaced_field, problems_of

MAX_PROBLEMS = 100

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult(Generic[M]):
    """A mapping that breaks no rule of single fields.

    Attributes:
        model: The mapping.
        warnings: Misplaced fields, which have no effect, in the order of the file.
    """

    model: M
    warnings: tuple[WorkflowProblem, ...]


def read(
    value: object, prefix: Path, document: Document, model: type[M], *, strict: bool
) -> ReadResult[M]:
    """Return the mapping that a value of a document describes.

    Args:
        value: The mapping as plain values.
        prefix: The path of the value in the document.
        document: The document.
        model: The type of the mapping.
        strict: Whether a misplaced field is an error.

    Raises:
        InvalidWorkflow: If the mapping breaks a rule. The error contains every broken rule with its
            line.
    """
    value = _without_null_fields(value, prefix)
    mapping, details = _validate(value, model)
    misplaced_paths: list[Path] = []
    warnings: list[WorkflowProblem] = []
    for detail in filter(is_misplaced, details):
        misplaced_paths.append(detail["loc"])
        warnings.append(misplaced_field((*prefix, *detail["loc"]), prefix, document))
    # Misplaced fields are only warnings, so the mapping is validated again without them.
    if misplaced_paths:
        mapping, details = _validate(_without_paths(value, misplaced_paths), model)
    problems = [*document.problems, *problems_of(details, prefix, document, model)]
    if strict:
        problems += warnings
    if mapping is None or problems:
        raise workflow_error(problems)
    warnings.sort(key=_line)
    return ReadResult(model=mapping, warnings=tuple(warnings))


def workflow_error(problems: Iterable[WorkflowProblem]) -> InvalidWorkflow:
    """Return an error that contains the problems in the order of the file.

    After ``MAX_PROBLEMS`` problems, the error contains only the number of the remaining problems.
    """
    ordered_problems = sorted(problems, key=_line)
    reported_problems = ordered_problems[:MAX_PROBLEMS]
    omitted_count = len(ordered_problems) - MAX_PROBLEMS
    if omitted_count > 0:
        reason = f"breaks {omitted_count} more rules"
        reported_problems.append(WorkflowProblem(path="", reason=reason))
    return InvalidWorkflow(*reported_problems)


def _line(problem: WorkflowProblem) -> int:
    return problem.line or 0


def _validate(value: object, model: type[M]) -> tuple[M | None, list[ErrorDetails]]:
    try:
        return model.model_validate(value), []
    except ValidationError as err:
        return None, err.errors(include_url=False)


def _without_null_fields(value: object, path: Path) -> object:
    """Return the value without fields that are null.

    A null field counts as absent, in YAML and on the wire.

    Raises:
        InvalidWorkflow: If the value is nested too deep.
    """
    if len(path) > MAX_DEPTH:
        raise InvalidWorkflow(
            WorkflowProblem(
                path=format_path(path), reason=f"is nested deeper than {MAX_DEPTH} levels"
            )
        )
    if isinstance(value, dict):
        present_fields = {key: item for key, item in value.items() if item is not None}
        return {
            key: _without_null_fields(item, (*path, key)) for key, item in present_fields.items()
        }
    if isinstance(value, list | tuple):
        return [_without_null_fields(item, (*path, number)) for number, item in enumerate(value)]
    return value


def _without_paths(value: object, paths: Iterable[Path]) -> object:
    """Return a copy of the value without the items at these paths."""
    removed_paths = set(paths)

    def copy(value: object, path: Path) -> object:
        if isinstance(value, dict):
            keys = [key for key in value if (*path, key) not in removed_paths]
            return {key: copy(value[key], (*path, key)) for key in keys}
        if isinstance(value, list):
            return [copy(item, (*path, number)) for number, item in enumerate(value)]
        return value

    return copy(value, ())
