# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks once, alone, and records how far the run is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gridstead.domain.benchmarks.progress import Progress, progress_text
from gridstead.domain.benchmarks.selection import Selection, check_suites, parse_selection
from gridstead.errors import BenchmarksNotStarted, GridsteadError, SchedulerUnavailable
from gridstead.ports import Clock
from gridstead.ports.benchmarks import ProgressStore, RunLock, RunRequests


class RunProgress:
    """Records how far a run is. Implements port ``StepWatch``.

    Args:
        clock: Wall time.
        store: The progress of the last run.
    """

    def __init__(self, clock: Clock, store: ProgressStore) -> None:
        self._clock = clock
        self._store = store
        self._progress = Progress(started_at=0)

    def begin(self) -> None:
        """Record the start of the run."""
        self._write(Progress(started_at=self._clock.now()))

    def planned(self, count: int) -> None:
        """Record that this number of further steps will be run."""
        total = self._progress.steps_total + count
        self._write(replace(self._progress, steps_total=total))

    def started(self, step: str) -> None:
        """Record that a step was submitted to Slurm."""
        running = (*self._progress.steps_running, step)
        self._write(replace(self._progress, steps_running=running))

    def ended(self, step: str, *, has_failed: bool) -> None:
        """Record that a step has ended."""
        progress = self._progress
        running = [name for name in progress.steps_running if name != step]
        self._write(
            replace(
                progress,
                steps_done=progress.steps_done + 1,
                steps_failed=progress.steps_failed + has_failed,
                steps_running=tuple(running),
            )
        )

    def end(self, failure: str = "") -> None:
        """Record the end of the run, and why it failed."""
        ended_at = self._clock.now()
        self._write(replace(self._progress, ended_at=ended_at, steps_running=(), failure=failure))

    def _write(self, progress: Progress) -> None:
        self._progress = progress
        self._store.write(progress_text(progress))


class BenchmarkSession:
    """Runs the benchmarks while no other process does.

    Args:
        lock: The lock of the run.
        progress: Records how far the run is.
        requests: The request for the next run.
        measure: Measures what was selected, and writes a report.
    """

    def __init__(
        self,
        lock: RunLock,
        progress: RunProgress,
        requests: RunRequests,
        *,
        measure: Callable[[Selection], None],
    ) -> None:
        self._lock = lock
        self._progress = progress
        self._requests = requests
        self._measure = measure

    def run(self, selection: Selection | None = None) -> None:
        """Run the benchmarks once. A request is removed before its run.

        A request waits for the end of another run. Other runs, such as those of a timer, do not:
        the site is being measured already.

        Args:
            selection: What to measure. None for what was requested, or else for the whole site.

        Raises:
            BenchmarksNotStarted: If the benchmarks are running, and no run was requested, or if a
                request could not be measured. systemd repeats only runs without a request, because
                the request is removed.
            InvalidInput: If there is no node or suite with a selected name.
            UnexpectedOutput: If the request is invalid.
            SchedulerUnavailable: If nothing could be measured.
        """
        is_requested = selection is None and self._requests.is_waiting()
        with self._lock.held(wait=is_requested):
            self._progress.begin()
            try:
                chosen = self._requested() if selection is None else selection
                check_suites(chosen)
                self._measure(chosen)
            except GridsteadError as error:
                self._progress.end(failure=str(error))
                if is_requested and isinstance(error, SchedulerUnavailable):
                    raise _requested_failure(error) from error
                raise
            self._progress.end()

    def _requested(self) -> Selection:
        text = self._requests.take()
        return Selection() if text is None else parse_selection(text, source="the request")


def _requested_failure(error: SchedulerUnavailable) -> BenchmarksNotStarted:
    return BenchmarksNotStarted(
        "could not measure what was requested",
        detail=str(error),
        hint="Run `gridstead provider benchmark run` again.",
    )
