# SPDX-License-Identifier: Apache-2.0
"""Expands Slurm's host list expressions, for example ``compute[01-03,7],login``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from gridstead.errors import UnexpectedOutput

# Ranges in brackets, text outside brackets, or the comma between two names.
_PART = re.compile(r"\[([0-9,-]+)\]|([^\[\],]+)|(,)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def expand_hostlist(text: str) -> tuple[str, ...]:
    """Return the host names of a host list in order. Returns no names for an empty text.

    Raises:
        UnexpectedOutput: If the text is not a host list.

    Source: scontrol(1), "show hostnames".
    """
    names: list[str] = []
    parts: list[tuple[str, ...]] = []  # The alternatives of each part of the current name.
    end = 0
    for match in _PART.finditer(text):
        if match.start() != end:
            break
        end = match.end()
        numbers, word, comma = match.groups()
        if comma:
            names += _combine(parts)
            parts = []
        elif numbers:
            parts.append(tuple(_expand_ranges(numbers, text)))
        else:
            parts.append((word,))
    if end != len(text):
        raise UnexpectedOutput("a list of hosts", text)
    return (*names, *_combine(parts))


def _combine(parts: list[tuple[str, ...]]) -> list[str]:
    """Return a name for each combination of one alternative of each part."""
    if not parts:
        return []
    return ["".join(words) for words in product(*parts)]


def _expand_ranges(ranges: str, text: str) -> Iterator[str]:
    """Yield all numbers of ranges, padded with zeros to the width of a range's first number."""
    for number_range in ranges.split(","):
        match = _RANGE.fullmatch(number_range)
        if match is None:
            raise UnexpectedOutput("a list of hosts", text)
        first, last = match[1], match[2] or match[1]
        for number in range(int(first), int(last) + 1):
            yield str(number).zfill(len(first))
