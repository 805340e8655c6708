# SPDX-License-Identifier: Apache-2.0
"""Finds the launch for which each ``dependsOn`` of a workflow waits.

A handle is the name by which a later step waits for a launched step. A plain group is a step with
``steps`` and without ``catch`` and ``finally``. The handles of a plain group are also handles of
the enclosing list, so later steps of the enclosing list can wait for launched steps of the group. A
launched step for which such a step waits continues to run after the end of the group. It ends with
the nearest enclosing list that is not a plain group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gridstead.workflow.paths import Path
from gridstead.workflow.schema import ResolvedUse, Step

# Maps each handle, in lower case, to the path of the last earlier launch with this handle. The path
# is None if the current step cannot wait for this launch.
_Handles = dict[str, Path | None]


@dataclass(frozen=True, slots=True)
class Launches:
    """The launches for which the steps of a workflow wait.

    Attributes:
        awaited: Maps the path of each item of a ``dependsOn`` to the path of the launching step, or
            to None if the launch is outside the parallel loop or launch that contains the waiting
            step. Items that are not handles of earlier launches are not in the mapping.
        outliving: The paths of the launching steps whose launched steps continue to run after the
            end of their group, because a step outside the group waits for them.
    """

    awaited: dict[Path, Path | None] = field(default_factory=dict)
    outliving: set[Path] = field(default_factory=set)


def is_plain_group(step: Step) -> bool:
    """Return whether the handles of the step's list are also handles of the enclosing list."""
    return bool(step.steps) and not step.catch and not step.finally_


def find_launches(steps: Iterable[Step]) -> Launches:
    """Return the launches for which the steps of a workflow wait."""
    launches = Launches()
    _walk(steps, ("steps",), {}, launches)
    return launches


def _walk(steps: Iterable[Step], path: Path, handles: _Handles, launches: Launches) -> None:
    for number, step in enumerate(steps):
        step_path = (*path, number)
        for item_path, handle in dependencies(step, step_path):
            if handle not in handles:
                continue
            launch_path = handles[handle]
            launches.awaited[item_path] = launch_path
            if launch_path and not _is_within(step_path, launch_path[:-1]):
                launches.outliving.add(launch_path)
        for list_path, inner_steps, inner_handles in _inner_lists(step, handles):
            _walk(inner_steps, (*step_path, *list_path), inner_handles, launches)
        if step.launch and step.launch.handle_name:
            handles[step.launch.handle_name.lower()] = step_path


def _is_within(step_path: Path, list_path: Path) -> bool:
    """Return whether a step is in a list, or in a list inside it."""
    return step_path[: len(list_path)] == list_path


def dependencies(step: Step, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the path and the handle, in lower case, of each item of a step's ``dependsOn``."""
    for number, handle in enumerate(step.depends_on):
        yield (*path, "dependsOn", number), handle.lower()


def _inner_lists(
    step: Step, handles: _Handles
) -> Iterator[tuple[Path, tuple[Step, ...], _Handles]]:
    """Yield the path inside the step, the steps and the handles of each list of a step."""
    # Steps of a launch or parallel loop cannot wait for launches outside it. dict.fromkeys gives
    # each handle the value None, which means this.
    not_awaitable: _Handles = dict.fromkeys(handles)
    catch_handles = not_awaitable if step.launch else handles
    # A plain group shares the dict of the enclosing list, so its handles remain after the group.
    # Every other list gets a copy.
    yield ("steps",), step.steps, handles if is_plain_group(step) else dict(handles)
    yield ("catch",), step.catch, dict(catch_handles)
    yield ("finally",), step.finally_, dict(catch_handles)
    if step.for_:
        loop_handles = not_awaitable if step.for_.parallel else handles
        yield ("for", "steps"), step.for_.steps, dict(loop_handles)
    if step.launch:
        yield ("launch", "steps"), step.launch.steps, dict(not_awaitable)
    if isinstance(step.use, ResolvedUse):
        # The steps of a module cannot refer to handles of the workflow, so they get none.
        yield ("use", "module", "steps"), step.use.module.steps, {}
