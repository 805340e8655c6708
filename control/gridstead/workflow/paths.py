# SPDX-License-Identifier: Apache-2.0
"""Paths of values in a document, and errors about the value at a path."""

from __future__ import annotations

from typing import TypeAlias

from gridstead.errors import InvalidWorkflow, WorkflowProblem

MAX_QUOTED = 40

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"
Path: TypeAlias = tuple[str | int, ...]


def format_path(path: Path) -> str:
    """Return the path in the usual notation, such as ``steps[0].run.command``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{shorten(part)}"
    return text.removeprefix(".")


def shorten(text: str) -> str:
    """Return untrusted text for a message, shortened and without control characters."""
    if len(text) > MAX_QUOTED:
        text = f"{text[:MAX_QUOTED]}…"
    return "".join(char if char.isprintable() else "�" for char in text)


def invalid(path: Path, reason: str, line: int | None) -> InvalidWorkflow:
    """Return the error about the value at a path."""
    return InvalidWorkflow(WorkflowProblem(path=format_path(path), reason=reason, line=line))
