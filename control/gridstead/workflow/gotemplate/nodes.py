# SPDX-License-Identifier: Apache-2.0
"""What a template is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gridstead.errors import InvalidWorkflow, Problem

Value: TypeAlias = (
    Any  # what a template can hold: text, numbers, flags, nothing, lists and mappings
)


@dataclass(frozen=True, slots=True)
class Literal:
    """A text, a number, true, false or nil."""

    value: object


@dataclass(frozen=True, slots=True)
class Dot:
    """What ``.`` is here."""


@dataclass(frozen=True, slots=True)
class Variable:
    """What ``$name`` holds; ``$`` is the whole."""

    name: str


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a value."""

    of: Operand
    name: str


@dataclass(frozen=True, slots=True)
class Name:
    """A function."""

    name: str


@dataclass(frozen=True, slots=True)
class Pipe:
    """Commands, each of which gets the value of the one before as its last argument; a command is
    its operands.
    """

    commands: tuple[tuple[Operand, ...], ...]
    line: int


Operand = Literal | Dot | Variable | Member | Name | Pipe


@dataclass(frozen=True, slots=True)
class Text:
    """Text as it stands."""

    text: str


@dataclass(frozen=True, slots=True)
class Output:
    """A value as text."""

    pipe: Pipe


@dataclass(frozen=True, slots=True)
class Assign:
    """A variable that gets a value; a new one, or one that is there."""

    name: str
    pipe: Pipe
    new: bool


@dataclass(slots=True)
class TemplateBlock:
    """``if``, ``with`` or ``range``.

    Attributes:
        kind: Which of them.
        pipe: What it is about.
        names: Variables of the value, or of the key and the value.
        body: What stands in it.
        otherwise: What stands behind ``else``.
    """

    kind: str
    pipe: Pipe
    names: tuple[str, ...] = ()
    body: list[Node] = field(default_factory=list)
    otherwise: list[Node] = field(default_factory=list)


Node = Text | Output | Assign | TemplateBlock


def broken(line: int, reason: str) -> InvalidWorkflow:
    """Return what is wrong with a template, at a line of it."""
    return InvalidWorkflow(Problem(path="template", reason=reason, line=line))
