# SPDX-License-Identifier: Apache-2.0
"""The reports of the benchmarks: one JSON file for each run, named after the time of its end."""

from __future__ import annotations

from pathlib import Path

from gridstead.adapters.disk import sync
from gridstead.domain.benchmarks.report import MAX_REPORTS, Report
from gridstead.domain.benchmarks.report_text import report_text
from gridstead.errors import UnexpectedOutput

_DIGITS = 12  # of the time in the name of a file, so that the names have the order of the times
_NAMES = "[0-9]" * _DIGITS + ".json"


class JsonReports:
    """Implements the ports ``BenchmarkReports`` and ``ReportFiles``.

    Args:
        directory: The directory of the files. If it does not exist, there are no reports.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def add(self, report: Report) -> None:
        """Write a file, and remove the oldest files if there are more than 100."""
        path = self._directory / f"{report.ended_at:0{_DIGITS}}.json"
        new_path = path.with_suffix(".new")
        new_path.write_text(report_text(report), encoding="utf-8")
        sync(new_path)
        new_path.replace(path)
        sync(self._directory)
        for old_name in self.names()[:-MAX_REPORTS]:
            (self._directory / old_name).unlink()

    def names(self) -> tuple[str, ...]:
        """Return the names of the files, the oldest first."""
        return tuple(sorted(path.name for path in self._directory.glob(_NAMES)))

    def read(self, name: str) -> str:
        """Return the text of a file.

        Raises:
            UnexpectedOutput: If the file cannot be read as text, or was removed meanwhile.
        """
        path = self._directory / name
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UnexpectedOutput(str(path), str(error)) from error
