# SPDX-License-Identifier: Apache-2.0
"""Converts events of ansible-runner to events of the domain."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from gridstead.domain.site.playbook import (
    HostFinished,
    PlaybookEvent,
    PlayStarted,
    PrintedText,
    RunEnded,
    Task,
    TaskOutcome,
    TaskStarted,
)

COLLECTION = "gridstead.site."  # reports omit this prefix of role names
MAX_DIFF_LINES = 200
MAX_MESSAGE_LENGTH = 2000
OUTCOMES = {
    "runner_on_ok": TaskOutcome.OK,
    "runner_on_failed": TaskOutcome.FAILED,
    "runner_on_skipped": TaskOutcome.SKIPPED,
    "runner_on_unreachable": TaskOutcome.UNREACHABLE,
}
# Keys of a result, or of the arguments of its module, that may name the changed object.
TARGET_KEYS = ("dest", "path", "name")
UNIT_MODULES = ("daemon", "service", "systemd", "systemd_service")

Result = Mapping[str, Any]


def to_event(runner_event: Mapping[str, Any]) -> PlaybookEvent | None:
    """Convert an event of ansible-runner. Return None for an event that the domain does not use.

    The event of a task with ``no_log`` does not show whether the task changed something.
    ``Notes.changed`` contains such a task if the task changed something.
    """
    data = runner_event.get("event_data", {})
    event_name = runner_event["event"]
    if event_name == "playbook_on_play_start":
        return PlayStarted(name=data.get("play", ""))
    if event_name == "playbook_on_task_start":
        return TaskStarted(task=to_task(data))
    if event_name in OUTCOMES:
        return _to_host_finished(OUTCOMES[event_name], data)
    if event_name == "playbook_on_stats":
        failed_hosts = frozenset(data.get("failures", {}))
        unreachable_hosts = frozenset(data.get("dark", {}))
        return RunEnded(failed=failed_hosts | unreachable_hosts)
    text = str(runner_event.get("stdout", "")).strip()
    belongs_to_task = bool(data.get("task_uuid"))
    if not text or belongs_to_task:
        return None
    return PrintedText(text=text)


def to_task(data: Mapping[str, Any]) -> Task:
    """Return the task of an event."""
    return Task(
        name=data.get("task", ""),
        role=(data.get("role") or "").removeprefix(COLLECTION),
        is_handler=bool(data.get("is_conditional")),
    )


def _to_host_finished(outcome: TaskOutcome, data: Mapping[str, Any]) -> HostFinished:
    task_result = data.get("res") or {}
    items = task_result.get("results", [task_result])
    results = [result for result in items if isinstance(result, Mapping)]
    changed_results = [result for result in results if result.get("changed")]
    if outcome is TaskOutcome.OK and task_result.get("changed"):
        outcome = TaskOutcome.CHANGED
    reason = ""
    if outcome in {TaskOutcome.FAILED, TaskOutcome.UNREACHABLE}:
        reason = message(task_result, results)
    return HostFinished(
        host=data["host"],
        task=to_task(data),
        outcome=outcome,
        targets=_all_targets(data, changed_results),
        unit_state=_unit_state(data, changed_results),
        diff=_all_diffs(changed_results),
        message=reason,
    )


def _all_targets(data: Mapping[str, Any], changed_results: Iterable[Result]) -> tuple[str, ...]:
    target_names: set[str] = set()
    for result in changed_results:
        target_names.update(targets(result) or _debug_message(data, result))
    return tuple(sorted(target_names))


def _all_diffs(changed_results: Iterable[Result]) -> str:
    texts: list[str] = []
    for result in changed_results:
        target_names = targets(result)
        texts += [to_unified_diff(diff, target_names) for diff in _as_list(result.get("diff"))]
    return "".join(texts)


def _unit_state(data: Mapping[str, Any], changed_results: Iterable[Result]) -> str:
    """Return the state that a task requested of a unit.

    The Ansible module ``daemon`` chooses the state itself and returns the state in its result.
    """
    if _module_name(data) not in UNIT_MODULES:
        return ""
    for result in changed_results:
        return str(_module_arguments(result).get("state") or result.get("state") or "")
    return ""


def _debug_message(data: Mapping[str, Any], result: Result) -> tuple[str, ...]:
    """Return the message of a debug task. Roles use debug tasks to report a change."""
    if _module_name(data) == "debug" and result.get("msg"):
        return (str(result["msg"]),)
    return ()


def _module_name(data: Mapping[str, Any]) -> str:
    return str(data.get("task_action", "")).rpartition(".")[2]


def message(task_result: Result, results: Iterable[Result]) -> str:
    """Return the reason of a failure, and the stderr of the command, for each failed item."""
    if "censored" in task_result:
        return "the output is hidden because of no_log"
    failed_results = [result for result in results if result.get("failed")] or [task_result]
    parts: list[str] = []
    for result in failed_results:
        parts += [str(result[key]).strip() for key in ("msg", "stderr") if result.get(key)]
    return "\n".join(dict.fromkeys(parts))[:MAX_MESSAGE_LENGTH]


def targets(result: Result) -> tuple[str, ...]:
    """Return the names of the objects of a result, such as a file, a unit or packages."""
    for source in (result, _module_arguments(result)):
        for key in TARGET_KEYS:
            if source.get(key):
                return tuple(str(name) for name in _as_list(source[key]))
    return ()


def to_unified_diff(
    diff: Any,  # noqa: ANN401 - depends on the module
    target_names: tuple[str, ...] = (),
) -> str:
    """Convert the diff of a module to a unified diff. Lines after ``MAX_DIFF_LINES`` are omitted.

    A diff that the module has prepared is returned unchanged.

    Args:
        diff: The diff in the format of the module that returned it.
        target_names: The names of the changed objects. If there is exactly one name, the headers of
            the unified diff contain this name instead of the name in ``diff``.
    """
    if not isinstance(diff, Mapping):
        return ""
    if diff.get("prepared"):
        return str(diff["prepared"])
    name = str(diff.get("before_header") or diff.get("after_header") or "")
    if len(target_names) == 1:
        name = target_names[0]
    before = _lines(diff.get("before"))
    after = _lines(diff.get("after"))
    headers = (f"{name} before", f"{name} after")
    lines = list(difflib.unified_diff(before, after, *headers, lineterm=""))
    omitted_count = len(lines) - MAX_DIFF_LINES
    if omitted_count > 0:
        lines = [*lines[:MAX_DIFF_LINES], f"... and {omitted_count} more lines"]
    return "".join(f"{line}\n" for line in lines)


def _lines(side: Any) -> list[str]:  # noqa: ANN401 - text, or the properties of a file
    if isinstance(side, Mapping):
        return [f"{key}: {value}" for key, value in sorted(side.items())]
    return str(side or "").splitlines()


def _module_arguments(result: Result) -> Result:
    invocation = result.get("invocation") or {}
    return invocation.get("module_args") or invocation


def _as_list(value: Any) -> list[Any]:  # noqa: ANN401 - a value or a list, depending on the module
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]
