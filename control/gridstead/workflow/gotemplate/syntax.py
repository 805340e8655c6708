# SPDX-License-Identifier: Apache-2.0
"""Parses a template to nodes, in linear time and with limited nesting."""

from __future__ import annotations

from dataclasses import dataclass, field

from gridstead.workflow.gotemplate.nodes import (
    Assign,
    Dot,
    FunctionName,
    Jump,
    Literal,
    Member,
    Node,
    Operand,
    Output,
    Pipe,
    Template,
    TemplateBlock,
    TemplateCall,
    Text,
    Variable,
    template_error,
)
from gridstead.workflow.gotemplate.tokens import Action, number, split, unquoted
from gridstead.workflow.paths import shorten

MAX_DEPTH = 32

_CONSTANTS: dict[str, object] = {"true": True, "false": False, "nil": None}


def parse(text: str) -> Template:
    """Return a template as nodes.

    Raises:
        InvalidWorkflow: If the template is not valid or uses a construct that is not available.
    """
    return _Parser().parse(text)


@dataclass(slots=True)
class _OpenBlock:
    """A block whose ``end`` was not read yet.

    Attributes:
        kind: The word that opened the block.
        line: The line of this word.
        outer_nodes: The list of nodes that contains the block.
        block: The block. None for ``define`` and ``block``.
        name: The name of the definition, for ``define`` and ``block``.
        is_else: Whether the nodes after ``else`` are being read.
        is_after_else: Whether the block follows an ``else``, as in ``else if``. The ``end`` of the
            enclosing block also closes it.
    """

    kind: str
    line: int
    outer_nodes: list[Node]
    block: TemplateBlock | None = None
    name: str = ""
    is_else: bool = False
    is_after_else: bool = False


