# SPDX-License-Identifier: Apache-2.0
"""Shows the progress of simulations, and stops them on Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from gridstead.cli.output import print_note, stderr_console
from gridstead.cli.signals import on_stop_signal

QUIET_S = 2.0  # A simulation that is faster shows no progress.
LINE_INTERVAL_S = 10.0  # between lines of progress that is not shown on a terminal
_PERCENT = 100


@dataclass(slots=True)
class SimulationProgress:
    """Shows the progress of simulations, by simulated time.

    A terminal shows a bar for each policy. Without a terminal, a line is printed now and then.

    Attributes:
        total_s: The time to simulate for each policy, seconds.
        started_at: The start of the simulations, on the monotonic clock.
        printed_at: When the last line was printed, on the monotonic clock.
    """

    total_s: int
    started_at: float = field(default_factory=time.monotonic)
    printed_at: float = field(default_factory=time.monotonic)
    _bars: Progress | None = None
    _tasks: dict[str, TaskID] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def show(self, policy: str, reached_s: int) -> None:
        """Show up to which time a policy is simulated."""
        now = time.monotonic()
        if now - self.started_at < QUIET_S:
            return
        if stderr_console.is_terminal:
            self._show_bar(policy, reached_s)
        elif now - self.printed_at >= LINE_INTERVAL_S:
            self.printed_at = now
            print_note(f"{policy}: {reached_s * _PERCENT // self.total_s} % simulated")

    def _show_bar(self, policy: str, reached_s: int) -> None:
        if self._bars is None:
            self._bars = Progress(
                TextColumn("{task.description:<14}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeRemainingColumn(),
                console=stderr_console,
                transient=True,
            )
            self._bars.start()
        if policy not in self._tasks:
            self._tasks[policy] = self._bars.add_task(policy, total=self.total_s)
        self._bars.update(self._tasks[policy], completed=reached_s)


@dataclass(slots=True)
class Interruption:
    """Whether the user interrupted the simulations."""

    is_requested: bool = False


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Note SIGINT and SIGTERM as long as the context is open. A second signal ends the command."""
    interruption = Interruption()

    def interrupt() -> None:
        if interruption.is_requested:
            raise KeyboardInterrupt
        interruption.is_requested = True

    with on_stop_signal(interrupt):
        yield interruption
