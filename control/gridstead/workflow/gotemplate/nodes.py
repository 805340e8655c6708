# SPDX-License-Identifier: Apache-2.0
"""The nodes of a parsed template."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gridstead.errors import InvalidWorkflow, WorkflowProblem

# A value of a template: text, number, boolean, nil, list or mapping.
Value: TypeAlias = Any


class Map(dict[str, Value]):
    """A mapping that a template created. Its missing keys are nil, as in a map of Go.

    Any other mapping is a part of the job or the step. A missing key is an error there, as in a
    struct of Go.
    """


@dataclass(frozen=True, slots=True)
class Literal:
    """A text, a number, true, false or nil."""

    value: object


@dataclass(frozen=True, slots=True)
class Dot:
    """The value of ``.``."""


@dataclass(frozen=True, slots=True)
class Variable:
    """The value of ``$name``. ``$`` is the top-level value."""

    name: str


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a value. In a template: ``.Name`` or ``$step.Name``, for example."""

    operand: Operand
    name: str


@dataclass(frozen=True, slots=True)
class FunctionName:
    """The name of a function."""

    name: str


@dataclass(frozen=True, slots=True)
class Pipe:
    """A pipe of commands.

    Each command receives the value of the previous command as its last argument. A command is the
    tuple of its operands.
    """

    commands: tuple[tuple[Operand, ...], ...]
    line: int


Operand = Literal | Dot | Variable | Member | FunctionName | Pipe


@dataclass(frozen=True, slots=True)
class Text:
    """Literal text outside actions. It is not empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Output:
    """An action that writes a value as text."""

    pipe: Pipe


@dataclass(frozen=True, slots=True)
class Assign:
    """An assignment to a new or an existing variable."""

    name: str
    pipe: Pipe
    is_new: bool


@dataclass(frozen=True, slots=True)
class Jump:
    """``break`` or ``continue`` in a ``range``."""

    kind: str
    line: int


@dataclass(frozen=True, slots=True)
class TemplateCall:
    """``template`` or ``block``: expands a definition. Without a pipe, its ``.`` is nil."""

    name: str
    pipe: Pipe | None
    line: int


@dataclass(slots=True)
class TemplateBlock:
    """A block that starts with ``if``, ``with`` or ``range``, and ends with ``end``.

    Attributes:
        kind: ``if``, ``with`` or ``range``.
        pipe: The condition or the list.
        variables: The variables before ``:=``: one for the value, or two for the key and the value.
        body: The nodes of the block.
        else_nodes: The nodes after ``else``.
    """

    kind: str
    pipe: Pipe
    variables: tuple[str, ...] = ()
    body: list[Node] = field(default_factory=list)
    else_nodes: list[Node] = field(default_factory=list)


Node = Text | Output | Assign | Jump | TemplateCall | TemplateBlock


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template: its nodes, and the nodes of each ``define`` and ``block`` by name."""

    nodes: list[Node]
    definitions: dict[str, list[Node]]


def template_error(line: int, reason: str) -> InvalidWorkflow:
    """Return the error for a problem at a line of a template."""
    return InvalidWorkflow(WorkflowProblem(path="template", reason=reason, line=line))