@dataclass(slots=True)
class _Parser:
    """Parses a template from start to end.

    Attributes:
        nodes: The nodes of the innermost open block.
        open_blocks: The open blocks, outermost first.
        definitions: The nodes of each ``define`` and ``block``, by name.
    """

    nodes: list[Node] = field(default_factory=list)
    open_blocks: list[_OpenBlock] = field(default_factory=list)
    definitions: dict[str, list[Node]] = field(default_factory=dict)

    def parse(self, source: str) -> Template:
        for part in split(source):
            if isinstance(part, Text):
                self.nodes.append(part)
            else:
                self._node(part)
        if self.open_blocks:
            block = self.open_blocks[-1]
            raise template_error(block.line, f"has no end for {block.kind}")
        return Template(self.nodes, self.definitions)

    def _node(self, action: Action) -> None:
        match action.text if action.kind == "word" else "":
            case "if" | "with" | "range":
                self._begin(action)
            case "else":
                action.position += 1
                self._else(action)
            case "end":
                action.position += 1
                action.check_end()
                self._end(action.line)
            case "define" | "block":
                self._begin_definition(action)
            case "template":
                action.position += 1
                name = self._name(action)
                self._call(name, action)
            case "break" | "continue":
                self._jump(action)
            case _:
                self.nodes.append(self._statement(action))

    def _begin(self, action: Action, *, is_after_else: bool = False) -> None:
        """Open a block that starts with ``if``, ``with`` or ``range``."""
        kind = action.text
        action.position += 1
        names: list[str] = []
        position_of_pipe = action.position
        while action.kind == "variable":
            names.append(action.text)
            action.position += 1
            if not action.accept(","):
                break
        if not names or not action.accept(":="):
            # Without ":=", the variables are operands of the pipe, so they are parsed again.
            names, action.position = [], position_of_pipe
        block = TemplateBlock(kind, self._pipe(action, 0), tuple(names))
        action.check_end()
        max_names = 2 if kind == "range" else 1
        if len(names) > max_names:
            raise template_error(action.line, f"has {len(names)} variables for {kind}")
        self.nodes.append(block)
        self._open(_OpenBlock(kind, action.line, self.nodes, block, is_after_else=is_after_else))
        self.nodes = block.body

    def _begin_definition(self, action: Action) -> None:
        """Open a ``define`` or a ``block``. A ``block`` is also expanded where it is."""
        kind = action.text
        action.position += 1
        name = self._name(action)
        if kind == "block":
            self._call(name, action)
        elif self.open_blocks:
            raise template_error(action.line, f"has a define inside {self.open_blocks[-1].kind}")
        action.check_end()
        self._open(_OpenBlock(kind, action.line, self.nodes, name=name))
        self.nodes = []

    def _open(self, block: _OpenBlock) -> None:
        if len(self.open_blocks) >= MAX_DEPTH:
            raise template_error(block.line, f"is nested deeper than {MAX_DEPTH} levels")
        self.open_blocks.append(block)

    def _else(self, action: Action) -> None:
        innermost = self.open_blocks[-1] if self.open_blocks else None
        if innermost is None or innermost.block is None or innermost.is_else:
            raise template_error(action.line, "has an else without an if, range or with")
        innermost.is_else = True
        self.nodes = innermost.block.else_nodes
        if action.kind == "none":
            return
        # Only "else if" in an "if" and "else with" in a "with" are allowed.
        if action.text != innermost.kind or innermost.kind == "range":
            raise template_error(action.line, f"has {shorten(action.text)!r} after else")
        self._begin(action, is_after_else=True)

    def _end(self, line: int) -> None:
        if not self.open_blocks:
            raise template_error(line, "has an end without an if, range or with")
        block = self.open_blocks.pop()
        while block.is_after_else:
            block = self.open_blocks.pop()
        if block.block is None:
            self._define(block.name, self.nodes, line)
        self.nodes = block.outer_nodes

    def _define(self, name: str, nodes: list[Node], line: int) -> None:
        """Store a definition. Only a definition without content can be replaced, as in Go."""
        has_content = not _is_blank(nodes)
        if has_content and not _is_blank(self.definitions.get(name, [])):
            raise template_error(line, f"defines {shorten(name)} twice")
        if has_content or name not in self.definitions:
            self.definitions[name] = nodes

    def _name(self, action: Action) -> str:
        """Return the name of a definition, which is a quoted text."""
        kind, text = action.kind, action.text
        if kind not in ("text", "raw"):
            raise template_error(action.line, "has a template without a name in quotes")
        action.position += 1
        return text if kind == "raw" else unquoted(text, action.line)

    def _call(self, name: str, action: Action) -> None:
        pipe = None if action.kind == "none" else self._pipe(action, 0)
        action.check_end()
        self.nodes.append(TemplateCall(name, pipe, action.line))

    def _jump(self, action: Action) -> None:
        kind = action.text
        action.position += 1
        action.check_end()
        if not self._is_in_range():
            raise template_error(action.line, f"has a {kind} outside a range")
        self.nodes.append(Jump(kind, action.line))

    def _is_in_range(self) -> bool:
        for block in reversed(self.open_blocks):
            if block.block is None:
                return False
            if block.kind == "range" and not block.is_else:
                return True
        return False

    def _statement(self, action: Action) -> Node:
        start, name = action.position, action.text
        if action.kind == "variable":
            action.position += 1
            is_new = action.accept(":=")
            if is_new or action.accept("="):
                node = Assign(name, self._pipe(action, 0), is_new)
                action.check_end()
                return node
            # Without ":=" or "=", the variable is the first operand of a pipe.
            action.position = start
        pipe = self._pipe(action, 0)
        action.check_end()
        return Output(pipe)

    def _pipe(self, action: Action, depth: int) -> Pipe:
        if depth > MAX_DEPTH:
            raise template_error(action.line, f"is nested deeper than {MAX_DEPTH} levels")
        commands: list[tuple[Operand, ...]] = []
        while True:
            operands: list[Operand] = []
            while (operand := self._operand(action, depth)) is not None:
                operands.append(operand)
            if not operands:
                raise template_error(action.line, "has an empty command in an action")
            commands.append(tuple(operands))
            if not action.accept("|"):
                return Pipe(tuple(commands), action.line)

    def _operand(self, action: Action, depth: int) -> Operand | None:
        """Return the next operand with its fields. None if there is no operand."""
        can_start = action.kind != "punctuation" or action.text in ("(", ".")
        if action.kind == "none" or not can_start:
            return None
        operand = self._simple_operand(action, depth)
        for _ in range(MAX_DEPTH):
            if action.kind != "field" or not action.tokens[action.position].is_attached:
                return operand
            operand = Member(operand, action.text[1:])
            action.position += 1
        raise template_error(action.line, f"is nested deeper than {MAX_DEPTH} levels")

    def _simple_operand(self, action: Action, depth: int) -> Operand:
        kind, text = action.kind, action.text
        action.position += 1
        match kind:
            case "variable":
                return Variable(text)
            case "field":
                return Member(Dot(), text[1:])
            case "word":
                return Literal(_CONSTANTS[text]) if text in _CONSTANTS else FunctionName(text)
            case _ if text == "(" and kind == "punctuation":
                return self._parenthesis(action, depth)
            case "punctuation":  # the token "."
                return Dot()
            case _:
                return Literal(_constant(kind, text, action.line))

    def _parenthesis(self, action: Action, depth: int) -> Pipe:
        pipe = self._pipe(action, depth + 1)
        if not action.accept(")"):
            raise template_error(action.line, "has a parenthesis that does not end")
        return pipe


def _constant(kind: str, text: str, line: int) -> str | int | float:
    match kind:
        case "number":
            return number(text, line)
        case "raw":
            return text
        case "text":
            return unquoted(text, line)
        case _:  # a character is the number of its code point
            character = unquoted(text, line)
            if len(character) != 1:
                raise template_error(line, f"has {shorten(text)}, which is not a character")
            return ord(character)


def _is_blank(nodes: list[Node]) -> bool:
    return all(isinstance(node, Text) and node.text.isspace() for node in nodes)
