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
        """Return the last two runs, or those that exist, the older one first."""
        return tuple(map(PastRun.of, self.last_reports(COMPARED_RUNS)))

    def last_reports(self, count: int) -> tuple[Report, ...]:
        """Return the newest reports, the oldest of them first."""
        return tuple(report for _text, report in self._last(count))

    def last_texts(self, count: int) -> tuple[str, ...]:
        """Return the texts of the newest reports, the oldest of them first."""
        return tuple(text for text, _report in self._last(count))

    def _last(self, count: int) -> list[tuple[str, Report]]:
        found: list[tuple[str, Report]] = []
        for pair in self._newest_first():
            found.insert(0, pair)
            if len(found) == count:
                break
        return found

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
