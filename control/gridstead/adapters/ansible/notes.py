# SPDX-License-Identifier: Apache-2.0
"""Reads what our plugin noted beside ansible-runner's events (callbacks/gridstead_notes.py)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

IN_CHECK_MODE = "ansible_check_mode"

TaskLocation = tuple[str, str]  # host, Ansible's number of a task


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """What a run's notes say.

    Attributes:
        changed: Where something changed, secret or not.
        would_run: Handlers that were skipped only because the run was in check mode.
        waiting: By host, handlers whose turn did not come; sorted.
    """

    changed: frozenset[TaskLocation]
    would_run: frozenset[TaskLocation]
    waiting: Mapping[str, tuple[str, ...]]


def read_notes(path: Path, *, check: bool) -> Notes:
    """Return the notes of a run, none if it ended before its first."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return to_notes([json.loads(line) for line in lines], check=check)


def to_notes(told: Iterable[Mapping[str, str]], *, check: bool) -> Notes:
    """Return notes in the order in which they were written as one; ``check`` says whether the run
    was in check mode.
    """
    changed, would_run = set[TaskLocation](), set[TaskLocation]()
    waiting: dict[str, set[str]] = {}
    for note in told:
        host = note["host"]
        if note["kind"] == "changed":
            changed.add((host, note["task"]))
            waiting.setdefault(host, set()).update(filter(None, note["waits"].split(",")))
        elif note["kind"] == "flushed":
            waiting.pop(host, None)
        elif check and (not note["why"] or IN_CHECK_MODE in note["why"]):
            would_run.add((host, note["task"]))
    left = {host: tuple(sorted(names)) for host, names in sorted(waiting.items()) if names}
    return Notes(
        changed=frozenset(changed), would_run=frozenset(would_run), waiting={} if check else left
    )
