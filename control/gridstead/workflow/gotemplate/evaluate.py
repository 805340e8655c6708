# SPDX-License-Identifier: Apache-2.0
"""Expands a template with its values, within limits of work and size."""

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
    template_error,
)
from gridstead.workflow.gotemplate.syntax import parse

# Each command and each iteration is one unit of work. Arguments and results of functions count by
# their size: one unit for each item and for each CHARS_PER_WORK characters.
MAX_WORK = 100_000
CHARS_PER_WORK = 16
# Levels of lists and mappings in a value.
MAX_NESTED = 64

_Scope = dict[str, Value]


def expand(template: str, values: Mapping[str, Value]) -> str:
    """Return the text of a template expanded with values.

    Args:
        template: The text of the template.
        values: The value of ``.``. Field names are not case-sensitive.

    Raises:
        InvalidWorkflow: If the template is not valid, refers to a missing value, or exceeds a
            limit.
    """
    expansion = _Expansion()
    expansion.nodes(parse(template), values, [{"$": values}])
    return "".join(expansion.parts)


@dataclass(slots=True)
class _Expansion:
    """Walks through a template once and collects its output."""

    parts: list[str] = field(default_factory=list)
    work: int = 0
    chars: int = 0

    def nodes(self, nodes: Iterable[Node], dot: Value, scopes: list[_Scope]) -> None:
        scopes = [*scopes, {}]
        for node in nodes:
            match node:
                case Text():
                    self._write(node.text, 0)  # the line of a text is unknown
                case Output():
                    value = self._pipe(node.pipe, dot, scopes)
                    self._write(self._text(value, node.pipe.line), node.pipe.line)
                case Assign():
                    self._assign(node, dot, scopes)
                case TemplateBlock():
                    self._block(node, dot, scopes)

    def _write(self, text: str, line: int) -> None:
        self.chars += len(text)
        if self.chars > MAX_CHARS:
            raise template_error(line or 1, f"produces more than {MAX_CHARS // 1024} KiB")
        self.parts.append(text)

    def _text(self, value: Value, line: int) -> str:
        try:
            return to_text(value)
        except ValueError as err:
            raise template_error(line, f"has a value that {err}") from err

    def _assign(self, node: Assign, dot: Value, scopes: list[_Scope]) -> None:
        value = self._pipe(node.pipe, dot, scopes)
        scope: _Scope | None = scopes[-1]
        # An assignment with "=" changes the innermost variable of this name.
        if not node.is_new:
            scope = next((scope for scope in reversed(scopes) if node.name in scope), None)
        if scope is None:
            raise template_error(node.pipe.line, f"has no variable {shorten(node.name)}")
        scope[node.name] = value

    def _block(self, block: TemplateBlock, dot: Value, scopes: list[_Scope]) -> None:
        value = self._pipe(block.pipe, dot, scopes)
        if block.kind == "range":
            self._range(block, value, dot, scopes)
        elif is_true(value):
            variables = dict.fromkeys(block.names, value)
            inner_dot = value if block.kind == "with" else dot
            self.nodes(block.body, inner_dot, [*scopes, variables])
        else:
            self.nodes(block.otherwise, dot, [*scopes, dict.fromkeys(block.names, value)])

    def _range(self, block: TemplateBlock, value: Value, dot: Value, scopes: list[_Scope]) -> None:
        line = block.pipe.line
        pairs = _pairs(value, line)
        if not pairs:
            self.nodes(block.otherwise, dot, scopes)
        for key, item in pairs:
            self._count(line)
            variables: _Scope = {}
            if len(block.names) == 1:
                variables[block.names[0]] = item
            elif block.names:
                variables = dict(zip(block.names, (key, item), strict=True))
            self.nodes(block.body, item, [*scopes, variables])

    def _pipe(self, pipe: Pipe, dot: Value, scopes: list[_Scope]) -> Value:
        piped_values: tuple[Value, ...] = ()
        for command in pipe.commands:
            piped_values = (self._command(command, piped_values, dot, scopes, pipe.line),)
        return piped_values[0]

    def _command(
        self,
        command: tuple[Operand, ...],
        piped: tuple[Value, ...],
        dot: Value,
        scopes: list[_Scope],
        line: int,
    ) -> Value:
        """Return the value of a command.

        Args:
            command: The operands of the command.
            piped: The value of the previous command of the pipe. Empty for the first command.
            dot: The value of ``.``.
            scopes: The variables, innermost scope last.
            line: The line of the action.
        """
        self._count(line)
        first, *others = command
        if not isinstance(first, Name):
            if others or piped:
                raise template_error(line, "passes arguments to a value that is not a function")
            return self._value(first, dot, scopes, line)
        if first.name in ("and", "or"):
            # The piped value is the last operand, as in a function call.
            operands = (*others, *map(Literal, piped))
            return self._logic(first.name, operands, dot, scopes, line)
        arguments = [self._value(operand, dot, scopes, line) for operand in others]
        return self._call(first.name, [*arguments, *piped], line)

    def _logic(
        self,
        name: str,
        operands: Iterable[Operand],
        dot: Value,
        scopes: list[_Scope],
        line: int,
    ) -> Value:
        """Return the operand that decides the result. Later operands are not evaluated."""
        value: Value = None
        for operand in operands:
            value = self._value(operand, dot, scopes, line)
            is_decisive = is_true(value) if name == "or" else not is_true(value)
            if is_decisive:
                break
        return value

    def _call(self, name: str, arguments: list[Value], line: int) -> Value:
        function = FUNCTIONS.get(name)
        if function is None:
            reason = f"uses the function {shorten(name)}, which is not available"
            raise template_error(line, reason)
        self._count(line, sum(map(_weight, arguments)))
        try:
            value = function(*arguments)
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as err:
            raise template_error(line, f"cannot call {name}: {shorten(str(err))}") from err
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
                raise template_error(line, f"has no variable {shorten(operand.name)}")
            case Member():
                return _member(self._value(operand.operand, dot, scopes, line), operand.name, line)
            case Name():
                return self._call(operand.name, [], line)
            case Pipe():
                return self._pipe(operand, dot, scopes)

    def _count(self, line: int, work: int = 1) -> None:
        self.work += work
        if self.work > MAX_WORK:
            raise template_error(line, "exceeds the limit of work")


