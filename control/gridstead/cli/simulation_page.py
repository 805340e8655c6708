# SPDX-License-Identifier: Apache-2.0
"""The results of simulations as an HTML page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from gridstead.cli.html_page import html_page, table
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
from gridstead.services.simulation.figures import PolicyFigures

_BAR_WIDTH = 240  # pixels


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


def page(report: Report) -> str:
    """Return the HTML page of the results."""
    title = f"Simulation of {report.scenario}"
    parts = [f"<p>Seed {report.seed}, {escape(duration_text(report.duration_s))}</p>"]
    if not report.is_complete:
        parts.append(f'<p class="incomplete">{escape(INCOMPLETE)}</p>')
    if report.unsuitable_jobs:
        parts.append(f"<p>{escape(unsuitable_text(report))}</p>")
    parts += [_chart(chart, report.policies) for chart in _CHARTS]
    names = [policy.policy for policy in report.policies]
    parts += ["<h2>All figures</h2>", table(["figure", *names], comparison_rows(report))]
    parts += map(_policy_section, report.policies)
    return html_page(title, parts)


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


def _policy_section(policy: PolicyFigures) -> str:
    """Return the customers, the providers and the moved reservations of a policy."""
    name = escape(policy.policy)
    shares = [customer.money_share for customer in policy.customers]
    share_bars = [_bar(share, max(shares)) for share in shares]
    utilisation_bars = [_bar(provider.utilisation, 1.0) for provider in policy.providers]
    parts = [
        f"<h2>{name}: customers</h2>",
        table(CUSTOMER_COLUMNS, customer_rows(policy), bars=share_bars),
        f"<h2>{name}: providers</h2>",
        table(PROVIDER_COLUMNS, provider_rows(policy), bars=utilisation_bars),
    ]
    if policy.moves_by_cause:
        parts += [f"<h2>{name}: moved reservations</h2>", table(CAUSE_COLUMNS, cause_rows(policy))]
    return "\n".join(parts)
