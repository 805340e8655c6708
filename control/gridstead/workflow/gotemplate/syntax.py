# SPDX-License-Identifier: Apache-2.0
"""The text of a template as nodes. Linear in the length of the text; nesting is bounded."""

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
    broken,
)

MAX_DEPTH = 32
BLOCKS = ("if", "with", "range")

_TOKEN = re.compile(
    r"""(?P<space>\s+) | (?P<text>"(?:\\.|[^"\\\n])*") | `(?P<raw>[^`]*)` | (?P<close>(?:-)?\}\})
    | (?P<number>[-+]?[0-9]{1,18}(?![\w.])) | (?P<field>\.[A-Za-z_]\w*) | (?P<variable>\$\w*) | (?P<word>[A-Za-z_]\w*)
    | (?P<sign>:=|[=|(),.])""",
    re.VERBOSE,
)
_WORDS: dict[str, object] = {"true": True, "false": False, "nil": None}


@dataclass(frozen=True, slots=True)
class _Token:
    """A word of an action; glued to the one before it, or behind a space."""

    kind: str
    text: str
    glued: bool


@dataclass(slots=True)
class _Action:
    """What stands between two pairs of braces."""

    tokens: list[_Token]
    line: int
    position: int = 0

    @property
    def kind(self) -> str:
        return self.tokens[self.position].kind if self.position < len(self.tokens) else "end"

    @property
    def text(self) -> str:
        return self.tokens[self.position].text if self.position < len(self.tokens) else ""

    def take(self, text: str) -> bool:
        """Return whether this stands here; if so, go on behind it."""
        found = self.kind in ("word", "sign") and self.text == text
        self.position += found
        return found

    def end(self) -> None:
        if self.kind != "end":
            raise broken(self.line, f"has {shorten(self.text)!r} where an action should end")


def parse(text: str) -> list[Node]:
    """Return the nodes of a template.

    Raises:
        InvalidWorkflow: If it is none, or uses what is not offered here.
    """
    return _Parser(text).parse()


