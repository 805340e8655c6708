# SPDX-License-Identifier: Apache-2.0
"""Runs the ticks of a service until a signal stops it.

Rule 1: an expected error (GridsteadError) ends one tick and is logged as one event.
Rule 2: any other exception is a bug and ends the process. systemd restarts the process, which then
continues from its stored state.
Rule 3: two calls of the same tick never run at the same time.
Rule 4: if the wall clock is set back, all ticks become due at once. The scheduler uses the wall
clock, and must not wait until the clock reaches the old time again.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
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

FAILPOINT_VARIABLE = "GRIDSTEAD_FAILPOINT"
# A dependency of eth-account raises Python's limit to 100,000 when it is imported. Services set the
# limit again, so that deeply nested input raises an error and does not overflow the stack.
RECURSION_LIMIT = 1000
CLOCK_CHECK_INTERVAL_S = 1.0
MIN_CLOCK_STEP_S = 0.5  # Smaller steps of the clock are ignored: they hardly delay a tick.


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A function that a service calls again and again.

    Attributes:
        name: The name in log events.
        function: Does the work of one tick.
        interval_s: The time between two calls, seconds.
    """

    name: str
    function: Callable[[], None]
    interval_s: float


def run(
    ticks: tuple[Tick, ...],
    *,
    interrupt: Callable[[], object] = lambda: None,
    close: tuple[Callable[[], object], ...] = (),
) -> None:
    """Run the ticks until SIGTERM or SIGINT, then call the close functions, the last one first.

    Args:
        ticks: The functions to call, with their intervals.
        interrupt: Called before the shutdown, which waits for running ticks. It should make a long
            tick end soon.
        close: Functions that are called after the last tick has ended.

    Raises:
        Exception: Any exception of a tick that is not a GridsteadError.
    """
    sys.setrecursionlimit(RECURSION_LIMIT)
    stopper = _Stopper()
    scheduler = _create_scheduler(ticks)
    scheduler.add_listener(stopper.on_bug, EVENT_JOB_ERROR)
    clock = _ClockWatch(scheduler)
    scheduler.start()
    notify_systemd("READY=1")
    log.info("service_started", ticks=[tick.name for tick in ticks])
    while not stopper.wait():
        clock.check()
    notify_systemd("STOPPING=1")
    interrupt()
    # After a bug, the process ends without waiting for running ticks.
    scheduler.shutdown(wait=not stopper.bugs)
    for close_function in reversed(close):
        close_function()
    log.info("service_stopped")
    if stopper.bugs:
        raise stopper.bugs[0]


def _create_scheduler(ticks: tuple[Tick, ...]) -> BackgroundScheduler:
    """Return a scheduler that calls each tick when the scheduler starts, and at its interval."""
    scheduler = BackgroundScheduler(
        timezone="UTC", job_defaults={"coalesce": True, "max_instances": 1}
    )
    now = datetime.now(UTC)
    for tick in ticks:
        scheduler.add_job(
            _with_error_log(tick),
            "interval",
            seconds=tick.interval_s,
            id=tick.name,
            misfire_grace_time=None,
            next_run_time=now,
        )
    return scheduler


class _Stopper:
    """Stops the service on SIGTERM, on SIGINT and on a bug.

    A signal handler may interrupt the main thread at any line, even while the thread waits.
    SimpleQueue.put() is safe in a signal handler. Event.set() is not.
    """

    def __init__(self) -> None:
        self._requests: SimpleQueue[None] = SimpleQueue()
        self.bugs: list[BaseException] = []
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def _on_signal(self, _signal: int, _frame: FrameType | None) -> None:
        self._requests.put(None)

    def on_bug(self, event: JobExecutionEvent) -> None:
        """Record the exception of a tick and request a stop."""
        self.bugs.append(event.exception)
        self._requests.put(None)

    def wait(self) -> bool:
        """Wait at most CLOCK_CHECK_INTERVAL_S for a request to stop. Return whether to stop."""
        try:
            self._requests.get(timeout=CLOCK_CHECK_INTERVAL_S)
        except Empty:
            return False
        return True


class _ClockWatch:
    """Detects that the wall clock was set back, which the scheduler does not detect."""

    def __init__(self, scheduler: BackgroundScheduler) -> None:
        self._scheduler = scheduler
        self._offset_s = self._clock_offset_s()

    def check(self) -> None:
        """Make all ticks due if the clock was set back since the last call."""
        previous_offset_s = self._offset_s
        self._offset_s = self._clock_offset_s()
        step_back_s = previous_offset_s - self._offset_s
        if step_back_s < MIN_CLOCK_STEP_S:
            return
        log.warning("clock_set_back", seconds=round(step_back_s, 1))
        for job in self._scheduler.get_jobs():
            job.modify(next_run_time=datetime.now(UTC))

    @staticmethod
    def _clock_offset_s() -> float:
        """Return the difference between the wall clock and the monotonic clock."""
        return datetime.now(UTC).timestamp() - time.monotonic()


class Shared:
    """The function of a tick that other ticks call too, so that its work is not delayed.

    If a call is running in another thread, a new call returns at once. The running call then calls
    the function again, so that it sees what the new caller has stored. Expected errors are logged.
    """

    def __init__(self, name: str, function: Callable[[], None]) -> None:
        self._run = _with_error_log(Tick(name=name, function=function, interval_s=0))
        self._is_running = threading.Lock()
        self._is_due = threading.Event()

    def __call__(self) -> None:
        """Call the function, or make the running call do it."""
        self._is_due.set()
        while self._is_due.is_set() and self._is_running.acquire(blocking=False):
            try:
                self._is_due.clear()
                self._run()
            finally:
                self._is_running.release()


def _with_error_log(tick: Tick) -> Callable[[], None]:
    """Return a function that calls a tick and logs its expected errors."""

    def run_tick() -> None:
        try:
            tick.function()
        except GridsteadError as error:
            log.error(
                "tick_failed", tick=tick.name, code=error.code, reason=str(error), hint=error.hint
            )

    return run_tick


def notify_systemd(state: str) -> None:
    """Send a state to systemd, if systemd started the process. Source: sd_notify(3)."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # an abstract socket
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
        connection.connect(address)
        connection.sendall(state.encode())


def failpoint_from(environment: Mapping[str, str]) -> Callable[[str], None]:
    """Return the function that services call at each failpoint.

    At the failpoint that GRIDSTEAD_FAILPOINT names, the function kills the process with SIGKILL.
    This simulates a power failure. At other failpoints, the function does nothing. Only crash
    tests set the variable.
    """
    enabled_name = environment.get(FAILPOINT_VARIABLE)

    def failpoint(name: str) -> None:
        if name == enabled_name:
            os.kill(os.getpid(), signal.SIGKILL)

    return failpoint
