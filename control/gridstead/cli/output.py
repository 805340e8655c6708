# SPDX-License-Identifier: Apache-2.0
"""Prints the output of the command line: tables, JSON, and errors on stderr.

Text is never interpreted as markup, because names, labels and errors come from other users.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gridstead.domain.jobs.billing import WEI_PER_CREDIT
from gridstead.errors import GridsteadError, InvalidInput, InvalidWorkflow, WorkflowProblem

WIDTH_WITHOUT_TERMINAL = 250  # characters in a line of a table that is written to a file or a pipe
_MAX_PRINTED_WARNINGS = 100
_MAX_WEI = 2**256 - 1  # the largest number that a contract can store
# A number such as 12.5, with at most 18 decimals.
_CREDITS_PATTERN = re.compile(r"([0-9]{1,60})(?:\.([0-9]{1,18}))?")


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else WIDTH_WITHOUT_TERMINAL
    return Console(stderr=stderr, highlight=False, markup=False, width=width)


stdout_console = _console(stderr=False)
stderr_console = _console(stderr=True)


def print_line(text: str) -> None:
    """Print a line on stdout, without wrapping."""
    stdout_console.print(printable(text), soft_wrap=True)


def print_note(text: str) -> None:
    """Print a line on stderr. Only the result of a command is printed on stdout."""
    stderr_console.print(printable(text), soft_wrap=True)


def emit_json(value: object) -> None:
    """Print a value as one JSON document."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def emit_result(record: Mapping[str, object], sentence: str, *, as_json: bool) -> None:
    """Print the result of a command: the record as JSON, or the sentence."""
    if as_json:
        emit_json(record)
    else:
        print_line(sentence)


def emit_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table. Cells are printed as plain text."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        cells = [Text(printable(str(cell))) for cell in row]
        table.add_row(*cells)
    stdout_console.print(table)


def emit_record(record: Mapping[str, object]) -> None:
    """Print a record with one line per field."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for key, value in record.items():
        table.add_row(key, Text(printable(str(value))))
    stdout_console.print(table)


def print_warnings(warnings: Iterable[WorkflowProblem]) -> None:
    """Print the warnings about a workflow on stderr, one line each.

    If there are many warnings, print only some of them, first those about keys that change what
    runs.
    """
    ordered_warnings = list(warnings)
    omitted_count = len(ordered_warnings) - _MAX_PRINTED_WARNINGS
    if omitted_count > 0:
        ordered_warnings.sort(key=attrgetter("changes_run"), reverse=True)
    for warning in ordered_warnings[:_MAX_PRINTED_WARNINGS]:
        hint = f" {warning.hint}" if warning.hint else ""
        print_note(f"warning: {warning}.{hint}")
    if omitted_count > 0:
        print_note(f"{omitted_count} more warnings are not printed; --json prints all of them")


def emit_error(error: GridsteadError, *, as_json: bool = False) -> None:
    """Print an error on stderr: message, detail and hint."""
    if as_json:
        sys.stderr.write(json.dumps({"error": _error_json(error)}, indent=2) + "\n")
        return
    if isinstance(error, InvalidWorkflow):
        print_warnings(error.warnings)
    print_note(f"error: {error.message}")
    # The message of an error with only one problem is the problem itself.
    if isinstance(error, InvalidWorkflow) and str(error.problems[0]) != error.message:
        for problem in error.problems:
            hint = f" ({problem.hint})" if problem.hint else ""
            print_note(f"  {problem}{hint}")
    elif error.detail:
        print_note(f"  {error.detail}")
    if error.hint:
        print_note(f"  hint: {error.hint}")


def _error_json(error: GridsteadError) -> dict[str, object]:
    document: dict[str, object] = {
        "code": error.code,
        "message": error.message,
        "detail": error.detail,
        "hint": error.hint,
        "exit_code": error.exit_code,
    }
    if isinstance(error, InvalidWorkflow):
        document["problems"] = problems_json(error.problems)
        document["warnings"] = problems_json(error.warnings)
    return document


def problems_json(problems: Iterable[WorkflowProblem]) -> list[dict[str, object]]:
    """Return the errors in a workflow, or the warnings about it, as JSON objects."""
    return [
        {
            "path": problem.path,
            "line": problem.line,
            "reason": problem.reason,
            "hint": problem.hint,
            "changes_run": problem.changes_run,
        }
        for problem in problems
    ]


def printable(text: str) -> str:
    """Return a text with all control characters escaped except line ends and tabs."""
    return "".join(map(_printable_character, text))


def _printable_character(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    return repr(character)[1:-1]  # without the quotes


def credits_text(wei: int) -> str:
    """Return an amount in credits, without rounding or trailing zeros."""
    whole_credits, remaining_wei = divmod(wei, WEI_PER_CREDIT)
    fraction = f"{remaining_wei:018d}".rstrip("0")
    return f"{whole_credits}.{fraction}" if fraction else str(whole_credits)


def parse_credits(text: str) -> int:
    """Return an amount of credits in wei, without rounding.

    Raises:
        InvalidInput: If the text is not a number, is negative, has more than 18 decimals, or is
            larger than a contract can store.
    """
    invalid_amount = InvalidInput(
        f"invalid amount of credits {text[:80]!r}",
        hint="Give a number such as 100 or 0.5: not negative, with at most 18 decimals.",
    )
    match = _CREDITS_PATTERN.fullmatch(text.strip())
    if match is None:
        raise invalid_amount
    fraction = match[2] or ""
    wei = int(match[1]) * WEI_PER_CREDIT + int(fraction.ljust(18, "0"))
    if wei > _MAX_WEI:
        raise invalid_amount
    return wei
