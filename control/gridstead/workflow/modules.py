# SPDX-License-Identifier: Apache-2.0
"""Resolves the modules of a workflow: fetches each module, expands its template, and checks it.

A module is untrusted text. Rule 1: a template can read only two values: the job without its
secrets, and the step that uses the module, with masks instead of secrets. Rule 2: the number of
modules and their nesting are limited. Rule 3: modules are fetched only by a function of the caller.
This function decides which hosts are allowed. Rule 4: an unknown key of a module has no effect and
is only a warning, because the customer cannot correct the module.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from gridstead.errors import InvalidInput, InvalidWorkflow, WorkflowProblem
from gridstead.workflow.checks import broken_rules
from gridstead.workflow.document import Document, load
from gridstead.workflow.gotemplate import Value, expand
from gridstead.workflow.ignored_keys import UNKNOWN_RULE
from gridstead.workflow.masks import Masks
from gridstead.workflow.paths import Path
from gridstead.workflow.reading import read, read_valid, workflow_error
from gridstead.workflow.schema import (
    JobResources,
    Module,
    ModuleSource,
    ResolvedUse,
    Step,
    StepUse,
    Workflow,
)

MAX_MODULES = 32
MAX_DEPTH = 5
MAX_WARNINGS = 100

# Returns the text of a module, or None if the module is not checked.
FetchText = Callable[[ModuleSource], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """A workflow with its modules.

    Attributes:
        workflow: The workflow. A module that is not checked is missing.
        problems: The path and reason of each broken rule.
        warnings: The path and reason of each field of a module that has no effect.
    """

    workflow: Workflow
    problems: tuple[tuple[Path, str], ...] = ()
    warnings: tuple[tuple[Path, str], ...] = ()


def resolve(workflow: Workflow, fetch_text: FetchText) -> Resolution:
    """Return the workflow with its modules.

    Args:
        workflow: A workflow whose own fields break no rule. Its modules are not checked yet.
        fetch_text: Returns the text of a module. Raises ``InvalidInput`` if the module cannot be
            used. Returns None to leave the module out.

    Raises:
        ModuleUnavailable: If a module cannot be fetched at the moment.
    """
    resolver = _Resolver(workflow, fetch_text)
    steps = resolver.steps(workflow.steps, ("steps",), 0)
    if not resolver.count:
        return Resolution(workflow=workflow)
    resolved_workflow = workflow.model_copy(update={"steps": steps})
    return Resolution(
        workflow=resolved_workflow,
        problems=tuple(resolver.problems) or broken_rules(resolved_workflow),
        warnings=tuple(resolver.warnings[:MAX_WARNINGS]),
    )


def check_module(mapping: Mapping[str, object]) -> Module:
    """Return the module that a client sent in a GraphQL request.

    Raises:
        InvalidWorkflow: If the module breaks a rule. The error contains every broken rule.
    """
    # A module in a request has no file, so the document has no lines.
    return read_valid(dict(mapping), (), Document(value=None, lines={}), Module, strict=True)


@dataclass(slots=True)
class _Resolver:
    """Walks through a workflow and its modules."""

    workflow: Workflow
    fetch_text: FetchText
    problems: list[tuple[Path, str]] = field(default_factory=list)
    warnings: list[tuple[Path, str]] = field(default_factory=list)
    count: int = 0

    def steps(self, steps: Iterable[Step], path: Path, depth: int) -> tuple[Step, ...]:
        return tuple(self._step(step, (*path, number), depth) for number, step in enumerate(steps))

    def _step(self, step: Step, path: Path, depth: int) -> Step:
        changes: dict[str, object] = {}
        for name, alias in (("steps", "steps"), ("catch", "catch"), ("finally_", "finally")):
            if inner := getattr(step, name):
                changes[name] = self.steps(inner, (*path, alias), depth)
        for name, alias in (("for_", "for"), ("launch", "launch")):
            block = getattr(step, name)
            if block:
                steps = self.steps(block.steps, (*path, alias, "steps"), depth)
                changes[name] = block.model_copy(update={"steps": steps})
        if step.use:
            use = self._use(step, step.use, (*path, "use"), depth)
            if use:
                changes["use"] = use
        return step.model_copy(update=changes)

    def _use(self, step: Step, use: StepUse, path: Path, depth: int) -> ResolvedUse | None:
        self.count += 1
        if self.count > MAX_MODULES:
            # The problem is reported only once.
            if self.count == MAX_MODULES + 1:
                self._add_problem(path, f"exceeds the limit of {MAX_MODULES} modules")
            return None
        if depth >= MAX_DEPTH:
            self._add_problem(
                path, f"is a module in modules nested more than {MAX_DEPTH} levels deep"
            )
            return None
        try:
            text = self.fetch_text(ModuleSource.parse(use.source))
            if text is None:
                return None
            module, warnings = _expanded_module(text, self.workflow, step)
        except InvalidWorkflow as err:
            for problem in err.problems:
                self._add_problem((*path, "source"), f"is an invalid module: {_with_hint(problem)}")
            return None
        except InvalidInput as err:
            self._add_problem((*path, "source"), str(err))
            return None
        for warning in warnings:
            reason = f"is a module with a field that has no effect: {_with_hint(warning)}"
            self.warnings.append(((*path, "source"), reason))
        self._check_requirements(use, module, path)
        module_steps = self.steps(module.steps, (*path, "module", "steps"), depth + 1)
        fields = {name: getattr(use, name) for name in StepUse.model_fields}
        return ResolvedUse.model_construct(
            **fields, module=module.model_copy(update={"steps": module_steps})
        )

    def _check_requirements(self, use: StepUse, module: Module, path: Path) -> None:
        """Check that the arguments are inputs of the module, and that the job is large enough."""
        names = [module_input.key for module_input in module.inputs]
        for number, argument in enumerate(use.args):
            if argument.key not in names:
                suggestions = difflib.get_close_matches(argument.key, names, n=1) or names
                inputs = ", ".join(suggestions) or "no inputs"
                reason = f"is not an input of the module: it has {inputs}"
                self._add_problem((*path, "args", number, "key"), reason)
        for reason in _missing_resources(self.workflow.resources, module.minimum_resources):
            self._add_problem((*path, "source"), reason)

    def _add_problem(self, path: Path, reason: str) -> None:
        self.problems.append((path, reason))


def _with_hint(problem: WorkflowProblem) -> str:
    return f"{problem} ({problem.hint})" if problem.hint else str(problem)


def _expanded_module(
    text: str, workflow: Workflow, step: Step
) -> tuple[Module, tuple[WorkflowProblem, ...]]:
    """Return the module that template ``text`` describes, expanded for a step, and its warnings."""
    masks = Masks()
    values = {
        "Job": _template_value(workflow, secrets=False),
        # The secret fields of the masked step contain masks.
        "Step": _template_value(masks.mask(step), secrets=True),
    }
    document = load(expand(text, values))
    result = read(document.value, (), document, Module, strict=False)
    if result.model is None:
        # An unknown key may be a required key that is misspelled.
        unknown_keys = [warning for warning in result.warnings if warning.rule == UNKNOWN_RULE]
        raise workflow_error((*result.problems, *unknown_keys))
    return masks.unmask(result.model), result.warnings


def _missing_resources(job: JobResources, minimum: JobResources) -> Iterator[str]:
    for name, info in JobResources.model_fields.items():
        required_amount, available_amount = getattr(minimum, name), getattr(job, name)
        if available_amount < required_amount:
            field_name = info.alias or name
            requirement = f"is a module that needs {field_name}={required_amount}"
            yield f"{requirement}, but the job has {available_amount}"


def _template_value(value: Value, *, secrets: bool) -> Value:
    """Return a value in the form that a template reads: models as mappings with all their fields.

    The fields have the same names as in files.

    Args:
        value: A model, or the value of a field of a model.
        secrets: Whether secret fields keep their values. Otherwise secret fields are None.
    """
    if isinstance(value, tuple):
        return [_template_value(item, secrets=secrets) for item in value]
    if not isinstance(value, BaseModel):
        return value
    fields: dict[str, Value] = {}
    for name, info in type(value).model_fields.items():
        is_secret = not info.repr
        field_value = None if is_secret and not secrets else getattr(value, name)
        fields[info.alias or name] = _template_value(field_value, secrets=secrets)
    return fields
