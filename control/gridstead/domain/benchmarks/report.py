# SPDX-License-Identifier: Apache-2.0
"""The report of a run of the benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gridstead.domain.benchmarks.outliers import SlowNode
from gridstead.domain.benchmarks.selection import Selection
from gridstead.domain.benchmarks.site import Findings, Mode, Node
from gridstead.domain.jobs.job import Label
from gridstead.domain.labels.keys import BENCHMARK_SUITE, BENCHMARK_TIME

MAX_REPORTS = 100  # more are not stored
COMPARED_RUNS = 2  # the last runs, which decide about the labels of a provider


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """An attempt to drain a slow node.

    Attributes:
        node: The name of the node.
        failure: Why the node could not be drained. Empty if it was drained.
    """

    node: str
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run found, and when.

    Attributes:
        mode: How long the run should take.
        started_at: Unix seconds.
        ended_at: Unix seconds.
        nodes: The names of the nodes.
        suite: The name and the version of the programs, for the label ``benchmark.suite``.
        findings: What the run found.
        hardware: The hardware of the nodes. Empty in early reports.
        partial: What was selected, if the run did not measure the whole site. Its labels are not
            published.
        slow_nodes: The slow nodes, sorted by name and metric.
        drains: The slow nodes that were drained, or could not be drained.
    """

    mode: Mode
    started_at: int
    ended_at: int
    nodes: tuple[str, ...]
    suite: str
    findings: Findings
    hardware: tuple[Node, ...] = ()
    partial: Selection | None = None
    slow_nodes: tuple[SlowNode, ...] = ()
    drains: tuple[Drain, ...] = ()

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels of the site, sorted by key."""
        about_run = [
            Label(key=BENCHMARK_TIME, value=str(self.ended_at)),
            Label(key=BENCHMARK_SUITE, value=self.suite),
        ]
        return tuple(sorted([*self.findings.labels, *about_run], key=lambda label: label.key))


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A run of the benchmarks that has ended.

    Attributes:
        ended_at: Unix seconds.
        labels: The values of the labels that it measured, by their keys.
    """

    ended_at: int
    labels: Mapping[str, str]

    @classmethod
    def of(cls, report: Report) -> PastRun:
        """Return the run of a report."""
        labels = {label.key: label.value for label in report.labels}
        return cls(ended_at=report.ended_at, labels=labels)
