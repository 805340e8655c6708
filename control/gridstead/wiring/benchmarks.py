# SPDX-License-Identifier: Apache-2.0
"""Measures the site, and reads the last report: `gridstead benchmarks run|status`."""

from __future__ import annotations

import signal
from importlib.metadata import version

import structlog

from gridstead.adapters.benchmarks.drain import ScontrolDrain
from gridstead.adapters.benchmarks.nodes import ScontrolNodes
from gridstead.adapters.benchmarks.reports import JsonReports
from gridstead.adapters.benchmarks.runs import ProgressFile, RequestFile, RunLockFile
from gridstead.adapters.benchmarks.steps import JobOptions, ReframeSteps
from gridstead.adapters.clock import SystemClock
from gridstead.adapters.slurm.local import LocalRunner
from gridstead.config import BenchmarksSettings, MeasuredDirectories
from gridstead.domain.benchmarks.equipment import NetworkOptions, Ucx
from gridstead.domain.benchmarks.report import Report
from gridstead.domain.benchmarks.selection import Selection
from gridstead.domain.benchmarks.site import Mode, Options
from gridstead.services.benchmarks.history import ReportHistory
from gridstead.services.benchmarks.runner import BenchmarkRunner
from gridstead.services.benchmarks.session import BenchmarkSession, RunProgress
from gridstead.services.benchmarks.slow_nodes import SlowNodeCheck

log = structlog.get_logger()


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
    # Raise KeyboardInterrupt, so that the jobs are cancelled.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        session.run(selection)
    except KeyboardInterrupt:
        # systemd expects the end of the process by the signal.
        log.warning("benchmarks_interrupted")
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)


def last_report(settings: BenchmarksSettings) -> Report | None:
    """Return the report of the last run of the whole site, or None if there was no such run."""
    history = ReportHistory(JsonReports(settings.report_directory))
    reports = history.last_reports(1, whole_site=True)
    return reports[-1] if reports else None


def _runner(settings: BenchmarksSettings, progress: RunProgress) -> BenchmarkRunner:
    runner = LocalRunner()
    reports = JsonReports(settings.report_directory)
    drain = ScontrolDrain(runner) if settings.drain_slow_nodes else None
    steps = ReframeSteps(
        runner,
        program=settings.reframe,
        directory=settings.shared_directory,
        jobs=JobOptions(
            partition=settings.partition,
            reservation=settings.reservation,
            jobs_at_once=settings.jobs_at_once,
            start_limit_s=settings.start_limit_s,
        ),
        watch=progress,
    )
    return BenchmarkRunner(
        clock=SystemClock(),
        nodes=ScontrolNodes(runner, partition=settings.partition, reservation=settings.reservation),
        steps=steps,
        reports=reports,
        slow_nodes=SlowNodeCheck(ReportHistory(reports), drain),
        options=_options(settings),
        suite=f"gridstead-{version('gridstead')}-{settings.mode}",
    )


def _options(settings: BenchmarksSettings) -> Options:
    network = NetworkOptions(
        ucx=Ucx(settings.network.ucx),
        devices=settings.network.affinities,
        transport=settings.network.transport,
    )
    return Options(
        mode=Mode(settings.mode),
        directories=_directories(settings.directories),
        program_directories=tuple(map(str, settings.program_directories)),
        network=network,
        gpu_command=settings.gpu_command,
        internet=settings.internet,
        single_node=settings.network.single_node,
        in_reservation=bool(settings.reservation),
        asks_all_nodes=settings.unresponsive,
        quiet_limit_s=settings.quiet_limit_s,
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
