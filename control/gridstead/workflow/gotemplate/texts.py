# SPDX-License-Identifier: Apache-2.0
"""Functions of templates for texts.

A function whose result can be much larger than its arguments checks the size of the result first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote_plus

from gridstead.workflow.gotemplate.formats import printf
from gridstead.workflow.gotemplate.nodes import Map, Value
from gridstead.workflow.gotemplate.printing import check_size, quoted, to_text

_WORD_START = re.compile(r"(?<!\w)\w")
_HTML = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;", "\0": "\ufffd"}
)
_CASE_CHANGE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def _size_limited(function: Callable[..., str]) -> Callable[..., str]:
    """Return ``function`` with a check of its arguments' total size before each call."""

    def limited(*values: Value) -> str:
        check_size(sum(len(value) for value in values if isinstance(value, str)))
        return function(*values)

    return limited


def _print(*values: Value) -> str:
    """Return the texts of values. Go writes a space between two values that are not texts."""
    parts: list[str] = []
    for number, value in enumerate(values):
        is_next_to_text = isinstance(value, str) or isinstance(values[number - 1], str)
        needs_space = number > 0 and not is_next_to_text
        parts.append(f" {to_text(value)}" if needs_space else to_text(value))
    return "".join(parts)


def _quote(*values: Value) -> str:
    return " ".join(quoted(to_text(value)) for value in values if value is not None)


def _squote(*values: Value) -> str:
    return " ".join(f"'{to_text(value)}'" for value in values if value is not None)


def _cat(*values: Value) -> str:
    return " ".join(to_text(value) for value in values if value is not None)


def _indent(width: int, text: str) -> str:
    check_size((text.count("\n") + 1) * max(width, 0) + len(text))
    return "\n".join(" " * width + line for line in text.split("\n"))


def _repeat(times: int, text: str) -> str:
    check_size(max(times, 0) * len(text))
    return text * times


def _replace(old: str, new: str, text: str) -> str:
    added_length = max(len(new) - len(old), 0)
    check_size(len(text) + text.count(old) * added_length)
    return text.replace(old, new)


def _join(separator: str, values: Value) -> str:
    items = values if isinstance(values, list | tuple) else [values]
    texts = [to_text(value) for value in items if value is not None]
    check_size(sum(map(len, texts)) + len(texts) * len(separator))
    return separator.join(texts)


def _split_list(separator: str, text: str) -> list[str]:
    return text.split(separator) if separator else list(text)


def _numbered(parts: list[str]) -> Map:
    return Map({f"_{number}": part for number, part in enumerate(parts)})


def _split_n(separator: str, count: int, text: str) -> Map:
    if count <= 0:
        return _numbered(_split_list(separator, text) if count else [])
    return _numbered(text.split(separator, count - 1))


def _substring(start: int, end: int, text: str) -> str:
    if start < 0:
        return text[: max(end, 0)]
    return text[start:] if end < 0 or end > len(text) else text[start:end]


def _truncate(size: int, text: str) -> str:
    return text[:size] if size >= 0 else text[size:]


def _abbreviate(width: int, text: str) -> str:
    return text if width < len("x...") or len(text) <= width else f"{text[: width - 3]}..."


def _word_joiner(separator: str) -> Callable[[str], str]:
    """Return a function that writes words in lower case, with a separator between them."""

    def convert(text: str) -> str:
        words = _CASE_CHANGE.sub(" ", re.sub(r"[-_.\s]+", " ", text)).split()
        return separator.join(words).lower()

    return convert


def _camel_case(text: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[-_.\s]+", text))


METERED_TEXTS: dict[str, Callable[..., Value]] = {"printf": _size_limited(printf)}
TEXTS: dict[str, Callable[..., Value]] = {
    "print": _size_limited(_print),
    "println": _size_limited(lambda *values: " ".join(map(to_text, values)) + "\n"),
    "html": _size_limited(lambda *values: _print(*values).translate(_HTML)),
    "urlquery": _size_limited(lambda *values: quote_plus(_print(*values))),
    "toString": to_text,
    "toStrings": lambda values: [to_text(value) for value in values if value is not None],
    "quote": _size_limited(_quote),
    "squote": _size_limited(_squote),
    "cat": _size_limited(_cat),
    "indent": _indent,
    "nindent": lambda width, text: "\n" + _indent(width, text),
    "trim": str.strip,
    "trimAll": lambda chars, text: text.strip(chars) if chars else text,
    "trimSuffix": lambda end, text: text.removesuffix(end),
    "trimPrefix": lambda begin, text: text.removeprefix(begin),
    "upper": str.upper,
    "lower": str.lower,
    "title": lambda text: _WORD_START.sub(lambda match: match[0].upper(), text),
    "untitle": lambda text: _WORD_START.sub(lambda match: match[0].lower(), text),
    "swapcase": str.swapcase,
    "snakecase": _word_joiner("_"),
    "kebabcase": _word_joiner("-"),
    "camelcase": _camel_case,
    "nospace": lambda text: "".join(text.split()),
    "initials": lambda text: "".join(word[0] for word in text.split()),
    "hasPrefix": lambda begin, text: text.startswith(begin),
    "hasSuffix": lambda end, text: text.endswith(end),
    "contains": lambda part, text: part in text,
    "replace": _replace,
    "repeat": _repeat,
    "plural": lambda single, many, count: single if count == 1 else many,
    "splitList": _split_list,
    "split": lambda separator, text: _numbered(_split_list(separator, text)),
    "splitn": _split_n,
    "join": _join,
    "substr": _substring,
    "trunc": _truncate,
    "abbrev": _abbreviate,
}
