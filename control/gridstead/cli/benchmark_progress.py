# SPDX-License-Identifier: Apache-2.0
"""Shows a run of the benchmarks until it has ended."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from gridstead.cli.output import print_note, printable, stderr_console
from gridstead.domain.benchmarks.progress import ENDED, RunState, RunStatus
from gridstead.errors import Transient
from gridstead.ports.benchmarks import BenchmarkControl

POLL_S = 1.0
NOT_STARTED_S = 30.0  # After this time without a start, a note says what to check.
_MAX_NAMES = 3


@dataclass(slots=True)
class BenchmarkProgress:
    """Shows the progress of a run.

    A terminal shows a bar. Without a terminal, or as JSON, a line is printed for each change.

    Attributes:
        as_json: Whether each change is printed as a JSON object on stdout.
        shown: The status that is shown. None before the first one.
    """

    as_json: bool
    shown: RunStatus | None = None
    _bar: Progress | None = None
    _task: TaskID | None = None

    def __enter__(self) -> Self:
        if stderr_console.is_terminal and not self.as_json:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TimeElapsedColumn(),
                console=stderr_console,
                transient=True,
            )
            self._task = self._bar.add_task("benchmarks", total=None)
            self._bar.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, status: RunStatus) -> None:
        """Show the status if it has changed."""
        if status == self.shown:
            return
        self.shown = status
        if self.as_json:
            sys.stdout.write(json.dumps(status_json(status)) + "\n")
            sys.stdout.flush()
        elif self._bar is None or self._task is None:
            print_note(status_text(status))
        else:
            progress = status.progress
            self._bar.update(
                self._task,
                description=printable(status_text(status)),
                total=progress.steps_total if progress and progress.steps_total else None,
                completed=progress.steps_done if progress else 0,
            )


def follow(control: BenchmarkControl, *, as_json: bool) -> RunStatus:
    """Show a requested run until it has ended, and return its end."""
    requested_at = time.monotonic()
    is_noted = False
    with BenchmarkProgress(as_json=as_json) as shown:
        while True:
            try:
                status = control.benchmark_status()
            except Transient as error:
                print_note(f"{error}; retrying")
                time.sleep(POLL_S)
                continue
            shown.show(status)
            if status.state in ENDED:
                return status
            waits = status.state is RunState.REQUESTED
            if waits and not is_noted and time.monotonic() - requested_at > NOT_STARTED_S:
                is_noted = True
                print_note("the run has not started; on the Slurm controller, check the units")
                print_note("gridstead-benchmarks.path and gridstead-benchmarks.service")
            time.sleep(POLL_S)


def status_json(status: RunStatus) -> dict[str, object]:
    """Return a status as a JSON object."""
    progress = {} if status.progress is None else asdict(status.progress)
    return {"state": status.state.value, **progress}


def status_text(status: RunStatus) -> str:
    """Return a status as a line."""
    progress = status.progress
    if progress is None or not progress.steps_total:
        return f"benchmarks: {status.state}"
    text = f"benchmarks: {status.state}, {progress.steps_done} of {progress.steps_total} steps done"
    if progress.steps_failed:
        text += f", {progress.steps_failed} failed"
    names = progress.steps_running
    if names:
        text += f"; {', '.join(names[:_MAX_NAMES])}"
    if len(names) > _MAX_NAMES:
        text += f" and {len(names) - _MAX_NAMES} more"
    return text
