# SPDX-License-Identifier: Apache-2.0
"""The loop that every service runs in."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from datetime import datetime, timedelta

import pytest
from apscheduler.schedulers import base

from gridstead.errors import ChainUnavailable
from gridstead.wiring import loop
from gridstead.wiring.loop import Tick, run

ENOUGH = 4
PATIENCE_S = 20


@pytest.fixture(autouse=True)
def handlers():
    """Restore the signal handlers of the test runner."""
    signals = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in signals}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def calls():
    """Return a list to which each tick appends. A timer stops the loop after PATIENCE_S seconds."""
    timer = threading.Timer(PATIENCE_S, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    yield []
    timer.cancel()


def ticking(calls, *, then=lambda: None):
    """Return a tick that stops the loop at the call ENOUGH."""

    def do():
        calls.append(None)
        if len(calls) == ENOUGH:
            os.kill(os.getpid(), signal.SIGTERM)
        then()

    return (Tick(name="tick", do=do, every_s=0.05),)


def test_ticks_run_until_a_signal(calls):
    closed = []

    run(ticking(calls), close=(lambda: closed.append("first"), lambda: closed.append("second")))

    assert len(calls) >= ENOUGH
    assert closed == ["second", "first"]


def test_long_tick_is_interrupted_before_the_shutdown_waits_for_it(calls):
    interrupted = threading.Event()

    def long():
        os.kill(os.getpid(), signal.SIGTERM)
        calls.append(interrupted.wait(PATIENCE_S))

    run((Tick(name="long", do=long, every_s=60),), interrupt=interrupted.set)

    assert calls == [True]


def test_expected_failure_ends_only_one_tick(calls):
    def fail():
        raise ChainUnavailable("no answer")

    run(ticking(calls, then=fail))

    assert len(calls) >= ENOUGH


def test_bug_ends_the_process_after_closing(calls):
    closed = []

    with pytest.raises(ZeroDivisionError):
        run(ticking(calls, then=lambda: 1 // 0), close=(lambda: closed.append("store"),))

    assert (len(calls), closed) == (1, ["store"])


def test_ticks_continue_after_the_clock_is_set_back(calls, monkeypatch):
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) - timedelta(hours=2 if len(calls) >= 2 else 0)

    monkeypatch.setattr(base, "datetime", Clock)
    monkeypatch.setattr(loop, "datetime", Clock)

    run(ticking(calls))

    assert len(calls) >= ENOUGH


class Stuck(BaseException):
    """The loop did not end."""


@pytest.fixture
def patience():
    """Raise Stuck if a test takes longer than PATIENCE_S seconds."""

    def stuck(_signal, _frame):
        raise Stuck

    before = signal.signal(signal.SIGALRM, stuck)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


class SignalAtLine:
    """Sends SIGTERM before the main thread runs its n-th line after READY.

    Only lines of the loop module and of the modules that it waits with are counted.
    """

    def __init__(self, line_number):
        self.remaining = line_number
        self.files = {loop.__file__, threading.__file__, queue.__file__}
        self.is_ready = False

    def __call__(self, frame, event, _argument):
        if frame.f_code.co_filename not in self.files:
            return None
        if event == "line" and self.is_ready:
            self.remaining -= 1
            if self.remaining == 0:
                os.kill(os.getpid(), signal.SIGTERM)
        return self

    def notify(self, state):
        self.is_ready = state == "READY=1"


@pytest.mark.usefixtures("patience")
def test_signal_at_any_line_ends_the_loop(monkeypatch):
    """A mutex that both the handler and the interrupted line need would deadlock the process."""
    monkeypatch.setattr(loop, "CLOCK_CHECK_S", 0.001)
    before = sys.gettrace()
    for line_number in range(1, 60):
        tracer = SignalAtLine(line_number)
        monkeypatch.setattr(loop, "notify_systemd", tracer.notify)
        sys.settrace(tracer)
        try:
            run(())
        finally:
            sys.settrace(before)
