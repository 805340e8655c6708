# SPDX-License-Identifier: Apache-2.0
"""Measures the site once, and writes a report."""

from __future__ import annotations

import structlog

from gridstead.domain.benchmarks import run
from gridstead.domain.benchmarks.report import Report
from gridstead.domain.benchmarks.site import Failure, MeasuredSite, Options
from gridstead.errors import SchedulerUnavailable
from gridstead.ports import Clock
from gridstead.ports.benchmarks import BenchmarkReports, Nodes, Steps

log = structlog.get_logger()


class BenchmarkRunner:
    """Measures the site.

    Args:
        clock: Wall time.
        nodes: The nodes of the cluster.
        steps: Runs programs on the nodes.
        reports: The reports of the runs.
        options: What is measured, and how long a run takes.
        suite: The name and the version of the benchmarks.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        nodes: Nodes,
        steps: Steps,
        reports: BenchmarkReports,
        options: Options,
        suite: str,
    ) -> None:
        self._clock = clock
        self._nodes = nodes
        self._steps = steps
        self._reports = reports
        self._options = options
        self._suite = suite

    def measure(self) -> None:
        """Run all steps and write the report. A failed step does not stop the others.

        Raises:
            SchedulerUnavailable: If Slurm does not answer, no node accepts jobs, or all steps
                failed. There is no report then, so the published labels do not change.
        """
        nodes = self._nodes.accepting()
        if not nodes:
            raise SchedulerUnavailable("no node accepts jobs, so nothing can be measured")
        site = MeasuredSite(nodes=nodes, options=self._options)
        started_at = self._clock.now()
        steps = run.steps(site)
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
        )
        self._reports.add(report)
        for omission in report.findings.omissions:
            log.info("label_omitted", keys=omission.keys, reason=omission.reason)
        log.info(
            "benchmarks_ended",
            labels=len(report.labels),
            duration_s=report.ended_at - started_at,
        )
