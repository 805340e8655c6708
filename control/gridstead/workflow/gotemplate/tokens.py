# SPDX-License-Identifier: Apache-2.0
"""Splits a template into texts and actions, and actions into tokens, in linear time."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gridstead.workflow.gotemplate.nodes import Text, template_error
from gridstead.workflow.paths import shorten

_NUMBER = r"""[-+]?(?:0[xX][0-9a-fA-F_]{1,15} | 0[bB][01_]{1,63} | 0[oO][0-7_]{1,20}
    | (?:[0-9][0-9_]{0,17}(?:\.[0-9]{0,30})? | \.[0-9]{1,30})(?:[eE][-+]?[0-9]{1,3})?)(?![\w.])"""
_TOKEN = re.compile(
    rf"""(?P<space>\s+) | (?P<text>"(?:\\.|[^"\\\n])*") | `(?P<raw>[^`]*)` | (?P<close>(?:-)?\}}\}})
    | (?P<character>'(?:\\.[0-9a-fA-F]*|[^'\\\n])') | (?P<number>{_NUMBER})
    | (?P<field>\.[A-Za-z_]\w*) | (?P<variable>\$\w*)
    | (?P<word>[A-Za-z_]\w*) | (?P<punctuation>:=|[=|(),.])""",
    re.VERBOSE,
)
_COMMENT_END = re.compile(r"\s*-?\}\}")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPED |= {char: char for char in "\\'\""}
_FIRST_BYTE_OF_MANY = 0x80  # in UTF-8, a smaller byte is a character


@dataclass(frozen=True, slots=True)
class Token:
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
class Action:
    """The tokens between ``{{`` and ``}}``, and the position of the current token.

    ``kind`` and ``text`` are those of the current token. After the last token, ``kind`` is
    "none".
    """

    tokens: list[Token]
    line: int
    position: int = 0

    @property
    def kind(self) -> str:
        """Return the kind of the current token."""
        return self.tokens[self.position].kind if self.position < len(self.tokens) else "none"

    @property
    def text(self) -> str:
        """Return the text of the current token."""
        return self.tokens[self.position].text if self.position < len(self.tokens) else ""

    def accept(self, punctuation: str) -> bool:
        """Skip the current token if it is this punctuation, and return whether it was."""
        is_match = self.kind == "punctuation" and self.text == punctuation
        if is_match:
            self.position += 1
        return is_match

    def check_end(self) -> None:
        """Check that all tokens were read."""
        if self.kind != "none":
            raise template_error(
                self.line, f"has {shorten(self.text)!r} where an action should end"
            )


def split(source: str) -> Iterator[Text | Action]:
    """Yield the texts and the actions of a template. Comments are skipped.

    Raises:
        InvalidWorkflow: If an action contains something that is not a token, or does not end.
    """
    position, line, trims_text = 0, 1, False
    while True:
        start = source.find("{{", position)
        text = source[position : start if start >= 0 else len(source)]
        line += text.count("\n")
        if trims_text:
            text = text.lstrip()
        # "{{- " removes the white space before the action.
        marker = source[start + 2 : start + 4] if start >= 0 else ""
        trims_left = marker[:1] == "-" and marker[1:].isspace()
        if trims_left:
            text = text.rstrip()
        if text:
            yield Text(text)
        if start < 0:
            return
        action_start = start + len("{{-" if trims_left else "{{")
        action, end, trims_text = _action(source, action_start, line)
        if action.tokens:
            yield action
        line += source.count("\n", start, end)
        position = end


def _action(source: str, position: int, line: int) -> tuple[Action, int, bool]:
    """Return an action, the position of its end, and whether it trims the text after it."""
    content_start = position
    while source[content_start : content_start + 1].isspace():
        content_start += 1
    if source.startswith("/*", content_start):
        return _comment(source, content_start, line)
    tokens: list[Token] = []
    is_attached = False
    while match := _TOKEN.match(source, position):
        kind = match.lastgroup or ""
        if kind == "close":
            return Action(tokens, line), match.end(), match[0].startswith("-")
        if kind != "space":
            tokens.append(Token(kind, match[kind], is_attached))
        is_attached = kind != "space"
        position = match.end()
    if position >= len(source):
        raise template_error(line, "has an action that does not end")
    unexpected_text = shorten(source[position : position + 10])
    raise template_error(line, f"has {unexpected_text!r} in an action, where it is not allowed")


def _comment(source: str, position: int, line: int) -> tuple[Action, int, bool]:
    end = source.find("*/", position)
    closing = _COMMENT_END.match(source, end + 2) if end >= 0 else None
    if not closing:
        raise template_error(line, "has a comment that does not end")
    return Action([], line), closing.end(), closing[0].endswith("-}}")


def number(text: str, line: int) -> int | float:
    """Return the value of a number token. A whole number with a leading zero is octal, as in Go."""
    digits = text.lstrip("+-").replace("_", "")
    sign = -1 if text.startswith("-") else 1
    if digits[:2].lower() in ("0x", "0b", "0o"):
        return sign * int(digits, 0) if len(digits) > len("0x") else 0
    if digits.isdigit():
        is_octal = digits.startswith("0") and not set(digits) & set("89")
        return sign * int(digits, 8 if is_octal else 10)
    value = float(digits)
    if math.isinf(value):
        raise template_error(line, f"has {shorten(text)}, which is too large a number")
    return sign * value


def unquoted(text: str, line: int) -> str:
    """Return the text that a quoted text or a quoted character of Go represents."""
    try:
        return _ESCAPE.sub(_unescaped, text[1:-1])
    except ValueError as err:
        raise template_error(line, f"has {shorten(text)}, which is not a valid text") from err


def _unescaped(match: re.Match[str]) -> str:
    escape = match[1]
    if escape in _ESCAPED:
        return _ESCAPED[escape]
    if len(escape) == 1:
        raise ValueError("is not an escape")
    code = int(escape, 8) if escape.isdigit() else int(escape[1:], 16)
    is_byte = escape[0] not in "uU"
    is_surrogate = "\ud800" <= chr(code) <= "\udfff"
    if is_surrogate or (is_byte and code >= _FIRST_BYTE_OF_MANY):
        raise ValueError("is not a character")
    return chr(code)
