# SPDX-License-Identifier: Apache-2.0
"""Measures the site once, and writes a report."""

from __future__ import annotations

from dataclasses import replace

import structlog

from gridstead.domain.benchmarks import run
from gridstead.domain.benchmarks.report import Report
from gridstead.domain.benchmarks.selection import Selection, selected_nodes
from gridstead.domain.benchmarks.site import Failure, MeasuredSite, Options
from gridstead.errors import InvalidInput, SchedulerUnavailable
from gridstead.ports import Clock
from gridstead.ports.benchmarks import BenchmarkReports, Nodes, Steps
from gridstead.services.benchmarks.slow_nodes import SlowNodeCheck

log = structlog.get_logger()


class BenchmarkRunner:
    """Measures the site.

    Args:
        clock: Wall time.
        nodes: The nodes of the cluster.
        steps: Runs programs on the nodes.
        reports: The reports of the runs.
        options: What is measured, and how long a run takes.
        slow_nodes: Finds slow nodes.
        suite: The name and the version of the benchmarks.
    """

    def __init__(  # noqa: PLR0913 - each argument is another part of a run
        self,
        *,
        clock: Clock,
        nodes: Nodes,
        steps: Steps,
        reports: BenchmarkReports,
        options: Options,
        slow_nodes: SlowNodeCheck,
        suite: str,
    ) -> None:
        self._clock = clock
        self._nodes = nodes
        self._steps = steps
        self._reports = reports
        self._options = options
        self._slow_nodes = slow_nodes
        self._suite = suite

    def measure(self, selection: Selection) -> None:
        """Run all steps and write the report. A failed step does not stop the others.

        Args:
            selection: The nodes and the suites.

        Raises:
            InvalidInput: If a selected node does not accept jobs, or there is nothing to measure.
            SchedulerUnavailable: If Slurm does not answer, no node accepts jobs, or all steps
                failed. There is no report then, so the published labels do not change.
        """
        nodes = selected_nodes(selection, self._nodes.accepting())
        if not nodes:
            raise SchedulerUnavailable("no node accepts jobs, so nothing can be measured")
        site = MeasuredSite(nodes=nodes, options=replace(self._options, suites=selection.suites))
        started_at = self._clock.now()
        steps = run.steps(site)
        if not steps:
            raise InvalidInput("the selected suites measure nothing on the selected nodes")
        mode = self._options.mode
        log.info("benchmarks_started", nodes=len(nodes), steps=len(steps), mode=mode.value)
        outcomes = self._steps.run(steps)
        failures = {
            name: outcome.reason
            for name, outcome in outcomes.items()
            if isinstance(outcome, Failure)
        }
        for name, reason in failures.items():
            log.warning("benchmark_failed", step=name, reason=reason)
        if len(failures) == len(steps):
            raise SchedulerUnavailable("all benchmarks failed", detail=failures[steps[0].name])
        report = Report(
            mode=mode,
            started_at=started_at,
            ended_at=self._clock.now(),
            nodes=site.names,
            suite=self._suite,
            findings=run.findings(site, outcomes),
            hardware=site.nodes,
            partial=None if selection.is_whole_site else selection,
        )
        report = self._slow_nodes.checked(report)
        self._reports.add(report)
        for omission in report.findings.omissions:
            log.info("label_omitted", keys=omission.keys, reason=omission.reason)
        log.info(
            "benchmarks_ended",
            labels=len(report.labels),
            duration_s=report.ended_at - started_at,
        )
