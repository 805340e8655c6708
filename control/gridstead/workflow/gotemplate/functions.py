# SPDX-License-Identifier: Apache-2.0
"""The functions of templates: functions of Go without side effects, and functions of sprig.

Sprig is the function library that Helm uses. A function reads only its arguments, and its result
follows only from its arguments: the same workflow always gives the same script.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from gridstead.workflow.gotemplate.collections import COLLECTIONS, METERED_COLLECTION_FUNCTIONS
from gridstead.workflow.gotemplate.encodings import ENCODINGS
from gridstead.workflow.gotemplate.nodes import Value
from gridstead.workflow.gotemplate.numbers import NUMBERS
from gridstead.workflow.gotemplate.printing import is_true, to_text
from gridstead.workflow.gotemplate.regex import METERED_REGEX, REGEX
from gridstead.workflow.gotemplate.texts import METERED_TEXTS, TEXTS

_NONDETERMINISTIC = (
    "ago", "date", "dateInZone", "dateModify", "date_in_zone", "date_modify", "htmlDate",
    "htmlDateInZone", "now", "unixEpoch", "uuidv4", "shuffle", "bcrypt", "htpasswd",
)  # fmt: skip
_NONDETERMINISTIC_PREFIXES = ("rand", "gen", "must_date", "encrypt")
_READING_ENVIRONMENT = ("env", "expandenv", "getHostByName", "include", "lookup", "tpl")


def why_unavailable(name: str) -> str:
    """Return why a function is not available, as the end of the sentence "the function x, which".

    Functions of time and of random numbers are unavailable, because the hash of a job's script must
    not change.
    """
    if name in _NONDETERMINISTIC or name.startswith(_NONDETERMINISTIC_PREFIXES):
        return (
            "is not available: its result is different each time, and the same workflow must"
            " always give the same script"
        )
    if name in _READING_ENVIRONMENT:
        return "is not available: a template can read only the job and the step"
    return "is not available"


def _equals_any(first: Value, *others: Value) -> bool:
    def is_equal(other: Value) -> bool:
        # In Python, True equals 1. In a template, a boolean never equals a number.
        if isinstance(first, bool) != isinstance(other, bool):
            return False
        return bool(first == other)

    return any(map(is_equal, others))


def _comparison(is_ordered: Callable[[Value, Value], bool]) -> Callable[..., bool]:
    """Return a function that applies ``is_ordered`` to two texts or two numbers."""

    def compare(left: Value, right: Value) -> bool:
        are_texts = isinstance(left, str) and isinstance(right, str)
        if not are_texts and not _are_numbers(left, right):
            raise ValueError("compares values that have no order")
        return is_ordered(left, right)

    return compare


def _are_numbers(*values: Value) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _fail(message: str) -> None:
    raise ValueError(message)


def _kind(value: Value) -> str:
    if value is None:
        return "invalid"
    names = {bool: "bool", int: "int", float: "float64", str: "string", list: "slice"}
    return names.get(type(value), "map")


_LOGIC: dict[str, Callable[..., Value]] = {
    "not": lambda value: not is_true(value),
    "eq": _equals_any,
    "ne": lambda left, right: not _equals_any(left, right),
    "lt": _comparison(lambda left, right: left < right),
    "le": _comparison(lambda left, right: left <= right),
    "gt": _comparison(lambda left, right: left > right),
    "ge": _comparison(lambda left, right: left >= right),
    "default": lambda default, value=None: value if is_true(value) else default,
    "empty": lambda value: not is_true(value),
    "coalesce": lambda *values: next(filter(is_true, values), None),
    "ternary": lambda yes, no, flag: yes if is_true(flag) else no,
    "all": lambda *values: all(map(is_true, values)),
    "any": lambda *values: any(map(is_true, values)),
    "deepEqual": lambda left, right: left == right,
    "kindOf": _kind,
    "kindIs": lambda kind, value: _kind(value) == kind,
    "fail": _fail,
}
_PATHS: dict[str, Callable[..., Value]] = {
    "base": lambda path: posixpath.basename(path.rstrip("/")) or ("/" if path else "."),
    "dir": lambda path: posixpath.normpath(posixpath.dirname(path) or "."),
    "clean": lambda path: posixpath.normpath(path or "."),
    "ext": lambda path: posixpath.splitext(path)[1],
    "isAbs": lambda path: to_text(path).startswith("/"),
}
FUNCTIONS = _LOGIC | TEXTS | NUMBERS | COLLECTIONS | ENCODINGS | REGEX | _PATHS
# Functions whose work is not limited by the size of their arguments. Their first argument is a
# function that counts work.
METERED_FUNCTIONS = METERED_TEXTS | METERED_COLLECTION_FUNCTIONS | METERED_REGEX
