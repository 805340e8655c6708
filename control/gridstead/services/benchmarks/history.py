# SPDX-License-Identifier: Apache-2.0
"""Reads the reports of earlier runs. Files that are not reports are skipped."""

from __future__ import annotations

from collections.abc import Iterator

import structlog

from gridstead.domain.benchmarks.report import COMPARED_RUNS, PastRun, Report
from gridstead.domain.benchmarks.report_text import parse_report
from gridstead.errors import UnexpectedOutput
from gridstead.ports.benchmarks import ReportFiles

log = structlog.get_logger()


class ReportHistory:
    """Implements the ports ``BenchmarkRuns`` and ``BenchmarkHistory``.

    A file that is not a report is logged once, and skipped.

    Args:
        files: The files with the reports.
    """

    def __init__(self, files: ReportFiles) -> None:
        self._files = files
        self._skipped_names: set[str] = set()

    def last_runs(self) -> tuple[PastRun, ...]:
        """Return the last two runs of the whole site, or those that exist, the older one first."""
        reports = [report for _text, report in self._last(COMPARED_RUNS, whole_site=True)]
        return tuple(map(PastRun.of, reports))

    def last_reports(self, count: int, *, whole_site: bool = False) -> tuple[Report, ...]:
        """Return the newest reports, the oldest of them first.

        Args:
            count: How many.
            whole_site: Whether reports of a part of the site are left out.
        """
        return tuple(report for _text, report in self._last(count, whole_site=whole_site))

    def last_texts(self, count: int, *, whole_site: bool) -> tuple[str, ...]:
        """Return the texts of the newest reports, the oldest of them first.

        Args:
            count: How many.
            whole_site: Whether reports of a part of the site are left out.
        """
        return tuple(text for text, _report in self._last(count, whole_site=whole_site))

    def _last(self, count: int, *, whole_site: bool) -> list[tuple[str, Report]]:
        newest: list[tuple[str, Report]] = []
        for text, report in self._newest_first():
            if whole_site and report.partial is not None:
                continue
            newest.insert(0, (text, report))
            if len(newest) == count:
                break
        return newest

    def _newest_first(self) -> Iterator[tuple[str, Report]]:
        """Yield the text and the report of each file that has a report."""
        for name in reversed(self._files.names()):
            try:
                text = self._files.read(name)
                report = parse_report(text, source=name)
            except UnexpectedOutput as error:
                if name not in self._skipped_names:
                    self._skipped_names.add(name)
                    log.warning("benchmark_report_skipped", file=name, reason=str(error))
                continue
            yield text, report
