# SPDX-License-Identifier: Apache-2.0
"""A workflow from a user's file or from the wire, with every broken rule in the user's words.

A field of the language in a place where it does nothing is a warning: published workflows have such, and run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gridstead.errors import InvalidWorkflow, Problem
from gridstead.workflow.checks import broken_rules
from gridstead.workflow.document import Document, Path, format_path, load
from gridstead.workflow.messages import beside_job, is_misplaced, misplaced, problems_of
from gridstead.workflow.schema import Workflow

MAX_PROBLEMS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A workflow that breaks no rule.

    Attributes:
        workflow: What it says.
        warnings: Fields that stand where they do nothing, in the order of the file.
    """

    workflow: Workflow
    warnings: tuple[Problem, ...] = ()


def check_workflow(text: str, *, strict: bool = False) -> Checked:
    """Return the workflow that a YAML file holds, at its top level or under ``job:``.

    Args:
        text: The file.
        strict: Whether a field in the wrong place is an error.

    Raises:
        InvalidWorkflow: If it breaks a rule; with every broken rule and its line.
    """
    document = load(text)
    value: object = document.value
    prefix: Path = ()
    if isinstance(value, dict) and "job" in value:
        beside = [beside_job(key, document) for key in value if key != "job"]
        document = Document(value=value, lines=document.lines, problems=(*document.problems, *beside))
        value, prefix = value["job"], ("job",)
    return _check(value, prefix, document, strict=strict)


def parse_workflow(text: str) -> Workflow:
    """Return the workflow that a YAML file holds, whatever stands in the wrong place.

    Raises:
        InvalidWorkflow: If it breaks a rule; with every broken rule and its line.
    """
    return check_workflow(text).workflow


def from_graphql(mapping: Mapping[str, object]) -> Workflow:
    """Return the workflow that came over the wire.

    Raises:
        InvalidWorkflow: If it breaks a rule; with every broken rule.
    """
    return _check(dict(mapping), (), Document(value=None, lines={}), strict=True).workflow


def _check(value: object, prefix: Path, document: Document, *, strict: bool) -> Checked:
    value = _without_nothing(value)
    workflow, details = _validated(value)
    places = [detail["loc"] for detail in details if is_misplaced(detail)]
    warnings = [misplaced(place, prefix, document) for place in places]
    if places:
        workflow, details = _validated(_without(value, places))
    found = [*document.problems, *(warnings if strict else ()), *problems_of(details, prefix, document)]
    if workflow is None or found:
        raise _invalid(found)
    broken = list(_broken(workflow, prefix, document))
    if broken:
        raise _invalid(broken)
    return Checked(workflow=workflow, warnings=tuple(sorted(warnings, key=lambda warning: warning.line or 0)))


def _validated(value: object) -> tuple[Workflow | None, list[ErrorDetails]]:
    try:
        return Workflow.model_validate(value), []
    except ValidationError as err:
        return None, err.errors(include_url=False)


def _invalid(problems: Iterable[Problem]) -> InvalidWorkflow:
    ordered = sorted(problems, key=lambda problem: problem.line or 0)
    shown, more = ordered[:MAX_PROBLEMS], len(ordered) - MAX_PROBLEMS
    if more > 0:
        shown.append(Problem(path="", reason=f"breaks {more} more rules"))
    return InvalidWorkflow(*shown)


def _without_nothing(value: object) -> object:
    """A field with no value is a field that is not there, in YAML as on the wire."""
    if isinstance(value, dict):
        return {key: _without_nothing(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_nothing(item) for item in value]
    return value


def _without(value: object, places: Iterable[Path]) -> object:
    """Return the value without what stands at these places."""
    gone = set(places)

    def kept(value: object, path: Path) -> object:
        if isinstance(value, dict):
            return {key: kept(item, (*path, key)) for key, item in value.items() if (*path, key) not in gone}
        if isinstance(value, list):
            return [kept(item, (*path, number)) for number, item in enumerate(value)]
        return value

    return kept(value, ())


def _broken(workflow: Workflow, prefix: Path, document: Document) -> Iterable[Problem]:
    for place, reason in broken_rules(workflow):
        path = (*prefix, *place)
        yield Problem(path=format_path(path), reason=reason, line=document.line(path))
