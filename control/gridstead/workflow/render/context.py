# SPDX-License-Identifier: Apache-2.0
"""The context in which a step is rendered: its position, and what it inherits from outer steps."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from gridstead.workflow.paths import Path
from gridstead.workflow.schema import NetworkInterface, ResolvedUse, Step, Workflow

# The names of lists that are parts of the number of a step.
_NAMES_IN_PARTS = ("catch", "finally", "module")


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderContext:
    """The position of a step in the workflow, and what the step inherits from enclosing steps.

    Attributes:
        workflow: The whole workflow.
        cache: The directory on the nodes that contains the directories of jobs and customers.
        has_handlers: Whether any step of the workflow has handlers: ``catch`` or ``finally``.
        image_numbers: The number of each image of the workflow.
        login_numbers: The number of each registry login: a registry, a user name and a password.
        tunnel_files: The file in ``$private`` for each tunnel of the workflow.
        parts: The path to the step, outermost step first. It consists of step numbers, from 1, and
            of list names such as ``catch``. Example: ``("3", "catch", "1")``.
        variables: For each loop variable (``item`` or ``index``): the name of the script variable
            that contains its value.
        handles: The ``number`` of each launched step that the step can wait for, by the handle of
            the launched step in lower case. Each list of steps adds a map for its own handles.
        outliving: The ``parts`` of the launches that continue to run after the end of their group.
        launched: The numbers and the signals of the launched steps that end with the nearest
            enclosing list that is not a plain group.
        signals: The signals that end the enclosing launches. 0 means no signal.
        in_module: Whether the step belongs to a module.
    """

    workflow: Workflow
    cache: str
    has_handlers: bool = False
    image_numbers: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    login_numbers: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    tunnel_files: Mapping[NetworkInterface, str] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    handles: ChainMap[str, str] = field(default_factory=ChainMap)
    outliving: frozenset[tuple[str, ...]] = frozenset()
    launched: list[str] = field(default_factory=list)
    signals: frozenset[int] = frozenset()
    in_module: bool = False

    @property
    def number(self) -> str:
        """Return the path to the step for names of functions, such as ``2_1`` or ``3_catch_1``."""
        return "_".join(self.parts)

    @property
    def title(self) -> str:
        """Return the path to the step for messages, such as ``2.1`` or ``3 catch 1``."""
        text = self.parts[0]
        for previous, part in pairwise(self.parts):
            is_nested_number = previous.isdigit() and part.isdigit()
            text += f".{part}" if is_nested_number else f" {part}"
        return text

    @property
    def outer_variables(self) -> str:
        """Return the arguments of ``job_environment``: the error variable and loop variables."""
        # The array error is empty, or contains one word: DEEPSQUARE_ERROR_CODE=<exit code>.
        words = ['"${error[@]}"'] if self.has_handlers else []
        words += [f'{name}="${variable}"' for name, variable in self.variables.items()]
        return "".join(f" {word}" for word in words)

    def step(self, number: int, *lists: str) -> RenderContext:
        """Return the context of the step with this number in a list of the current step.

        ``lists`` contains the name of the list, such as ``catch``. It is empty for the main list.
        """
        return replace(self, parts=(*self.parts, *lists, str(number)))


def parts_of(path: Path) -> tuple[str, ...]:
    """Return the ``parts`` of the step with this path in the workflow."""
    names = [part for part in path if isinstance(part, int) or part in _NAMES_IN_PARTS]
    return tuple(str(part + 1) if isinstance(part, int) else part for part in names)


def children(step: Step) -> tuple[Step, ...]:
    """Return the steps in all lists of a step."""
    loop = step.for_.steps if step.for_ else ()
    launched_steps = step.launch.steps if step.launch else ()
    module = step.use.module.steps if isinstance(step.use, ResolvedUse) else ()
    return (*step.steps, *loop, *launched_steps, *module, *step.catch, *step.finally_)


def all_steps(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield all steps and all nested steps. A step comes before the steps nested in it."""
    for step in steps:
        yield step
        yield from all_steps(children(step))
