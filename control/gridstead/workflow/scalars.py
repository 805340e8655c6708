# SPDX-License-Identifier: Apache-2.0
"""Values of plain (unquoted) scalars in YAML.

Numbers are read as in DeepSquare's clients. A leading zero means octal, as in YAML 1.1: ``0400`` is
256. ``0o400``, ``0x100``, ``0b1`` and ``1_000`` are numbers too. ``yes``, ``on`` and ``2024-01-01``
are text.
"""

from __future__ import annotations

import re

MAX_DIGITS = 64

_OCTAL = re.compile(r"[-+]?0[0-7]+")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_PREFIXED = re.compile(r"[-+]?0([xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,4})?")
_WORD_VALUES: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip


def plain_value(text: str) -> bool | int | float | str | None:
    """Return the value of a plain scalar."""
    if text in _WORD_VALUES:
        return _WORD_VALUES[text]
    digits = text.replace("_", "") if text[0] in "+-.0123456789" else text
    if len(digits) > MAX_DIGITS:
        return text
    if _PREFIXED.fullmatch(digits):
        return int(digits, 0)
    if _OCTAL.fullmatch(digits):
        return int(digits, 8)
    if _DECIMAL.fullmatch(digits):
        return int(digits)
    return float(digits) if _FLOAT.fullmatch(digits) else text


def has_leading_zero(text: str) -> bool:
    """Return whether a plain scalar is a number such as ``0400`` or ``08``."""
    return bool(_LEADING_ZERO.fullmatch(text.replace("_", "")))
