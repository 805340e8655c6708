# SPDX-License-Identifier: Apache-2.0
"""Parses a template to nodes, in linear time and with limited nesting."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from gridstead.workflow.document import shorten
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
    Variable,
    template_error,
)

MAX_DEPTH = 32
BLOCKS = ("if", "with", "range")

_TOKEN = re.compile(
    r"""(?P<space>\s+) | (?P<text>"(?:\\.|[^"\\\n])*") | `(?P<raw>[^`]*)` | (?P<close>(?:-)?\}\})
    | (?P<number>[-+]?[0-9]{1,18}(?![\w.])) | (?P<field>\.[A-Za-z_]\w*) | (?P<variable>\$\w*)
    | (?P<word>[A-Za-z_]\w*) | (?P<sign>:=|[=|(),.])""",
    re.VERBOSE,
)
_COMMENT_END = re.compile(r"\s*-?\}\}")
_CONSTANTS: dict[str, object] = {"true": True, "false": False, "nil": None}


@dataclass(frozen=True, slots=True)
class _Token:
    """A token of an action.

    Attributes:
        kind: The name of the group in ``_TOKEN``.
        text: The text of the token, without the quotes of a raw text.
        is_attached: Whether the token follows another token without a space. ``$a.B`` is one
            operand, and ``$a .B`` are two.
    """

    kind: str
    text: str
    is_attached: bool


@dataclass(slots=True)
class _Action:
    """The tokens between ``{{`` and ``}}``, and the position of the current token.

    ``kind`` and ``text`` are those of the current token. After the last token, ``kind`` is "end".
    """

    tokens: list[_Token]
    line: int
    position: int = 0

    @property
    def kind(self) -> str:
        return self.tokens[self.position].kind if self.position < len(self.tokens) else "end"

    @property
    def text(self) -> str:
        return self.tokens[self.position].text if self.position < len(self.tokens) else ""

    def accept(self, text: str) -> bool:
        """Skip the current token if it is this text, and return whether it was."""
        is_match = self.kind in ("word", "sign") and self.text == text
        if is_match:
            self.position += 1
        return is_match

    def end(self) -> None:
        """Check that all tokens were read."""
        if self.kind != "end":
            raise template_error(
                self.line, f"has {shorten(self.text)!r} where an action should end"
            )


def parse(text: str) -> list[Node]:
    """Return the nodes of a template.

    Raises:
        InvalidWorkflow: If the template is not valid or uses a construct that is not available.
    """
    return _Parser(text).parse()


@dataclass(slots=True)
class _Parser:
    """Parses a template from start to end.

    Attributes:
        source: The text of the template.
        nodes: The nodes of the innermost open block.
        open_blocks: The open blocks, outermost first. Each has the list of nodes that contains the
            block, and the line of the block.
        else_if_counts: For each expected ``end``, the number of ``else if`` blocks that it closes
            in addition to the first block.
    """

    source: str
    nodes: list[Node] = field(default_factory=list)
    open_blocks: list[tuple[TemplateBlock, list[Node], int]] = field(default_factory=list)
    else_if_counts: list[int] = field(default_factory=list)

    def parse(self) -> list[Node]:
        position, line, trims_text = 0, 1, False
        while True:
            start = self.source.find("{{", position)
            text = self.source[position : start if start >= 0 else len(self.source)]
            line += text.count("\n")
            if trims_text:
                text = text.lstrip()
            if start < 0:
                self.nodes.append(Text(text))
                break
            # "{{- " removes the white space before the action.
            marker = self.source[start + 2 : start + 4]
            trims_left = marker[:1] == "-" and marker[1:].isspace()
            self.nodes.append(Text(text.rstrip() if trims_left else text))
            action, end, trims_text = self._action(start + (3 if trims_left else 2), line)
            if action.tokens:
                self._node(action)
            line += self.source.count("\n", start, end)
            position = end
        if self.open_blocks:
            block, _, block_line = self.open_blocks[-1]
            raise template_error(block_line, f"has no end for {block.kind}")
        return self.nodes

    def _action(self, position: int, line: int) -> tuple[_Action, int, bool]:
        """Return an action, the position of its end, and whether it trims the text after it."""
        content_start = position
        while self.source[content_start : content_start + 1].isspace():
            content_start += 1
        if self.source.startswith("/*", content_start):
            return self._comment(content_start, line)
        tokens: list[_Token] = []
        is_attached = False
        while match := _TOKEN.match(self.source, position):
            kind = match.lastgroup or ""
            if kind == "close":
                return _Action(tokens, line), match.end(), match[0].startswith("-")
            if kind != "space":
                tokens.append(_Token(kind, match[kind], is_attached))
            is_attached = kind != "space"
            position = match.end()
        if position >= len(self.source):
            raise template_error(line, "has an action that does not end")
        unexpected_text = shorten(self.source[position : position + 10])
        raise template_error(line, f"has {unexpected_text!r} in an action, where it is not allowed")

    def _comment(self, position: int, line: int) -> tuple[_Action, int, bool]:
        end = self.source.find("*/", position)
        closing = _COMMENT_END.match(self.source, end + 2) if end >= 0 else None
        if not closing:
            raise template_error(line, "has a comment that does not end")
        return _Action([], line), closing.end(), closing[0].endswith("-}}")

    def _node(self, action: _Action) -> None:
        if action.text in BLOCKS and action.kind == "word":
            self._begin(action)
        elif action.accept("else"):
            self._else(action)
        elif action.accept("end"):
            action.end()
            self._end(action.line)
        else:
            self.nodes.append(self._statement(action))

    def _begin(self, action: _Action, *, after_else: bool = False) -> None:
        """Open a block. With ``after_else``, the ``end`` of the enclosing block also closes it."""
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
        action.end()
        max_names = 2 if kind == "range" else 1
        if len(names) > max_names:
            raise template_error(action.line, f"has {len(names)} variables for {kind}")
        if len(self.open_blocks) >= MAX_DEPTH:
            raise template_error(action.line, f"is nested deeper than {MAX_DEPTH} levels")
        self.nodes.append(block)
        self.open_blocks.append((block, self.nodes, action.line))
        if after_else:
            self.else_if_counts[-1] += 1
        else:
            self.else_if_counts.append(0)
        self.nodes = block.body

    def _else(self, action: _Action) -> None:
        if not self.open_blocks or self.nodes is self.open_blocks[-1][0].otherwise:
            raise template_error(action.line, "has an else without an if, range or with")
        block = self.open_blocks[-1][0]
        self.nodes = block.otherwise
        if action.kind == "end":
            return
        # Only "else if" in an "if" and "else with" in a "with" are allowed.
        if action.text != block.kind or block.kind == "range":
            raise template_error(action.line, f"has {shorten(action.text)!r} after else")
        self._begin(action, after_else=True)

    def _end(self, line: int) -> None:
        if not self.open_blocks:
            raise template_error(line, "has an end without an if, range or with")
        for _ in range(self.else_if_counts.pop() + 1):
            _, self.nodes, _ = self.open_blocks.pop()

    def _statement(self, action: _Action) -> Node:
        if action.kind == "variable" and action.position + 1 < len(action.tokens):
            name, sign = action.text, action.tokens[action.position + 1].text
            if sign in (":=", "="):
                action.position += 2
                node = Assign(name, self._pipe(action, 0), sign == ":=")
                action.end()
                return node
        pipe = self._pipe(action, 0)
        action.end()
        return Output(pipe)

    def _pipe(self, action: _Action, depth: int) -> Pipe:
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

    def _operand(self, action: _Action, depth: int) -> Operand | None:
        """Return the next operand with its fields. None if there is no operand."""
        can_start = action.kind != "sign" or action.text in ("(", ".")
        if action.kind == "end" or not can_start:
            return None
        operand = self._simple_operand(action, depth)
        for _ in range(MAX_DEPTH):
            if action.kind != "field" or not action.tokens[action.position].is_attached:
                return operand
            operand = Member(operand, action.text[1:])
            action.position += 1
        raise template_error(action.line, f"is nested deeper than {MAX_DEPTH} levels")

    def _simple_operand(self, action: _Action, depth: int) -> Operand:
        kind, text = action.kind, action.text
        action.position += 1
        match kind:
            case "text":
                return Literal(_unquoted(text, action.line))
            case "raw":
                return Literal(text)
            case "number":
                return Literal(int(text))
            case "variable":
                return Variable(text)
            case "field":
                return Member(Dot(), text[1:])
            case "word":
                return Literal(_CONSTANTS[text]) if text in _CONSTANTS else Name(text)
            case _ if text == "(":
                return self._parenthesis(action, depth)
            case _:  # the sign "."
                return Dot()

    def _parenthesis(self, action: _Action, depth: int) -> Pipe:
        pipe = self._pipe(action, depth + 1)
        if not action.accept(")"):
            raise template_error(action.line, "has a parenthesis that does not end")
        return pipe


def _unquoted(text: str, line: int) -> str:
    # JSON has the common escapes of Go. Other escapes are errors.
    try:
        value: str = json.loads(text)
    except ValueError as err:
        raise template_error(line, f"has {shorten(text)}, which is not a valid text") from err
    return value
