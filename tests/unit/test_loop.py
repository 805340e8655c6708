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
    """Give the signals back to the test runner."""
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.fixture
def count():
    """Return a list that grows with each call of what a tick does; the last call ends the loop, as
    does time.
    """
    impatience = threading.Timer(PATIENCE_S, os.kill, (os.getpid(), signal.SIGTERM))
    impatience.start()
    yield []
    impatience.cancel()


def ticking(count, *, then=lambda: None):
    def do():
        count.append(None)
        if len(count) == ENOUGH:
            os.kill(os.getpid(), signal.SIGTERM)
        then()

    return (Tick(name="tick", do=do, every_s=0.05),)


def test_ticks_go_on_until_a_signal_and_then_what_was_opened_is_closed(count):
    closed = []

    run(ticking(count), close=(lambda: closed.append("first"), lambda: closed.append("second")))

    assert len(count) >= ENOUGH
    assert closed == ["second", "first"]


def test_a_long_tick_is_asked_to_end_before_it_is_waited_for(count):
    asked = threading.Event()

    def long():
        os.kill(os.getpid(), signal.SIGTERM)
        count.append(asked.wait(PATIENCE_S))

    run((Tick(name="long", do=long, every_s=60),), interrupt=asked.set)

    assert count == [True]


def test_an_expected_failure_ends_one_tick_only(count):
    def fail():
        raise ChainUnavailable("no answer")

    run(ticking(count, then=fail))

    assert len(count) >= ENOUGH


def test_a_bug_ends_the_process_and_all_is_closed(count):
    closed = []

    with pytest.raises(ZeroDivisionError):
        run(ticking(count, then=lambda: 1 // 0), close=(lambda: closed.append("store"),))

    assert (len(count), closed) == (1, ["store"])


def test_ticks_go_on_when_the_clock_is_set_back(count, monkeypatch):
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) - timedelta(hours=2 if len(count) >= 2 else 0)

    monkeypatch.setattr(base, "datetime", Clock)
    monkeypatch.setattr(loop, "datetime", Clock)

    run(ticking(count))

    assert len(count) >= ENOUGH


class Stuck(BaseException):
    """The loop did not end."""


@pytest.fixture
def patience():
    """Break off what takes longer than a loop that was told to end."""

    def stuck(_signal, _frame):
        raise Stuck

    before = signal.signal(signal.SIGALRM, stuck)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


class SignalAtLine:
    """Sends SIGTERM at so many-th line that the main thread runs of the loop, or of what it waits
    with.
    """

    def __init__(self, place):
        self.left = place
        self.files = {loop.__file__, threading.__file__, queue.__file__}
        self.is_ready = False

    def __call__(self, frame, event, _argument):
        if frame.f_code.co_filename not in self.files:
            return None
        if event == "line" and self.is_ready:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGTERM)
        return self

    def tell(self, state):
        self.is_ready = state == "READY=1"


@pytest.mark.usefixtures("patience")
def test_a_signal_at_any_line_ends_the_loop(monkeypatch):
    """A lock that the handler and the interrupted line both want would hold the process until it is
    killed.
    """
    monkeypatch.setattr(loop, "CLOCK_CHECK_S", 0.001)
    before = sys.gettrace()
    for place in range(1, 60):
        tracer = SignalAtLine(place)
        monkeypatch.setattr(loop, "tell_systemd", tracer.tell)
        sys.settrace(tracer)
        try:
            run(())
        finally:
            sys.settrace(before)
