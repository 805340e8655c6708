# SPDX-License-Identifier: Apache-2.0
"""Parses a workflow from a file or from the wire, and reports every broken rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from gridstead.errors import WorkflowProblem
from gridstead.workflow.checks import broken_rules
from gridstead.workflow.document import Document, load
from gridstead.workflow.drafts import Draft
from gridstead.workflow.ignored_keys import changes_run, is_extension, key_next_to_job
from gridstead.workflow.modules import FetchText, resolve
from gridstead.workflow.paths import Path, format_path
from gridstead.workflow.reading import in_order, read, workflow_error
from gridstead.workflow.schema import Step, Workflow
from gridstead.workflow.schema.run import HOST


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedWorkflow:
    """A workflow that breaks no rule.

    Attributes:
        workflow: The workflow.
        warnings: Keys that have no effect (misplaced and unknown keys, keys that start with
            ``x-``, a continuous output that is not sent to S3, and network settings of steps on the
            host network), a second document, and numbers with a leading zero.
    """

    workflow: Workflow
    warnings: tuple[WorkflowProblem, ...] = ()


def check_workflow(
    text: str, *, strict: bool = False, fetch_module: FetchText | None = None
) -> CheckedWorkflow:
    """Return the workflow in a YAML file. The workflow is at the top level or under ``job:``.

    Args:
        text: The content of the file.
        strict: Whether a misplaced or unknown key is an error.
        fetch_module: Fetches the text of a module. If None, modules are not checked.

    Raises:
        InvalidWorkflow: If the workflow breaks a rule. The error contains every broken rule and
            the line that breaks the rule.
        ModuleUnavailable: If a module cannot be fetched at the moment.
    """
    document = load(text)
    value: object = document.value
    if not (isinstance(value, dict) and "job" in value):
        return _check(value, (), document, strict=strict, fetch_module=fetch_module)
    warnings, errors = _problems_next_to_job(value, document, strict=strict)
    document = replace(
        document,
        problems=(*document.problems, *errors),
        warnings=(*document.warnings, *warnings),
    )
    return _check(value["job"], ("job",), document, strict=strict, fetch_module=fetch_module)


def _problems_next_to_job(
    value: Mapping[str, object], document: Document, *, strict: bool
) -> tuple[list[WorkflowProblem], list[WorkflowProblem]]:
    """Return the warnings and the errors for the keys next to ``job``."""
    warnings: list[WorkflowProblem] = []
    errors: list[WorkflowProblem] = []
    for key in value:
        if key != "job":
            is_error = strict and not is_extension((key,))
            problem = key_next_to_job(key, document)
            if is_error:
                errors.append(problem)
            else:
                warnings.append(problem)
    return warnings, errors


def parse_workflow(text: str) -> Workflow:
    """Return the workflow in a YAML file, and ignore warnings.

    Raises:
        InvalidWorkflow: If the workflow breaks a rule. The error contains every broken rule and
            the line that breaks the rule.
    """
    return check_workflow(text).workflow


def from_graphql(
    mapping: Mapping[str, object], *, fetch_module: FetchText | None = None
) -> Workflow:
    """Return the workflow that a client sent in a GraphQL request.

    Args:
        mapping: The workflow as decoded JSON.
        fetch_module: Fetches the text of a module. If None, modules are not resolved.

    Raises:
        InvalidWorkflow: If the workflow breaks a rule. The error contains every broken rule.
        ModuleUnavailable: If a module cannot be fetched at the moment.
    """
    document = Document(value=None, lines={})
    return _check(dict(mapping), (), document, strict=True, fetch_module=fetch_module).workflow


def _check(
    value: object,
    prefix: Path,
    document: Document,
    *,
    strict: bool,
    fetch_module: FetchText | None = None,
) -> CheckedWorkflow:
    result = read(value, prefix, document, Workflow, strict=strict)
    errors = [*result.problems, *_broken_rules(result.draft, prefix, document)]
    # Requests may contain fields without effect, because earlier releases allowed such fields.
    unused_fields = _unused_fields(result.draft) if document.is_file else ()
    unused_problems = _to_problems(unused_fields, prefix, document, are_ignored=True)
    warnings = list(result.warnings)
    if strict:
        errors += unused_problems
    else:
        warnings += unused_problems
    workflow = result.model
    if workflow and fetch_module and not errors:
        resolution = resolve(workflow, fetch_module)
        workflow = resolution.workflow
        errors += _to_problems(resolution.problems, prefix, document)
        warnings += _to_problems(resolution.warnings, prefix, document)
    if errors or workflow is None:
        raise workflow_error(errors, warnings)
    return CheckedWorkflow(workflow=workflow, warnings=in_order(warnings))


def _broken_rules(draft: Draft, prefix: Path, document: Document) -> tuple[WorkflowProblem, ...]:
    """Return the broken rules over several mappings. Rules that read wrong fields are omitted."""
    if draft.model is None:
        return ()
    reasons = broken_rules(draft.model)
    reliable_reasons = [(path, reason) for path, reason in reasons if draft.is_reliable(path)]
    return _to_problems(reliable_reasons, prefix, document)


def _unused_fields(draft: Draft) -> Iterator[tuple[Path, str]]:
    """Yield the fields that have no effect: without an output to S3, or on the host network."""
    workflow = draft.model
    if workflow is None:
        return
    is_output_valid = draft.is_reliable(("output", "s3"))
    if workflow.continuous_output_sync and is_output_valid and not workflow.is_output_synced:
        reason = "has no effect without an output to s3; the output is sent at the end of the job"
        yield ("continuousOutputSync",), reason
    for path, step in _steps_with_paths(workflow.steps, ("steps",)):
        run = step.run
        if not run or run.network != HOST:
            continue
        fields = {"dns": run.dns, "customNetworkInterfaces": run.custom_network_interfaces}
        for name, value in fields.items():
            if value:
                yield (*path, "run", name), "has no effect on the host network"


def _steps_with_paths(steps: Iterable[Step], path: Path) -> Iterator[tuple[Path, Step]]:
    """Yield all steps and nested steps with their paths, except the steps of modules."""
    for number, step in enumerate(steps):
        step_path = (*path, number)
        yield step_path, step
        inner = {
            ("steps",): step.steps,
            ("catch",): step.catch,
            ("finally",): step.finally_,
            ("for", "steps"): step.for_.steps if step.for_ else (),
            ("launch", "steps"): step.launch.steps if step.launch else (),
            ("use", "steps"): step.use.steps if step.use else (),
        }
        for names, inner_steps in inner.items():
            yield from _steps_with_paths(inner_steps, (*step_path, *names))


def _to_problems(
    reasons: Iterable[tuple[Path, str]],
    prefix: Path,
    document: Document,
    *,
    are_ignored: bool = False,
) -> tuple[WorkflowProblem, ...]:
    """Return the problems for paths in the workflow and their reasons.

    Args:
        reasons: The path and reason of each problem.
        prefix: The path of the workflow in the document.
        document: The document.
        are_ignored: Whether the fields at the paths have no effect.
    """
    problems = []
    for path_in_workflow, reason in reasons:
        path = (*prefix, *path_in_workflow)
        problem = WorkflowProblem(
            path=format_path(path),
            reason=reason,
            line=document.line(path),
            changes_run=are_ignored and changes_run(path[-1]),
        )
        problems.append(problem)
    return tuple(problems)
