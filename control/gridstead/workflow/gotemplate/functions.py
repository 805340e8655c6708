# SPDX-License-Identifier: Apache-2.0
"""The functions of templates: functions of Go without side effects, and common functions of sprig.

Sprig is the function library that Helm uses.

A function reads only its arguments. A function whose result could be large checks the size before
it creates the result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence

import yaml

from gridstead.workflow.gotemplate.nodes import Value

MAX_CHARS = 256 * 1024

# Characters that YAML requires to be escaped.
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
# A verb of printf such as %s, or a percent sign before an unknown verb.
_VERB = re.compile(r"%([%svdqt])|%")


def is_true(value: Value) -> bool:
    """Return whether a value counts as true: not false, zero, nil or empty."""
    return bool(value)


def to_text(value: Value) -> str:
    """Return the text of a value.

    Raises:
        ValueError: If the value is a list or a mapping.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError("is a list or a mapping; use toYaml")


def index(value: Value, *keys: Value) -> Value:
    """Return the entry of nested lists and mappings at these keys, outermost key first."""
    for key in keys:
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, Sequence) and isinstance(key, int) and 0 <= key < len(value):
            value = value[key]
        else:
            raise ValueError("has no such entry")
    return value


def _to_yaml(value: Value) -> str:
    if value in ((), [], {}, None):
        return ""
    return yaml.dump(
        _plain(value), Dumper=_QuotingDumper, sort_keys=False, allow_unicode=True, width=10**6
    ).rstrip("\n")


def _plain(value: Value) -> Value:
    """Return a copy of a value without nil fields in mappings. A nil field counts as absent."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


class _QuotingDumper(yaml.CSafeDumper):
    """Quotes every text.

    PyYAML follows YAML 1.1, in which plain ``0E0`` is text, and writes this text without quotes. In
    YAML 1.2 plain ``0E0`` is a number, so the text would be read as a number.
    """


_QuotingDumper.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


def _quote(*values: Value) -> str:
    return " ".join(map(_quoted, values))


def _quoted(value: Value) -> str:
    return _ESCAPED.sub(_escape, json.dumps(to_text(value), ensure_ascii=False))


def _squote(*values: Value) -> str:
    return " ".join(map("'{}'".format, map(to_text, values)))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _indent(width: int, text: str) -> str:
    _check_size((text.count("\n") + 1) * max(width, 0) + len(text))
    return "\n".join(" " * width + line for line in text.split("\n"))


def _repeat(times: int, text: str) -> str:
    _check_size(max(times, 0) * len(text))
    return text * times


def _replace(old: str, new: str, text: str) -> str:
    added_length = max(len(new) - len(old), 0)
    _check_size(len(text) + text.count(old) * added_length)
    return text.replace(old, new)


def _until(end: int) -> list[int]:
    _check_size(abs(end))
    step = 1 if end >= 0 else -1
    return list(range(0, end, step))


def _check_size(size: int) -> None:
    if size > MAX_CHARS:
        raise ValueError(f"would be larger than {MAX_CHARS // 1024} KiB")


def _size_limited(function: Callable[..., str]) -> Callable[..., str]:
    """Return ``function`` with a check of its arguments' total size before each call."""

    def limited(*values: Value) -> str:
        _check_size(sum(len(value) for value in values if isinstance(value, str)))
        return function(*values)

    return limited


def _printf(format_text: str, *values: Value) -> str:
    remaining_values = iter(values)

    def formatted(match: re.Match[str]) -> str:
        verb = match[1]
        if verb is None:
            raise ValueError("has a format that is not available; use %s, %v, %d, %q or %t")
        if verb == "%":
            return "%"
        value = next(remaining_values, None)
        return _quoted(value) if verb == "q" else to_text(value)

    return _VERB.sub(formatted, format_text)


def _equals_any(first: Value, *others: Value) -> bool:
    def is_equal(other: Value) -> bool:
        # In Python, True equals 1. In a template, a boolean never equals a number.
        if isinstance(first, bool) != isinstance(other, bool):
            return False
        return bool(first == other)

    return any(map(is_equal, others))


