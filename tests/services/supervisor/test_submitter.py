# SPDX-License-Identifier: Apache-2.0
"""Tests of the submitter, which submits several jobs at the same time.

A customer's gate is the check that the customer's user and directories exist at the site. The gate
is open if they exist.
"""

import threading
from concurrent import futures

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
OTHER_CUSTOMER = "0x" + "44" * 20
TIMEOUT_S = 10


class BarrierScripts:
    """Implements port ``ScriptSource``. Each request waits until ``parties`` requests are waiting.

    Attributes:
        unavailable: The numbers of the jobs whose script cannot be fetched.
        broken: The numbers of the jobs whose script has a secret that is not text.
    """

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


class SubmitterSetup:
    """A submitter with fakes of the chain, Slurm, the script source and the journal."""

    def __init__(self, threads):
        self.clock = FakeClock()
        self.ledger = FakeLedger(self.clock)
        self.slurm = FakeScheduler(self.clock)
        self.scripts = BarrierScripts(threads)
        self.journal = MemoryJournal()
        self._lock = threading.Lock()
        self.submitter = Submitter(
            clock=self.clock,
            scheduler=self.slurm,
            scripts=self.scripts,
            write_journal=self._write_journal,
            failpoint=lambda _: None,
            threads=threads,
        )

    def _write_journal(self, entries):
        with self._lock:
            self.journal.append(entries)

    def submit(self, actions):
        """Submit jobs, wait until all submissions have ended and raise the exceptions of bugs."""
        self.submitter.submit(actions)
        futures.wait(self.submitter._futures.values(), timeout=TIMEOUT_S)
        assert self.submitter.jobs_in_progress() == frozenset()

    def new_actions(self, count, customer=CUSTOMER):
        """Return the actions that submit new jobs."""
        jobs = [self.ledger.request(customer) for _ in range(count)]
        return [Submit(job=job, time_limit_min=10) for job in jobs]

    def submitted_keys(self):
        """Return the job keys of all submissions."""
        return {submission.job_key for submission in self.slurm.submissions}

    def journal_kinds(self, action):
        """Return the kinds of the journal entries of a job."""
        job_key = action.job.job_key
        entries = self.journal.open_entries()
        return [entry.kind for entry in entries if entry.job_key == job_key]


def job_keys(actions):
    return {action.job.job_key for action in actions}


@pytest.fixture
def setup():
    return SubmitterSetup(threads=3)


def test_scripts_of_several_jobs_are_fetched_in_parallel(setup):
    actions = setup.new_actions(6)

    setup.submit(actions)

    assert setup.submitted_keys() == job_keys(actions)
    assert len(setup.slurm.submissions) == len(actions)


def test_journal_has_an_entry_before_and_an_entry_after_each_submission(setup):
    actions = setup.new_actions(3)

    setup.submit(actions)

    for action in actions:
        kinds = setup.journal_kinds(action)
        assert kinds == [EntryKind.SUBMIT_INTENDED, EntryKind.SUBMITTED]


def test_job_whose_script_cannot_be_fetched_does_not_delay_other_jobs(setup):
    failing_action, *other_actions = setup.new_actions(3)
    setup.scripts.unavailable = {failing_action.job.id.number}

    setup.submit([failing_action, *other_actions])

    assert setup.journal_kinds(failing_action) == []
    assert setup.submitted_keys() == job_keys(other_actions)


def test_job_whose_secret_is_not_text_does_not_delay_other_jobs(setup):
    failing_action, *other_actions = setup.new_actions(3)
    setup.scripts.broken = {failing_action.job.id.number}

    setup.submit([failing_action, *other_actions])

    assert setup.journal_kinds(failing_action) == []
    assert setup.submitted_keys() == job_keys(other_actions)


def test_customer_with_a_closed_gate_does_not_delay_other_customers(setup):
    setup.slurm.missing[OTHER_CUSTOMER] = ("a home",)
    blocked_actions = setup.new_actions(1, OTHER_CUSTOMER)
    other_actions = setup.new_actions(3)

    setup.submit([*blocked_actions, *other_actions])

    assert setup.journal_kinds(blocked_actions[0]) == []
    assert setup.submitted_keys() == job_keys(other_actions)


