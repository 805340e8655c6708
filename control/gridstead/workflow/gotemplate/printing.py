# SPDX-License-Identifier: Apache-2.0
"""Prints values in the way of Go's template engine, and limits the size of texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from gridstead.workflow.gotemplate.nodes import Map, Value

MAX_CHARS = 256 * 1024
NIL = "<nil>"

_NOT_PRINTABLE = re.compile(r'[\\"]|[^ -~]')
_ESCAPES = {
    "\\": "\\\\", '"': '\\"', "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r",
    "\t": "\\t", "\v": "\\v",
}  # fmt: skip
# Characters that end a line in YAML.
_LINE_END = re.compile("[\n\r\x85\u2028\u2029]")
# Go writes numbers with smaller or larger exponents as 1e-05 and 1e+06.
_MIN_EXPONENT, _MAX_EXPONENT = -4, 5


def check_size(size: int) -> None:
    """Check the number of characters of a text before it is created.

    Raises:
        ValueError: If the text would be too large.
    """
    if size > MAX_CHARS:
        raise ValueError(f"would be larger than {MAX_CHARS // 1024} KiB")


def is_true(value: Value) -> bool:
    """Return whether a value counts as true: not false, zero, nil or empty."""
    return bool(value)


def output_text(value: Value) -> str:
    """Return the text that an action such as ``{{ .Name }}`` writes."""
    return "<no value>" if value is None else to_text(value)


def to_text(value: Value) -> str:
    """Return the text of a value, as the verb ``%v`` of ``printf`` formats it.

    A list is ``[a b]``, and a mapping is ``map[key:value ...]`` with sorted keys. In a printed part
    of the job or the step, ends of lines are escaped, so a template can print it in a comment.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return f"[{' '.join(map(to_text, value))}]"
    if isinstance(value, Mapping):
        pairs = " ".join(f"{key}:{to_text(value[key])}" for key in sorted(value))
        return f"map[{pairs if isinstance(value, Map) else _LINE_END.sub(_escaped, pairs)}]"
    return scalar_text(value)


def scalar_text(value: object) -> str:
    """Return the text of nil, a boolean or a number."""
    if value is None:
        return NIL
    if isinstance(value, bool):
        return "true" if value else "false"
    return float_text(value) if isinstance(value, float) else str(value)


def float_text(value: float) -> str:
    """Return the shortest text of a finite number, as Go writes it: ``1.5``, ``3`` or ``1e+06``."""
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "the number is finite"
    minus = "-" if sign else ""
    first_exponent = len(digits) - 1 + exponent if value else 0
    if _MIN_EXPONENT <= first_exponent <= _MAX_EXPONENT:
        return f"{minus}{Decimal((0, digits, exponent)):f}"
    mantissa = "".join(map(str, digits))
    fraction = f".{mantissa[1:]}" if len(mantissa) > 1 else ""
    return f"{minus}{mantissa[0]}{fraction}e{first_exponent:+03d}"


def quoted(text: str) -> str:
    """Return a text in double quotes, valid in Go and in YAML."""
    return f'"{_NOT_PRINTABLE.sub(_escaped, text)}"'


def _escaped(match: re.Match[str]) -> str:
    char = match[0]
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:  # ASCII
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
