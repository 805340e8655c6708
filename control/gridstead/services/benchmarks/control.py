# SPDX-License-Identifier: Apache-2.0
"""Requests a run of the benchmarks, and reports how far it is. Part of the cluster agent."""

from __future__ import annotations

import structlog

from gridstead.domain.benchmarks.progress import Progress, RunStatus, parse_progress, run_status
from gridstead.domain.benchmarks.selection import Selection, check_suites, selection_text
from gridstead.errors import BenchmarksNotStarted
from gridstead.ports.benchmarks import ProgressStore, RunLock, RunRequests

log = structlog.get_logger()


class RunControl:
    """Implements port ``BenchmarkControl``.

    Args:
        lock: The lock of the run.
        progress: The progress of the last run.
        requests: The request for the next run.
    """

    def __init__(self, lock: RunLock, progress: ProgressStore, requests: RunRequests) -> None:
        self._lock = lock
        self._progress = progress
        self._requests = requests

    def start_benchmarks(self, selection: Selection) -> None:
        """Request a run.

        Raises:
            InvalidInput: If there is no suite with a name of the selection.
            BenchmarksNotStarted: If a run is requested or running already, or cannot be requested.
        """
        check_suites(selection)
        if self._lock.is_held():
            raise BenchmarksNotStarted(
                "could not request a run of the benchmarks",
                detail="they are running",
                hint="Wait for the end of the run.",
            )
        self._requests.put(selection_text(selection))
        log.info("benchmarks_requested", nodes=selection.nodes, suites=selection.suites)

    def benchmark_status(self) -> RunStatus:
        """Return the state of the last run.

        Raises:
            UnexpectedOutput: If the stored progress cannot be read.
        """
        # This order matters. A run locks, writes its progress and removes the request. At its end
        # it writes its result and unlocks.
        is_requested = self._requests.is_waiting()
        progress = self._read_progress()
        is_running = self._lock.is_held()
        if not is_running:
            progress = self._read_progress()
        return run_status(progress, is_requested=is_requested, is_running=is_running)

    def _read_progress(self) -> Progress | None:
        text = self._progress.read()
        return None if text is None else parse_progress(text, source="the progress of the run")
