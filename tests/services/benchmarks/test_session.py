# SPDX-License-Identifier: Apache-2.0
"""Tests of one run that nothing else disturbs."""

import pytest
from tests.fakes.benchmarks import MemoryLock, MemoryProgress, MemoryRequests
from tests.fakes.store import FakeClock

from gridstead.domain.benchmarks.progress import RunState
from gridstead.domain.benchmarks.selection import Selection, selection_text
from gridstead.errors import (
    BenchmarksNotStarted,
    InvalidInput,
    SchedulerUnavailable,
    UnexpectedOutput,
)
from gridstead.services.benchmarks.control import RunControl
from gridstead.services.benchmarks.session import BenchmarkSession, RunProgress

PART = Selection(nodes=("n1",), suites=("compute",))


class FakeRun:
    """A run whose measurement is a function of the test."""

    def __init__(self):
        self.clock = FakeClock()
        self.lock = MemoryLock()
        self.store = MemoryProgress()
        self.requests = MemoryRequests()
        self.progress = RunProgress(self.clock, self.store)
        self.control = RunControl(self.lock, self.store, self.requests)
        self.selections = []
        self.measure = self.selections.append

    def run(self, selection=None):
        session = BenchmarkSession(self.lock, self.progress, self.requests, measure=self.measure)
        session.run(selection)


@pytest.fixture
def run():
    return FakeRun()


def test_a_run_without_a_request_measures_the_whole_site(run):
    run.run()

    assert run.selections == [Selection()]
    assert run.control.benchmark_status().state is RunState.SUCCEEDED


def test_a_requested_run_measures_what_was_requested_once(run):
    run.requests.put(selection_text(PART))

    run.run()
    run.run()

    assert run.selections == [PART, Selection()]


def test_a_selection_of_the_command_line_leaves_the_request_for_the_next_run(run):
    run.requests.put(selection_text(PART))

    run.run(Selection(nodes=("n2",)))

    assert run.selections == [Selection(nodes=("n2",))]
    assert run.requests.is_waiting()


def test_the_request_is_removed_before_the_run_so_that_a_crash_does_not_repeat_it(run):
    run.requests.put(selection_text(PART))
    run.measure = lambda _selection: 1 / 0

    with pytest.raises(ZeroDivisionError):
        run.run()

    assert not run.requests.is_waiting()


def test_the_state_is_running_from_the_moment_at_which_the_request_is_removed(run):
    states = []
    run.requests.put(selection_text(PART))
    take = run.requests.take

    def take_and_look():
        text = take()
        states.append(run.control.benchmark_status())
        return text

    run.requests.take = take_and_look
    run.run()

    (status,) = states
    assert status.state is RunState.RUNNING
    assert status.progress.steps_total == 0


def test_the_progress_counts_the_steps(run):
    states = []

    def measure(_selection):
        run.progress.planned(2)
        run.progress.planned(1)
        run.progress.started("a")
        run.progress.started("b")
        run.progress.ended("a", has_failed=True)
        states.append(run.control.benchmark_status().progress)
        run.progress.ended("b", has_failed=False)
        run.clock.advance(60)

    run.measure = measure
    run.run()

    (progress,) = states
    assert (progress.steps_total, progress.steps_done, progress.steps_failed) == (3, 1, 1)
    assert progress.steps_running == ("b",)
    ended = run.control.benchmark_status().progress
    assert ended.ended_at - ended.started_at == 60
    assert (ended.steps_done, ended.steps_running) == (2, ())


def test_a_failed_run_records_its_reason(run):
    def fail(_selection):
        raise SchedulerUnavailable("no node accepts jobs")

    run.measure = fail
    with pytest.raises(SchedulerUnavailable):
        run.run()

    status = run.control.benchmark_status()
    assert (status.state, status.progress.failure) == (RunState.FAILED, "no node accepts jobs")


def test_a_failed_request_is_not_repeated_as_a_run_of_the_whole_site(run):
    """systemd repeats a run that ends with another error than this one."""

    def fail(_selection):
        raise SchedulerUnavailable("no node accepts jobs")

    run.requests.put(selection_text(PART))
    run.measure = fail
    with pytest.raises(BenchmarksNotStarted, match="could not measure what was requested"):
        run.run()

    assert run.control.benchmark_status().state is RunState.FAILED


@pytest.mark.parametrize(
    ("text", "error"),
    [("nonsense", UnexpectedOutput), ('{"suites": ["speed"]}', InvalidInput)],
)
def test_an_invalid_request_is_removed_and_fails(run, text, error):
    run.requests.put(text)

    with pytest.raises(error):
        run.run()

    assert run.selections == []
    assert not run.requests.is_waiting()
    assert run.control.benchmark_status().state is RunState.FAILED


def test_a_second_run_without_a_request_is_refused_and_changes_nothing(run):
    def run_again(_selection):
        with pytest.raises(BenchmarksNotStarted, match="could not start"):
            run.run()

    run.measure = run_again
    run.run()

    assert run.control.benchmark_status().state is RunState.SUCCEEDED
    assert run.control.benchmark_status().progress.failure == ""
