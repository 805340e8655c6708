# SPDX-License-Identifier: Apache-2.0
"""Reads measured numbers from the output of programs.

Rule 1: an output is complete and in the known format, or it is refused. No number is guessed.
Rule 2: the error names the program and what is missing or wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal, localcontext
from typing import Any

from gridstead.domain.jobs.job import Label
from gridstead.domain.labels.values import label_value, plain_decimal
from gridstead.errors import InvalidInput, UnexpectedOutput

_NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,2})?")
# Between these limits, a number in any unit of a label is a plain decimal.
_LARGEST = Decimal(10) ** 13
_SMALLEST = Decimal(10) ** -9


class UnusableOutput(UnexpectedOutput):
    """The output of a benchmark is truncated, has another format, or reports a failure.

    Args:
        program: The program that printed the output.
        reason: What is missing or wrong.
        text: The output.
    """

    def __init__(self, program: str, reason: str, text: str) -> None:
        super().__init__(program, text)
        self.message = f"cannot use the output of {program}: {reason}"
        self.reason = reason


class Output:
    """The output of one run of a program."""

    def __init__(self, program: str, text: str) -> None:
        self.program = program
        self.text = text

    def error(self, reason: str) -> UnusableOutput:
        """Return the error that this output cannot be used."""
        return UnusableOutput(self.program, reason, self.text)

    def number(self, text: str, name: str, *, largest: Decimal = _LARGEST) -> Decimal:
        """Return a measured number, which is more than 0.

        Args:
            text: The number in the output.
            name: What the number is, for the error.
            largest: The largest number that can be a measured value.

        Raises:
            UnusableOutput: If the text is not a number, or cannot be a measured value.
        """
        if not _NUMBER.fullmatch(text):
            raise self.error(f"{name} is {text[:40]!r}, not a number")
        number = Decimal(text)
        if not _SMALLEST <= number <= largest:
            raise self.error(f"{name} is {text[:40]}, which cannot be a measured value")
        return number

    def integer(self, text: str, name: str) -> int:
        """Return an integer of at least 0. Raises UnusableOutput if the text is not one."""
        if not re.fullmatch("[0-9]{1,18}", text):
            raise self.error(f"{name} is {text[:40]!r}, not an integer")
        return int(text)

    def lines(self) -> list[str]:
        """Return the lines. Raises UnusableOutput if the last line has no end."""
        if not self.text.endswith("\n"):
            raise self.error("the last line is incomplete")
        return self.text.split("\n")[:-1]

    def json(self) -> Any:  # noqa: ANN401 - JSON has values of any type
        """Return the JSON document, with all numbers as text.

        Raises:
            UnusableOutput: If the output is not JSON.
        """
        try:
            return json.loads(self.text, parse_int=str, parse_float=str, parse_constant=str)
        except (ValueError, RecursionError) as error:
            raise self.error("it is not complete JSON") from error

    def field(self, document: object, *path: str) -> Any:  # noqa: ANN401 - as json()
        """Return a field of a JSON document. Raises UnusableOutput if it is missing."""
        value = document
        for name in path:
            if not isinstance(value, dict) or name not in value:
                raise self.error(f"{'.'.join(path)} is missing")
            value = value[name]
        return value

    def number_field(self, document: object, *path: str) -> Decimal:
        """Return a measured number of a JSON document. Raises UnusableOutput as number()."""
        return self.number(str(self.field(document, *path)), ".".join(path))


def median(numbers: Iterable[Decimal]) -> Decimal:
    """Return the median of at least one number: of an even count, the mean of the middle two."""
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    with localcontext(prec=60):
        return (ordered[middle - 1] + ordered[middle]) / 2


def number_label(key: str, number: Decimal) -> Label:
    """Return a label with a measured number."""
    return Label(key=key, value=plain_decimal(number))


def name_label(key: str, names: Sequence[str]) -> Label | None:
    """Return a label with the names of a part in all nodes. None if a name cannot be a label.

    Args:
        key: The key of the label.
        names: The name in each node. Different names are joined by ``-``.
    """
    try:
        return Label(key=key, value=label_value("-".join(sorted(set(names))), key=key))
    except InvalidInput:
        return None