def make_hanging_gate(called_addresses, *, answered=frozenset()):
    """Return a gate that answers only for the addresses in ``answered``. Other calls time out."""

    def check_gate(address):
        called_addresses.append(address)
        if address not in answered:
            raise SchedulerUnavailable("no answer")
        return Gate(user=GridUser(address=address, uid=200_001, gid=100_000), missing=())

    return check_gate


@pytest.mark.parametrize("threads", [1, 3])
def test_submitter_waits_for_a_hanging_script_source_once_per_tick(threads):
    setup = SubmitterSetup(threads)
    fetched_jobs = []

    def fetch(job):
        fetched_jobs.append(job)
        raise JobDefinitionUnavailable("no answer")

    setup.scripts.fetch = fetch
    setup.submit(setup.new_actions(50))

    # Each thread may have started another job before the first timeout.
    assert 1 <= len(fetched_jobs) <= 2 * threads


def test_submitter_waits_for_a_hanging_gate_once_per_tick(setup):
    called_addresses = []
    setup.slurm.check_gate = make_hanging_gate(called_addresses)
    actions = []
    for number in range(9):
        actions += setup.new_actions(1, f"0x{number:040x}")

    setup.submit(actions)

    assert len(called_addresses) == 1


def test_gate_that_always_fails_for_one_customer_delays_others_by_one_tick(setup):
    setup.slurm.check_gate = make_hanging_gate([], answered={CUSTOMER})
    blocked_actions = setup.new_actions(3, OTHER_CUSTOMER)
    other_actions = setup.new_actions(3)

    setup.submit([*blocked_actions, *other_actions])
    assert setup.slurm.submissions == []
    setup.submit([*blocked_actions, *other_actions])

    assert setup.submitted_keys() == job_keys(other_actions)


@pytest.mark.parametrize(("elapsed_s", "call_count"), [(59, 1), (60, 2), (-7200, 2)])
def test_open_gate_is_cached_for_a_minute(setup, elapsed_s, call_count):
    """The elapsed time is negative after the clock was set back."""
    called_addresses = []
    setup.slurm.check_gate = make_hanging_gate(called_addresses, answered={CUSTOMER})
    setup.submit(setup.new_actions(3))

    setup.clock.advance(elapsed_s)
    setup.submit(setup.new_actions(3))

    assert len(called_addresses) == call_count


def test_jobs_that_always_fail_do_not_starve_other_jobs():
    setup = SubmitterSetup(threads=1)
    first, second, third = setup.new_actions(3)
    setup.scripts.unavailable = {first.job.id.number, second.job.id.number}
    for _ in range(3):
        setup.submit([first, second, third])
    assert setup.submitted_keys() == job_keys([third])

    setup.scripts.unavailable = {second.job.id.number}
    for _ in range(2):
        setup.submit([first, second])

    assert setup.submitted_keys() == job_keys([first, third])


def test_unexpected_exception_in_a_thread_is_raised(setup):
    def fail(job):
        raise KeyError(job)

    setup.scripts.fetch = fail

    with pytest.raises(KeyError):
        setup.submit(setup.new_actions(1))


def test_submissions_run_in_the_background(setup):
    actions = setup.new_actions(2)  # fewer than the three that the source of the scripts waits for

    setup.submitter.submit(actions)

    assert setup.submitter.jobs_in_progress() == job_keys(actions)
    setup.submit(setup.new_actions(1))
    assert len(setup.slurm.submissions) == 3


def test_close_drops_submissions_that_have_not_started(setup):
    has_started, may_end = threading.Semaphore(0), threading.Event()
    fetched_jobs = []

    def fetch(job):
        fetched_jobs.append(job)
        has_started.release()
        may_end.wait(TIMEOUT_S)
        return Script(text="#!/bin/sh\n")

    setup.scripts.fetch = fetch
    setup.submitter.submit(setup.new_actions(9))
    for _ in range(3):
        has_started.acquire(timeout=TIMEOUT_S)
    closing = threading.Thread(target=setup.submitter.close)
    closing.start()
    futures.wait(list(setup.submitter._futures.values())[3:], timeout=TIMEOUT_S)
    may_end.set()
    closing.join(TIMEOUT_S)

    assert len(fetched_jobs) == len(setup.slurm.submissions) == 3
