# SPDX-License-Identifier: Apache-2.0
"""Paths of values in a document, and errors about the value at a path."""

from __future__ import annotations

from typing import TypeAlias

from gridstead.errors import InvalidWorkflow, WorkflowProblem

MAX_DEPTH = 32
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


def shorten(text: str, max_chars: int = MAX_QUOTED) -> str:
    """Return untrusted text for a message, shortened and without control characters."""
    if len(text) > max_chars:
        text = f"{text[:max_chars]}…"
    return "".join(char if char.isprintable() else "�" for char in text)


def invalid(path: Path, reason: str, line: int | None = None) -> InvalidWorkflow:
    """Return the error about the value at a path."""
    return InvalidWorkflow(WorkflowProblem(path=format_path(path), reason=reason, line=line))


def check_depth(path: Path, line: int | None = None) -> None:
    """Check that the value at a path is not nested too deep.

    Raises:
        InvalidWorkflow: If the value is nested deeper than ``MAX_DEPTH`` levels.
    """
    if len(path) > MAX_DEPTH:
        raise invalid(path, f"is nested deeper than {MAX_DEPTH} levels", line)
