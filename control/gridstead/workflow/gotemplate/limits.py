# SPDX-License-Identifier: Apache-2.0
"""The limits of a template's work, and the work that a value takes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from gridstead.workflow.gotemplate.nodes import Value

# Each command, each operand and each iteration is one unit of work. Arguments and results of
# functions count by their size: one unit for each item, for each key and for each CHARS_PER_WORK
# characters.
MAX_WORK = 100_000
CHARS_PER_WORK = 16
# Levels of lists and mappings in a value.
MAX_NESTING = 64


def work_of(value: Value) -> int:
    """Return the work that it takes to create or to read a value.

    A value that occurs several times in a list counts each time. The result exceeds the limit if
    the value is nested too deep.
    """
    work = 0
    remaining_values = [(value, 0)]
    while remaining_values and work <= MAX_WORK:
        item, depth = remaining_values.pop()
        if depth > MAX_NESTING:
            return MAX_WORK + 1
        work += 1
        if isinstance(item, str):
            work += len(item) // CHARS_PER_WORK
        elif isinstance(item, Mapping):
            items = chain(item.keys(), item.values())
            remaining_values += [(inner, depth + 1) for inner in items]
        elif isinstance(item, list | tuple):
            remaining_values += [(inner, depth + 1) for inner in item]
    return work