def _comparison(is_ordered: Callable[[Value, Value], bool]) -> Callable[..., bool]:
    """Return a function that applies ``is_ordered`` to two texts or two whole numbers."""

    def compare(left: Value, right: Value) -> bool:
        are_texts = isinstance(left, str) and isinstance(right, str)
        if not are_texts and not _are_numbers(left, right):
            raise ValueError("compares values that have no order")
        return is_ordered(left, right)

    return compare


def _are_numbers(*values: Value) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)


def _number(value: Value) -> int:
    """Return a number, or the number that a text contains. Any other text counts as 0."""
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"[-+]?[0-9]{1,18}", value) else 0
    if not isinstance(value, int):
        raise TypeError("is not a number")
    return int(value)


def _sum(*values: Value) -> int:
    return sum(map(_number, values))


def _product(*values: Value) -> int:
    result = 1
    for value in values:
        result *= _number(value)
    if abs(result) >= 2**63:
        raise ValueError("is too large a number")
    return result


def _quotient(left: Value, right: Value) -> int:
    divisor = _number(right)
    if divisor == 0:
        raise ValueError("divides by zero")
    # Go truncates towards zero. Python's // rounds down.
    quotient = abs(_number(left)) // abs(divisor)
    is_negative = (_number(left) < 0) != (divisor < 0)
    return -quotient if is_negative else quotient


def _remainder(left: Value, right: Value) -> int:
    return _number(left) - _quotient(left, right) * _number(right)


def _dict(*words: Value) -> dict[str, Value]:
    if len(words) % 2:
        raise ValueError("has a key without a value")
    keys, values = words[::2], words[1::2]
    return dict(zip(map(to_text, keys), values, strict=True))


def _join(separator: str, values: Value) -> str:
    texts = [to_text(value) for value in values]
    _check_size(sum(map(len, texts)) + len(texts) * len(separator))
    return separator.join(texts)


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
}
_TEXTS: dict[str, Callable[..., Value]] = {
    "printf": _size_limited(_printf),
    "print": _size_limited(lambda *values: "".join(map(to_text, values))),
    "toYaml": _to_yaml,
    "toString": to_text,
    "toJson": lambda value: json.dumps(_plain(value), ensure_ascii=False),
    "quote": _size_limited(_quote),
    "squote": _size_limited(_squote),
    "indent": _indent,
    "nindent": lambda width, text: "\n" + _indent(width, text),
    "trim": str.strip,
    "upper": str.upper,
    "lower": str.lower,
    "title": str.title,
    "trimSuffix": lambda end, text: text.removesuffix(end),
    "trimPrefix": lambda begin, text: text.removeprefix(begin),
    "hasPrefix": lambda begin, text: text.startswith(begin),
    "hasSuffix": lambda end, text: text.endswith(end),
    "contains": lambda part, text: part in text,
    "replace": _replace,
    "repeat": _repeat,
    "splitList": lambda separator, text: text.split(separator),
    "join": _join,
    "trunc": lambda size, text: text[:size] if size >= 0 else text[size:],
}
_NUMBERS: dict[str, Callable[..., Value]] = {
    "int": _number,
    "int64": _number,
    "atoi": _number,
    "add": _sum,
    "add1": lambda value: _number(value) + 1,
    "sub": lambda left, right: _number(left) - _number(right),
    "mul": _product,
    "div": _quotient,
    "mod": _remainder,
    "max": lambda *values: max(map(_number, values)),
    "min": lambda *values: min(map(_number, values)),
    "until": _until,
}
_LISTS: dict[str, Callable[..., Value]] = {
    "len": len,
    "index": index,
    "list": lambda *values: list(values),
    "dict": _dict,
    "get": lambda mapping, key: mapping.get(key, ""),
    "hasKey": lambda mapping, key: key in mapping,
    "keys": list,
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
    "has": lambda value, values: value in values,
}
FUNCTIONS = _LOGIC | _TEXTS | _NUMBERS | _LISTS
