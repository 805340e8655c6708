# SPDX-License-Identifier: Apache-2.0
"""Where a step stands among the others."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gridstead.workflow.schema import NetworkInterface, ResolvedUse, Step, Workflow


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderContext:
    """Where a step stands.

    Attributes:
        workflow: The whole.
        cache: Parent of the directories for jobs.
        errors: Whether any step of the whole has handlers.
        images: Numbers of the images of the whole.
        accesses: Numbers of the names and passwords at registries.
        tunnels: Files of the tunnels of the whole.
        parts: Its numbers from the outside in, each from 1, with the names of lists that are not
            the usual one.
        variables: What loops around it give it: name, and the variable of the script that holds the
            value.
        handles: Launched steps that it can wait for: handle in lower case, and their number; lists
            of steps add to their own.
        signals: What launches around it may send.
        in_module: Whether it is a step of a module.
    """

    workflow: Workflow
    cache: str
    errors: bool = False
    images: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    accesses: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    tunnels: Mapping[NetworkInterface, str] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    handles: ChainMap[str, str] = field(default_factory=ChainMap)
    signals: frozenset[int] = frozenset()
    in_module: bool = False

    @property
    def number(self) -> str:
        """Its number in names of functions: ``2_1``, ``3_catch_1``."""
        return "_".join(self.parts)

    @property
    def title(self) -> str:
        """Its number for people: ``2.1``, ``3 catch 1``."""
        text = self.parts[0]
        for before, part in zip(self.parts, self.parts[1:], strict=False):
            text += f".{part}" if before.isdigit() and part.isdigit() else f" {part}"
        return text

    @property
    def surroundings(self) -> str:
        """Words for job_environment: variables that a step has from the steps around and before it."""
        words = ['"${error[@]}"'] if self.errors else []
        words += [f'{name}="${variable}"' for name, variable in self.variables.items()]
        return "".join(f" {word}" for word in words)

    def step(self, number: int, *lists: str) -> RenderContext:
        """Return the place of a step in one of the lists of this one."""
        return replace(self, parts=(*self.parts, *lists, str(number)))


def children(step: Step) -> tuple[Step, ...]:
    """Return the steps of all lists of a step."""
    loop = step.for_.steps if step.for_ else ()
    launched = step.launch.steps if step.launch else ()
    module = step.use.module.steps if isinstance(step.use, ResolvedUse) else ()
    return (*step.steps, *loop, *launched, *module, *step.catch, *step.finally_)


def all_steps(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield the steps and all in them, each before those in it."""
    for step in steps:
        yield step
        yield from all_steps(children(step))
