# SPDX-License-Identifier: Apache-2.0
"""Modules that a workflow uses: each is fetched, filled as a template, checked, and put into the
step that uses it.

A module is a stranger's text. Rule 1: a template sees the job without its secrets, and the step
that uses it with masks in their place, nothing else. Rule 2: numbers and depth are bounded,
whatever modules use each other. Rule 3: what is fetched is told by the caller, so nothing here
knows of hosts.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from gridstead.errors import InvalidInput, InvalidWorkflow
from gridstead.workflow.checks import broken_rules
from gridstead.workflow.document import Document, Path, load
from gridstead.workflow.gotemplate import Value, expand
from gridstead.workflow.masks import Masks
from gridstead.workflow.reading import read
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

TextOf = Callable[[ModuleSource], str]


def resolve(workflow: Workflow, text_of: TextOf) -> tuple[Workflow, tuple[tuple[Path, str], ...]]:
    """Return a workflow with the modules that it uses, and the place and the reason of each rule
    that it breaks then.

    Args:
        workflow: One that breaks no rule by itself.
        text_of: Returns the text of a module, or raises ``InvalidInput``: that one cannot be used.
    """
    resolver = _Resolver(workflow, text_of)
    steps = resolver.steps(workflow.steps, ("steps",), 0)
    if not resolver.count:
        return workflow, ()
    resolved = workflow.model_copy(update={"steps": steps})
    return resolved, tuple(resolver.problems) or broken_rules(resolved)


def check_module(mapping: Mapping[str, object]) -> Module:
    """Return a module that came over the wire.

    Raises:
        InvalidWorkflow: If it breaks a rule; with every broken rule.
    """
    return read(dict(mapping), (), Document(value=None, lines={}), Module, strict=True).model


@dataclass(slots=True)
class _Resolver:
    """Walks through a workflow and the modules in it."""

    workflow: Workflow
    text_of: TextOf
    problems: list[tuple[Path, str]] = field(default_factory=list)
    count: int = 0

    def steps(self, steps: Iterable[Step], path: Path, depth: int) -> tuple[Step, ...]:
        return tuple(self._step(step, (*path, number), depth) for number, step in enumerate(steps))

    def _step(self, step: Step, path: Path, depth: int) -> Step:
        changes: dict[str, object] = {}
        for name, alias in (("steps", "steps"), ("catch", "catch"), ("finally_", "finally")):
            if inner := getattr(step, name):
                changes[name] = self.steps(inner, (*path, alias), depth)
        for name, alias in (("for_", "for"), ("launch", "launch")):
            if of := getattr(step, name):
                changes[name] = of.model_copy(
                    update={"steps": self.steps(of.steps, (*path, alias, "steps"), depth)}
                )
        if step.use and (use := self._use(step, step.use, (*path, "use"), depth)):
            changes["use"] = use
        return step.model_copy(update=changes)

    def _use(self, step: Step, use: StepUse, path: Path, depth: int) -> ResolvedUse | None:
        self.count += 1
        if self.count > MAX_MODULES:
            if self.count == MAX_MODULES + 1:
                self._problem(path, f"is one more than {MAX_MODULES} modules")
            return None
        if depth >= MAX_DEPTH:
            self._problem(path, f"is a module in a module, more than {MAX_DEPTH} deep")
            return None
        try:
            text = self.text_of(ModuleSource.parse(use.source))
            module = _module(text, self.workflow, step)
        except InvalidWorkflow as err:
            for problem in err.problems:
                self._problem((*path, "source"), f"is a module that is wrong: {problem}")
            return None
        except InvalidInput as err:
            self._problem((*path, "source"), str(err))
            return None
        self._check(use, module, path)
        inner = self.steps(module.steps, (*path, "module", "steps"), depth + 1)
        fields = {name: getattr(use, name) for name in StepUse.model_fields}
        return ResolvedUse.model_construct(
            **fields, module=module.model_copy(update={"steps": inner})
        )

    def _check(self, use: StepUse, module: Module, path: Path) -> None:
        names = [each.key for each in module.inputs]
        for number, argument in enumerate(use.args):
            if argument.key not in names:
                near = difflib.get_close_matches(argument.key, names, n=1) or names
                known = f"it has {', '.join(near)}" if near else "it has none"
                self._problem((*path, "args", number, "key"), f"is no input of the module: {known}")
        for reason in _lacking(self.workflow.resources, module.minimum_resources):
            self._problem((*path, "source"), reason)

    def _problem(self, path: Path, reason: str) -> None:
        self.problems.append((path, reason))


def _module(text: str, workflow: Workflow, step: Step) -> Module:
    masks = Masks()
    values = {
        "Job": _plain(workflow, secrets=False),
        "Step": _plain(masks.put_on(step), secrets=True),
    }
    document = load(expand(text, values))
    return masks.take_off(read(document.value, (), document, Module, strict=False).model)


def _lacking(has: JobResources, wants: JobResources) -> Iterator[str]:
    for name, info in JobResources.model_fields.items():
        least, there = getattr(wants, name), getattr(has, name)
        if there < least:
            yield f"is a module that needs {info.alias or name} of {least}; the job has {there}"


def _plain(value: Value, *, secrets: bool) -> Value:
    """Return what a template sees: all fields by their names in files; secrets without a value, or
    as they are.
    """
    if isinstance(value, BaseModel):
        return {
            info.alias or name: _plain(getattr(value, name), secrets=secrets)
            if secrets or info.repr
            else None
            for name, info in type(value).model_fields.items()
        }
    return [_plain(item, secrets=secrets) for item in value] if isinstance(value, tuple) else value
