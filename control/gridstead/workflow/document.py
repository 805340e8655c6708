# SPDX-License-Identifier: Apache-2.0
"""Parses YAML text to plain Python values, with the line of each value.

A workflow is one YAML document of mappings, lists and scalars, limited in size and depth. Rule 1:
an alias is an error, so a small file cannot expand to a large value. Rule 2: keys are unique. Rule
3: plain (unquoted) scalars have the types of the YAML 1.2 core schema. So ``yes``, ``on`` and
``2024-01-01`` are text, and ``010`` is ten. Other clients of the grid read plain scalars in the
same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from gridstead.errors import InvalidWorkflow, WorkflowProblem

MAX_BYTES = 256 * 1024
MAX_DEPTH = 32
MAX_QUOTED = 40

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"
Path: TypeAlias = tuple[str | int, ...]

_TAG_DIRECTIVE = re.compile(r"^%TAG", re.MULTILINE)
_INTEGER = re.compile(r"[-+]?[0-9]{1,30}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,4})?")
_WORD_VALUES: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The content of a file.

    Attributes:
        value: The top-level value.
        lines: The line of each value by its path, from 1.
        problems: The duplicate keys. ``value`` has the first value of a duplicate key.
    """

    value: Value
    lines: dict[Path, int]
    problems: tuple[WorkflowProblem, ...] = ()

    def line(self, path: Path) -> int | None:
        """Return the line of the value, or of the nearest enclosing value."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)


@dataclass(slots=True)
class _Reader:
    """Builds values from parser events."""

    events: Iterator[Event]
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[WorkflowProblem] = field(default_factory=list)

    def value(self, event: Event, path: Path) -> Value:
        line = _line(event)
        self.lines.setdefault(path, line)
        if len(path) > MAX_DEPTH:
            raise _invalid(path, f"is nested deeper than {MAX_DEPTH} levels", line)
        tag = getattr(event, "tag", None)
        # The tag "!" is allowed, because it selects no type.
        if tag is not None and tag != "!":
            raise _invalid(path, f"has the tag {shorten(tag)!r}; tags are not allowed", line)
        match event:
            case ScalarEvent():
                return _scalar(event)
            case SequenceStartEvent():
                return self._sequence(path)
            case MappingStartEvent():
                return self._mapping(path)
            case AliasEvent():
                raise _invalid(path, "is an alias; anchors and aliases are not allowed", line)
            case _:
                raise AssertionError(f"the parser returned {event!r} instead of a value")

    def _sequence(self, path: Path) -> list[Value]:
        items: list[Value] = []
        while not isinstance(event := next(self.events), SequenceEndEvent):
            items.append(self.value(event, (*path, len(items))))
        return items

    def _mapping(self, path: Path) -> dict[str, Value]:
        pairs: dict[str, Value] = {}
        while not isinstance(event := next(self.events), MappingEndEvent):
            line = _line(event)
            if not isinstance(event, ScalarEvent):
                raise _invalid(path, "has a key that is not text", line)
            key = event.value
            if key in pairs:
                reason = "is a duplicate key"
                self.problems.append(
                    WorkflowProblem(path=format_path((*path, key)), reason=reason, line=line)
                )
            self.lines.setdefault((*path, key), line)
            pairs.setdefault(key, self.value(next(self.events), (*path, key)))
        return pairs


def load(text: str) -> Document:
    """Return the content of a YAML file.

    Raises:
        InvalidWorkflow: If the text is too large or nested too deep, contains an alias or a tag, or
            is not one YAML document.
    """
    # The number of characters is checked first, because a huge text takes long to encode.
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise _invalid((), f"is larger than {MAX_BYTES // 1024} KiB", None)
    # The parser compares each directive with all others, so many directives would take too long.
    if directive := _TAG_DIRECTIVE.search(text):
        raise _invalid(
            (),
            "has the directive %TAG; tags are not allowed",
            text.count("\n", 0, directive.start()) + 1,
        )
    try:
        return _load(text)
    except yaml.MarkedYAMLError as err:
        line = err.problem_mark.line + 1 if err.problem_mark else None
        reason = ", ".join(filter(None, (err.context, err.problem)))
        raise _invalid((), f"is not valid YAML: {reason}", line) from err
    except (yaml.YAMLError, UnicodeError) as err:
        reason = "is not valid YAML: it contains a character that is not allowed"
        line = text.count("\n", 0, _first_invalid_character(text)) + 1
        raise _invalid((), reason, line) from err


def format_path(path: Path) -> str:
    """Return the path in the usual notation, such as ``steps[0].run.command``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{shorten(part)}"
    return text.removeprefix(".")


def shorten(text: str) -> str:
    """Return untrusted text for a message, shortened and without control characters."""
    if len(text) > MAX_QUOTED:
        text = f"{text[:MAX_QUOTED]}…"
    return "".join(char if char.isprintable() else "�" for char in text)


def _load(text: str) -> Document:
    all_events = yaml.parse(text, Loader=yaml.CSafeLoader)
    events = (event for event in all_events if not isinstance(event, yaml.StreamStartEvent))
    if not isinstance(next(events), DocumentStartEvent):
        raise _invalid((), "is empty", None)
    reader = _Reader(events)
    value = reader.value(next(events), ())
    next(events)  # the end of the document
    next_event = next(events)
    if isinstance(next_event, DocumentStartEvent):
        raise _invalid((), "contains more than one document", _line(next_event))
    return Document(value=value, lines=reader.lines, problems=tuple(reader.problems))


def _scalar(event: ScalarEvent) -> Value:
    text: str = event.value
    # implicit[0] is true for a plain scalar: its type follows from its text.
    is_quoted = not event.implicit[0]
    if is_quoted:
        return text
    if text in _WORD_VALUES:
        return _WORD_VALUES[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _line(event: Event) -> int:
    assert event.start_mark is not None, "the parser marks every event"
    return event.start_mark.line + 1


def _first_invalid_character(text: str) -> int:
    for position, char in enumerate(text):
        if not _is_allowed_in_yaml(char):
            return position
    return len(text)


def _is_allowed_in_yaml(char: str) -> bool:
    if char in "\t\n\r\x85":
        return True
    is_control = char < " " or "\x7f" <= char <= "\x9f"
    is_surrogate = "\ud800" <= char <= "\udfff"
    return not is_control and not is_surrogate


def _invalid(path: Path, reason: str, line: int | None) -> InvalidWorkflow:
    return InvalidWorkflow(WorkflowProblem(path=format_path(path), reason=reason, line=line))
