# SPDX-License-Identifier: Apache-2.0
"""Text for a script: quoted words and filled templates."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from functools import cache
from importlib import resources
from string import Template

from gridstead.errors import InvalidInput
from gridstead.workflow.schema import EnvVar

_UNESCAPED = "\n\t"


class _ShellTemplate(Template):
    """A template with placeholders ``%%{name}``, which do not occur in shell code."""

    delimiter = "%%"


def quote(text: str) -> str:
    """Return the text as one quoted word of bash, without control characters.

    The text may contain any character except NUL.
    """
    if all(char.isprintable() or char >= "\x80" or char in _UNESCAPED for char in text):
        return shlex.quote(text)
    return "$'" + "".join(_escape(char) for char in text) + "'"


def _escape(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    plain = char in _UNESCAPED or " " <= char != "\x7f"
    return char if plain else f"\\x{ord(char):02x}"


def exports(env: Iterable[EnvVar]) -> str:
    """Return the lines that export these variables."""
    return "".join(f"  export {quote(f'{variable.key}={variable.value}')}\n" for variable in env)


def fill(template: str, **values: object) -> str:
    """Return a template of ``templates/`` with its placeholders replaced."""
    return _template(template).substitute(values)


def too_large(subject: str, size: int, limit: int) -> InvalidInput:
    """Return the error for a workflow whose script or secrets are too large.

    Args:
        subject: What is too large, with a verb, such as ``the script has``.
        size: The size, or a lower bound of it. Unit: bytes.
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
