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

_AS_THEY_ARE = "\n\t"


class _ShellTemplate(Template):
    """Holes are ``%%{name}``, which no shell text has."""

    delimiter = "%%"


def quote(text: str) -> str:
    """Return the text as one word of bash that stands for exactly this text, on lines without
    control characters.

    Any character is allowed but NUL.
    """
    if all(char.isprintable() or char >= "\x80" or char in _AS_THEY_ARE for char in text):
        return shlex.quote(text)
    return "$'" + "".join(_escape(char) for char in text) + "'"


def _escape(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    plain = char in _AS_THEY_ARE or " " <= char != "\x7f"
    return char if plain else f"\\x{ord(char):02x}"


def exports(env: Iterable[EnvVar]) -> str:
    """Return the lines that set these variables."""
    return "".join(f"  export {quote(f'{variable.key}={variable.value}')}\n" for variable in env)


def fill(template: str, **values: object) -> str:
    """Return a template of ``templates/`` with its holes filled."""
    return _template(template).substitute(values)


def too_large(what: str, size: int, most: int) -> InvalidInput:
    """Return the error of a workflow of which something takes so many bytes, or more."""
    return InvalidInput(
        "cannot run this workflow", detail=f"{what} takes at least {size} bytes; {most} are allowed"
    )


@cache
def _template(name: str) -> _ShellTemplate:
    return _ShellTemplate(
        resources.files("gridstead.workflow")
        .joinpath("templates", name)
        .read_text(encoding="utf-8")
    )
