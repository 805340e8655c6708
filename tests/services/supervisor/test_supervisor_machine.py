# SPDX-License-Identifier: Apache-2.0
"""A state machine test: random actions of customers and Slurm, reorgs and crashes.

Some reorgs are deeper than the number of confirmations. An attempt is a Slurm job that the
supervisor submitted for a job of the grid.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.services.supervisor.supervisor_setup import CONFIRMATIONS, PROVIDER, SupervisorSetup

from gridstead.domain.jobs.lifecycle import COLD, JobState

CUSTOMERS = ["0x" + c * 40 for c in "345"]
FAILPOINTS = [
    "claimed",
    "before_submit",
    "submitted",
    "before_SetRunning",
    "before_Settle",
    "before_ClaimJobs",
]
END_STATES = ["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY"]


class SupervisorMachine(RuleBasedStateMachine):
    """The rules change the grid. The invariants are checked after each rule."""

    def __init__(self):
        super().__init__()
        self.grid = SupervisorSetup()
        self.cancelled_keys = set()  # of the jobs that a customer or Slurm cancelled

    def has_duplicate_attempts(self):
        """Return whether a job has more than one live attempt."""
        job_keys = [attempt.job_key for attempt in self.grid.live_attempts()]
        return len(job_keys) > len(set(job_keys))

    @rule(customer=st.sampled_from(CUSTOMERS))
    def a_customer_requests_a_job(self, customer):
        self.grid.request_job(customer)

    @rule(failpoint=st.sampled_from(FAILPOINTS))
    def the_supervisor_will_crash_at(self, failpoint):
        self.grid.failpoint = failpoint

    @rule()
    def the_supervisor_ticks(self):
        self.grid.tick()

    @rule(count=st.integers(1, 8))
    def steps_are_run(self, count):
        self.grid.run_steps(count)

    @rule()
    def the_supervisor_restarts(self):
        self.grid.start_supervisor()

    @rule(data=st.data())
    def slurm_starts_or_ends_a_job(self, data):
        live_attempts = self.grid.live_attempts()
        if live_attempts:
            attempt = data.draw(st.sampled_from(live_attempts))
            end_state = data.draw(st.sampled_from(END_STATES))
            if end_state == "CANCELLED":
                self.cancelled_keys.add(attempt.job_key)
            self.grid.start_or_end(attempt, end_state)

    @rule()
    def slurmctld_crashes(self):
        self.grid.slurm.crash()

    @rule(down=st.booleans())
    def slurm_stops_or_starts(self, down):
        self.grid.slurm.down = down

    @rule(delay_s=st.integers(0, 20))
    def slurmdbd_lags(self, delay_s):
        self.grid.slurm.dbd_delay_s = delay_s

    @rule(reason=st.sampled_from(("", "not now")), leaves_record=st.booleans())
    def slurm_rejects_or_accepts_submissions(self, reason, leaves_record):
        self.grid.slurm.reject = reason
        self.grid.slurm.reject_leaves_record = leaves_record

    @rule()
    def the_answer_to_the_next_submission_is_lost(self):
        self.grid.slurm.lose_answers = 1

    @rule(seconds=st.integers(1, 90))
    def time_passes(self, seconds):
        self.grid.clock.advance(seconds)

    @rule(data=st.data())
    def a_customer_cancels(self, data):
        hot_jobs = [job for job in self.grid.jobs() if job.state not in COLD]
        if hot_jobs:
            job = data.draw(st.sampled_from(hot_jobs))
            self.cancelled_keys.add(job.job_key)
            self.grid.ledger.cancel(job.id.number)

    @precondition(lambda self: self.grid.ledger.head().number > 3 * CONFIRMATIONS)
    @rule(data=st.data(), steps=st.integers(0, CONFIRMATIONS - 1))
    def a_reorg_drops_the_request(self, data, steps):
        """A customer cancels a claimed job. The request never has enough confirmations."""
        claimed_jobs = [
            job
            for job in self.grid.jobs()
            if job.state in {JobState.SCHEDULED, JobState.RUNNING} and not job.cancel_requested
        ]
        if claimed_jobs:
            height = self.grid.ledger.head().number
            self.grid.ledger.cancel(data.draw(st.sampled_from(claimed_jobs)).id.number)
            self.grid.run_steps(steps)
            self.grid.ledger.reorg(self.grid.ledger.head().number - height)

    # A reorg at a lower height could revert the approval of the provider.
    @precondition(lambda self: self.grid.ledger.head().number > 3 * CONFIRMATIONS)
    @rule(depth=st.integers(1, 2 * CONFIRMATIONS))
    def a_reorg_reverts_blocks(self, depth):
        self.grid.ledger.reorg(depth)

    @invariant()
    def a_tick_cancels_duplicate_attempts(self):
        if self.grid.slurm.down:
            return
        if self.has_duplicate_attempts():
            self.grid.tick()
        assert not self.has_duplicate_attempts()

    @invariant()
    def nobody_pays_more_than_the_escrow_or_for_a_panicked_job(self):
        for job in self.grid.jobs():
            assert job.final_cost <= job.escrow
            if job.state is JobState.PANICKED:
                assert job.final_cost == 0

    @invariant()
    def a_job_that_nobody_cancelled_does_not_end_as_cancelled(self):
        for job in self.grid.jobs():
            assert job.state is not JobState.CANCELLED or job.job_key in self.cancelled_keys

    @invariant()
    def a_job_with_a_request_to_cancel_is_never_matched_again(self):
        for job in self.grid.jobs():
            if job.cancel_requested:
                assert job.state not in {JobState.PENDING, JobState.META_SCHEDULED}

    def teardown(self):
        """End all faults and finish the jobs. Then no attempt or open journal entry may remain."""
        self.grid.slurm.dbd_delay_s = 0
        self.grid.slurm.lose_answers = 0
        self.grid.slurm.reject = ""
        self.grid.failpoint = None
        self.grid.slurm.down = False
        for job in self.grid.jobs():
            if job.state is JobState.PENDING:
                self.grid.ledger.match(job.id.number, PROVIDER)
        self.grid.finish_jobs()
        final_states = {*COLD, JobState.PENDING}
        assert {job.state for job in self.grid.jobs()} <= final_states
        assert self.grid.live_attempts() == ()
        assert self.grid.journal.open_entries() == ()


TestSupervisorMachine = SupervisorMachine.TestCase
TestSupervisorMachine.settings = settings(
    max_examples=100, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow]
)
