# SPDX-License-Identifier: Apache-2.0
"""Ticks, over and over, until a signal comes.

Rule 1: an expected failure (GridsteadError) ends one tick and is one line in the log. Rule 2:
anything else is a bug and ends the process; systemd starts it again and the journal makes that
safe. Rule 3: the scheduler only triggers, one instance at a time; nothing durable lives in it. Rule
4: it goes by the wall clock, so when that is set back, all ticks are due at once; else they would
rest for as long.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from types import FrameType

import structlog
from apscheduler.events import EVENT_JOB_ERROR, JobExecutionEvent
from apscheduler.schedulers.background import BackgroundScheduler

from gridstead.errors import GridsteadError

log = structlog.get_logger()

FAILPOINT = "GRIDSTEAD_FAILPOINT"
# A library under eth-account raises the limit to 100,000 when it is imported; deeply nested input
# would then overrun the process's stack instead of raising an error.
RECURSION_LIMIT = 1000
CLOCK_CHECK_S = 1.0
CLOCK_STEP_S = 0.5  # less than any tick would miss


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Something to do every so many seconds."""

    name: str
    do: Callable[[], None]
    every_s: float


def run(
    ticks: tuple[Tick, ...],
    *,
    interrupt: Callable[[], object] = lambda: None,
    close: tuple[Callable[[], object], ...] = (),
) -> None:
    """Run the ticks until SIGTERM or SIGINT, then close what was opened, last first.

    Args:
        ticks: What is done.
        interrupt: Asks a long tick to end soon; a tick that runs is waited for.
        close: What is closed at the end.

    Raises:
        Exception: Whatever a tick raised that is not a GridsteadError.
    """
    sys.setrecursionlimit(RECURSION_LIMIT)
    # The handler interrupts the main thread anywhere, also while it waits: put() may then be
    # called, Event.set() not.
    stops: SimpleQueue[None] = SimpleQueue()
    bugs: list[BaseException] = []

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stops.put(None)

    def note_bug(event: JobExecutionEvent) -> None:
        bugs.append(event.exception)
        stops.put(None)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    scheduler = BackgroundScheduler(
        timezone="UTC", job_defaults={"coalesce": True, "max_instances": 1}
    )
    scheduler.add_listener(note_bug, EVENT_JOB_ERROR)
    now = datetime.now(UTC)
    for tick in ticks:
        scheduler.add_job(
            _guarded(tick),
            "interval",
            seconds=tick.every_s,
            id=tick.name,
            misfire_grace_time=None,
            next_run_time=now,
        )
    clock = _ClockWatch(scheduler)
    scheduler.start()
    tell_systemd("READY=1")
    log.info("service_started", ticks=[tick.name for tick in ticks])
    while not _is_told(stops):
        clock.check()
    tell_systemd("STOPPING=1")
    interrupt()
    scheduler.shutdown(wait=not bugs)
    for closing in reversed(close):
        closing()
    log.info("service_stopped")
    if bugs:
        raise bugs[0]


class _ClockWatch:
    """Notices that the wall clock was set back, which the scheduler does not."""

    def __init__(self, scheduler: BackgroundScheduler) -> None:
        self._scheduler = scheduler
        self._ahead = self._of_uptime()

    def check(self) -> None:
        """Make all ticks due if the clock was set back since the last time."""
        before, self._ahead = self._ahead, self._of_uptime()
        if self._ahead > before - CLOCK_STEP_S:
            return
        log.warning("clock_set_back", seconds=round(before - self._ahead, 1))
        for job in self._scheduler.get_jobs():
            job.modify(next_run_time=datetime.now(UTC))

    @staticmethod
    def _of_uptime() -> float:
        return datetime.now(UTC).timestamp() - time.monotonic()


def _is_told(stops: SimpleQueue[None]) -> bool:
    """Return whether to stop, once that is told or it is time to look at the clock."""
    try:
        stops.get(timeout=CLOCK_CHECK_S)
    except Empty:
        return False
    return True


def _guarded(tick: Tick) -> Callable[[], None]:
    def guarded() -> None:
        try:
            tick.do()
        except GridsteadError as error:
            log.error(
                "tick_failed", tick=tick.name, code=error.code, reason=str(error), hint=error.hint
            )

    return guarded


def tell_systemd(state: str) -> None:
    """Tell the service manager, if one listens. Source: sd_notify(3)."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.connect("\0" + address[1:] if address.startswith("@") else address)
        notify.sendall(state.encode())


def failpoint_from(environment: Mapping[str, str]) -> Callable[[str], None]:
    """Return what services call at each boundary of a job's path.

    It does nothing, unless the environment's GRIDSTEAD_FAILPOINT names the boundary: then the
    process is killed there, as by a power cut. Crash tests set it; nothing else should.
    """
    wanted = environment.get(FAILPOINT)

    def failpoint(name: str) -> None:
        if wanted is not None and name == wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    return failpoint
