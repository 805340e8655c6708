# SPDX-License-Identifier: Apache-2.0
"""Submitting jobs to Slurm, several at once."""

import threading

import pytest
from tests.fakes.ledger import FakeLedger
from tests.fakes.scheduler import FakeScheduler
from tests.fakes.store import FakeClock, MemoryJournal

from gridstead.domain.supervisor.actions import Submit
from gridstead.domain.supervisor.journal import EntryKind
from gridstead.domain.supervisor.submission import Gate, GridUser, Script
from gridstead.errors import JobDefinitionUnavailable, SchedulerUnavailable, UnexpectedOutput
from gridstead.services.supervisor.submitter import Submitter

CUSTOMER = "0x" + "33" * 20
IMPOSTOR = "0x" + "44" * 20
TIMEOUT_S = 10


class MeetingScripts:
    """Port ScriptSource: a request waits until ``parties`` requests wait at the same time."""

    def __init__(self, parties):
        self._barrier = threading.Barrier(parties, timeout=TIMEOUT_S)
        self.unavailable = set()
        self.broken = set()

    def fetch(self, job):
        self._barrier.wait()
        if job.id.number in self.unavailable:
            raise JobDefinitionUnavailable("could not fetch a script")
        if job.id.number in self.broken:
            raise UnexpectedOutput("control:8444", "a secret is not text")
        return Script(text="#!/bin/sh\n")


class Bench:
    """A submitter with fakes."""

    def __init__(self, threads):
        self.clock = FakeClock()
        self.ledger = FakeLedger(self.clock)
        self.slurm = FakeScheduler(self.clock)
        self.scripts = MeetingScripts(threads)
        self.journal = MemoryJournal()
        self._lock = threading.Lock()
        self.submitter = Submitter(
            clock=self.clock,
            scheduler=self.slurm,
            scripts=self.scripts,
            note=self._note,
            failpoint=lambda _: None,
            threads=threads,
        )

    def _note(self, entries):
        with self._lock:
            self.journal.append(entries)

    def action(self, customer=CUSTOMER):
        """Return the action that submits a new job."""
        return Submit(job=self.ledger.request(customer), time_limit_min=10)

    def noted(self, action):
        """Return the kinds of a job's journal entries."""
        job_key = action.job.job_key
        entries = self.journal.open_entries()
        return [entry.kind for entry in entries if entry.job_key == job_key]


def submitted(bench):
    """Return the job keys of all submissions."""
    return {submission.job_key for submission in bench.slurm.submissions}


@pytest.fixture
def bench():
    return Bench(threads=3)


def test_jobs_are_fetched_in_parallel_and_noted_before_and_after(bench):
    jobs = [bench.action() for _ in range(6)]

    bench.submitter.submit(jobs)

    assert submitted(bench) == {action.job.job_key for action in jobs}
    assert len(bench.slurm.submissions) == len(jobs)
    for action in jobs:
        assert bench.noted(action) == [EntryKind.SUBMIT_INTENDED, EntryKind.SUBMITTED]


def test_a_job_that_fails_does_not_delay_other_jobs(bench):
    jobs = [bench.action() for _ in range(3)]
    bench.scripts.unavailable = {jobs[0].job.id.number}

    bench.submitter.submit(jobs)

    assert bench.noted(jobs[0]) == []
    assert [bench.noted(action)[-1] for action in jobs[1:]] == [EntryKind.SUBMITTED] * 2


def test_a_customer_who_cannot_run_yet_does_not_delay_other_customers(bench):
    bench.slurm.missing[IMPOSTOR] = ("a home",)
    jobs = [bench.action(IMPOSTOR), *(bench.action() for _ in range(3))]

    bench.submitter.submit(jobs)

    assert bench.noted(jobs[0]) == []
    assert [bench.noted(action)[-1] for action in jobs[1:]] == [EntryKind.SUBMITTED] * 3


def test_a_secret_that_is_not_text_fails_only_its_job(bench):
    jobs = [bench.action() for _ in range(3)]
    bench.scripts.broken = {jobs[0].job.id.number}

    bench.submitter.submit(jobs)

    assert bench.noted(jobs[0]) == []
    assert [bench.noted(action)[-1] for action in jobs[1:]] == [EntryKind.SUBMITTED] * 2


def hanging_gate(calls, *, answered=frozenset()):
    """Return a gate that answers for some addresses only; the other calls time out."""

    def gate(address):
        calls.append(address)
        if address not in answered:
            raise SchedulerUnavailable("no answer")
        return Gate(user=GridUser(address=address, uid=200_001, gid=100_000), missing=())

    return gate


@pytest.mark.parametrize("threads", [1, 3])
def test_a_script_source_that_hangs_costs_one_timeout_per_tick(threads):
    bench = Bench(threads)
    jobs = [bench.action() for _ in range(50)]
    fetched = []

    def fetch(job):
        fetched.append(job)
        raise JobDefinitionUnavailable("no answer")

    bench.scripts.fetch = fetch
    bench.submitter.submit(jobs)

    assert 1 <= len(fetched) <= 2 * threads  # a thread that has started finishes its job


def test_a_gate_that_hangs_costs_one_timeout_per_tick(bench):
    calls = []
    bench.slurm.check_gate = hanging_gate(calls)

    bench.submitter.submit([bench.action(f"0x{number:040x}") for number in range(9)])

    assert len(calls) == 1


def test_a_gate_that_always_fails_for_one_customer_delays_others_by_one_tick(bench):
    bench.slurm.check_gate = hanging_gate([], answered={CUSTOMER})
    jobs = [*(bench.action(IMPOSTOR) for _ in range(3)), *(bench.action() for _ in range(3))]

    bench.submitter.submit(jobs)
    assert bench.slurm.submissions == []
    bench.submitter.submit(jobs)

    assert submitted(bench) == {action.job.job_key for action in jobs[3:]}


@pytest.mark.parametrize(("seconds", "calls_expected"), [(59, 1), (60, 2), (-7200, 2)])
def test_an_open_gate_is_cached_for_a_minute_but_not_after_the_clock_was_set_back(
    bench, seconds, calls_expected
):
    calls = []
    bench.slurm.check_gate = hanging_gate(calls, answered={CUSTOMER})
    bench.submitter.submit([bench.action() for _ in range(3)])
    bench.clock.advance(seconds)
    bench.submitter.submit([bench.action() for _ in range(3)])

    assert len(calls) == calls_expected


def test_jobs_that_always_fail_do_not_starve_other_jobs():
    bench = Bench(threads=1)
    jobs = [bench.action() for _ in range(3)]
    bench.scripts.unavailable = {jobs[0].job.id.number, jobs[1].job.id.number}

    for _ in jobs:
        bench.submitter.submit(jobs)
    assert bench.noted(jobs[2])[-1] is EntryKind.SUBMITTED
    bench.scripts.unavailable = {jobs[1].job.id.number}
    for _ in jobs[:2]:
        bench.submitter.submit(jobs[:2])

    assert bench.noted(jobs[0])[-1] is EntryKind.SUBMITTED


def test_a_bug_in_one_thread_is_not_swallowed(bench):
    def broken(job):
        raise KeyError(job)

    bench.scripts.fetch = broken

    with pytest.raises(KeyError):
        bench.submitter.submit([bench.action()])
