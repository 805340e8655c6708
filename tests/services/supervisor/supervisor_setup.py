# SPDX-License-Identifier: Apache-2.0
"""A real supervisor on fakes, with methods that move the fakes."""

from __future__ import annotations

from tests.fakes.ledger import FakeLedger
from tests.fakes.scheduler import FakeReports, FakeScheduler
from tests.fakes.store import FakeClock, MemoryCursor, MemoryJournal, MemoryOutbox

from gridstead.domain.jobs.lifecycle import COLD, JobState
from gridstead.domain.supervisor.snapshot import Rules
from gridstead.domain.supervisor.submission import Script
from gridstead.errors import ScriptUnavailable
from gridstead.services.chain.follower import Follower
from gridstead.services.supervisor.supervisor import Supervisor, SupervisorPorts

US = "0x" + "11" * 20
CUSTOMER = "0x" + "33" * 20
CONFIRMATIONS = 6


class Killed(BaseException):
    """The supervisor process was killed."""


class FakeScripts:
    """Port ScriptSource: every script is available, unless a test sets ``unavailable``."""

    def __init__(self):
        self.unavailable = False

    def fetch(self, job):
        if self.unavailable:
            raise ScriptUnavailable("no script", detail=job.batch_location_hash)
        return Script(text="#!/bin/sh\n")


class SupervisorSetup:
    """A chain, Slurm and one supervisor, with a clock that a test moves."""

    def __init__(self):
        self.clock = FakeClock()
        self.ledger = FakeLedger(self.clock)
        self.slurm = FakeScheduler(self.clock)
        self.reports = FakeReports()
        self.scripts = FakeScripts()
        self.journal = MemoryJournal()
        self.cursor = MemoryCursor()
        self.outbox = MemoryOutbox()
        self.failpoint = None
        self.ledger.add_provider(US)
        self.ledger.mine(CONFIRMATIONS)
        self.rules = Rules(
            chain_id=self.ledger.chain_id,
            contract=self.ledger.contract,
            provider=US,
            confirmations=CONFIRMATIONS,
        )
        self.sync()
        self.start()

    def start(self):
        """Start the supervisor as a new process on the same store."""
        ports = SupervisorPorts(
            clock=self.clock,
            ledger=self.ledger,
            follower=Follower(self.ledger, self.cursor, confirmations=CONFIRMATIONS),
            journal=self.journal,
            outbox=self.outbox,
            scheduler=self.slurm,
            accounting=self.slurm,
            reports=self.reports,
            scripts=self.scripts,
        )
        self.supervisor = Supervisor(ports, self.rules, failpoint=self._failpoint)

    def _failpoint(self, name):
        if name == self.failpoint:
            self.failpoint = None
            raise Killed(name)

    def tick(self):
        """Tick once; restart the supervisor if the tick killed it."""
        try:
            self.supervisor.tick()
        except Killed:
            self.start()

    def step(self, seconds=1):
        """Tick, send the outbox's calls to the chain, and let time pass."""
        self.tick()
        self.ledger.deliver(self.outbox, US)
        self.clock.advance(seconds)
        self.sync()

    def sync(self):
        """Move the wall time to the time of the newest block, if it is behind.

        Blocks of the fake chain are at least a second apart.
        """
        self.clock.seconds = max(self.clock.seconds, self.ledger.head().timestamp)

    def steps(self, count=CONFIRMATIONS + 2):
        for _ in range(count):
            self.step()

    def request(self, customer=CUSTOMER, **fields):
        """Request a job, match it to our provider and return its number."""
        number = self.ledger.request(customer, **fields).id.number
        self.ledger.match(number, US)
        self.sync()
        return number

    def running(self):
        """Request a job, bring it to RUNNING on the chain, and return (number, Slurm job id)."""
        number = self.request()
        self.steps(2)
        slurm_job_id = self.slurm.attempts()[-1].slurm_job_id
        self.slurm.start(slurm_job_id)
        self.steps()
        assert self.state(number) is JobState.RUNNING
        return number, slurm_job_id

    def state(self, number):
        return self.ledger.job(number).state

    def finish(self, limit=200):
        """Run all jobs in Slurm and let the supervisor settle them."""
        self.slurm.down = False
        self.ledger.down = False
        for _ in range(limit):
            for attempt in self.slurm.attempts(where=lambda a: a.is_alive):
                if attempt.state == "PENDING":
                    self.slurm.start(attempt.slurm_job_id)
                else:
                    self.slurm.end(attempt.slurm_job_id)
            self.step(2)
            job_ids = map(self.ledger.job_id, range(1, 1000))
            jobs = self.ledger.jobs(job_ids, at_block=self.ledger.head()).values()
            if all(job.state in COLD or job.state is JobState.PENDING for job in jobs):
                break
        self.steps(80)
