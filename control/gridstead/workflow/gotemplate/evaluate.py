# SPDX-License-Identifier: Apache-2.0
"""A template with its values, within bounds of work and size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gridstead.workflow.document import shorten
from gridstead.workflow.gotemplate.functions import FUNCTIONS, MAX_CHARS, is_true, to_text
from gridstead.workflow.gotemplate.nodes import (
    Assign,
    Dot,
    Literal,
    Member,
    Name,
    Node,
    Operand,
    Output,
    Pipe,
    TemplateBlock,
    Text,
    Value,
    Variable,
    broken,
)
from gridstead.workflow.gotemplate.syntax import parse

MAX_WORK = 100_000
MAX_NESTED = 64
CHARS_PER_WORK = 16

_Scope = dict[str, Value]


def expand(template: str, values: Mapping[str, Value]) -> str:
    """Return the text that a template makes of values.

    Args:
        template: Its text.
        values: What ``.`` is. Names of fields are found whatever the case of their letters.

    Raises:
        InvalidWorkflow: If it is no template, asks for what is not there, or makes too much.
    """
    run = _Run()
    run.nodes(parse(template), values, [{"$": values}])
    return "".join(run.parts)


@dataclass(slots=True)
class _Run:
    """Walks through a template once."""

    parts: list[str] = field(default_factory=list)
    work: int = 0
    chars: int = 0

    def nodes(self, nodes: Iterable[Node], dot: Value, scopes: list[_Scope]) -> None:
        scopes = [*scopes, {}]
        for node in nodes:
            match node:
                case Text():
                    self._write(node.text, 0)
                case Output():
                    self._write(
                        self._text(self._pipe(node.pipe, dot, scopes), node.pipe.line),
                        node.pipe.line,
                    )
                case Assign():
                    self._assign(node, dot, scopes)
                case TemplateBlock():
                    self._block(node, dot, scopes)

    def _write(self, text: str, line: int) -> None:
        self.chars += len(text)
        if self.chars > MAX_CHARS:
            raise broken(line or 1, f"makes more than {MAX_CHARS // 1024} KiB")
        self.parts.append(text)

    def _text(self, value: Value, line: int) -> str:
        try:
            return to_text(value)
        except ValueError as err:
            raise broken(line, f"has a value that {err}") from err

    def _assign(self, node: Assign, dot: Value, scopes: list[_Scope]) -> None:
        value = self._pipe(node.pipe, dot, scopes)
        scope = (
            scopes[-1]
            if node.new
            else next((each for each in reversed(scopes) if node.name in each), None)
        )
        if scope is None:
            raise broken(node.pipe.line, f"has no variable {shorten(node.name)}")
        scope[node.name] = value

    def _block(self, block: TemplateBlock, dot: Value, scopes: list[_Scope]) -> None:
        value = self._pipe(block.pipe, dot, scopes)
        if block.kind == "range":
            self._range(block, value, dot, scopes)
        elif is_true(value):
            named = dict.fromkeys(block.names, value)
            self.nodes(block.body, value if block.kind == "with" else dot, [*scopes, named])
        else:
            self.nodes(block.otherwise, dot, [*scopes, dict.fromkeys(block.names, value)])

    def _range(self, block: TemplateBlock, value: Value, dot: Value, scopes: list[_Scope]) -> None:
        line = block.pipe.line
        if isinstance(value, int) and not isinstance(value, bool):
            pairs: list[tuple[Value, Value]] = [
                (number, number) for number in range(min(value, MAX_WORK))
            ]
        elif isinstance(value, Mapping):
            pairs = sorted(value.items())
        elif isinstance(value, list | tuple) or value is None:
            pairs = list(enumerate(value or ()))
        else:
            raise broken(line, "ranges over what is no list")
        if not pairs:
            self.nodes(block.otherwise, dot, scopes)
        for pair in pairs:
            self._count(line)
            named = (
                dict(zip(block.names, pair[2 - len(block.names) :], strict=True))
                if block.names
                else {}
            )
            self.nodes(block.body, pair[1], [*scopes, named])

    def _pipe(self, pipe: Pipe, dot: Value, scopes: list[_Scope]) -> Value:
        before: tuple[Value, ...] = ()
        for command in pipe.commands:
            before = (self._command(command, before, dot, scopes, pipe.line),)
        return before[0]

    def _command(
        self,
        command: tuple[Operand, ...],
        before: tuple[Value, ...],
        dot: Value,
        scopes: list[_Scope],
        line: int,  # any value
    ) -> Value:
        self._count(line)
        first, *others = command
        if not isinstance(first, Name):
            if others or before:
                raise broken(line, "gives arguments to what is no function")
            return self._value(first, dot, scopes, line)
        if first.name in ("and", "or"):
            return self._logic(first.name, others, before, dot, scopes, line)
        arguments = [self._value(operand, dot, scopes, line) for operand in others]
        return self._call(first.name, [*arguments, *before], line)

    def _logic(  # where it stands
        self,
        name: str,
        operands: list[Operand],
        before: tuple[Value, ...],
        dot: Value,
        scopes: list[_Scope],
        line: int,  # any value
    ) -> Value:
        """The first value that decides; those behind it are not looked at."""
        value: Value = None
        for operand in (*operands, *map(Literal, before)):
            value = self._value(operand, dot, scopes, line)
            if is_true(value) == (name == "or"):
                break
        return value

    def _call(self, name: str, arguments: list[Value], line: int) -> Value:
        function = FUNCTIONS.get(name)
        if function is None:
            raise broken(line, f"has the function {shorten(name)}, which is not offered")
        self._count(line, sum(map(_weight, arguments)))
        try:
            value = function(*arguments)
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as err:
            raise broken(line, f"cannot call {name}: {shorten(str(err))}") from err
        self._count(line, _weight(value))
        return value

    def _value(self, operand: Operand, dot: Value, scopes: list[_Scope], line: int) -> Value:
        match operand:
            case Literal():
                return operand.value
            case Dot():
                return dot
            case Variable():
                for scope in reversed(scopes):
                    if operand.name in scope:
                        return scope[operand.name]
                raise broken(line, f"has no variable {shorten(operand.name)}")
            case Member():
                return _member(self._value(operand.of, dot, scopes, line), operand.name, line)
            case Name():
                return self._call(operand.name, [], line)
            case Pipe():
                return self._pipe(operand, dot, scopes)

    def _count(self, line: int, work: int = 1) -> None:
        self.work += work
        if self.work > MAX_WORK:
            raise broken(line, "is too much work")


def _weight(value: Value) -> int:
    """Return how much work a value is, to make or to look at; more than all if it is deep.

    It counts as a tree, for a list may hold another many times.
    """
    weight, left = 0, [(value, 0)]
    while left and weight <= MAX_WORK:
        each, depth = left.pop()
        if depth > MAX_NESTED:
            return MAX_WORK + 1
        weight += 1 + (len(each) // CHARS_PER_WORK if isinstance(each, str) else 0)
        if isinstance(each, Mapping):
            left += [(item, depth + 1) for item in each.values()]
        elif isinstance(each, list | tuple):
            left += [(item, depth + 1) for item in each]
    return weight


def _member(value: Value, name: str, line: int) -> Value:
    if isinstance(value, Mapping):
        if name in value:
            return value[name]
        for key, item in value.items():
            if str(key).lower() == name.lower():
                return item
    what = "of nothing" if value is None else "which is not there"
    raise broken(line, f"asks for {shorten(name)}, {what}")
