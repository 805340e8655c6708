# SPDX-License-Identifier: Apache-2.0
"""The context in which a step is rendered: its position, and what it inherits from outer steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from gridstead.workflow.handles import Launches
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
        has_markers: Whether the job writes markers to its log.
        secret_texts: The texts that markers must not contain.
        has_handlers: Whether any step of the workflow has handlers: ``catch`` or ``finally``.
        image_numbers: The number of each image of the workflow.
        login_numbers: The number of each registry login: a registry, a user name and a password.
        tunnel_files: The file in ``$private`` for each tunnel of the workflow.
        launches: The launches for which the steps of the workflow wait.
        rounds_at_once: The number of simultaneous rounds of each parallel loop, by its path.
        path: The path of the step in the workflow.
        variables: For each loop variable (``item`` or ``index``): the name of the script variable
            that contains its value.
        launched: The numbers and the signals of the launched steps that end with the nearest
            enclosing list that is not a plain group.
        signals: The signals that end the enclosing launches. 0 means no signal.
        in_module: Whether the step belongs to a module.
    """

    workflow: Workflow
    cache: str
    has_markers: bool = False
    secret_texts: tuple[str, ...] = ()
    has_handlers: bool = False
    image_numbers: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    login_numbers: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    tunnel_files: Mapping[NetworkInterface, str] = field(default_factory=dict)
    launches: Launches = field(default_factory=Launches)
    rounds_at_once: Mapping[Path, int] = field(default_factory=dict)
    path: Path = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    launched: list[str] = field(default_factory=list)
    signals: frozenset[int] = frozenset()
    in_module: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the path for names and messages, such as ``("3", "catch", "1")``."""
        return _parts(self.path)

    @property
    def function_suffix(self) -> str:
        """Return the path to the step for names of functions, such as ``2_1`` or ``3_catch_1``."""
        return function_suffix_of(self.path)

    @property
    def position(self) -> str:
        """Return the path to the step for markers, such as ``2.1`` or ``3.catch.1``."""
        return ".".join(self.parts)

    @property
    def title(self) -> str:
        """Return the path to the step for messages, such as ``2.1`` or ``3 catch 1``."""
        parts = self.parts
        text = parts[0]
        for previous, part in pairwise(parts):
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

    def step(self, index: int, *names: str) -> RenderContext:
        """Return the context of a step in a list of the current step.

        Args:
            index: The index of the step in the list, from 0.
            names: The path of the list in the current step, such as ``for``, ``steps``.
        """
        return replace(self, path=(*self.path, *names, index))


def function_suffix_of(path: Path) -> str:
    """Return the ``function_suffix`` of the step with this path in the workflow."""
    return "_".join(_parts(path))


def _parts(path: Path) -> tuple[str, ...]:
    """Return the step numbers, from 1, and the names of lists such as ``catch`` in a path."""
    parts = [part for part in path if isinstance(part, int) or part in _NAMES_IN_PARTS]
    return tuple(str(part + 1) if isinstance(part, int) else part for part in parts)


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
