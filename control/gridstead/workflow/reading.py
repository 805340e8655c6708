# SPDX-License-Identifier: Apache-2.0
"""Reads a mapping of the language from a document, and checks the rules of single mappings.

A key that is not a field of its mapping has no effect. In a file it is only a warning, because
published workflows have such keys: see ``ignored_keys.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gridstead.errors import InvalidWorkflow, WorkflowProblem
from gridstead.workflow.document import Document
from gridstead.workflow.drafts import Draft, make_draft
from gridstead.workflow.field_types import convert
from gridstead.workflow.ignored_keys import ignored_key, is_extension
from gridstead.workflow.messages import problems_of, without_repeated
from gridstead.workflow.paths import Path, check_depth

MAX_PROBLEMS = 100

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult(Generic[M]):
    """A mapping, and what is wrong in it.

    Attributes:
        model: The mapping. None if it has problems.
        draft: The mapping, in which fields with problems have other values.
        problems: The broken rules of single mappings.
        warnings: What has no effect, and numbers with a leading zero.
    """

    model: M | None
    draft: Draft
    problems: tuple[WorkflowProblem, ...]
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
        strict: Whether a key that is not a field of its mapping is an error.

    Raises:
        InvalidWorkflow: If the value is nested too deep.
    """
    value, number_warnings = convert(value, prefix, model, document)
    value = _without_null_fields(value, prefix)
    mapping, details = _validate(value, model)
    ignored = {
        detail["loc"]: ignored_key(detail["loc"], prefix, document, model)
        for detail in details
        if detail["type"] == "extra_forbidden"
    }
    # Pydantic does not check the rules over several fields of a mapping that has an unknown key.
    if ignored:
        value = _without_paths(value, ignored)
        mapping, details = _validate(value, model)
    draft = Draft(model=mapping)
    # Rules over several fields are not worth the time if the list of problems is full without them.
    if mapping is None and len(details) <= MAX_PROBLEMS:
        draft = make_draft(value, model, details)
    details = [*details, *draft.details]
    problems = [*document.problems, *problems_of(details, prefix, document, model)]
    warnings = [*document.warnings, *number_warnings]
    for path, problem in ignored.items():
        is_error = strict and not (document.is_file and is_extension(path))
        if is_error:
            problems.append(problem)
        else:
            warnings.append(problem)
    return ReadResult(
        model=None if problems else mapping,
        draft=draft,
        problems=tuple(problems),
        warnings=tuple(warnings),
    )


def read_valid(
    value: object, prefix: Path, document: Document, model: type[M], *, strict: bool
) -> M:
    """Return the mapping that a value of a document describes. The arguments are those of ``read``.

    Raises:
        InvalidWorkflow: If the mapping breaks a rule. The error contains every broken rule with its
            line.
    """
    result = read(value, prefix, document, model, strict=strict)
    if result.model is None:
        raise workflow_error(result.problems, result.warnings)
    return result.model


def in_order(problems: Iterable[WorkflowProblem]) -> tuple[WorkflowProblem, ...]:
    """Return the problems in the order of the file."""
    return tuple(sorted(problems, key=lambda problem: problem.line or 0))


def workflow_error(
    problems: Iterable[WorkflowProblem], warnings: Iterable[WorkflowProblem] = ()
) -> InvalidWorkflow:
    """Return an error that contains the problems and warnings in the order of the file.

    After ``MAX_PROBLEMS`` problems, the error contains only the number of the remaining problems.
    """
    ordered_problems = in_order(problems)
    reported_problems = list(ordered_problems[:MAX_PROBLEMS])
    omitted_count = len(ordered_problems) - MAX_PROBLEMS
    if omitted_count > 0:
        reason = f"breaks {omitted_count} more rules"
        reported_problems.append(WorkflowProblem(path="", reason=reason))
    return InvalidWorkflow(*reported_problems, warnings=in_order(warnings)[:MAX_PROBLEMS])


def _validate(value: object, model: type[M]) -> tuple[M | None, list[ErrorDetails]]:
    try:
        return model.model_validate(value), []
    except ValidationError as err:
        return None, without_repeated(err.errors(include_url=False))


def _without_null_fields(value: object, path: Path) -> object:
    """Return the value without fields that are null.

    A null field counts as absent, in YAML and on the wire.

    Raises:
        InvalidWorkflow: If the value is nested too deep.
    """
    check_depth(path)
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
