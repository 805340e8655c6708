# SPDX-License-Identifier: Apache-2.0
"""Functions of templates: those of Go's own that need nothing but their arguments, and the usual
ones of sprig.

None reads anything but its arguments. What could become large says how large before it is made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import yaml

from gridstead.workflow.gotemplate.nodes import Value

MAX_CHARS = 256 * 1024

_UNSEEN = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")  # what YAML has only escaped
_VERB = re.compile(r"%([%svdqt])|%")


def is_true(value: Value) -> bool:
    """Return whether a value counts as true: not false, zero, nothing or empty."""
    return bool(value)


def to_text(value: Value) -> str:
    """Return a value as it stands in the text.

    Raises:
        ValueError: It is a list or a mapping.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError("is a list or a mapping; toYaml writes such")


def index(value: Value, *keys: Value) -> Value:
    """Return an entry of a list or a mapping."""
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
        _plain(value), Dumper=_Quoting, sort_keys=False, allow_unicode=True, width=10**6
    ).rstrip("\n")


def _plain(value: Value) -> Value:
    """Fields without a value are fields that are not there."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if item is not None}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


class _Quoting(yaml.CSafeDumper):
    """Writes each text in quotes: PyYAML goes by YAML 1.1, for which plain ``0E0`` is text; for 1.2
    it is a number.
    """


_Quoting.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


def _quote(*values: Value) -> str:
    return " ".join(
        _UNSEEN.sub(_escaped, json.dumps(to_text(value), ensure_ascii=False)) for value in values
    )


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _indent(width: int, text: str) -> str:
    _bounded((text.count("\n") + 1) * max(width, 0) + len(text))
    return "\n".join(" " * width + line for line in text.split("\n"))


def _repeat(times: int, text: str) -> str:
    _bounded(max(times, 0) * len(text))
    return text * times


def _replace(old: str, new: str, text: str) -> str:
    _bounded(len(text) + (text.count(old)) * max(len(new) - len(old), 0))
    return text.replace(old, new)


def _until(end: int) -> list[int]:
    _bounded(abs(end))
    return list(range(end)) if end >= 0 else list(range(0, end, -1))


def _bounded(size: int) -> None:
    if size > MAX_CHARS:
        raise ValueError(f"would be larger than {MAX_CHARS // 1024} KiB")


def _sized(make: Callable[..., str]) -> Callable[..., str]:
    """Return a function that looks at how much it is given before it makes a text of all of it."""

    def sized(*values: Value) -> str:
        _bounded(sum(len(value) for value in values if isinstance(value, str)))
        return make(*values)

    return sized


def _printf(form: str, *values: Value) -> str:
    rest = iter(values)

    def shown(match: re.Match[str]) -> str:
        if match[1] is None:
            raise ValueError("has a form that is not offered; there are %s, %v, %d, %q and %t")
        return (
            "%" if match[1] == "%" else (_quote if match[1] == "q" else to_text)(next(rest, None))
        )

    return _VERB.sub(shown, form)


def _same(first: Value, *others: Value) -> bool:
    return any(
        first == other and isinstance(first, bool) == isinstance(other, bool) for other in others
    )


def _ordered(holds: Callable[[Value, Value], bool]) -> Callable[..., bool]:
    def compare(left: Value, right: Value) -> bool:
        if not (isinstance(left, str) and isinstance(right, str)) and not _are_numbers(left, right):
            raise ValueError("compares what has no order")
        return holds(left, right)

    return compare


def _are_numbers(*values: Value) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)


def _number(value: Value) -> int:
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


def _divided(left: Value, right: Value) -> int:
    divisor = _number(right)
    if divisor == 0:
        raise ValueError("divides by zero")
    sign = -1 if (_number(left) < 0) != (divisor < 0) else 1
    return sign * (abs(_number(left)) // abs(divisor))


def _remainder(left: Value, right: Value) -> int:
    return _number(left) - _divided(left, right) * _number(right)


def _dict(*words: Value) -> dict[str, Value]:
    if len(words) % 2:
        raise ValueError("has a key without a value")
    return {to_text(key): value for key, value in list(pairwise(words))[::2]}


def _join(separator: str, values: Value) -> str:
    texts = [to_text(value) for value in values]
    _bounded(sum(map(len, texts)) + len(texts) * len(separator))
    return separator.join(texts)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "not": lambda value: not is_true(value), "len": len, "index": index, "printf": _sized(_printf),
    "print": _sized(lambda *values: "".join(map(to_text, values))),
    "eq": _same, "ne": lambda left, right: not _same(left, right),
    "lt": _ordered(lambda left, right: left < right), "le": _ordered(lambda left, right: left <= right),
    "gt": _ordered(lambda left, right: left > right), "ge": _ordered(lambda left, right: left >= right),
    "toYaml": _to_yaml, "toString": to_text,
    "toJson": lambda value: json.dumps(_plain(value), ensure_ascii=False),
    "quote": _sized(_quote), "squote": _sized(lambda *values: " ".join(f"'{to_text(value)}'" for value in values)),
    "indent": _indent, "nindent": lambda width, text: "\n" + _indent(width, text),
    "trim": str.strip, "upper": str.upper, "lower": str.lower, "title": str.title,
    "trimSuffix": lambda end, text: text.removesuffix(end), "trimPrefix": lambda begin, text: text.removeprefix(begin),
    "hasPrefix": lambda begin, text: text.startswith(begin), "hasSuffix": lambda end, text: text.endswith(end),
    "contains": lambda part, text: part in text, "replace": _replace, "repeat": _repeat,
    "splitList": lambda separator, text: text.split(separator), "join": _join,
    "trunc": lambda size, text: text[:size] if size >= 0 else text[size:],
    "default": lambda other, value=None: value if is_true(value) else other, "empty": lambda value: not is_true(value),
    "coalesce": lambda *values: next(filter(is_true, values), None),
    "ternary": lambda yes, no, flag: yes if is_true(flag) else no,
    "int": _number, "int64": _number, "atoi": _number, "add": _sum, "add1": lambda value: _number(value) + 1,
    "sub": lambda left, right: _number(left) - _number(right), "mul": _product, "div": _divided, "mod": _remainder,
    "max": lambda *values: max(map(_number, values)), "min": lambda *values: min(map(_number, values)),
    "until": _until, "list": lambda *values: list(values), "dict": _dict, "get": lambda of, key: of.get(key, ""),
    "hasKey": lambda of, key: key in of, "keys": list, "first": lambda of: of[0] if of else None,
    "last": lambda of: of[-1] if of else None, "has": lambda value, of: value in of,
}  # fmt: skip
