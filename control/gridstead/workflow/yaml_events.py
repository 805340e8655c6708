# SPDX-License-Identifier: Apache-2.0
"""Builds the value of a YAML document from the events of the parser.

An alias is a copy of the value of its anchor. A merge key (``<<``) adds fields of other mappings to
a mapping. The fields of the mapping itself have priority, then the first merged mapping. The total
size of all copies is limited.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from yaml.events import (
    AliasEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from gridstead.errors import WorkflowProblem
from gridstead.workflow.paths import Path, Value, check_depth, format_path, invalid, shorten
from gridstead.workflow.scalars import plain_value

# The size of all values that the aliases and merge keys of a file add.
MAX_EXPANDED = 256 * 1024
_VALUE_SIZE = 4  # the size of a value in addition to its characters

_MERGE_KEY = "<<"


@dataclass(slots=True)
class _Anchor:
    """A value that aliases can repeat. ``is_complete`` is false while the value is read."""

    path: Path
    value: Value = None
    is_complete: bool = False


@dataclass(slots=True)
class Reader:
    """Builds values from parser events.

    Attributes:
        events: The events after those that were read.
        lines: As in ``Document``.
        sources: As in ``Document``.
        problems: The duplicate keys.
        warnings: The scalars with the tag ``!``.
        anchors: The latest anchor of each name.
        expanded_size: The size of all values that aliases and merge keys have added.
        alias: The path and line of the latest alias or merge key.
    """

    events: Iterator[Event]
    lines: dict[Path, int] = field(default_factory=dict)
    sources: dict[Path, str] = field(default_factory=dict)
    problems: list[WorkflowProblem] = field(default_factory=list)
    warnings: list[WorkflowProblem] = field(default_factory=list)
    anchors: dict[str, _Anchor] = field(default_factory=dict)
    expanded_size: int = 0
    alias: tuple[Path, int] = ((), 1)

    def value(self, event: Event, path: Path) -> Value:
        """Return the value that starts with an event.

        Raises:
            InvalidWorkflow: If the value breaks a rule of documents.
        """
        line = line_of(event)
        self.lines.setdefault(path, line)
        check_depth(path, line)
        tag = getattr(event, "tag", None)
        # The tag "!" is allowed, because it selects no type.
        if tag is not None and tag != "!":
            raise invalid(path, f"has the tag {shorten(tag)!r}; tags are not allowed", line)
        if isinstance(event, AliasEvent):
            anchor = self._anchor(event, path)
            self.alias = (path, line)
            return self._copy(anchor.value, anchor.path, path)
        anchor = _Anchor(path)
        if name := getattr(event, "anchor", None):
            self.anchors[name] = anchor
        anchor.value = self._node(event, path)
        anchor.is_complete = True
        return anchor.value

    def _node(self, event: Event, path: Path) -> Value:
        match event:
            case ScalarEvent():
                return self._scalar(event, path)
            case SequenceStartEvent():
                return self._sequence(path)
            case MappingStartEvent():
                return self._mapping(path)
            case _:
                raise AssertionError(f"the parser returned {event!r} instead of a value")

    def _scalar(self, event: ScalarEvent, path: Path) -> Value:
        text: str = event.value
        if event.tag == "!":
            self.warnings.append(_lost_exclamation_mark(path, line_of(event)))
        if not _is_plain(event):
            return text
        value = plain_value(text)
        if not isinstance(value, str):
            self.sources.setdefault(path, text)
        return value

    def _sequence(self, path: Path) -> list[Value]:
        items: list[Value] = []
        while not isinstance(event := next(self.events), SequenceEndEvent):
            items.append(self.value(event, (*path, len(items))))
        return items

    def _mapping(self, path: Path) -> dict[str, Value]:
        pairs: dict[str, Value] = {}
        merged_value: Value = None
        keys: set[str] = set()
        while not isinstance(event := next(self.events), MappingEndEvent):
            line = line_of(event)
            key = self._key(event, path)
            if key in keys:
                reason = "is a duplicate key"
                self.problems.append(
                    WorkflowProblem(path=format_path((*path, key)), reason=reason, line=line)
                )
            self.lines.setdefault((*path, key), line)
            value = self.value(next(self.events), (*path, key))
            if key == _MERGE_KEY and _is_plain(event):
                merged_value = value
                self._check_merged(value, (*path, key), line)
            elif key not in keys:
                pairs[key] = value
            keys.add(key)
        if merged_value is not None:
            merge_path = (*path, _MERGE_KEY)
            self.alias = (merge_path, self.lines[merge_path])
            self._merge(merged_value, merge_path, path, pairs)
        return pairs

    def _key(self, event: Event, path: Path) -> str:
        """Return the key of a mapping. It can be an alias of text."""
        key: Value = None
        if isinstance(event, ScalarEvent):
            key = str(event.value)
            if event.anchor:
                self.anchors[event.anchor] = _Anchor(path, key, is_complete=True)
        elif isinstance(event, AliasEvent):
            key = self._anchor(event, path).value
        if not isinstance(key, str):
            raise invalid(path, "has a key that is not text", line_of(event))
        return key

    def _check_merged(self, value: Value, path: Path, line: int) -> None:
        mappings = value if isinstance(value, list) else [value]
        if not all(isinstance(mapping, dict) for mapping in mappings):
            raise invalid(path, "must be a mapping or a list of mappings", line)

    def _merge(self, value: Value, source: Path, path: Path, pairs: dict[str, Value]) -> None:
        """Add the fields of the merged mappings to ``pairs``. Existing fields remain."""
        if isinstance(value, list):
            for number, mapping in enumerate(value):
                self._merge(mapping, (*source, number), path, pairs)
        elif isinstance(value, dict):
            for key, item in value.items():
                if key not in pairs:
                    pairs[key] = self._copy(item, (*source, key), (*path, key))

    def _anchor(self, event: AliasEvent, path: Path) -> _Anchor:
        """Return the anchor of an alias."""
        anchor = self.anchors.get(event.anchor or "")
        name = f"*{shorten(event.anchor or '')}"
        if anchor is None:
            raise invalid(path, f"is the alias {name} without an anchor before it", line_of(event))
        if not anchor.is_complete:
            raise invalid(path, f"is the alias {name} inside its own anchor", line_of(event))
        return anchor

    def _copy(self, value: Value, source: Path, path: Path) -> Value:
        """Return the value at path ``source``, and record its lines and sources at ``path``."""
        line = self.lines.get(source, 1)
        self.lines.setdefault(path, line)
        check_depth(path, line)
        if source in self.sources:
            self.sources.setdefault(path, self.sources[source])
        self.expanded_size += _VALUE_SIZE + (len(value) if isinstance(value, str) else 0)
        if self.expanded_size > MAX_EXPANDED:
            alias_path, alias_line = self.alias
            reason = f"expands aliases to more than {MAX_EXPANDED // 1024} KiB"
            raise invalid(alias_path, reason, alias_line)
        if isinstance(value, list):
            return [
                self._copy(item, (*source, number), (*path, number))
                for number, item in enumerate(value)
            ]
        if isinstance(value, dict):
            self.expanded_size += sum(map(len, value))
            return {
                key: self._copy(item, (*source, key), (*path, key)) for key, item in value.items()
            }
        return value


def _lost_exclamation_mark(path: Path, line: int) -> WorkflowProblem:
    reason = "starts with the tag !, which is not part of the value"
    hint = "Put the whole value in quotation marks, such as if: '! -e file'."
    return WorkflowProblem(path=format_path(path), reason=reason, hint=hint, line=line)


def _is_plain(event: Event) -> bool:
    # implicit[0] is true for a plain scalar: its type follows from its text.
    return isinstance(event, ScalarEvent) and event.implicit[0]


def line_of(event: Event) -> int:
    """Return the line of the event, from 1."""
    assert event.start_mark is not None, "the parser marks every event"
    return event.start_mark.line + 1
