# SPDX-License-Identifier: Apache-2.0
"""A workflow from a user's file or from the wire, with every broken rule in the user's words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from gridstead.errors import Problem
from gridstead.workflow.checks import broken_rules
from gridstead.workflow.document import Document, Path, format_path, load
from gridstead.workflow.field_paths import homes
from gridstead.workflow.messages import beside_job, misplaced
from gridstead.workflow.modules import TextOf, resolve
from gridstead.workflow.reading import invalid, read
from gridstead.workflow.schema import Step, Workflow
from gridstead.workflow.schema.run import HOST


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A workflow that breaks no rule.

    Attributes:
        workflow: What it says.
        warnings: Fields that stand where they do nothing, in the order of the file.
    """

    workflow: Workflow
    warnings: tuple[Problem, ...] = ()


def check_workflow(text: str, *, strict: bool = False, modules: TextOf | None = None) -> Checked:
    """Return the workflow that a YAML file holds, at its top level or under ``job:``.

    Args:
        text: The file.
        strict: Whether a field in the wrong place is an error.
        modules: What fetches modules. Without it they are not looked at.

    Raises:
        InvalidWorkflow: If it breaks a rule; with every broken rule and its line.
        ModuleUnavailable: A module could not be fetched now.
    """
    document = load(text)
    value: object = document.value
    prefix: Path = ()
    warnings: list[Problem] = []
    if isinstance(value, dict) and "job" in value:
        prefix = ("job",)
        beside = [key for key in value if key != "job"]
        warnings = [misplaced((key,), prefix, document) for key in beside if homes(key)]
        wrong = [beside_job(key, document) for key in beside if not homes(key)]
        document = replace(
            document, problems=(*document.problems, *wrong, *(warnings if strict else ()))
        )
        value = value["job"]
    checked = _check(value, prefix, document, strict=strict, modules=modules)
    return replace(
        checked,
        warnings=tuple(sorted((*warnings, *checked.warnings), key=lambda told: told.line or 0)),
    )


def parse_workflow(text: str) -> Workflow:
    """Return the workflow that a YAML file holds, whatever stands in the wrong place.

    Raises:
        InvalidWorkflow: If it breaks a rule; with every broken rule and its line.
    """
    return check_workflow(text).workflow


def from_graphql(mapping: Mapping[str, object], *, modules: TextOf | None = None) -> Workflow:
    """Return the workflow that came over the wire, with its modules if there is something to fetch
    them with.

    Raises:
        InvalidWorkflow: If it breaks a rule; with every broken rule.
        ModuleUnavailable: A module could not be fetched now.
    """
    return _check(
        dict(mapping), (), Document(value=None, lines={}), strict=True, modules=modules
    ).workflow


def _check(
    value: object, prefix: Path, document: Document, *, strict: bool, modules: TextOf | None = None
) -> Checked:
    found = read(value, prefix, document, Workflow, strict=strict)
    workflow, places = found.model, tuple(broken_rules(found.model))
    if modules and not places:
        workflow, places = resolve(workflow, modules)
    idle = () if document.value is None else tuple(_located(_idle(workflow), prefix, document))
    if places or (idle and strict):
        raise invalid([*_located(places, prefix, document), *(idle if strict else ())])
    return Checked(workflow=workflow, warnings=(*found.warnings, *idle))


def _idle(workflow: Workflow) -> Iterator[tuple[Path, str]]:
    """Yield the places of what does nothing where it stands. The wire takes it, as ever."""
    for path, step in _placed(workflow.steps, ("steps",)):
        run = step.run
        if run and run.network == HOST:
            for name, given in (
                ("dns", run.dns),
                ("customNetworkInterfaces", run.custom_network_interfaces),
            ):
                if given:
                    yield (*path, "run", name), "does nothing on the network of the host"


def _placed(steps: Iterable[Step], path: Path) -> Iterator[tuple[Path, Step]]:
    for number, step in enumerate(steps):
        place = (*path, number)
        yield place, step
        inner = {
            ("steps",): step.steps, ("catch",): step.catch, ("finally",): step.finally_,
            ("for", "steps"): step.for_.steps if step.for_ else (),
            ("launch", "steps"): step.launch.steps if step.launch else (),
        }  # fmt: skip
        for name, some in inner.items():
            yield from _placed(some, (*place, *name))


def _located(
    places: Iterable[tuple[Path, str]], prefix: Path, document: Document
) -> Iterable[Problem]:
    for place, reason in places:
        path = (*prefix, *place)
        yield Problem(path=format_path(path), reason=reason, line=document.line(path))
