# SPDX-License-Identifier: Apache-2.0
"""The text of a report: JSON, with a number for its format.

Values are strings with plain decimals, so that no reader changes them. Readers must ignore keys
that they do not know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from gridstead.domain.benchmarks.metrics import Kind, Metric
from gridstead.domain.benchmarks.outliers import SlowNode
from gridstead.domain.benchmarks.report import Drain, Report
from gridstead.domain.benchmarks.selection import Selection
from gridstead.domain.benchmarks.site import (
    Diagnostic,
    Findings,
    Measurement,
    Mode,
    Node,
    Omission,
    PairMeasurement,
)
from gridstead.domain.jobs.job import Label
from gridstead.domain.labels.keys import BENCHMARK_SUITE, BENCHMARK_TIME
from gridstead.errors import UnexpectedOutput

FORMAT = "gridstead-benchmarks-1"
_ABOUT_RUN = (BENCHMARK_TIME, BENCHMARK_SUITE)  # labels that the report adds to the findings
# Measured and computed values have more digits than labels may have.
_DECIMAL = re.compile(r"[0-9]{1,40}(\.[0-9]{1,60})?")
_KINDS = {kind.prefix: kind for kind in Kind}

Document = Mapping[str, Any]


def report_text(report: Report) -> str:
    """Return the text of a report."""
    findings = report.findings
    document = {
        "format": FORMAT,
        "mode": report.mode.value,
        "started_at": report.started_at,
        "ended_at": report.ended_at,
        "nodes": list(report.nodes),
        "labels": {label.key: label.value for label in report.labels},
        "omissions": [
            {"keys": omission.keys, "reason": omission.reason} for omission in findings.omissions
        ],
        "measurements": [
            {"node": measurement.node, **_figure(measurement.metric, measurement.value)}
            for measurement in findings.measurements
        ],
        "pairs": [
            {"nodes": list(pair.nodes), **_figure(pair.metric, pair.value)}
            for pair in findings.pairs
        ],
        **_judgement(report),
        "transport": findings.transport,
        "diagnostics": [
            {"node": diagnostic.node, "reason": diagnostic.reason}
            for diagnostic in findings.diagnostics
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def _judgement(report: Report) -> dict[str, Any]:
    """Return the keys about the site and its slow nodes."""
    partial = report.partial
    return {
        "hardware": [
            {
                "node": node.name,
                "cores": node.cores,
                "memory_mib": node.memory_mib,
                "gpus": node.gpus,
            }
            for node in report.hardware
        ],
        "partial": partial and {"nodes": list(partial.nodes), "suites": list(partial.suites)},
        "outliers": [
            {
                "node": slow.node,
                **_figure(slow.metric, slow.value),
                "expected": format(slow.reference, "f"),
                "percent_slower": format(slow.percent_slower, "f"),
                "runs": slow.runs,
                "sentence": slow.sentence,
            }
            for slow in report.slow_nodes
        ],
        "drains": [{"node": drain.node, "failure": drain.failure} for drain in report.drains],
    }


def parse_report(text: str, *, source: str) -> Report:
    """Return the report that a text describes.

    Args:
        text: The text of ``report_text``.
        source: Where the text is from, for the error.

    Raises:
        UnexpectedOutput: If the text is not a report.
    """
    try:
        return _report(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnexpectedOutput(source, text) from error


def _report(document: Document) -> Report:
    if document["format"] != FORMAT:
        raise ValueError("unknown format")
    labels = {str(key): str(value) for key, value in document["labels"].items()}
    findings = Findings(
        labels=[Label(key=key, value=labels[key]) for key in labels if key not in _ABOUT_RUN],
        measurements=list(map(_measurement, document["measurements"])),
        omissions=list(map(_omission, document["omissions"])),
        pairs=list(map(_pair, document.get("pairs", ()))),
        transport=str(document.get("transport", "")),
        diagnostics=list(map(_diagnostic, document.get("diagnostics", ()))),
    )
    return Report(
        mode=Mode(document["mode"]),
        started_at=int(document["started_at"]),
        ended_at=int(document["ended_at"]),
        nodes=tuple(map(str, document["nodes"])),
        suite=labels[BENCHMARK_SUITE],
        findings=findings,
        hardware=tuple(map(_node, document.get("hardware", ()))),
        partial=_partial(document.get("partial")),
        slow_nodes=tuple(map(_slow_node, document.get("outliers", ()))),
        drains=tuple(map(_drain, document.get("drains", ()))),
    )


def _node(document: Document) -> Node:
    return Node(
        name=str(document["node"]),
        cores=int(document["cores"]),
        memory_mib=int(document["memory_mib"]),
        gpus=int(document.get("gpus", 0)),
    )


def _partial(document: Document | None) -> Selection | None:
    if document is None:
        return None
    return Selection(
        nodes=tuple(map(str, document["nodes"])), suites=tuple(map(str, document["suites"]))
    )


def _slow_node(document: Document) -> SlowNode:
    return SlowNode(
        node=str(document["node"]),
        metric=_metric(document),
        value=_positive(document["value"]),
        reference=_positive(document["expected"]),
        percent_slower=_positive(document["percent_slower"]),
        runs=int(document["runs"]),
        sentence=str(document["sentence"]),
    )


def _drain(document: Document) -> Drain:
    return Drain(node=str(document["node"]), failure=str(document["failure"]))


def _omission(document: Document) -> Omission:
    return Omission(keys=str(document["keys"]), reason=str(document["reason"]))


def _diagnostic(document: Document) -> Diagnostic:
    return Diagnostic(node=str(document["node"]), reason=str(document["reason"]))


def _measurement(document: Document) -> Measurement:
    return Measurement(
        node=str(document["node"]), metric=_metric(document), value=_positive(document["value"])
    )


def _pair(document: Document) -> PairMeasurement:
    first, second = document["nodes"]
    return PairMeasurement(
        nodes=(str(first), str(second)),
        metric=_metric(document),
        value=_positive(document["value"]),
    )


def _figure(metric: Metric, value: Decimal) -> dict[str, Any]:
    return {
        "metric": metric.name,
        "unit": metric.unit,
        "kind": metric.kind.prefix,
        "lower_is_better": metric.is_time,
        "value": format(value, "f"),
    }


def _metric(document: Document) -> Metric:
    return Metric(
        name=str(document["metric"]),
        unit=str(document["unit"]),
        kind=_KINDS[document["kind"]],
        is_time=document["lower_is_better"] is True,
    )


def _positive(text: str) -> Decimal:
    if not _DECIMAL.fullmatch(text) or not Decimal(text):
        raise ValueError("not a number above 0")
    return Decimal(text)
