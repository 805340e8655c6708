# SPDX-License-Identifier: Apache-2.0
"""A real supervisor with fakes of the chain and of Slurm, for the tests of the supervisor.

An attempt is a Slurm job that the supervisor submitted for a job of the grid.
"""

from __future__ import annotations

from tests.fakes.crash import Crash
from tests.fakes.ledger import FakeLedger
from tests.fakes.scheduler import FakeReports, FakeScheduler
from tests.fakes.store import FakeClock, MemoryCursor, MemoryJournal, MemoryOutbox

from gridstead.domain.jobs.lifecycle import COLD, JobState
from gridstead.domain.supervisor.snapshot import SupervisorPolicy
from gridstead.domain.supervisor.submission import Script
from gridstead.errors import ScriptUnavailable
from gridstead.services.chain.follower import Follower
from gridstead.services.supervisor.supervisor import Supervisor, SupervisorPorts

PROVIDER = "0x" + "11" * 20
CUSTOMER = "0x" + "33" * 20
CONFIRMATIONS = 6


class FakeScripts:
    """Port ScriptSource: every script is available, unless a test sets ``unavailable``."""

    def __init__(self):
        self.unavailable = False

    def fetch(self, job):
        if self.unavailable:
            raise ScriptUnavailable("no script", detail=job.batch_location_hash)
        return Script(text="#!/bin/sh\n")


class SupervisorSetup:
    """A fake chain, a fake Slurm and one supervisor, with a clock that the test moves.

    Attributes:
        failpoint: The name of the next failpoint at which the supervisor is killed. None if the
            supervisor is not killed.
    """

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
        self.ledger.add_provider(PROVIDER)
        self.ledger.mine(CONFIRMATIONS)
        self.policy = SupervisorPolicy(
            chain_id=self.ledger.chain_id,
            contract=self.ledger.contract,
            provider=PROVIDER,
            confirmations=CONFIRMATIONS,
        )
        self.sync_clock()
        self.start_supervisor()

    def start_supervisor(self):
        """Start a new supervisor with the stored state, as a restart of the process does."""
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
        self.supervisor = Supervisor(ports, self.policy, failpoint=self._pass_failpoint)

    def _pass_failpoint(self, name):
        if name == self.failpoint:
            self.failpoint = None
            raise Crash(name)

    def tick(self):
        """Run one tick of the supervisor. If a failpoint kills the supervisor, start a new one."""
        try:
            self.supervisor.tick()
        except Crash:
            self.start_supervisor()

    def step(self, seconds=1):
        """Run one tick, deliver the calls of the outbox to the chain, and advance the clock."""
        self.tick()
        self.ledger.deliver(self.outbox, PROVIDER)
        self.clock.advance(seconds)
        self.sync_clock()

    def sync_clock(self):
        """Advance the clock to the time of the newest block, if the clock is behind.

        The chain may be ahead, because each block is at least a second after the previous block.
        """
        self.clock.seconds = max(self.clock.seconds, self.ledger.head().timestamp)

    def run_steps(self, count=CONFIRMATIONS + 2):
        """Run steps. By default, enough that a call is confirmed and the supervisor reacts."""
        for _ in range(count):
            self.step()

    def request_job(self, customer=CUSTOMER, **fields):
        """Request a job, match the job to PROVIDER and return the number of the job."""
        number = self.ledger.request(customer, **fields).id.number
        self.ledger.match(number, PROVIDER)
        self.sync_clock()
        return number

    def request_running_job(self):
        """Request a job, run it until it is RUNNING, and return (job number, Slurm job id)."""
        number = self.request_job()
        self.run_steps(2)
        slurm_job_id = self.slurm.attempts()[-1].slurm_job_id
        self.slurm.start(slurm_job_id)
        self.run_steps()
        assert self.state_of(number) is JobState.RUNNING
        return number, slurm_job_id

    def state_of(self, number):
        """Return the state of a job on the chain."""
        return self.ledger.job(number).state

    def jobs(self):
        """Return all jobs on the chain."""
        job_ids = map(self.ledger.job_id, self.ledger._state.jobs)
        return list(self.ledger.jobs(job_ids, at_block=self.ledger.head()).values())

    def live_attempts(self):
        """Return the attempts that are pending or running in Slurm."""
        return self.slurm.attempts(where=lambda attempt: attempt.is_alive)

    def start_or_end(self, attempt, end_state="COMPLETED"):
        """Start an attempt that is pending, or end an attempt that is running."""
        if attempt.state == "PENDING":
            self.slurm.start(attempt.slurm_job_id)
        else:
            self.slurm.end(attempt.slurm_job_id, end_state)

    def finish_jobs(self, max_steps=200):
        """Run all jobs in Slurm to their ends and let the supervisor settle them."""
        self.slurm.down = False
        self.ledger.down = False
        for _ in range(max_steps):
            for attempt in self.live_attempts():
                self.start_or_end(attempt)
            self.step(2)
            states = {job.state for job in self.jobs()}
            # A PENDING job has no provider, so the supervisor has nothing to do for it.
            unfinished_states = states - COLD - {JobState.PENDING}
            if not unfinished_states:
                break
        self.run_steps(80)  # Enough to settle the jobs and to close them in the journal.
