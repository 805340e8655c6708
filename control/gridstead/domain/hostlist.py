# SPDX-License-Identifier: Apache-2.0
"""Slurm's way to write many host names: ``compute[01-03,7],login``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from gridstead.errors import UnexpectedOutput

_PART = re.compile(r"\[([0-9,-]+)\]|([^\[\],]+)|(,)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def expand(text: str) -> tuple[str, ...]:
    """Return the names that a host list stands for, in its order; none for an empty text.

    Raises:
        UnexpectedOutput: It is none.

    Source: scontrol(1), "show hostnames".
    """
    names: list[str] = []
    pieces: list[tuple[str, ...]] = []
    end = 0
    for match in _PART.finditer(text):
        if match.start() != end:
            break
        end = match.end()
        numbers, word, comma = match.groups()
        if comma:
            names += _joined(pieces)
            pieces = []
        else:
            pieces.append(tuple(_numbers(numbers, text)) if numbers else (word,))
    if end != len(text):
        raise UnexpectedOutput("a list of hosts", text)
    return (*names, *_joined(pieces))


def _joined(pieces: list[tuple[str, ...]]) -> list[str]:
    return ["".join(parts) for parts in product(*pieces)] if pieces else []


def _numbers(text: str, whole: str) -> Iterator[str]:
    """Yield the numbers of a range in brackets, as wide as its first."""
    for one in text.split(","):
        match = _RANGE.fullmatch(one)
        if match is None:
            raise UnexpectedOutput("a list of hosts", whole)
        first, last = match[1], match[2] or match[1]
        yield from (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
