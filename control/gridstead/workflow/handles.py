# SPDX-License-Identifier: Apache-2.0
"""Finds the launched steps that continue to run after the end of their list.

A plain group is a step with ``steps`` and without ``catch`` and ``finally``. Its launches belong to
the enclosing list too, so later steps of the enclosing list can wait for them. Such a launched step
does not end with its group. It ends with the nearest enclosing list that is not a plain group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gridstead.workflow.paths import Path
from gridstead.workflow.schema import ResolvedUse, Step

# Maps each handle, in lower case, to the path of the last earlier launch with this handle.
_Handles = dict[str, Path]


def is_plain_group(step: Step) -> bool:
    """Return whether the handles of the step's list are also handles of the enclosing list."""
    return bool(step.steps) and not step.catch and not step.finally_


def outliving_launches(steps: Iterable[Step]) -> frozenset[Path]:
    """Return the paths of the launches for which a step outside their group waits."""
    outliving: set[Path] = set()
    _walk(steps, ("steps",), {}, outliving)
    return frozenset(outliving)


def _walk(steps: Iterable[Step], path: Path, handles: _Handles, outliving: set[Path]) -> None:
    for number, step in enumerate(steps):
        step_path = (*path, number)
        for handle in step.depends_on:
            launch_path = handles.get(handle.lower())
            if launch_path and launch_path[:-1] != step_path[: len(launch_path) - 1]:
                outliving.add(launch_path)
        for names, inner_steps, inner_handles in _inner_lists(step, handles):
            _walk(inner_steps, (*step_path, *names), inner_handles, outliving)
        if step.launch and step.launch.handle_name:
            handles[step.launch.handle_name.lower()] = step_path


def _inner_lists(
    step: Step, handles: _Handles
) -> Iterator[tuple[Path, tuple[Step, ...], _Handles]]:
    """Yield the name, the steps and the handles of each list of a step."""
    inner_handles = {} if step.launch else handles
    yield ("steps",), step.steps, handles if is_plain_group(step) else dict(handles)
    yield ("catch",), step.catch, dict(inner_handles)
    yield ("finally",), step.finally_, dict(inner_handles)
    if step.for_:
        yield ("for", "steps"), step.for_.steps, {} if step.for_.parallel else dict(handles)
    if step.launch:
        yield ("launch", "steps"), step.launch.steps, {}
    if isinstance(step.use, ResolvedUse):
        yield ("use", "module", "steps"), step.use.module.steps, {}
