# SPDX-License-Identifier: Apache-2.0
"""How the command line speaks: tables for people, JSON for machines, errors in three parts on
stderr.

Nothing that is printed is markup: names, labels and errors come from strangers.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gridstead.errors import GridsteadError, InvalidInput, InvalidWorkflow

WEI_PER_CREDIT = 10**18
WIDE = 250  # columns of a table that goes into a file or a pipe
_LARGEST = 2**256 - 1

_CREDITS = re.compile(r"([0-9]{1,60})(?:\.([0-9]{1,18}))?")


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return Console(
        stderr=stderr, highlight=False, markup=False, width=None if stream.isatty() else WIDE
    )


console = _console(stderr=False)
errors = _console(stderr=True)


def say(text: str) -> None:
    """Print a line of ours on stdout, as it is."""
    console.print(printable(text), soft_wrap=True)


def tell(text: str) -> None:
    """Print a line beside the result, on stderr."""
    errors.print(printable(text), soft_wrap=True)


def emit_json(value: object) -> None:
    """Print a value as one JSON document."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def emit_done(record: Mapping[str, object], sentence: str, *, as_json: bool) -> None:
    """Print what a command has done: a record for machines or a sentence for people."""
    if as_json:
        emit_json(record)
        return
    say(sentence)


def emit_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under named columns; cells are plain text."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(str(cell))) for cell in row))
    console.print(table)


def emit_record(record: Mapping[str, object]) -> None:
    """Print one thing, a line per property."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for key, value in record.items():
        table.add_row(key, Text(printable(str(value))))
    console.print(table)


def emit_error(error: GridsteadError, *, as_json: bool = False) -> None:
    """Print an error on stderr: what, why, what to do."""
    if as_json:
        told: dict[str, object] = {"code": error.code, "message": error.message}
        told |= {"detail": error.detail, "hint": error.hint, "exit_code": error.exit_code}
        if isinstance(error, InvalidWorkflow):
            told["problems"] = [
                {"path": one.path, "line": one.line, "reason": one.reason, "hint": one.hint}
                for one in error.problems
            ]
        sys.stderr.write(json.dumps({"error": told}, indent=2) + "\n")
        return
    tell(f"error: {error.message}")
    if isinstance(error, InvalidWorkflow) and len(error.problems) > 1:
        for problem in error.problems:
            tell(f"  {problem}" + (f" ({problem.hint})" if problem.hint else ""))
    elif error.detail:
        tell(f"  {error.detail}")
    if error.hint:
        tell(f"  hint: {error.hint}")


def printable(text: str) -> str:
    """Return a text without what a terminal would act on; lines and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def credits_text(wei: int) -> str:
    """Return an amount in credits, exact, without trailing zeros."""
    whole, rest = divmod(wei, WEI_PER_CREDIT)
    fraction = f"{rest:018d}".rstrip("0")
    return f"{whole}.{fraction}" if fraction else str(whole)


def parse_credits(text: str) -> int:
    """Return an amount of credits as wei, exact.

    Raises:
        InvalidInput: It is not a number, is negative, has more than 18 decimals, or is more than a
            contract can count.
    """
    match = _CREDITS.fullmatch(text.strip())
    wei = (
        int(match[1]) * WEI_PER_CREDIT + int((match[2] or "").ljust(18, "0"))
        if match
        else _LARGEST + 1
    )
    if wei > _LARGEST:
        raise InvalidInput(
            f"invalid amount of credits {text[:80]!r}",
            hint="Give a number such as 100 or 0.5: not negative, with at most 18 decimals.",
        )
    return wei
