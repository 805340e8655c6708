# SPDX-License-Identifier: Apache-2.0
"""Measures the site once, and writes a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from gridstead.domain.benchmarks import run
from gridstead.domain.benchmarks.report import Report
from gridstead.domain.benchmarks.selection import Selection, selected_nodes
from gridstead.domain.benchmarks.site import Failure, MeasuredSite, Options, Outcome, Step
from gridstead.errors import InvalidInput, SchedulerUnavailable
from gridstead.ports import Clock
from gridstead.ports.benchmarks import BenchmarkReports, Nodes, Steps
from gridstead.services.benchmarks.slow_nodes import SlowNodeCheck

POLL_S = 3
log = structlog.get_logger()


class BenchmarkRunner:
    """Measures the site.

    Jobs of others come first. Steps that these jobs could disturb, or that could disturb them, wait
    until no node is busy. A step that such a job preempted is repeated once at the end.

    Args:
        clock: Wall time.
        nodes: The nodes of the cluster.
        steps: Runs programs on the nodes.
        reports: The reports of the runs.
        options: What is measured, and how long a run takes.
        slow_nodes: Finds slow nodes.
        suite: The name and the version of the benchmarks.
        sleep: Waits for a number of seconds.
    """

    def __init__(  # noqa: PLR0913 # one argument per collaborator
        self,
        *,
        clock: Clock,
        nodes: Nodes,
        steps: Steps,
        reports: BenchmarkReports,
        options: Options,
        slow_nodes: SlowNodeCheck,
        suite: str,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._clock = clock
        self._nodes = nodes
        self._steps = steps
        self._reports = reports
        self._options = options
        self._slow_nodes = slow_nodes
        self._suite = suite
        self._sleep = sleep

    def measure(self, selection: Selection) -> None:
        """Run all steps and write the report. A failed step does not stop the others.

        Args:
            selection: The nodes and the suites.

        Raises:
            InvalidInput: If a selected node does not accept jobs, or there is nothing to measure.
            SchedulerUnavailable: If Slurm does not answer, no node accepts jobs, or all steps
                failed. There is no report then, so the published labels do not change.
        """
        started_at = self._clock.now()
        site, outcomes = self._measure_site(self._site(selection))
        failures = {
            name: outcome.reason
            for name, outcome in outcomes.items()
            if isinstance(outcome, Failure)
        }
        for name, reason in failures.items():
            log.warning("benchmark_failed", step=name, reason=reason)
        if len(failures) == len(outcomes):
            raise SchedulerUnavailable(
                "all benchmarks failed", detail=next(iter(failures.values()))
            )
        report = Report(
            mode=self._options.mode,
            started_at=started_at,
            ended_at=self._clock.now(),
            nodes=site.names,
            suite=self._suite,
            findings=run.findings(site, outcomes),
            hardware=site.nodes,
            partial=self._partial(selection, site),
        )
        report = self._slow_nodes.checked(report)
        self._reports.add(report)
        _log_report(report)

    def _partial(self, selection: Selection, site: MeasuredSite) -> Selection | None:
        """Return what was measured if it is not the whole site, or None."""
        if self._options.in_reservation:
            return replace(selection, nodes=site.names)
        return None if selection.is_whole_site else selection

    def _site(self, selection: Selection) -> MeasuredSite:
        """Return the selected nodes. Without a selection, include nodes without jobs."""
        listed_nodes = self._nodes.listed()
        accepting_nodes = [node for node in listed_nodes if not node.unavailable]
        unavailable_nodes = [node for node in listed_nodes if node.unavailable]
        nodes = selected_nodes(selection, accepting_nodes)
        if not nodes:
            states = [f"{node.name}: {node.unavailable}" for node in unavailable_nodes]
            raise SchedulerUnavailable(
                "no node accepts jobs, so nothing can be measured", detail="; ".join(states)
            )
        return MeasuredSite(
            nodes=nodes,
            options=replace(self._options, suites=selection.suites),
            unavailable_nodes=() if selection.nodes else tuple(unavailable_nodes),
        )

    def _measure_site(self, site: MeasuredSite) -> tuple[MeasuredSite, dict[str, Outcome]]:
        """Run all steps. Return the site with its equipment, and the outcome of each step."""
        steps = run.steps(site)
        if not steps:
            raise InvalidInput("the selected suites measure nothing on the selected nodes")
        log.info(
            "benchmarks_started",
            nodes=len(site.nodes),
            steps=len(steps),
            mode=self._options.mode.value,
        )
        outcomes: dict[str, Outcome] = {}
        first_steps = [step for step in steps if not step.needs_quiet]
        if first_steps:
            outcomes |= self._steps.run(first_steps)
        site = run.with_equipment(site, outcomes)
        steps = run.steps(site)
        quiet_steps = [step for step in steps if step.needs_quiet]
        if quiet_steps:
            outcomes |= self._run_when_quiet(quiet_steps)
        repeated_steps = run.repeatable(steps, outcomes, busy_nodes=self._nodes.busy())
        if repeated_steps:
            log.info("benchmarks_repeated", steps=len(repeated_steps))
            outcomes |= self._steps.run(repeated_steps)
        return site, outcomes

    def _run_when_quiet(self, steps: Sequence[Step]) -> dict[str, Outcome]:
        """Run steps when no node is busy. Leave them out if that takes too long."""
        limit_s = self._options.quiet_limit_s
        deadline = self._clock.now() + limit_s
        while busy_nodes := self._nodes.busy():
            if self._clock.now() >= deadline:
                reason = f"jobs ran on {len(busy_nodes)} nodes, also after {limit_s} s"
                return {step.name: Failure(reason=reason) for step in steps}
            self._sleep(POLL_S)
        return dict(self._steps.run(steps))


def _log_report(report: Report) -> None:
    findings = report.findings
    for diagnostic in findings.diagnostics:
        log.warning("node_diagnosed", node=diagnostic.node, reason=diagnostic.reason)
    for omission in findings.omissions:
        log.info("label_omitted", keys=omission.keys, reason=omission.reason)
    log.info(
        "benchmarks_ended",
        labels=len(report.labels),
        transport=findings.transport,
        duration_s=report.ended_at - report.started_at,
    )
