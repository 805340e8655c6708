# SPDX-License-Identifier: Apache-2.0
"""The ports of the benchmarks: Slurm, and the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gridstead.domain.benchmarks.report import PastRun, Report
from gridstead.domain.benchmarks.site import Node, Outcomes, Step


class Nodes(Protocol):
    """The nodes of the cluster."""

    def accepting(self) -> tuple[Node, ...]:
        """Return the nodes that accept jobs, sorted by name."""
        ...


class Steps(Protocol):
    """Runs programs on nodes."""

    def run(self, steps: Sequence[Step]) -> Outcomes:
        """Run steps to their ends, and return what each one printed, or why it failed.

        A node runs one step at a time. A step that exceeds its limit is cancelled and has failed.
        Jobs of an earlier call of this account that was killed are cancelled first.
        """
        ...


class BenchmarkReports(Protocol):
    """The reports of the runs."""

    def add(self, report: Report) -> None:
        """Store a report. After a crash, the whole report is stored, or nothing of it."""
        ...


class ReportFiles(Protocol):
    """The files with the reports of the runs."""

    def names(self) -> tuple[str, ...]:
        """Return the names of the files, the oldest first."""
        ...

    def read(self, name: str) -> str:
        """Return the text of a file.

        Raises:
            UnexpectedOutput: If the file cannot be read as text, or was removed meanwhile.
        """
        ...


class BenchmarkHistory(Protocol):
    """The reports of earlier runs."""

    def last_reports(self, count: int) -> tuple[Report, ...]:
        """Return the newest reports, the oldest of them first.

        Args:
            count: How many, 1 to 100.
        """
        ...


class BenchmarkRuns(Protocol):
    """The last runs of the benchmarks."""

    def last_runs(self) -> tuple[PastRun, ...]:
        """Return the last two runs, or those that exist, the older one first."""
        ...


class PublicReports(Protocol):
    """The files of the signed reports that the provider publishes."""

    def has(self, digest: str) -> bool:
        """Return whether there is a file with this SHA-256, 64 hexadecimal digits."""
        ...

    def add(self, file: bytes) -> None:
        """Store a file. After a crash, the whole file is stored, or nothing of it."""
        ...

    def serve(self, digest: str) -> None:
        """Make the file with this SHA-256 the one that clients get."""
        ...
