# SPDX-License-Identifier: Apache-2.0
"""The reports of the benchmarks as an HTML page.

Colours compare a value with the median of its metric: red is slower, blue is faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from html import escape

from gridstead.cli.benchmark_output import (
    NO_SLOW_NODE,
    OMISSION_COLUMNS,
    about_run,
    node_columns,
    omission_rows,
    part_text,
    problem_sentences,
    slow_sentences,
    values_of,
    whole_site_runs,
)
from gridstead.cli.html_page import html_page, table
from gridstead.cli.watch import format_time
from gridstead.domain.benchmarks.metrics import Metric
from gridstead.domain.benchmarks.outputs.reading import median
from gridstead.domain.benchmarks.report import Report
from gridstead.domain.labels.values import number_or_none, plain_decimal

_STRONGEST_PERCENT = 30  # A value that differs this much from the median has the strongest colour.
_WIDTH, _HEIGHT = 240, 32  # pixels of a history
_RED, _BLUE = "200, 50, 40", "40, 100, 190"
_RUN_COLUMNS = ("ENDED", "DURATION", "SUITE", "NODES", "SLOW", "MEASURED ONLY")

Pair = tuple[str, str]


def page(reports: Sequence[Report]) -> str:
    """Return the page of at least one report, the newest of which is last."""
    newest = reports[-1]
    parts = []
    if newest.partial is not None:
        notice = escape(f"This run measured only a part of the site: {part_text(newest)}.")
        parts.append(f'<p class="incomplete">{notice}</p>')
    parts += [table(("RUN", ""), about_run(newest)), "<h2>Nodes</h2>", _heat_map(newest)]
    parts += ["<h2>Slow nodes</h2>", _list(slow_sentences(newest) or [NO_SLOW_NODE])]
    if newest.findings.diagnostics:
        parts += ["<h2>Problems of nodes</h2>", _list(problem_sentences(newest))]
    for metric, values in _pairs_of(newest).items():
        parts += [f"<h2>Pairs of nodes: {escape(_title(metric))}</h2>", _matrix(metric, values)]
    parts += ["<h2>Labels that are left out</h2>", table(OMISSION_COLUMNS, omission_rows(newest))]
    parts += ["<h2>History of the labels</h2>", _histories(reports)]
    parts += ["<h2>Runs</h2>", table(_RUN_COLUMNS, list(map(_run_row, reversed(reports))))]
    return html_page(f"Benchmarks of {format_time(newest.ended_at)}", parts)


def _title(metric: Metric) -> str:
    return f"{metric.name} ({metric.unit})"


def _list(sentences: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f"<ul>{items}</ul>"


def _heat_map(report: Report) -> str:
    """Return the table of nodes and metrics."""
    values = values_of(report)
    rows = []
    for node in report.nodes:
        cells = [
            _cell(metric, by_node.get(node), by_node.values()) for metric, by_node in values.items()
        ]
        rows.append(_heat_row(node, cells))
    return _heat_table(node_columns(report), rows)


def _matrix(metric: Metric, values: Mapping[Pair, Decimal]) -> str:
    """Return the matrix of the measured pairs of nodes."""
    nodes = sorted({node for pair in values for node in pair})
    both_ways = {**{(second, first): values[first, second] for first, second in values}, **values}
    rows = []
    for first in nodes:
        row = [both_ways.get((first, second)) for second in nodes]
        cells = [_cell(metric, value, values.values()) for value in row]
        rows.append(_heat_row(first, cells))
    return _heat_table(["NODE", *nodes], rows)


def _pairs_of(report: Report) -> dict[Metric, dict[Pair, Decimal]]:
    pairs: dict[Metric, dict[Pair, Decimal]] = {}
    for pair in report.findings.pairs:
        pairs.setdefault(pair.metric, {})[pair.nodes] = pair.value
    return pairs


def _cell(metric: Metric, value: Decimal | None, values: Iterable[Decimal]) -> str:
    """Return the coloured cell of a value. The cell is empty without a value."""
    if value is None:
        return "<td></td>"
    percent = -metric.percent_slower(value, median(values))
    strength = min(abs(percent) / _STRONGEST_PERCENT, Decimal(1)) * Decimal("0.7")
    colour = f"rgba({_RED if percent < 0 else _BLUE}, {strength:.2f})"
    title = f"{percent:+.1f} % of speed compared with the median"
    text = escape(plain_decimal(value))
    return f'<td style="background: {colour}" title="{escape(title)}">{text}</td>'


def _heat_row(name: str, cells: Iterable[str]) -> str:
    return f"<tr><th>{escape(name)}</th>{''.join(cells)}</tr>"


def _heat_table(columns: Iterable[str], rows: Iterable[str]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "\n".join(rows)
    return (
        f'<table class="heat">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>'
    )


def _histories(reports: Iterable[Report]) -> str:
    """Return the first and the last value of each label, and a line between them."""
    runs = whole_site_runs(reports)
    rows, lines = [], []
    for key in sorted({key for run in runs for key in run.labels}):
        values = [run.labels[key] for run in runs if key in run.labels]
        rows.append((key, str(len(values)), values[0], values[-1]))
        numbers = [number_or_none(value) for value in values]
        lines.append(_line([number for number in numbers if number is not None]))
    return table(("LABEL", "RUNS", "FIRST", "LAST"), rows, bars=lines)


def _line(values: Sequence[Decimal]) -> str:
    """Return a line through values, from 0 at the bottom to the largest value at the top."""
    largest = max(values, default=Decimal(0))
    if len(values) <= 1 or not largest:
        return ""
    points = " ".join(
        f"{index * _WIDTH / (len(values) - 1):.1f},{_HEIGHT - 1 - float(value / largest) * 28:.1f}"
        for index, value in enumerate(values)
    )
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-hidden="true">'
        f'<polyline class="line" points="{points}"/></svg>'
    )


def _run_row(report: Report) -> tuple[str, ...]:
    return (
        format_time(report.ended_at),
        f"{report.ended_at - report.started_at} s",
        report.suite,
        str(len(report.nodes)),
        str(len({slow.node for slow in report.slow_nodes})),
        part_text(report),
    )
