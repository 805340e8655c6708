# SPDX-License-Identifier: Apache-2.0
r"""Functions of templates for regular expressions, with the syntax and results of Go.

Go's package ``regexp`` and the library RE2 have the same syntax, and search in linear time. This
module implements Go's rules where RE2 differs: empty matches, the replacement text (``$1``,
``${name}``), ``\C``, which Go refuses, and ``\B``, which RE2 also finds between the bytes of a
character. All positions are positions in UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from gridstead.workflow.gotemplate.nodes import Value
from gridstead.workflow.gotemplate.printing import check_size

# RE2 refuses an expression whose program needs more memory, and searches slower if it runs out.
_MAX_MEMORY_BYTES = 2**20
# Measured: a unit of work takes at most about 20 µs.
_WORK_PER_CHAR = 2  # to parse an expression
_INSTRUCTIONS_PER_WORK = 32  # to create the program of an expression
_STEPS_PER_WORK = 2048  # a step is one instruction of the program at one byte of the text
_GROUPS_PER_STEP = 16  # a step also copies the positions of the groups
_BYTES_PER_SEARCH = 8  # starting a search takes as long as searching in so many bytes

_META = re.compile(r"[\\.+*?()|\[\]{}^$]")
# An escape sequence, or a literal text between \Q and \E.
_ESCAPE = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.", re.DOTALL)
_ANY_BYTE = r"\C"
_TOO_LARGE = "pattern too large"
_MAX_DIGITS = 8  # of the number of a group in a replacement text

# A function that counts work.
CountWork = Callable[[int], None]


class _InvalidExpressionError(ValueError):
    """The syntax of a regular expression is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expression:
    """A regular expression.

    Attributes:
        compiled: The expression of RE2.
        count_work: Counts work.
    """

    compiled: Any
    count_work: CountWork

    def matches(self, data: bytes) -> Iterator[Any]:
        """Yield the matches in the order of the text.

        As in Go, an empty match directly after another match does not count.
        """
        position, previous_end = 0, -1
        while position <= len(data):
            self.count_work(self._work(len(data) - position))
            match = self.compiled.search(data, position)
            if match is None:
                return
            start, end = match.span()
            if _is_in_character(data, start):  # an empty match of \B
                position = _next_character(data, start)
                continue
            is_empty_after_match = start == end == previous_end
            position = end if start < end else _next_character(data, end)
            previous_end = end
            if not is_empty_after_match:
                yield match

    def _work(self, size: int) -> int:
        """Return the work to search in a text of this size in bytes, in the worst case."""
        groups: int = self.compiled.groups
        instructions: int = self.compiled.programsize
        steps = (size + _BYTES_PER_SEARCH) * instructions
        steps += steps * groups // _GROUPS_PER_STEP
        return 1 + groups + steps // _STEPS_PER_WORK


def _next_character(data: bytes, position: int) -> int:
    position += 1
    while _is_in_character(data, position):
        position += 1
    return position


def _is_in_character(data: bytes, position: int) -> bool:
    """Return whether the position is inside a character in UTF-8, after its first byte."""
    return position < len(data) and data[position] & 0xC0 == 0x80


