# SPDX-License-Identifier: Apache-2.0
"""Functions of templates for lists and mappings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from gridstead.workflow.gotemplate.limits import work_of
from gridstead.workflow.gotemplate.nodes import Map, Value
from gridstead.workflow.gotemplate.printing import is_true, to_text


def _index(value: Value, *keys: Value) -> Value:
    """Return the entry of nested lists and mappings at these keys, outermost key first."""
    for key in keys:
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, Sequence) and isinstance(key, int) and 0 <= key < len(value):
            value = ord(value[key]) if isinstance(value, str) else value[key]
        else:
            raise ValueError("has no such entry")
    return value


def _slice(value: Value, start: int = 0, end: int | None = None) -> Value:
    end = len(value) if end is None else end
    if not 0 <= start <= end <= len(value):
        raise ValueError("has no such part")
    return value[start:end]


def _length(value: Value) -> int:
    return len(value.encode()) if isinstance(value, str) else len(value)


def _dict(*keys_and_values: Value) -> Map:
    keys, values = keys_and_values[::2], list(keys_and_values[1::2])
    if len(values) < len(keys):
        values.append("")
    return Map(zip(map(to_text, keys), values, strict=True))


def _set(mapping: Map, key: str, value: Value) -> Map:
    _changeable(mapping)[to_text(key)] = value
    return mapping


def _unset(mapping: Map, key: str) -> Map:
    _changeable(mapping).pop(key, None)
    return mapping


def _changeable(mapping: Value) -> Map:
    """Return the mapping if a template created it. A template may change no other mapping."""
    if not isinstance(mapping, Map):
        raise TypeError("changes a mapping that the template did not create")
    return mapping


def _merge(count_work: Callable[[int], None], target: Map, *sources: Value) -> Map:
    """Add the entries of other mappings to a mapping. The first non-empty value of a key stays."""
    return _merge_all(count_work, target, sources, overwrites=False)


def _merge_overwrite(count_work: Callable[[int], None], target: Map, *sources: Value) -> Map:
    """Add the entries of other mappings to a mapping. The last non-empty value of a key stays."""
    return _merge_all(count_work, target, sources, overwrites=True)


def _merge_all(
    count_work: Callable[[int], None], target: Map, sources: Iterable[Value], *, overwrites: bool
) -> Map:
    for source in sources:
        # A source can contain the target. It has then grown with the target, and is copied first.
        count_work(work_of(source))
        _add_entries(target, _copied(source), overwrites=overwrites)
    return target


def _add_entries(target: Map, source: Value, *, overwrites: bool) -> None:
    for key, value in source.items():
        current = target.get(key)
        if isinstance(current, Map) and isinstance(value, Mapping):
            _add_entries(current, value, overwrites=overwrites)
            continue
        is_replaced = is_true(value) if overwrites else not is_true(current)
        if is_replaced:
            _changeable(target)[key] = value


def _copied(value: Value) -> Value:
    """Return a copy of a mapping that a template created, with copies of the mappings in it."""
    if not isinstance(value, Map):
        return value
    return Map({key: _copied(item) for key, item in value.items()})


def _pick(mapping: Value, *keys: Value) -> Map:
    return Map({key: mapping[key] for key in keys if key in mapping})


def _omit(mapping: Value, *keys: Value) -> Map:
    omitted_keys = set(keys)
    return Map({key: value for key, value in mapping.items() if key not in omitted_keys})


def _dig(*arguments: Value) -> Value:
    """Return the entry of nested mappings at keys. The last arguments: a default, the mapping."""
    *keys, default, value = arguments
    for key in keys:
        if not isinstance(value, Mapping) or key not in value:
            return default
        value = value[key]
    return value


def _keys(*mappings: Value) -> list[Value]:
    return sorted(key for mapping in mappings for key in mapping)


def _unique(values: Value) -> list[Value]:
    unique_values: list[Value] = []
    seen: set[str] = set()
    for value in values:
        key = f"{type(value).__name__} {to_text(value)}"
        if key not in seen:
            seen.add(key)
            unique_values.append(value)
    return unique_values


def _without(count_work: Callable[[int], None], values: Value, *removed: Value) -> list[Value]:
    # Each removed value is compared with all values.
    count_work(work_of(values) * len(removed))
    return [value for value in values if value not in removed]


def _concat(*lists: Value) -> list[Value]:
    return [value for values in lists for value in values]


METERED_COLLECTION_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "without": _without,
    "merge": _merge,
    "mergeOverwrite": _merge_overwrite,
}
COLLECTIONS: dict[str, Callable[..., Value]] = {
    "len": _length,
    "index": _index,
    "slice": _slice,
    "list": lambda *values: list(values),
    "tuple": lambda *values: list(values),
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
    "rest": lambda values: list(values[1:]),
    "initial": lambda values: list(values[:-1]),
    "append": lambda values, value: [*values, value],
    "push": lambda values, value: [*values, value],
    "prepend": lambda values, value: [value, *values],
    "concat": _concat,
    "reverse": lambda values: list(values)[::-1],
    "uniq": _unique,
    "compact": lambda values: [value for value in values if is_true(value)],
    "has": lambda value, values: value in (values or ()),
    "sortAlpha": lambda values: sorted(map(to_text, values)),
    "dict": _dict,
    "get": lambda mapping, key: mapping.get(key, ""),
    "set": _set,
    "unset": _unset,
    "hasKey": lambda mapping, key: key in mapping,
    "keys": _keys,
    "values": lambda mapping: [mapping[key] for key in sorted(mapping)],
    "pluck": lambda key, *mappings: [mapping[key] for mapping in mappings if key in mapping],
    "pick": _pick,
    "omit": _omit,
    "dig": _dig,
}