def _pairs(value: Value, line: int) -> list[tuple[Value, Value]]:
    """Return the keys and items that a ``range`` iterates over."""
    if isinstance(value, int) and not isinstance(value, bool):
        # MAX_WORK iterations exceed the limit of work already, so a longer list is not needed.
        return [(number, number) for number in range(min(value, MAX_WORK))]
    if isinstance(value, Mapping):
        return sorted(value.items())
    if isinstance(value, list | tuple) or value is None:
        return list(enumerate(value or ()))
    raise template_error(line, "ranges over a value that is not a list")


def _weight(value: Value) -> int:
    """Return the work that it takes to create or to read a value.

    A value that occurs several times in a list counts each time. The result exceeds the limit if
    the value is nested too deep.
    """
    weight = 0
    remaining_values = [(value, 0)]
    while remaining_values and weight <= MAX_WORK:
        item, depth = remaining_values.pop()
        if depth > MAX_NESTED:
            return MAX_WORK + 1
        weight += 1
        if isinstance(item, str):
            weight += len(item) // CHARS_PER_WORK
        elif isinstance(item, Mapping):
            remaining_values += [(inner, depth + 1) for inner in item.values()]
        elif isinstance(item, list | tuple):
            remaining_values += [(inner, depth + 1) for inner in item]
    return weight


def _member(value: Value, name: str, line: int) -> Value:
    """Return a field of a value.

    If no field has exactly this name, upper and lower case are not distinguished.
    """
    if value is None:
        raise template_error(line, f"refers to {shorten(name)} of a value that is nil")
    if isinstance(value, Mapping):
        if name in value:
            return value[name]
        for key, item in value.items():
            if str(key).lower() == name.lower():
                return item
    raise template_error(line, f"refers to {shorten(name)}, which does not exist")
