# SPDX-License-Identifier: Apache-2.0
"""Shows the progress of a run on a site, and stops the run on Ctrl-C."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Self

from rich.status import Status
from rich.text import Text

from gridstead.cli.output import errors, print_note, printable
from gridstead.domain.site.playbook import (
    HostFinished,
    PlaybookEvent,
    PlayStarted,
    TaskOutcome,
    TaskStarted,
)
from gridstead.ports.site import Stop

SHOWN = {TaskOutcome.CHANGED, TaskOutcome.FAILED, TaskOutcome.UNREACHABLE}


@dataclass(slots=True)
class SiteProgress:
    """Shows the progress of a run.

    On a terminal this is a live line with the play, the task, the number of hosts that have
    finished the task, and the time. Otherwise it is a line per play.

    Attributes:
        command: The name of the command.
    """

    command: str
    play: str = ""
    task: str = ""
    done: int = 0
    since: float = field(default_factory=time.monotonic)
    _status: Status | None = None

    def __enter__(self) -> Self:
        if errors.is_terminal:
            self._status = errors.status(self)
            self._status.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        if self._status is not None:
            self._status.stop()

    def __rich__(self) -> Text:
        """Return the current line."""
        minutes, seconds = divmod(int(time.monotonic() - self.since), 60)
        parts = [self.play or self.command]
        if self.task:
            parts += [self.task, f"{self.done} hosts done"]
        parts.append(f"{minutes}:{seconds:02}")
        return Text(printable(" · ".join(parts)))

    def show(self, event: PlaybookEvent) -> None:
        """Show the progress that an event reports."""
        match event:
            case PlayStarted(name=name):
                self.play, self.task = name, ""
                if self._status is None:
                    print_note(f"{self.command}: {name}")
            case TaskStarted(task=task):
                self.task, self.done = str(task), 0
            case HostFinished():
                self.done += 1
                if event.outcome in SHOWN:
                    print_note(f"{event.outcome:<11} {event.host}  {event.task}")
            case _:
                pass


@contextmanager
def interruptible(stop: Stop) -> Iterator[None]:
    """Turn SIGINT and SIGTERM into requests to stop the run, inside the context."""

    def handle_signal(_signal: int, _frame: FrameType | None) -> None:
        stop.request()
        if stop.requests == 1:
            print_note("stopping after this task; press Ctrl-C again to interrupt the task")
        else:
            print_note("interrupting the task")

    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.signal(number, handle_signal) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
