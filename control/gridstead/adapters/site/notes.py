# SPDX-License-Identifier: Apache-2.0
"""Reads the notes that callbacks/gridstead_notes.py adds to ansible-runner's events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

IN_CHECK_MODE = "ansible_check_mode"

TaskLocation = tuple[str, str]  # host, Ansible's id of the task


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """The notes of a run.

    Attributes:
        changed: Tasks that changed something, including tasks with ``no_log``.
        would_run: Handlers that were skipped only because of check mode.
        waiting: By host, notified handlers that did not run; sorted.
    """

    changed: frozenset[TaskLocation]
    would_run: frozenset[TaskLocation]
    waiting: Mapping[str, tuple[str, ...]]


def read_notes(path: Path, *, check: bool) -> Notes:
    """Return the notes of a run; they are empty if the run ended before its first task."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return to_notes([json.loads(line) for line in lines], check=check)


def to_notes(entries: Iterable[Mapping[str, str]], *, check: bool) -> Notes:
    """Return the notes of a run.

    Args:
        entries: The entries in the order in which they were written.
        check: Whether the run was in check mode.
    """
    changed, would_run = set[TaskLocation](), set[TaskLocation]()
    waiting: dict[str, set[str]] = {}
    for note in entries:
        host = note["host"]
        if note["kind"] == "changed":
            changed.add((host, note["task"]))
            waiting.setdefault(host, set()).update(filter(None, note["waits"].split(",")))
        elif note["kind"] == "flushed":
            waiting.pop(host, None)
        elif check and (not note["why"] or IN_CHECK_MODE in note["why"]):
            would_run.add((host, note["task"]))
    not_run: dict[str, tuple[str, ...]] = {}
    for host, names in sorted(waiting.items()):
        if names and not check:
            not_run[host] = tuple(sorted(names))
    return Notes(changed=frozenset(changed), would_run=frozenset(would_run), waiting=not_run)
