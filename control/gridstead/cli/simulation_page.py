# SPDX-License-Identifier: Apache-2.0
"""Writes the results of simulations to an HTML page.

The page is one file without scripts and without other resources. All texts are escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from gridstead.cli.simulation_output import (
    CAUSE_COLUMNS,
    CUSTOMER_COLUMNS,
    INCOMPLETE,
    PROVIDER_COLUMNS,
    Report,
    cause_rows,
    comparison_rows,
    customer_rows,
    duration_text,
    percent_text,
    provider_rows,
    unsuitable_text,
)
from gridstead.errors import InvalidInput
from gridstead.services.simulation.figures import PolicyFigures

_BAR_WIDTH = 240  # pixels
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem;
  color: #1c2430; background: #fff }
table { border-collapse: collapse; margin: .5rem 0 1.5rem }
th, td { padding: .2rem .8rem .2rem 0; text-align: right; border-bottom: 1px solid #dde2e8;
  font-variant-numeric: tabular-nums; white-space: nowrap }
th:first-child, td:first-child { text-align: left }
.incomplete { background: #fdecea; border: 1px solid #c0392b; padding: .6rem 1rem }
svg { vertical-align: middle }
.track { fill: #e8ecf1 }
.bar { fill: #2f6fab }
"""


class Chart(NamedTuple):
    """A chart with a bar for each policy.

    Attributes:
        title: The title, and which values are good.
        value: Returns the value of a policy.
        text: Returns the text of a value.
        maximum: The value of the longest possible bar. None for the largest value.
    """

    title: str
    value: Callable[[PolicyFigures], float]
    text: Callable[[float], str]
    maximum: float | None = None


_CHARTS = (
    Chart("Utilisation of CPUs (more is better)", lambda p: p.utilisation, percent_text, 1.0),
    Chart(
        "Wait of 95 % of the jobs (less is better)",
        lambda policy: policy.wait.p95_s,
        lambda seconds: duration_text(int(seconds)),
    ),
    Chart(
        "Mean bounded slowdown (less is better, at least 1)",
        lambda policy: policy.mean_bounded_slowdown,
        lambda slowdown: f"{slowdown:.2f}",
    ),
    Chart(
        "Jain's index of the customers' money (1 is equal)",
        lambda policy: policy.jain_index,
        lambda index: f"{index:.3f}",
        1.0,
    ),
)


def write_page(report: Report, path: Path) -> None:
    """Write the results to a file.

    Raises:
        InvalidInput: If the file cannot be written.
    """
    try:
        path.write_text(page(report), encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write {path}", detail=str(error)) from error


def page(report: Report) -> str:
    """Return the HTML page of the results."""
    title = f"Simulation of {report.scenario}"
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
        f"<h1>{escape(title)}</h1>",
        f"<p>Seed {report.seed}, {escape(duration_text(report.duration_s))}</p>",
    ]
    if not report.is_complete:
        parts.append(f'<p class="incomplete">{escape(INCOMPLETE)}</p>')
    if report.unsuitable_jobs:
        parts.append(f"<p>{escape(unsuitable_text(report))}</p>")
    parts += [_chart(chart, report.policies) for chart in _CHARTS]
    names = [policy.policy for policy in report.policies]
    parts += ["<h2>All figures</h2>", _table(["figure", *names], comparison_rows(report))]
    parts += map(_policy_section, report.policies)
    parts.append("</body>\n</html>\n")
    return "\n".join(parts)


def _chart(chart: Chart, policies: Sequence[PolicyFigures]) -> str:
    values = [chart.value(policy) for policy in policies]
    maximum = max(values, default=0) if chart.maximum is None else chart.maximum
    rows = []
    for policy, value in zip(policies, values, strict=True):
        bar = _bar(value, maximum)
        rows.append(
            f"<tr><td>{escape(policy.policy)}</td><td>{bar}</td>"
            f"<td>{escape(chart.text(value))}</td></tr>"
        )
    return f"<h2>{escape(chart.title)}</h2>\n<table>{''.join(rows)}</table>"


def _bar(value: float, maximum: float) -> str:
    """Return a horizontal bar. Its length is the value in relation to the maximum."""
    width = min(1.0, value / maximum) * _BAR_WIDTH if maximum else 0.0
    return (
        f'<svg width="{_BAR_WIDTH}" height="12" role="img" aria-hidden="true">'
        f'<rect class="track" width="{_BAR_WIDTH}" height="12"/>'
        f'<rect class="bar" width="{width:.1f}" height="12"/></svg>'
    )


def _table(
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


def _policy_section(policy: PolicyFigures) -> str:
    """Return the customers, the providers and the moved reservations of a policy."""
    name = escape(policy.policy)
    shares = [customer.money_share for customer in policy.customers]
    share_bars = [_bar(share, max(shares)) for share in shares]
    utilisation_bars = [_bar(provider.utilisation, 1.0) for provider in policy.providers]
    parts = [
        f"<h2>{name}: customers</h2>",
        _table(CUSTOMER_COLUMNS, customer_rows(policy), bars=share_bars),
        f"<h2>{name}: providers</h2>",
        _table(PROVIDER_COLUMNS, provider_rows(policy), bars=utilisation_bars),
    ]
    if policy.moves_by_cause:
        parts += [f"<h2>{name}: moved reservations</h2>", _table(CAUSE_COLUMNS, cause_rows(policy))]
    return "\n".join(parts)
