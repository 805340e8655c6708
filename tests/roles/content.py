# SPDX-License-Identifier: Apache-2.0
"""Functions that select the values which tests compare: from folders, lines and playbooks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.roles.catalogue import playbook_plays


def names_in(folder: Path) -> set[str]:
    """Return the names in a folder."""
    return {path.name for path in folder.iterdir()}


def texts_below(folder: Path) -> dict[str, str]:
    """Return the text of each file below a folder, by the file's path relative to the folder."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


def lines_with(word: str, lines: Iterable[str]) -> list[str]:
    """Return the lines that contain a word."""
    return [line for line in lines if word in line]


def values_of(key: str, lines: Iterable[str]) -> list[str]:
    """Return the values of a key in lines of ``key=value``."""
    prefix = f"{key}="
    return [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]


def tasks_with(key: str, tasks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tasks that have a key, such as the name of a module."""
    return [task for task in tasks if key in task]


def named(name: str, items: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the play or task with this name. Exactly one must have the name."""
    (match,) = (item for item in items if item.get("name") == name)
    return match


def imported_playbooks(name: str) -> list[str]:
    """Return the names of the playbooks that a playbook imports, without .yml, in order."""
    key = "ansible.builtin.import_playbook"
    imports = tasks_with(key, playbook_plays(name))
    return [play[key].removesuffix(".yml") for play in imports]
