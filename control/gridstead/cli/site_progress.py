# SPDX-License-Identifier: Apache-2.0
"""Shows the progress of a playbook run, and stops the run on Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

from rich.status import Status
from rich.text import Text

from gridstead.cli.output import print_note, printable, stderr_console
from gridstead.cli.signals import on_stop_signal
from gridstead.domain.site.playbook import (
    HostFinished,
    PlaybookEvent,
    PlayStarted,
    TaskOutcome,
    TaskStarted,
)
from gridstead.ports.site import Stop

PRINTED_OUTCOMES = {TaskOutcome.CHANGED, TaskOutcome.FAILED, TaskOutcome.UNREACHABLE}


@dataclass(slots=True)
class SiteProgress:
    """Shows the progress of a playbook run.

    A terminal shows a status line with the play, the task, the number of hosts that have finished
    the task, and the duration. Without a terminal, the start of each play is printed. Tasks that
    changed something or failed are printed in both cases.

    Attributes:
        command: The name of the command.
        play: The name of the current play. Empty before the first play.
        task: The current task. Empty before the first task of the play.
        finished_hosts: The number of hosts that have finished the current task.
        started_at: The start of the run, on the monotonic clock.
    """

    command: str
    play: str = ""
    task: str = ""
    finished_hosts: int = 0
    started_at: float = field(default_factory=time.monotonic)
    _status: Status | None = None

    def __enter__(self) -> Self:
        if stderr_console.is_terminal:
            self._status = stderr_console.status(self)
            self._status.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        if self._status is not None:
            self._status.stop()

    def __rich__(self) -> Text:
        """Return the text of the status line."""
        minutes, seconds = divmod(int(time.monotonic() - self.started_at), 60)
        parts = [self.play or self.command]
        if self.task:
            parts += [self.task, f"{self.finished_hosts} hosts done"]
        parts.append(f"{minutes}:{seconds:02}")
        return Text(printable(" · ".join(parts)))

    def show(self, event: PlaybookEvent) -> None:
        """Show the progress that an event reports."""
        match event:
            case PlayStarted(name=name):
                self.play = name
                self.task = ""
                if self._status is None:
                    print_note(f"{self.command}: {name}")
            case TaskStarted(task=task):
                self.task = str(task)
                self.finished_hosts = 0
            case HostFinished():
                self.finished_hosts += 1
                if event.outcome in PRINTED_OUTCOMES:
                    print_note(f"{event.outcome:<11} {event.host}  {event.task}")
            case _:
                pass


@contextmanager
def interruptible(stop: Stop) -> Iterator[None]:
    """Request a stop of the run on SIGINT and SIGTERM, as long as the context is open."""

    def request_stop() -> None:
        stop.request()
        if stop.requests == 1:
            print_note("stopping after this task; press Ctrl-C again to interrupt the task")
        else:
            print_note("interrupting the task")

    with on_stop_signal(request_stop):
        yield
