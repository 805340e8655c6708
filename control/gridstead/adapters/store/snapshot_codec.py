# SPDX-License-Identifier: Apache-2.0
"""Converts snapshots of the meta-scheduler to bytes, and back.

The bytes are lines of text, compressed with zlib. A line has the name of a field, and a JSON list
of some of its items. An item of a mapping is a pair of its key and its value. A field that is
neither a tuple nor a mapping has one item. The lines are short, because Python runs no other thread
while a line is made.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from itertools import islice
from types import GenericAlias
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from gridstead.domain.matching.snapshot import Snapshot
from gridstead.errors import UnexpectedOutput

# Must be increased if the meaning of a field changes. ``content_format`` notices all other changes.
FORMAT = 1
ITEMS_PER_LINE = 200
_COMPRESSION_LEVEL = 1  # higher levels take several times as long, and save little


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """How a field of a part of a snapshot is stored.

    Attributes:
        to_items: Returns the items of a value.
        from_items: Returns the value with these items.
        adapter: Converts a list of items.
    """

    to_items: Callable[[Any], Iterable[Any]]
    from_items: Callable[[list[Any]], Any]
    adapter: TypeAdapter[list[Any]]


def encode(snapshot: Snapshot) -> bytes:
    """Return the bytes of a snapshot."""
    compressor = zlib.compressobj(_COMPRESSION_LEVEL)
    chunks = [compressor.compress(line) for line in _lines(snapshot)]
    return b"".join((*chunks, compressor.flush()))


def decode(content: bytes) -> Snapshot:
    """Return the snapshot in bytes that ``encode`` returned.

    Raises:
        UnexpectedOutput: If the bytes are damaged.
    """
    items: dict[tuple[str, str], list[Any]] = {key: [] for key in _fields()}
    try:
        for line in zlib.decompress(content).splitlines():
            names, _, text = line.partition(b" ")
            part_name, _, field_name = names.decode().partition(".")
            key = (part_name, field_name)
            items[key] += _fields()[key].adapter.validate_json(text)
        return _to_snapshot(items)
    except (zlib.error, ValidationError, KeyError, ValueError) as error:
        raise UnexpectedOutput("the state store", f"damaged snapshot: {error}") from error


@cache
def content_format() -> str:
    """Return a text that differs if another release stores the fields in another way."""
    schemas = {}
    for names, field in _fields().items():
        schemas[".".join(names)] = field.adapter.json_schema(mode="serialization")
    digest = hashlib.sha256(json.dumps(schemas, sort_keys=True).encode()).hexdigest()
    return f"{FORMAT}-{digest}"


def _lines(snapshot: Snapshot) -> Iterator[bytes]:
    for (part_name, field_name), field in _fields().items():
        value = getattr(getattr(snapshot, part_name), field_name)
        items = iter(field.to_items(value))
        while line_items := list(islice(items, ITEMS_PER_LINE)):
            yield f"{part_name}.{field_name} ".encode()
            yield field.adapter.dump_json(line_items)
            yield b"\n"


def _to_snapshot(items: Mapping[tuple[str, str], list[Any]]) -> Snapshot:
    values: dict[str, dict[str, Any]] = {}
    for key, field in _fields().items():
        part_name, field_name = key
        values.setdefault(part_name, {})[field_name] = field.from_items(items[key])
    parts = {}
    for part_name, part_class in get_type_hints(Snapshot).items():
        parts[part_name] = part_class(**values[part_name])
    return Snapshot(**parts)


@cache
def _fields() -> Mapping[tuple[str, str], _Field]:
    """Return the fields of all parts, by the names of the part and the field."""
    all_fields: dict[tuple[str, str], _Field] = {}
    for part_name, part_class in get_type_hints(Snapshot).items():
        types = get_type_hints(part_class)
        for each in fields(part_class):
            all_fields[part_name, each.name] = _field(types[each.name])
    return all_fields


def _field(field_type: Any) -> _Field:  # noqa: ANN401 # any type of a field
    if get_origin(field_type) is Mapping:
        pair_type: Any = GenericAlias(tuple, get_args(field_type))
        return _Field(
            to_items=lambda mapping: mapping.items(), from_items=dict, adapter=_list_of(pair_type)
        )
    if get_origin(field_type) is tuple:
        item_type, _ = get_args(field_type)
        return _Field(to_items=iter, from_items=tuple, adapter=_list_of(item_type))
    return _Field(
        to_items=lambda value: (value,), from_items=_only_item, adapter=_list_of(field_type)
    )


def _list_of(item_type: Any) -> TypeAdapter[list[Any]]:  # noqa: ANN401 # any type of an item
    list_type: Any = GenericAlias(list, (item_type,))
    return TypeAdapter(list_type)


def _only_item(items: list[Any]) -> Any:  # noqa: ANN401 # any type of a field
    (item,) = items
    return item
