# SPDX-License-Identifier: Apache-2.0
"""The ports of the benchmarks: Slurm, and the report."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from gridstead.domain.benchmarks.progress import RunStatus
from gridstead.domain.benchmarks.report import PastRun, Report
from gridstead.domain.benchmarks.selection import Selection
from gridstead.domain.benchmarks.site import Node, Outcomes, Step


class Nodes(Protocol):
    """The nodes of the cluster."""

    def listed(self) -> tuple[Node, ...]:
        """Return the nodes on which the steps may run, sorted by name.

        Nodes on which Slurm starts no jobs are included, with the reason.
        """
        ...

    def busy(self) -> frozenset[str]:
        """Return the names of the nodes of the whole cluster on which jobs run."""
        ...


class Steps(Protocol):
    """Runs programs on nodes."""

    def run(self, steps: Sequence[Step]) -> Outcomes:
        """Run steps to their ends, and return what each one printed, or why it failed.

        A node runs one step at a time. A step that exceeds its limit is cancelled and has failed.
        So is a step that does not start in time. A step that was preempted by a job of another
        partition has failed with this cause. Jobs of an earlier call of this account that was
        killed are cancelled first. If the call raises an error, its own jobs are cancelled.
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
        """Return the last two runs of the whole site, or those that exist, the older one first."""
        ...


class RunLock(Protocol):
    """Ensures that there is only one run at a time."""

    def held(self, *, wait: bool) -> AbstractContextManager[None]:
        """Return a context that holds the lock. The end of the process releases the lock too.

        Args:
            wait: Whether to wait for the end of another run.

        Raises:
            BenchmarksNotStarted: If another process holds the lock, and ``wait`` is false.
        """
        ...

    def is_held(self) -> bool:
        """Return whether a process holds the lock."""
        ...


class ProgressStore(Protocol):
    """The progress of the last run, as text."""

    def write(self, text: str) -> None:
        """Replace the text. Readers see the old text or the new one."""
        ...

    def read(self) -> str | None:
        """Return the text, or None if there was no run."""
        ...


class RunRequests(Protocol):
    """The request for the next run, as text. At most one waits."""

    def put(self, text: str) -> None:
        """Store a request.

        Raises:
            BenchmarksNotStarted: If a request waits already, or cannot be stored.
        """
        ...

    def is_waiting(self) -> bool:
        """Return whether a request waits."""
        ...

    def take(self) -> str | None:
        """Remove the request and return its text, or None if there is none."""
        ...


class StepWatch(Protocol):
    """Receives the progress of the steps of a run."""

    def planned(self, count: int) -> None:
        """Note that this number of further steps will be run."""
        ...

    def started(self, step: str) -> None:
        """Note that a step was submitted to Slurm."""
        ...

    def ended(self, step: str, *, has_failed: bool) -> None:
        """Note that a step has ended."""
        ...


class NodeDrain(Protocol):
    """Drains nodes."""

    def drain(self, node: str, *, reason: str) -> None:
        """Start no more jobs on a node. Its running jobs continue.

        Raises:
            SchedulerUnavailable: If Slurm refused it, or did not answer.
        """
        ...


class BenchmarkControl(Protocol):
    """Starts a run of the benchmarks, and reports how far it is."""

    def start_benchmarks(self, selection: Selection) -> None:
        """Request a run.

        Raises:
            InvalidInput: If there is no suite with a name of the selection.
            BenchmarksNotStarted: If a run is requested or running already, or cannot be requested.
        """
        ...

    def benchmark_status(self) -> RunStatus:
        """Return the state of the last run."""
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
