# SPDX-License-Identifier: Apache-2.0
"""The reports of the benchmarks: one JSON file for each run, named after the time of its end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gridstead.adapters.disk import sync
from gridstead.domain.benchmarks.report import PastRun, Report
from gridstead.errors import UnexpectedOutput

FORMAT = "gridstead-benchmarks-1"
MAX_REPORTS = 100
_LAST_RUNS = 2
_DIGITS = 12  # of the time in the name of a file, so that the names have the order of the times


class JsonReports:
    """Implements the ports ``BenchmarkReports`` and ``BenchmarkRuns``.

    Args:
        directory: The directory of the files. If it does not exist, there are no reports.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def add(self, report: Report) -> None:
        """Write a file, and remove the oldest files if there are more than 100."""
        path = self._directory / f"{report.ended_at:0{_DIGITS}}.json"
        new_path = path.with_suffix(".new")
        new_path.write_text(json.dumps(_to_json(report), indent=1) + "\n", encoding="utf-8")
        sync(new_path)
        new_path.replace(path)
        sync(self._directory)
        for old_path in self._files()[:-MAX_REPORTS]:
            old_path.unlink()

    def last_runs(self) -> tuple[PastRun, ...]:
        """Return the last two runs, or those that exist, the older one first.

        Raises:
            UnexpectedOutput: If a file is not a report.
        """
        return tuple(map(_read_run, self._files()[-_LAST_RUNS:]))

    def _files(self) -> list[Path]:
        return sorted(self._directory.glob("*.json"))


def _read_run(path: Path) -> PastRun:
    text = path.read_text(encoding="utf-8")
    try:
        document = json.loads(text)
        if document["format"] != FORMAT:
            raise UnexpectedOutput(str(path), text)
        labels = {str(key): str(value) for key, value in document["labels"].items()}
        return PastRun(ended_at=int(document["ended_at"]), labels=labels)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnexpectedOutput(str(path), text) from error


def _to_json(report: Report) -> dict[str, Any]:
    findings = report.findings
    return {
        "format": FORMAT,
        "mode": report.mode.value,
        "started_at": report.started_at,
        "ended_at": report.ended_at,
        "nodes": list(report.nodes),
        "labels": {label.key: label.value for label in report.labels},
        "omissions": [
            {"keys": omission.keys, "reason": omission.reason} for omission in findings.omissions
        ],
        "measurements": [
            {
                "node": measurement.node,
                "metric": measurement.metric.name,
                "unit": measurement.metric.unit,
                "value": format(measurement.value, "f"),
            }
            for measurement in findings.measurements
        ],
    }
