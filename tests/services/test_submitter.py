# SPDX-License-Identifier: Apache-2.0
"""Jobs on their way into Slurm, several at once."""

import threading

import pytest
from tests.fakes.ledger import FakeLedger
from tests.fakes.scheduler import FakeScheduler
from tests.fakes.store import FakeClock, MemoryJournal

from gridstead.domain.actions import Submit
from gridstead.domain.journal import EntryKind
from gridstead.domain.submission import Gate, GridUser, Script
from gridstead.errors import JobDefinitionUnavailable, SchedulerUnavailable, UnexpectedOutput
from gridstead.services.submitter import Submitter

CUSTOMER = "0x" + "33" * 20
IMPOSTOR = "0x" + "44" * 20
TIMEOUT_S = 10


class MeetingScripts:
    """Port ScriptSource: nobody gets a script before so many ask for one at the same time."""

    def __init__(self, parties):
        self._barrier = threading.Barrier(parties, timeout=TIMEOUT_S)
        self.unavailable = set()
        self.broken = set()

    def fetch(self, job):
        self._barrier.wait()
        if job.id.number in self.unavailable:
            raise JobDefinitionUnavailable("could not fetch a script")
        if job.id.number in self.broken:
            raise UnexpectedOutput("control:8444", "a secret is no text")
        return Script(text="#!/bin/sh\n")


class Bench:
    """A submitter among fakes."""

    def __init__(self, at_once):
        self.clock = FakeClock()
        self.ledger = FakeLedger(self.clock)
        self.slurm = FakeScheduler(self.clock)
        self.scripts = MeetingScripts(at_once)
        self.journal = MemoryJournal()
        self._lock = threading.Lock()
        self.submitter = Submitter(
            clock=self.clock,
            scheduler=self.slurm,
            scripts=self.scripts,
            note=self._note,
            failpoint=lambda _: None,
            at_once=at_once,
        )

    def _note(self, entries):
        with self._lock:
            self.journal.append(entries)

    def wanted(self, customer=CUSTOMER):
        """Return a job that is to be submitted."""
        return Submit(job=self.ledger.request(customer), time_limit_min=10)

    def noted(self, wanted):
        """Return what the journal says of a job."""
        return [
            entry.kind
            for entry in self.journal.open_entries()
            if entry.job_key == wanted.job.job_key
        ]


@pytest.fixture
def bench():
    return Bench(at_once=3)


def test_jobs_are_fetched_side_by_side_and_each_is_noted_before_and_after(bench):
    jobs = [bench.wanted() for _ in range(6)]

    bench.submitter.submit(jobs)

    assert {one.job_key for one in bench.slurm.submissions} == {one.job.job_key for one in jobs}
    assert len(bench.slurm.submissions) == len(jobs)
    for one in jobs:
        assert bench.noted(one) == [EntryKind.SUBMIT_INTENDED, EntryKind.SUBMITTED]


def test_one_job_that_fails_keeps_no_other_back(bench):
    jobs = [bench.wanted() for _ in range(3)]
    bench.scripts.unavailable = {jobs[0].job.id.number}

    bench.submitter.submit(jobs)

    assert bench.noted(jobs[0]) == []
    assert [bench.noted(one)[-1] for one in jobs[1:]] == [EntryKind.SUBMITTED] * 2


def test_a_customer_who_cannot_run_yet_keeps_no_other_back(bench):
    bench.slurm.missing[IMPOSTOR] = ("a home",)
    jobs = [bench.wanted(IMPOSTOR), *(bench.wanted() for _ in range(3))]

    bench.submitter.submit(jobs)

    assert bench.noted(jobs[0]) == []
    assert [bench.noted(one)[-1] for one in jobs[1:]] == [EntryKind.SUBMITTED] * 3


def test_a_secret_that_is_no_text_fails_one_job_only(bench):
    jobs = [bench.wanted() for _ in range(3)]
    bench.scripts.broken = {jobs[0].job.id.number}

    bench.submitter.submit(jobs)

    assert bench.noted(jobs[0]) == []
    assert [bench.noted(one)[-1] for one in jobs[1:]] == [EntryKind.SUBMITTED] * 2


def hangs(calls, *, without=frozenset()):
    """What takes too long to answer, for all but some."""

    def call(asked):
        calls.append(asked)
        if asked not in without:
            raise SchedulerUnavailable("no answer")
        return Gate(user=GridUser(address=asked, uid=200_001, gid=100_000), missing=())

    return call


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_script_source_that_hangs_is_waited_for_once_in_a_tick(at_once):
    bench = Bench(at_once)
    jobs = [bench.wanted() for _ in range(50)]
    asked = []

    def fetch(job):
        asked.append(job)
        raise JobDefinitionUnavailable("no answer")

    bench.scripts.fetch = fetch
    bench.submitter.submit(jobs)

    assert 1 <= len(asked) <= 2 * at_once  # threads that had begun go on


def test_a_gate_that_hangs_is_waited_for_once_in_a_tick(bench):
    calls = []
    bench.slurm.gate = hangs(calls)

    bench.submitter.submit([bench.wanted(f"0x{number:040x}") for number in range(9)])

    assert len(calls) == 1


def test_a_gate_that_always_fails_for_one_customer_keeps_others_back_for_one_tick(bench):
    bench.slurm.gate = hangs([], without={CUSTOMER})
    jobs = [*(bench.wanted(IMPOSTOR) for _ in range(3)), *(bench.wanted() for _ in range(3))]

    bench.submitter.submit(jobs)
    assert bench.slurm.submissions == []
    bench.submitter.submit(jobs)

    assert {one.job_key for one in bench.slurm.submissions} == {one.job.job_key for one in jobs[3:]}


@pytest.mark.parametrize(("seconds", "asked"), [(59, 1), (60, 2), (-7200, 2)])
def test_an_open_gate_is_remembered_for_a_minute_whatever_becomes_of_the_clock(
    bench, seconds, asked
):
    calls = []
    bench.slurm.gate = hangs(calls, without={CUSTOMER})
    bench.submitter.submit([bench.wanted() for _ in range(3)])
    bench.clock.advance(seconds)
    bench.submitter.submit([bench.wanted() for _ in range(3)])

    assert len(calls) == asked


def test_jobs_that_always_fail_do_not_starve_the_others():
    bench = Bench(at_once=1)
    jobs = [bench.wanted() for _ in range(3)]
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
        bench.submitter.submit([bench.wanted()])
