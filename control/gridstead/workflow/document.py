# SPDX-License-Identifier: Apache-2.0
"""Parses YAML text to plain Python values, with the line of each value.

A workflow is one YAML document of mappings, lists and scalars, limited in size and depth. Further
documents in the file are ignored. Rule 1: aliases and merge keys (``<<``) are expanded, up to a
limit, so a small file cannot expand to a large value. Rule 2: keys are unique. Rule 3: plain
(unquoted) scalars have the types in ``scalars.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml
from yaml.events import DocumentStartEvent, Event

from gridstead.errors import WorkflowProblem
from gridstead.workflow.paths import Path, Value, invalid
from gridstead.workflow.yaml_events import Reader, line_of

MAX_BYTES = 256 * 1024

_TAG_DIRECTIVE = re.compile(r"^%TAG", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The content of a file.

    Attributes:
        value: The top-level value. None for a request, which has no file.
        lines: The line of each value by its path, from 1. For a value inside an alias, it is the
            line of the value in the anchor.
        sources: The text of each plain scalar that is not text, by its path. ``1.10`` is the
            source of 1.1.
        problems: Errors that are found before ``value`` is compared with the language, such as
            duplicate keys. ``value`` has the first value of a duplicate key.
        warnings: Warnings that are found at the same time, such as a second document.
    """

    value: Value
    lines: dict[Path, int]
    sources: Mapping[Path, str] = field(default_factory=dict)
    problems: tuple[WorkflowProblem, ...] = ()
    warnings: tuple[WorkflowProblem, ...] = ()

    @property
    def is_file(self) -> bool:
        """Return whether the value comes from a file, not from a request."""
        return self.value is not None

    def line(self, path: Path) -> int | None:
        """Return the line of the value, or of the nearest enclosing value."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)


def load(text: str) -> Document:
    """Return the content of a YAML file.

    Raises:
        InvalidWorkflow: If the text is too large or nested too deep, contains a tag, expands to a
            too large value, or is not a YAML document.
    """
    # The number of characters is checked first, because a huge text takes long to encode.
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise invalid((), f"is larger than {MAX_BYTES // 1024} KiB")
    # The parser compares each directive with all others, so many directives would take too long.
    if directive := _TAG_DIRECTIVE.search(text):
        raise invalid(
            (),
            "has the directive %TAG; tags are not allowed",
            text.count("\n", 0, directive.start()) + 1,
        )
    try:
        return _load(text)
    except yaml.MarkedYAMLError as err:
        line = err.problem_mark.line + 1 if err.problem_mark else None
        reason = ", ".join(filter(None, (err.context, err.problem)))
        raise invalid((), f"is not valid YAML: {reason}", line) from err
    except (yaml.YAMLError, UnicodeError) as err:
        reason = "is not valid YAML: it contains a character that is not allowed"
        line = text.count("\n", 0, _first_invalid_character(text)) + 1
        raise invalid((), reason, line) from err


def _load(text: str) -> Document:
    all_events = yaml.parse(text, Loader=yaml.CSafeLoader)
    events = (event for event in all_events if not isinstance(event, yaml.StreamStartEvent))
    if not isinstance(next(events), DocumentStartEvent):
        raise invalid((), "is empty")
    reader = Reader(events)
    value = reader.value(next(events), ())
    next(events)  # the end of the document
    warnings = (*reader.warnings, *_second_document(next(events)))
    return Document(
        value=value,
        lines=reader.lines,
        sources=reader.sources,
        problems=tuple(reader.problems),
        warnings=warnings,
    )


def _second_document(event: Event) -> Iterator[WorkflowProblem]:
    """Yield a warning if the event starts another document."""
    if isinstance(event, DocumentStartEvent):
        reason = "has a second document, which is ignored"
        hint = "Put each workflow in a file of its own."
        yield WorkflowProblem(path="", reason=reason, hint=hint, line=line_of(event))


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