@dataclass(slots=True)
class _Parser:
    """Reads a template from its begin to its end."""

    source: str
    nodes: list[Node] = field(default_factory=list)
    open: list[tuple[TemplateBlock, list[Node], int]] = field(default_factory=list)
    extra: list[int] = field(default_factory=list)

    def parse(self) -> list[Node]:
        position, line, trim = 0, 1, False
        while True:
            start = self.source.find("{{", position)
            text = self.source[position : start if start >= 0 else len(self.source)]
            line += text.count("\n")
            shown = text.lstrip() if trim else text
            if start < 0:
                self.nodes.append(Text(shown))
                break
            left = self.source[start + 2 : start + 4]
            trims_left = left[:1] == "-" and left[1:].isspace()
            self.nodes.append(Text(shown.rstrip() if trims_left else shown))
            action, end, trim = self._action(start + (3 if trims_left else 2), line)
            if action.tokens:
                self._node(action)
            line += self.source.count("\n", start, end)
            position = end
        if self.open:
            raise broken(self.open[-1][2], f"has no end for {self.open[-1][0].kind}")
        return self.nodes

    def _action(self, position: int, line: int) -> tuple[_Action, int, bool]:
        """Return an action, where it ends and whether it trims what follows."""
        begin = position
        while self.source[position : position + 1].isspace():
            position += 1
        if self.source.startswith("/*", position):
            end = self.source.find("*/", position)
            closing = re.compile(r"\s*-?\}\}").match(self.source, end + 2) if end >= 0 else None
            if not closing:
                raise broken(line, "has a comment that does not end")
            return _Action([], line), closing.end(), closing[0].endswith("-}}")
        tokens: list[_Token] = []
        glued, position = False, begin
        while match := _TOKEN.match(self.source, position):
            kind = match.lastgroup or ""
            if kind == "close":
                return _Action(tokens, line), match.end(), match[0].startswith("-")
            if kind != "space":
                tokens.append(_Token(kind, match[kind], glued))
            glued, position = kind != "space", match.end()
        if position >= len(self.source):
            raise broken(line, "has an action that does not end")
        raise broken(
            line,
            f"has {shorten(self.source[position : position + 10])!r} in an action, which cannot stand there",
        )

    def _node(self, action: _Action) -> None:
        if action.text in BLOCKS and action.kind == "word":
            self._begin(action)
        elif action.take("else"):
            self._else(action)
        elif action.take("end"):
            action.end()
            self._end(action.line)
        else:
            self.nodes.append(self._statement(action))

    def _begin(self, action: _Action, *, inner: bool = False) -> None:
        kind = action.text
        action.position += 1
        names: list[str] = []
        mark = action.position
        while action.kind == "variable":
            names.append(action.text)
            action.position += 1
            if not action.take(","):
                break
        if not names or not action.take(":="):
            names, action.position = [], mark
        block = TemplateBlock(kind, self._pipe(action, 0), tuple(names))
        action.end()
        if len(names) > (2 if kind == "range" else 1):
            raise broken(action.line, f"has {len(names)} variables for {kind}")
        if len(self.open) >= MAX_DEPTH:
            raise broken(action.line, f"is nested deeper than {MAX_DEPTH} levels")
        self.nodes.append(block)
        self.open.append((block, self.nodes, action.line))
        if inner:
            self.extra[-1] += 1
        else:
            self.extra.append(0)
        self.nodes = block.body

    def _else(self, action: _Action) -> None:
        if not self.open or self.nodes is self.open[-1][0].otherwise:
            raise broken(action.line, "has an else without a beginning")
        block = self.open[-1][0]
        self.nodes = block.otherwise
        if action.kind == "end":
            return
        if action.text != block.kind or block.kind == "range":
            raise broken(action.line, f"has {shorten(action.text)!r} behind else")
        self._begin(action, inner=True)

    def _end(self, line: int) -> None:
        if not self.open:
            raise broken(line, "has an end without a beginning")
        for _ in range(self.extra.pop() + 1):
            _, self.nodes, _ = self.open.pop()

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
            raise broken(action.line, f"is nested deeper than {MAX_DEPTH} levels")
        commands: list[tuple[Operand, ...]] = []
        while True:
            operands: list[Operand] = []
            while (operand := self._operand(action, depth)) is not None:
                operands.append(operand)
            if not operands:
                raise broken(action.line, "has an empty command in an action")
            commands.append(tuple(operands))
            if not action.take("|"):
                return Pipe(tuple(commands), action.line)

    def _operand(self, action: _Action, depth: int) -> Operand | None:
        kind, text = action.kind, action.text
        operand: Operand
        if kind == "end" or (kind == "sign" and text not in ("(", ".")):
            return None
        action.position += 1
        match kind:
            case "text":
                operand = Literal(_unquoted(text, action.line))
            case "raw":
                operand = Literal(text)
            case "number":
                operand = Literal(int(text))
            case "variable":
                operand = Variable(text)
            case "field":
                operand = Member(Dot(), text[1:])
            case "word":
                operand = Literal(_WORDS[text]) if text in _WORDS else Name(text)
            case _ if text == "(":
                operand = self._pipe(action, depth + 1)
                if not action.take(")"):
                    raise broken(action.line, "has a parenthesis that does not end")
            case _:
                operand = Dot()
        for _ in range(MAX_DEPTH):
            if action.kind != "field" or not action.tokens[action.position].glued:
                return operand
            operand = Member(operand, action.text[1:])
            action.position += 1
        raise broken(action.line, f"is nested deeper than {MAX_DEPTH} levels")


def _unquoted(text: str, line: int) -> str:
    try:
        value: str = json.loads(text)
    except ValueError as err:
        raise broken(line, f"has {shorten(text)}, which is no text") from err
    return value
