# SPDX-License-Identifier: Apache-2.0
"""How the command line speaks: tables for people, JSON for machines, errors in three parts on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal

from rich.console import Console
from rich.table import Table

from gridstead.errors import GridsteadError, InvalidInput

WEI_DECIMALS = 18

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


def emit_json(value: object) -> None:
    """Print a value as one JSON document."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def emit_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under named columns; cells are plain text."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(_plain(cell) for cell in row))
    console.print(table)


def emit_record(record: Mapping[str, object]) -> None:
    """Print one thing, a line per property."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for key, value in record.items():
        table.add_row(key, _plain(value))
    console.print(table)


def emit_error(error: GridsteadError) -> None:
    """Print an error on stderr: what, why, what to do."""
    errors.print(f"error: {error.message}", markup=False, soft_wrap=True)
    if error.detail:
        errors.print(f"  {error.detail}", markup=False, soft_wrap=True)
    if error.hint:
        errors.print(f"  hint: {error.hint}", markup=False, soft_wrap=True)


def _plain(cell: object) -> str:
    """Return a cell without what a terminal or rich's markup would act on."""
    text = str(cell)
    shown = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
    return shown.replace("[", "\\[")


def credits_text(wei: int) -> str:
    """Return an amount in credits, exact, without trailing zeros."""
    amount = Decimal(wei).scaleb(-WEI_DECIMALS)
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def parse_credits(text: str) -> int:
    """Return an amount of credits as wei.

    Raises:
        InvalidInput: It is not a number, is negative, or has more than 18 decimals.
    """
    try:
        wei = Decimal(text).scaleb(WEI_DECIMALS)
    except ArithmeticError as error:
        raise InvalidInput(
            f"invalid amount of credits {text[:80]!r}", hint="Give a number such as 100 or 0.5."
        ) from error
    if not wei.is_finite() or wei < 0 or wei != wei.to_integral_value():
        raise InvalidInput(
            f"invalid amount of credits {text[:80]!r}", hint="Give a number >= 0 with at most 18 decimals."
        )
    return int(wei)
