# SPDX-License-Identifier: Apache-2.0
"""Prints the reports of the benchmarks: tables and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from gridstead.cli.output import emit_record, emit_result, emit_table, print_line
from gridstead.cli.watch import format_time
from gridstead.domain.benchmarks.metrics import Metric
from gridstead.domain.benchmarks.report import PastRun, Report
from gridstead.domain.benchmarks.report_text import report_text
from gridstead.domain.labels.values import plain_decimal

MISSING = "-"
NO_SLOW_NODE = "no node is slow"
OMISSION_COLUMNS = ("LEFT OUT", "REASON")

# The values of a report by metric and node.
Values = Mapping[Metric, Mapping[str, Decimal]]


def emit_reports(reports: Sequence[Report]) -> None:
    """Print the newest of at least one report, and with several the history of the labels."""
    newest = reports[-1]
    emit_record(dict(about_run(newest)))
    print_line("")
    emit_table(node_columns(newest), node_rows(newest))
    if newest.findings.omissions:
        print_line("")
        emit_table(OMISSION_COLUMNS, omission_rows(newest))
    print_line("")
    for sentence in problem_sentences(newest) + (slow_sentences(newest) or [NO_SLOW_NODE]):
        print_line(sentence)
    if len(reports) > 1:
        print_line("")
        emit_table(*history_table(reports))


def emit_status(newest: Report | None, *, now: int, as_json: bool) -> None:
    """Print the age of the last report, and the slow nodes.

    Args:
        newest: The last report. None if there was no run.
        now: The current time, in Unix seconds.
        as_json: Whether to print a JSON object.
    """
    if newest is None:
        sentence = "the benchmarks have not measured the site yet"
        emit_result({"age_h": None, "slow_nodes": []}, sentence, as_json=as_json)
        return
    age_h = (now - newest.ended_at) // 3600
    slow = slow_sentences(newest)
    sentence = "; ".join([f"the last run ended {age_h} h ago", *(slow or ["no node is slow"])])
    emit_result({"age_h": age_h, "slow_nodes": slow}, sentence, as_json=as_json)


def reports_json(reports: Iterable[Report]) -> list[dict[str, Any]]:
    """Return the documents of reports."""
    return [json.loads(report_text(report)) for report in reports]


def about_run(report: Report) -> list[tuple[str, str]]:
    """Return what was measured, and when: names and values."""
    rows = [
        ("ended", format_time(report.ended_at)),
        ("duration", f"{report.ended_at - report.started_at} s"),
        ("suite", report.suite),
        ("nodes", str(len(report.nodes))),
    ]
    if report.findings.transport:
        rows.append(("transport", report.findings.transport))
    if report.partial is not None:
        rows.append(("measured only", part_text(report)))
    return rows


def part_text(report: Report) -> str:
    """Return which part of the site was measured. Empty for the whole site."""
    partial = report.partial
    if partial is None:
        return ""
    nodes = f"nodes {', '.join(partial.nodes)}" if partial.nodes else "all nodes"
    suites = f"suites {', '.join(partial.suites)}" if partial.suites else "all suites"
    return f"{nodes}; {suites}; the labels are not published"


def values_of(report: Report) -> Values:
    """Return the values of a report by metric, in the order of the report, and node."""
    values: dict[Metric, dict[str, Decimal]] = {}
    for measurement in report.findings.measurements:
        values.setdefault(measurement.metric, {})[measurement.node] = measurement.value
    return values


def node_columns(report: Report) -> list[str]:
    """Return the titles of the table of nodes and metrics."""
    return ["NODE", *(f"{metric.name} ({metric.unit})" for metric in values_of(report))]


def node_rows(report: Report) -> list[list[str]]:
    """Return a row for each node with its value in each metric."""
    values = values_of(report)
    rows = []
    for node in report.nodes:
        cells = [
            plain_decimal(by_node[node]) if node in by_node else MISSING
            for by_node in values.values()
        ]
        rows.append([node, *cells])
    return rows


def omission_rows(report: Report) -> list[tuple[str, str]]:
    """Return the labels that are left out, each with its reason."""
    return [(omission.keys, omission.reason) for omission in report.findings.omissions]


def problem_sentences(report: Report) -> list[str]:
    """Return a sentence for each problem of a node that the run met."""
    return [f"{each.node}: {each.reason}" for each in report.findings.diagnostics]


def slow_sentences(report: Report) -> list[str]:
    """Return a sentence for each slow value, and for each node that was drained or was not."""
    sentences = [slow.sentence for slow in report.slow_nodes]
    for drain in report.drains:
        if drain.failure:
            sentences.append(f"{drain.node} could not be drained: {drain.failure}")
        else:
            sentences.append(f"{drain.node} was drained")
    return sentences


def history_table(reports: Iterable[Report]) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of the labels in the runs of the whole site."""
    runs = whole_site_runs(reports)
    keys = sorted({key for run in runs for key in run.labels})
    columns = ["LABEL", *(format_time(run.ended_at) for run in runs)]
    return columns, [[key, *(run.labels.get(key, MISSING) for run in runs)] for key in keys]


def whole_site_runs(reports: Iterable[Report]) -> list[PastRun]:
    """Return the runs that measured the whole site."""
    return [PastRun.of(report) for report in reports if report.partial is None]
