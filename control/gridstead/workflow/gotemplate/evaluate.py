# SPDX-License-Identifier: Apache-2.0
"""Expands a template with its values, within limits of work and size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gridstead.workflow.gotemplate.functions import FUNCTIONS, METERED_FUNCTIONS, why_unavailable
from gridstead.workflow.gotemplate.limits import MAX_WORK, work_of
from gridstead.workflow.gotemplate.nodes import (
    Assign,
    Dot,
    FunctionName,
    Jump,
    Literal,
    Map,
    Member,
    Node,
    Operand,
    Output,
    Pipe,
    Template,
    TemplateBlock,
    TemplateCall,
    Text,
    Value,
    Variable,
    template_error,
)
from gridstead.workflow.gotemplate.printing import MAX_CHARS, is_true, output_text
from gridstead.workflow.gotemplate.syntax import parse
from gridstead.workflow.paths import shorten

# Levels of blocks and template calls that are expanded at the same time. Each level needs about
# four levels of Python's own recursion, which is limited to 1000.
MAX_LEVELS = 100
_FUNCTION_ERRORS = (
    ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RuntimeError
)  # fmt: skip
MAX_MESSAGE_CHARS = 200  # characters of a message that a function or ``fail`` reports

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
    try:
        parsed_template = parse(template)
        expansion = _Expansion(parsed_template)
        expansion.expand_nodes(parsed_template.nodes, values, [{"$": values}], 1)
    except RecursionError as err:
        raise template_error(1, "is nested too deep") from err
    return "".join(expansion.parts)


@dataclass(slots=True)
class _Expansion:
    """Walks through a template once and collects its output."""

    template: Template
    parts: list[str] = field(default_factory=list)
    work: int = 0
    chars: int = 0
    levels: int = 0

    def expand_nodes(
        self, nodes: Iterable[Node], dot: Value, scopes: list[_Scope], line: int
    ) -> str | None:
        """Expand nodes, up to a ``break`` or ``continue``. Return this word, or None at the end."""
        self.levels += 1
        if self.levels > MAX_LEVELS:
            raise template_error(line, f"is expanded more than {MAX_LEVELS} levels deep")
        scopes = [*scopes, {}]
        jump = None
        for node in nodes:
            jump = self._expand_node(node, dot, scopes)
            if jump:
                break
        self.levels -= 1
        return jump

    def _expand_node(self, node: Node, dot: Value, scopes: list[_Scope]) -> str | None:
        match node:
            case Text():
                self._write(node.text, 0)  # the line of a text is unknown
            case Output():
                self._write_value(self._pipe_value(node.pipe, dot, scopes), node.pipe.line)
            case Assign():
                self._assign(node, dot, scopes)
            case TemplateCall():
                self._call_template(node, dot, scopes)
            case TemplateBlock():
                return self._expand_block(node, dot, scopes)
            case Jump():
                self._count(node.line)
                return node.kind
        return None

    def _write_value(self, value: Value, line: int) -> None:
        self._count(line, work_of(value))
        self._write(output_text(value), line)

    def _write(self, text: str, line: int) -> None:
        self.chars += len(text)
        if self.chars > MAX_CHARS:
            raise template_error(line or 1, f"produces more than {MAX_CHARS // 1024} KiB")
        self.parts.append(text)

    def _call_template(self, call: TemplateCall, dot: Value, scopes: list[_Scope]) -> None:
        """Expand a definition. It sees its argument, but no variables of the caller."""
        self._count(call.line)
        nodes = self.template.definitions.get(call.name)
        if nodes is None:
            raise template_error(call.line, f"has no definition of {shorten(call.name)}")
        value = self._pipe_value(call.pipe, dot, scopes) if call.pipe else None
        self.expand_nodes(nodes, value, [{"$": value}], call.line)

    def _assign(self, node: Assign, dot: Value, scopes: list[_Scope]) -> None:
        value = self._pipe_value(node.pipe, dot, scopes)
        scope: _Scope | None = scopes[-1]
        # An assignment with "=" changes the innermost variable of this name.
        if not node.is_new:
            scope = next((scope for scope in reversed(scopes) if node.name in scope), None)
        if scope is None:
            raise template_error(node.pipe.line, f"has no variable {shorten(node.name)}")
        scope[node.name] = value

    def _expand_block(self, block: TemplateBlock, dot: Value, scopes: list[_Scope]) -> str | None:
        value = self._pipe_value(block.pipe, dot, scopes)
        line = block.pipe.line
        if block.kind == "range":
            return self._expand_range(block, value, dot, scopes)
        inner_scopes = [*scopes, dict.fromkeys(block.variables, value)]
        if not is_true(value):
            return self.expand_nodes(block.else_nodes, dot, inner_scopes, line)
        inner_dot = value if block.kind == "with" else dot
        return self.expand_nodes(block.body, inner_dot, inner_scopes, line)

    def _expand_range(
        self, block: TemplateBlock, value: Value, dot: Value, scopes: list[_Scope]
    ) -> str | None:
        line = block.pipe.line
        is_empty = True
        if isinstance(value, Mapping):
            self._count(line, len(value))  # to sort the keys
        for key, item in _pairs(value, line):
            is_empty = False
            self._count(line)
            variables: _Scope = {}
            if len(block.variables) == 1:
                variables[block.variables[0]] = item
            elif block.variables:
                variables = dict(zip(block.variables, (key, item), strict=True))
            if self.expand_nodes(block.body, item, [*scopes, variables], line) == "break":
                break
        if is_empty:
            return self.expand_nodes(block.else_nodes, dot, scopes, line)
        return None

    def _pipe_value(self, pipe: Pipe, dot: Value, scopes: list[_Scope]) -> Value:
        piped_values: tuple[Value, ...] = ()
        for command in pipe.commands:
            piped_values = (self._command_value(command, piped_values, dot, scopes, pipe.line),)
        return piped_values[0]

    def _command_value(
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
        if not isinstance(first, FunctionName):
            if others or piped:
                raise template_error(line, "passes arguments to a value that is not a function")
            return self._operand_value(first, dot, scopes, line)
        if first.name in ("and", "or"):
            # The piped value is the last operand, as in a function call.
            operands = (*others, *map(Literal, piped))
            return self._logic(first.name, operands, dot, scopes, line)
        arguments = [self._operand_value(operand, dot, scopes, line) for operand in others]
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
            value = self._operand_value(operand, dot, scopes, line)
            is_decisive = is_true(value) if name == "or" else not is_true(value)
            if is_decisive:
                break
        return value

    def _call(self, name: str, arguments: list[Value], line: int) -> Value:
        if name not in FUNCTIONS and name not in METERED_FUNCTIONS:
            reason = f"uses the function {shorten(name)}, which {why_unavailable(name)}"
            raise template_error(line, reason)
        self._count(line, sum(map(work_of, arguments)))
        try:
            if name in METERED_FUNCTIONS:
                value = METERED_FUNCTIONS[name](lambda work: self._count(line, work), *arguments)
            else:
                value = FUNCTIONS[name](*arguments)
        except _FUNCTION_ERRORS as err:
            message = shorten(str(err), MAX_MESSAGE_CHARS)
            raise template_error(line, f"cannot call {name}: {message}") from err
        self._count(line, work_of(value))
        return value

    def _operand_value(
        self, operand: Operand, dot: Value, scopes: list[_Scope], line: int
    ) -> Value:
        self._count(line)
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
                return self._field_value(operand, dot, scopes, line)
            case FunctionName():
                return self._call(operand.name, [], line)
            case Pipe():
                return self._pipe_value(operand, dot, scopes)

    def _field_value(self, member: Member, dot: Value, scopes: list[_Scope], line: int) -> Value:
        """Return the value of fields such as ``.A.B.C``, without a recursion for each field."""
        operand: Operand = member
        names: list[str] = []
        while isinstance(operand, Member):
            self._count(line)
            names.append(operand.name)
            operand = operand.operand
        value = self._operand_value(operand, dot, scopes, line)
        for name in reversed(names):
            value = _read_member(value, name, line)
        return value

    def _count(self, line: int, work: int = 1) -> None:
        self.work += work
        if self.work > MAX_WORK:
            raise template_error(line, "exceeds the limit of work")


def _pairs(value: Value, line: int) -> Iterable[tuple[Value, Value]]:
    """Return the keys and items that a ``range`` iterates over.

    No list of them is created, since a ``break`` can end the ``range`` early.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return zip(range(value), range(value), strict=True)
    if isinstance(value, Mapping):
        return sorted(value.items())
    if isinstance(value, list | tuple) or value is None:
        return enumerate(value or ())
    raise template_error(line, "ranges over a value that is not a list")


def _read_member(value: Value, name: str, line: int) -> Value:
    """Return a field of a value.

    If no field has exactly this name, upper and lower case are not distinguished.
    """
    if value is None:
        raise template_error(line, f"refers to {shorten(name)} of a value that is nil")
    if isinstance(value, Mapping):
        if name in value or isinstance(value, Map):
            return value.get(name)
        for key, item in value.items():
            if str(key).lower() == name.lower():
                return item
    raise template_error(line, f"refers to {shorten(name)}, which does not exist")
