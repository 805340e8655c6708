# SPDX-License-Identifier: Apache-2.0
"""Measures the site, and reads the last report: `gridstead benchmarks run|status`."""

from __future__ import annotations

from importlib.metadata import version

from gridstead.adapters.benchmarks.drain import ScontrolDrain
from gridstead.adapters.benchmarks.nodes import ScontrolNodes
from gridstead.adapters.benchmarks.reports import JsonReports
from gridstead.adapters.benchmarks.runs import ProgressFile, RequestFile, RunLockFile
from gridstead.adapters.benchmarks.steps import JobOptions, ReframeSteps
from gridstead.adapters.clock import SystemClock
from gridstead.adapters.slurm.local import LocalRunner
from gridstead.config import BenchmarksSettings, MeasuredDirectories
from gridstead.domain.benchmarks.report import Report
from gridstead.domain.benchmarks.selection import Selection
from gridstead.domain.benchmarks.site import Mode, Options
from gridstead.services.benchmarks.history import ReportHistory
from gridstead.services.benchmarks.runner import BenchmarkRunner
from gridstead.services.benchmarks.session import BenchmarkSession, RunProgress
from gridstead.services.benchmarks.slow_nodes import SlowNodeCheck


def run(settings: BenchmarksSettings, selection: Selection | None = None) -> None:
    """Measure the site once and write the report.

    Args:
        settings: The settings.
        selection: What to measure. None for what was requested, or else for the whole site.

    Raises:
        BenchmarksNotStarted: If the benchmarks are running, and no run was requested.
        InvalidInput: If there is no node or suite with a selected name.
        SchedulerUnavailable: If Slurm does not answer, no node accepts jobs, or all steps failed.
    """
    clock = SystemClock()
    progress = RunProgress(clock, ProgressFile(settings.report_directory))
    session = BenchmarkSession(
        RunLockFile(settings.report_directory),
        progress,
        RequestFile(settings.request_directory),
        measure=_runner(settings, progress).measure,
    )
    session.run(selection)


def last_report(settings: BenchmarksSettings) -> Report | None:
    """Return the report of the last run, or None if there was no run."""
    reports = ReportHistory(JsonReports(settings.report_directory)).last_reports(1)
    return reports[-1] if reports else None


def _runner(settings: BenchmarksSettings, progress: RunProgress) -> BenchmarkRunner:
    runner = LocalRunner()
    reports = JsonReports(settings.report_directory)
    drain = ScontrolDrain(runner) if settings.drain_slow_nodes else None
    steps = ReframeSteps(
        runner,
        program=settings.reframe,
        directory=settings.shared_directory,
        jobs=JobOptions(partition=settings.partition, jobs_at_once=settings.jobs_at_once),
        watch=progress,
    )
    return BenchmarkRunner(
        clock=SystemClock(),
        nodes=ScontrolNodes(runner, partition=settings.partition),
        steps=steps,
        reports=reports,
        slow_nodes=SlowNodeCheck(ReportHistory(reports), drain),
        options=Options(mode=Mode(settings.mode), directories=_directories(settings.directories)),
        suite=f"gridstead-{version('gridstead')}-{settings.mode}",
    )


def _directories(settings: MeasuredDirectories) -> dict[str, str]:
    """Return the directories by their names in the keys of labels."""
    paths = {
        "scratch": settings.scratch,
        "shared-tmp": settings.shared_tmp,
        "shared-world-tmp": settings.shared_world_tmp,
        "disk-tmp": settings.disk_tmp,
        "disk-world-tmp": settings.disk_world_tmp,
    }
    return {name: str(path) for name, path in paths.items() if path is not None}