def _expression(count_work: CountWork, regex: Value, *, has_groups: bool = False) -> _Expression:
    """Return a regular expression.

    Args:
        count_work: Counts work.
        regex: The text of the expression.
        has_groups: Whether matches contain their groups. Without groups, a search is faster.

    Raises:
        _InvalidExpressionError: If the syntax of the expression is wrong.
        ValueError: If the expression is too large.
    """
    # The import is slow, and few templates have regular expressions.
    import re2  # noqa: PLC0415

    data = _encode(regex)
    count_work(_WORK_PER_CHAR * len(data))
    if _ANY_BYTE in _ESCAPE.findall(regex):
        raise _InvalidExpressionError(rf"invalid escape sequence: {_ANY_BYTE}")
    options = re2.Options()
    options.max_mem = _MAX_MEMORY_BYTES
    options.log_errors = False
    options.never_capture = not has_groups
    try:
        compiled = re2.compile(data, options)
    except re2.error as err:
        reason = err.args[0].decode(errors="replace")
        error = ValueError if reason.startswith(_TOO_LARGE) else _InvalidExpressionError
        raise error(reason) from err
    finally:
        re2.purge()  # Its cache would keep the memory of many expressions.
    count_work(compiled.programsize // _INSTRUCTIONS_PER_WORK)
    return _Expression(compiled=compiled, count_work=count_work)


def _encode(value: Value) -> bytes:
    if not isinstance(value, str):
        raise ValueError("needs a text")  # noqa: TRY004 # the error of all functions
    return value.encode()


def _must_match(count_work: CountWork, regex: Value, text: Value) -> bool:
    data = _encode(text)
    return next(_expression(count_work, regex).matches(data), None) is not None


def _match(count_work: CountWork, regex: Value, text: Value) -> bool:
    try:
        return _must_match(count_work, regex, text)
    except _InvalidExpressionError:
        return False  # Sprig ignores the error.


def _find(count_work: CountWork, regex: Value, text: Value) -> str:
    texts = _find_all(count_work, regex, text, 1)
    return texts[0] if texts else ""


def _find_all(count_work: CountWork, regex: Value, text: Value, limit: Value) -> list[str]:
    matches = _expression(count_work, regex).matches(_encode(text))
    return [match.group().decode() for match in _first(matches, limit)]


def _first(matches: Iterator[Any], limit: Value) -> Iterable[Any]:
    """Return the first matches. A negative limit means all matches."""
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise ValueError("needs a whole number")  # noqa: TRY004 # the error of all functions
    return matches if limit < 0 else islice(matches, limit)


def _split(count_work: CountWork, regex: Value, text: Value, limit: Value) -> list[str]:
    data = _encode(text)
    expression = _expression(count_work, regex)
    if limit == 0:
        return []
    if regex and not data:
        return [""]
    parts: list[str] = []
    start = end = 0
    for match in _first(expression.matches(data), limit):
        if len(parts) == limit - 1:
            break
        end = match.start()
        # An empty match at the start of the text separates nothing.
        if match.end() != 0:
            parts.append(data[start:end].decode())
        start = match.end()
    if end != len(data):
        parts.append(data[start:].decode())
    return parts


def _replace_literal(count_work: CountWork, regex: Value, text: Value, replacement: Value) -> str:
    _encode(replacement)
    return _replaced(_expression(count_work, regex), text, [replacement])


def _replace(count_work: CountWork, regex: Value, text: Value, replacement: Value) -> str:
    _encode(replacement)
    expression = _expression(count_work, regex, has_groups="$" in replacement)
    names = expression.compiled.groupindex
    indexes = {name.decode(): index for name, index in names.items()}
    parts = _parse_replacement(replacement, expression.compiled.groups, indexes)
    return _replaced(expression, text, parts)


def _replaced(expression: _Expression, text: Value, parts: list[str | int]) -> str:
    """Return the text with all matches replaced by parts: texts, and numbers of groups."""
    data = _encode(text)
    pieces: list[str] = []
    size = end = 0
    for match in expression.matches(data):
        expression.count_work(len(parts))
        new_pieces = [data[end : match.start()].decode()]
        new_pieces += [part if isinstance(part, str) else _group(match, part) for part in parts]
        size += sum(map(len, new_pieces))
        check_size(size)
        pieces += new_pieces
        end = match.end()
    rest = data[end:].decode()
    check_size(size + len(rest))
    return "".join((*pieces, rest))


def _group(match: Any, index: int) -> str:  # noqa: ANN401 - RE2 has no types
    return (match[index] or b"").decode()


def _parse_replacement(text: str, group_count: int, indexes: dict[str, int]) -> list[str | int]:
    """Return the parts of a replacement text: texts, and numbers of groups.

    ``$name`` and ``${name}`` select a group by its number or name. The name in ``$name`` is as long
    as possible. A group that does not exist is empty. ``$$`` is ``$``, and so is a ``$`` without a
    name.
    """
    parts: list[str | int] = []
    position = 0
    while (dollar := text.find("$", position)) >= 0:
        parts.append(text[position:dollar])
        position = dollar + 1
        name, end = _name_at(text, position)
        if not name:
            parts.append("$")
            position += text.startswith("$", position)
            continue
        position = end
        is_number = name.isascii() and name.isdigit() and (name == "0" or name[0] != "0")
        index = indexes.get(name, -1)
        if is_number:
            index = int(name) if len(name) <= _MAX_DIGITS else -1
        if 0 <= index <= group_count:
            parts.append(index)
    parts.append(text[position:])
    return parts


def _name_at(text: str, position: int) -> tuple[str, int]:
    """Return the name after a ``$``, and the position after it. The name is empty if invalid."""
    has_brace = text.startswith("{", position)
    start = end = position + has_brace
    while end < len(text) and _is_in_name(text[end]):
        end += 1
    if has_brace and not text.startswith("}", end):
        return "", position
    return text[start:end], end + has_brace


def _is_in_name(char: str) -> bool:
    return char.isalpha() or char.isdecimal() or char == "_"


def _quote_meta(text: str) -> str:
    check_size(2 * len(text))
    return _META.sub(r"\\\g<0>", text)


REGEX: dict[str, Callable[..., Value]] = {"regexQuoteMeta": _quote_meta}
METERED_REGEX: dict[str, Callable[..., Value]] = {
    "regexMatch": _match,
    "mustRegexMatch": _must_match,
    "regexFind": _find,
    "mustRegexFind": _find,
    "regexFindAll": _find_all,
    "mustRegexFindAll": _find_all,
    "regexReplaceAll": _replace,
    "mustRegexReplaceAll": _replace,
    "regexReplaceAllLiteral": _replace_literal,
    "mustRegexReplaceAllLiteral": _replace_literal,
    "regexSplit": _split,
    "mustRegexSplit": _split,
}
