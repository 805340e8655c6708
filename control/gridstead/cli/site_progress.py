# SPDX-License-Identifier: Apache-2.0
"""The live view of a run on a site, and how Ctrl-C ends one."""

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

from gridstead.cli.output import errors, printable, tell
from gridstead.domain.playbook import (
    HostFinished,
    PlaybookEvent,
    PlayStarted,
    TaskOutcome,
    TaskStarted,
)
from gridstead.ports.playbooks import Stop

SHOWN = {TaskOutcome.CHANGED, TaskOutcome.FAILED, TaskOutcome.UNREACHABLE}


@dataclass(slots=True)
class SiteProgress:
    """Shows play, task, how many hosts have done it, and the time: on a terminal; elsewhere a line
    for each play.

    Attributes:
        command: What runs.
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
        """Return the line as it is now."""
        minutes, seconds = divmod(int(time.monotonic() - self.since), 60)
        parts = (
            self.play or self.command,
            self.task,
            f"{self.done} hosts done" if self.task else "",
        )
        return Text(printable(" · ".join([*filter(None, parts), f"{minutes}:{seconds:02}"])))

    def tell(self, event: PlaybookEvent) -> None:
        """Take an event."""
        match event:
            case PlayStarted(name=name):
                self.play, self.task = name, ""
                if self._status is None:
                    tell(f"{self.command}: {name}")
            case TaskStarted(task=task):
                self.task, self.done = str(task), 0
            case HostFinished():
                self.done += 1
                if event.outcome in SHOWN:
                    tell(f"{event.outcome:<11} {event.host}  {event.task}")
            case _:
                pass


@contextmanager
def interruptible(stop: Stop) -> Iterator[None]:
    """Let an interrupt or a request to terminate be a wish to stop, as long as this lasts."""

    def hear(_signal: int, _frame: FrameType | None) -> None:
        stop.request()
        tell(
            "ends after this task; once more interrupts it"
            if stop.requests == 1
            else "interrupting"
        )

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
