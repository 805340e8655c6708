# SPDX-License-Identifier: Apache-2.0
"""HTML pages for people.

A page is one file without scripts and without other resources. All texts are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import zip_longest
from pathlib import Path

from gridstead.errors import InvalidInput

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem;
  color: #1c2430; background: #fff }
table { border-collapse: collapse; margin: .5rem 0 1.5rem }
th, td { padding: .2rem .8rem .2rem 0; text-align: right; border-bottom: 1px solid #dde2e8;
  font-variant-numeric: tabular-nums; white-space: nowrap }
th:first-child, td:first-child { text-align: left }
td.text { text-align: left; white-space: normal }
table.heat th, table.heat td { padding: .2rem .6rem }
.incomplete { background: #fdecea; border: 1px solid #c0392b; padding: .6rem 1rem }
svg { vertical-align: middle }
.track { fill: #e8ecf1 }
.bar { fill: #2f6fab }
.line { fill: none; stroke: #2f6fab; stroke-width: 1.5 }
"""


def write_page(text: str, path: Path) -> None:
    """Write a page to a file.

    Raises:
        InvalidInput: If the file cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write {path}", detail=str(error)) from error


def html_page(title: str, parts: Iterable[str]) -> str:
    """Return a page.

    Args:
        title: The title, as text. It is also the first heading.
        parts: The content, as HTML.
    """
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
            f"<h1>{escape(title)}</h1>",
            *parts,
            "</body>\n</html>\n",
        ]
    )


def table(
    columns: Iterable[str], rows: Sequence[Sequence[str]], *, bars: Sequence[str] = ()
) -> str:
    """Return a table.

    Args:
        columns: The titles of the columns.
        rows: The cells, as texts.
        bars: A bar for each row, as HTML. Empty for no bars.
    """
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    if bars:
        head += "<th></th>"
    lines = []
    for row, bar in zip_longest(rows, bars, fillvalue=""):
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in row)
        if bar:
            cells += f"<td>{bar}</td>"
        lines.append(f"<tr>{cells}</tr>")
    body = "\n".join(lines)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
