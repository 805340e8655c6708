# SPDX-License-Identifier: Apache-2.0
"""Functions that create shell text: quoted words, and templates with their values."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from functools import cache
from importlib import resources
from string import Template

from gridstead.errors import InvalidInput
from gridstead.workflow.schema import EnvVar

_PLAIN_CONTROL_CHARACTERS = "\n\t"


class _ShellTemplate(Template):
    """A template with placeholders such as ``%%{name}``. Shell code contains no such text."""

    delimiter = "%%"


def quote(text: str) -> str:
    """Return the text as one quoted word of bash.

    The text may contain any character except NUL. Control characters are escaped, except line feeds
    and tabs.
    """
    if not any(map(_is_control, text)):
        return shlex.quote(text)
    return "$'" + "".join(map(_escape, text)) + "'"


def _is_control(char: str) -> bool:
    """Return whether a character is an ASCII control character other than line feed and tab."""
    is_control = char < " " or char == "\x7f"
    return is_control and char not in _PLAIN_CONTROL_CHARACTERS


def _escape(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    return f"\\x{ord(char):02x}" if _is_control(char) else char


def exports(env: Iterable[EnvVar]) -> str:
    """Return the lines that export these variables."""
    lines = ""
    for variable in env:
        word = quote(f"{variable.key}={variable.value}")
        lines += f"  export {word}\n"
    return lines


def fill(template: str, **values: object) -> str:
    """Return the text of a template in ``templates/`` with values for its placeholders."""
    return _template(template).substitute(values)


def too_large(subject: str, size: int, limit: int) -> InvalidInput:
    """Return the error for a workflow whose script or secrets are too large.

    Args:
        subject: What is too large, with a verb, such as ``the script has``.
        size: The size, or a lower bound of the size. Unit: bytes.
        limit: The maximum size. Unit: bytes.
    """
    return InvalidInput(
        "cannot run this workflow",
        detail=f"{subject} at least {size} bytes, and the limit is {limit} bytes",
    )


@cache
def _template(name: str) -> _ShellTemplate:
    file = resources.files("gridstead.workflow").joinpath("templates", name)
    return _ShellTemplate(file.read_text(encoding="utf-8"))
