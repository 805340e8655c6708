# SPDX-License-Identifier: Apache-2.0
"""Measures the site: `gridstead benchmarks run`."""

from __future__ import annotations

from importlib.metadata import version

from gridstead.adapters.benchmarks.nodes import ScontrolNodes
from gridstead.adapters.benchmarks.reports import JsonReports
from gridstead.adapters.benchmarks.steps import ReframeSteps
from gridstead.adapters.clock import SystemClock
from gridstead.adapters.slurm.local import LocalRunner
from gridstead.config import BenchmarksSettings, MeasuredDirectories
from gridstead.domain.benchmarks.site import Mode, Options
from gridstead.services.benchmarks.runner import BenchmarkRunner


def run(settings: BenchmarksSettings) -> None:
    """Measure the site and write the report.

    Raises:
        SchedulerUnavailable: If Slurm does not answer, no node accepts jobs, or all steps failed.
    """
    runner = LocalRunner()
    steps = ReframeSteps(
        runner,
        program=settings.reframe,
        directory=settings.shared_directory,
        partition=settings.partition,
        jobs_at_once=settings.jobs_at_once,
    )
    benchmarks = BenchmarkRunner(
        clock=SystemClock(),
        nodes=ScontrolNodes(runner, partition=settings.partition),
        steps=steps,
        reports=JsonReports(settings.report_directory),
        options=Options(mode=Mode(settings.mode), directories=_directories(settings.directories)),
        suite=f"gridstead-{version('gridstead')}-{settings.mode}",
    )
    benchmarks.measure()


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
