# SPDX-License-Identifier: Apache-2.0
"""Tests of the loop that runs the ticks of every service."""

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

NUMBER_OF_TICKS = 4
TIMEOUT_S = 20


@pytest.fixture(autouse=True)
def restored_signal_handlers():
    """Restore the signal handlers of the test runner after the test."""
    handlers = {}
    for number in (signal.SIGTERM, signal.SIGINT):
        handlers[number] = signal.getsignal(number)
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def calls():
    """Return a list to which each tick appends. A timer stops the loop after TIMEOUT_S seconds."""
    timer = threading.Timer(TIMEOUT_S, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    yield []
    timer.cancel()


def ticks_that_stop_the_loop(calls, *, at_end_of_tick=lambda: None):
    """Return a tuple with one tick, which stops the loop when it has run NUMBER_OF_TICKS times."""

    def run_tick():
        calls.append(None)
        if len(calls) == NUMBER_OF_TICKS:
            os.kill(os.getpid(), signal.SIGTERM)
        at_end_of_tick()

    return (Tick(name="tick", function=run_tick, interval_s=0.05),)


def test_ticks_run_until_a_signal(calls):
    closed_resources = []

    def close_first():
        closed_resources.append("first")

    def close_second():
        closed_resources.append("second")

    run(ticks_that_stop_the_loop(calls), close=(close_first, close_second))

    assert len(calls) >= NUMBER_OF_TICKS
    assert closed_resources == ["second", "first"]


def test_shutdown_interrupts_a_long_tick(calls):
    is_interrupted = threading.Event()

    def wait_for_interrupt():
        os.kill(os.getpid(), signal.SIGTERM)
        calls.append(is_interrupted.wait(TIMEOUT_S))

    run(
        (Tick(name="long", function=wait_for_interrupt, interval_s=60),),
        interrupt=is_interrupted.set,
    )

    assert calls == [True]


def test_loop_continues_after_a_tick_with_an_expected_error(calls):
    def fail():
        raise ChainUnavailable("no answer")

    run(ticks_that_stop_the_loop(calls, at_end_of_tick=fail))

    assert len(calls) >= NUMBER_OF_TICKS


def test_unexpected_exception_closes_resources_and_propagates(calls):
    closed_resources = []

    with pytest.raises(ZeroDivisionError):
        run(
            ticks_that_stop_the_loop(calls, at_end_of_tick=lambda: 1 // 0),
            close=(lambda: closed_resources.append("store"),),
        )

    assert len(calls) == 1
    assert closed_resources == ["store"]


def test_ticks_continue_after_the_clock_is_set_back(calls, monkeypatch):
    class ClockSetBack(datetime):
        """A clock that is set back by two hours after the second tick."""

        @classmethod
        def now(cls, tz=None):
            hours = 2 if len(calls) >= 2 else 0
            return datetime.now(tz) - timedelta(hours=hours)

    monkeypatch.setattr(base, "datetime", ClockSetBack)
    monkeypatch.setattr(loop, "datetime", ClockSetBack)

    run(ticks_that_stop_the_loop(calls))

    assert len(calls) >= NUMBER_OF_TICKS


class LoopTimeout(BaseException):
    """The loop did not end in time."""


@pytest.fixture
def timeout():
    """Raise LoopTimeout if a test takes longer than TIMEOUT_S seconds."""

    def raise_timeout(_signal, _frame):
        raise LoopTimeout

    previous_handler = signal.signal(signal.SIGALRM, raise_timeout)
    signal.setitimer(signal.ITIMER_REAL, TIMEOUT_S)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, previous_handler)


class SignalAtLine:
    """A trace function that sends SIGTERM before the main thread runs a line of code.

    It counts the lines after the notification READY=1, and only those of the loop module and of the
    modules with which the loop waits.
    """

    def __init__(self, line_number):
        self.remaining_lines = line_number
        self.files = {loop.__file__, threading.__file__, queue.__file__}
        self.is_ready = False

    def __call__(self, frame, event, _argument):
        if frame.f_code.co_filename not in self.files:
            return None
        if event == "line" and self.is_ready:
            self.remaining_lines -= 1
            if self.remaining_lines == 0:
                os.kill(os.getpid(), signal.SIGTERM)
        return self

    def notify(self, state):
        self.is_ready = state == "READY=1"


@pytest.mark.usefixtures("timeout")
def test_signal_at_any_line_ends_the_loop(monkeypatch):
    """The signal handler must not wait for a mutex that the interrupted line may hold."""
    monkeypatch.setattr(loop, "CLOCK_CHECK_INTERVAL_S", 0.001)
    previous_trace = sys.gettrace()
    for line_number in range(1, 60):
        tracer = SignalAtLine(line_number)
        monkeypatch.setattr(loop, "notify_systemd", tracer.notify)
        sys.settrace(tracer)
        try:
            run(())
        finally:
            sys.settrace(previous_trace)


def test_shared_function_runs_again_if_it_is_called_while_it_runs():
    calls = queue.SimpleQueue()
    has_started, may_end = threading.Event(), threading.Event()

    def function():
        calls.put(None)
        has_started.set()
        may_end.wait(TIMEOUT_S)

    shared = loop.Shared("sender", function)
    thread = threading.Thread(target=shared)
    thread.start()
    has_started.wait(TIMEOUT_S)
    shared()  # returns at once, although the first call has not ended
    assert calls.qsize() == 1
    may_end.set()
    thread.join(TIMEOUT_S)

    assert calls.qsize() == 2


def test_shared_function_logs_expected_errors_and_raises_bugs():
    def fail(error):
        raise error

    loop.Shared("sender", lambda: fail(ChainUnavailable("no answer")))()
    with pytest.raises(KeyError):
        loop.Shared("sender", lambda: fail(KeyError()))()
