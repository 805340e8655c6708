# SPDX-License-Identifier: Apache-2.0
"""Reads what ansible-runner tells of a run, as ours."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from gridstead.domain.playbook import (
    HostFinished,
    PlaybookEvent,
    PlayStarted,
    PrintedText,
    RunEnded,
    Task,
    TaskOutcome,
    TaskStarted,
)

DIFF_LINES_MAX = 200
MESSAGE_MAX = 2000
OUTCOMES = {
    "runner_on_ok": TaskOutcome.OK,
    "runner_on_failed": TaskOutcome.FAILED,
    "runner_on_skipped": TaskOutcome.SKIPPED,
    "runner_on_unreachable": TaskOutcome.UNREACHABLE,
}
TARGETS = ("dest", "path", "name")
UNIT_MODULES = ("daemon", "service", "systemd", "systemd_service")

Result = Mapping[str, Any]


def to_event(told: Mapping[str, Any]) -> PlaybookEvent | None:
    """Return an event of ansible-runner as ours; None for what says nothing of its own.

    A result that is kept secret says not even whether anything changed: ``Notes`` knows.
    """
    data, kind = told.get("event_data", {}), told["event"]
    if kind == "playbook_on_play_start":
        return PlayStarted(name=data.get("play", ""))
    if kind == "playbook_on_task_start":
        return TaskStarted(task=to_task(data))
    if kind in OUTCOMES:
        return _finished(OUTCOMES[kind], data)
    if kind == "playbook_on_stats":
        return RunEnded(
            failed=frozenset(data.get("failures", {})) | frozenset(data.get("dark", {}))
        )
    text = str(told.get("stdout", "")).strip()
    return PrintedText(text=text) if text and not data.get("task_uuid") else None


def to_task(data: Mapping[str, Any]) -> Task:
    """Return the task that an event is about."""
    return Task(
        name=data.get("task", ""),
        role=data.get("role") or "",
        is_handler=bool(data.get("is_conditional")),
    )


def _finished(outcome: TaskOutcome, data: Mapping[str, Any]) -> HostFinished:
    whole = data.get("res") or {}
    results = [one for one in whole.get("results", [whole]) if isinstance(one, Mapping)]
    changed = [one for one in results if one.get("changed")]
    if outcome is TaskOutcome.OK and whole.get("changed"):
        outcome = TaskOutcome.CHANGED
    return HostFinished(
        host=data["host"],
        task=to_task(data),
        outcome=outcome,
        targets=tuple(
            sorted({target for one in changed for target in targets(one) or _words(data, one)})
        ),
        unit_state=_unit_state(data, changed),
        diff="".join(
            difference(diff, targets(one)) for one in changed for diff in _listed(one.get("diff"))
        ),
        message=message(whole, results)
        if outcome in {TaskOutcome.FAILED, TaskOutcome.UNREACHABLE}
        else "",
    )


def _unit_state(data: Mapping[str, Any], changed: Iterable[Result]) -> str:
    if str(data.get("task_action", "")).rpartition(".")[2] not in UNIT_MODULES:
        return ""
    # Of module daemon nobody asks for a state: it tells one.
    return next(
        (str(_arguments(one).get("state") or one.get("state") or "") for one in changed), ""
    )


def _words(data: Mapping[str, Any], result: Result) -> tuple[str, ...]:
    """Return what a task that only tells of a change tells."""
    action = str(data.get("task_action", "")).rpartition(".")[2]
    return (str(result["msg"]),) if action == "debug" and result.get("msg") else ()


def message(whole: Result, results: Iterable[Result]) -> str:
    """Return why a task failed: of a loop, why each item did; of a command, what it said too."""
    if "censored" in whole:
        return "the task keeps what it does secret"
    failed = [one for one in results if one.get("failed")] or [whole]
    parts = [str(one[key]).strip() for one in failed for key in ("msg", "stderr") if one.get(key)]
    return "\n".join(dict.fromkeys(parts))[:MESSAGE_MAX]


def targets(result: Result) -> tuple[str, ...]:
    """Return what a result is about: a file, a unit, packages."""
    for source in (result, _arguments(result)):
        for key in TARGETS:
            if source.get(key):
                return tuple(str(one) for one in _listed(source[key]))
    return ()


def difference(diff: Any, of: tuple[str, ...] = ()) -> str:  # noqa: ANN401 - modules tell what they like
    """Return one difference as a unified diff, cut to a length that can be read.

    Args:
        diff: As the module tells it.
        of: What it is about; where that is one thing, the diff bears its name.
    """
    if not isinstance(diff, Mapping):
        return ""
    if diff.get("prepared"):
        return str(diff["prepared"])
    name = (
        of[0] if len(of) == 1 else str(diff.get("before_header") or diff.get("after_header") or "")
    )
    before, after = (_lines(diff.get(side)) for side in ("before", "after"))
    lines = list(difflib.unified_diff(before, after, f"{name} now", f"{name} then", lineterm=""))
    cut = (
        [f"... and {len(lines) - DIFF_LINES_MAX} lines more"] if len(lines) > DIFF_LINES_MAX else []
    )
    return "".join(f"{line}\n" for line in lines[:DIFF_LINES_MAX] + cut)


def _lines(side: Any) -> list[str]:  # noqa: ANN401 - text, or properties of a file
    if isinstance(side, Mapping):
        return [f"{key}: {value}" for key, value in sorted(side.items())]
    return str(side or "").splitlines()


def _arguments(result: Result) -> Result:
    called = result.get("invocation") or {}
    return called.get("module_args") or called


def _listed(value: Any) -> list[Any]:  # noqa: ANN401 - one or several, as the module likes
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]
