# SPDX-License-Identifier: Apache-2.0
"""Reads the notes of the callback plugin gridstead_notes, which complete the events of a run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

CHECK_MODE_VARIABLE = "ansible_check_mode"

TaskOnHost = tuple[str, str]  # the host, and the id of the task in Ansible


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """The notes of a run.

    Attributes:
        changed: The tasks that changed something, including tasks with ``no_log``.
        would_run: The handlers that were skipped only because of check mode.
        waiting: The handlers that were notified but did not run, by host. Sorted.
    """

    changed: frozenset[TaskOnHost]
    would_run: frozenset[TaskOnHost]
    waiting: Mapping[str, tuple[str, ...]]


def read_notes(path: Path, *, check: bool) -> Notes:
    """Return the notes in a file. The notes are empty if the run ended before its first task."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return to_notes([json.loads(line) for line in lines], check=check)


def to_notes(entries: Iterable[Mapping[str, str]], *, check: bool) -> Notes:
    """Return the notes that the entries of a file contain.

    Args:
        entries: The entries in the order of the file.
        check: Whether the run was in check mode.
    """
    changed_tasks: set[TaskOnHost] = set()
    would_run: set[TaskOnHost] = set()
    waiting_by_host: dict[str, set[str]] = {}
    for entry in entries:
        host = entry["host"]
        if entry["kind"] == "changed":
            changed_tasks.add((host, entry["task"]))
            notified_handlers = filter(None, entry["waits"].split(","))
            waiting_by_host.setdefault(host, set()).update(notified_handlers)
        elif entry["kind"] == "flushed":
            waiting_by_host.pop(host, None)
        elif check and _is_skipped_by_check_mode(entry["why"]):
            would_run.add((host, entry["task"]))
    waiting_handlers: dict[str, tuple[str, ...]] = {}
    for host, handlers in sorted(waiting_by_host.items()):
        if handlers and not check:
            waiting_handlers[host] = tuple(sorted(handlers))
    return Notes(
        changed=frozenset(changed_tasks), would_run=frozenset(would_run), waiting=waiting_handlers
    )


def _is_skipped_by_check_mode(false_condition: str) -> bool:
    """Return whether a handler was skipped only because of check mode.

    The condition is empty if the module of the handler does not support check mode.
    """
    return not false_condition or CHECK_MODE_VARIABLE in false_condition
