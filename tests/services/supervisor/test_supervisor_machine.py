# SPDX-License-Identifier: Apache-2.0
"""Random interleavings of customers, Slurm, chain reorgs and power cuts, with invariants.

Some reorgs are deeper than the confirmations.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.services.supervisor.supervisor_setup import CONFIRMATIONS, US, SupervisorSetup

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
ENDS = ["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY"]


class SupervisorMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.grid = SupervisorSetup()

    def jobs(self):
        ledger = self.grid.ledger
        return ledger.jobs(map(ledger.job_id, range(1, 100)), at_block=ledger.head())

    def live_job_keys(self):
        return [job.job_key for job in self.grid.slurm.attempts(where=lambda job: job.is_alive)]

    @rule(customer=st.sampled_from(CUSTOMERS))
    def request(self, customer):
        self.grid.request(customer)

    @rule(failpoint=st.sampled_from(FAILPOINTS))
    def arm_a_power_cut(self, failpoint):
        self.grid.failpoint = failpoint

    @rule()
    def tick(self):
        self.grid.tick()

    @rule(count=st.integers(1, 8))
    def steps(self, count):
        self.grid.steps(count)

    @rule()
    def restart(self):
        self.grid.start()

    @rule(data=st.data())
    def slurm_starts_or_ends_a_job(self, data):
        alive = self.grid.slurm.attempts(where=lambda attempt: attempt.is_alive)
        if alive:
            attempt = data.draw(st.sampled_from(alive))
            if attempt.state == "PENDING":
                self.grid.slurm.start(attempt.slurm_job_id)
            else:
                self.grid.slurm.end(attempt.slurm_job_id, data.draw(st.sampled_from(ENDS)))

    @rule()
    def slurmctld_crashes(self):
        self.grid.slurm.crash()

    @rule(down=st.booleans())
    def slurm_goes_down_or_up(self, down):
        self.grid.slurm.down = down

    @rule(delay=st.integers(0, 20))
    def slurmdbd_lags(self, delay):
        self.grid.slurm.dbd_delay_s = delay

    @rule(error=st.sampled_from(("", "not now")), leaves_record=st.booleans())
    def slurm_rejects_submissions(self, error, leaves_record):
        self.grid.slurm.reject, self.grid.slurm.reject_leaves_record = error, leaves_record

    @rule()
    def an_answer_is_lost(self):
        self.grid.slurm.lose_answers = 1

    @rule(seconds=st.integers(1, 90))
    def time_passes(self, seconds):
        self.grid.clock.advance(seconds)

    @rule(data=st.data())
    def a_customer_cancels(self, data):
        hot = [job.id.number for job in self.jobs().values() if job.state not in COLD]
        if hot:
            self.grid.ledger.cancel(data.draw(st.sampled_from(hot)))

    @precondition(
        lambda self: self.grid.ledger.head().number > 3 * CONFIRMATIONS
    )  # the provider stays approved
    @rule(depth=st.integers(1, 2 * CONFIRMATIONS))
    def the_chain_reorganises(self, depth):
        self.grid.ledger.reorg(depth)

    @invariant()
    def no_job_has_two_attempts_alive_after_a_tick_with_slurm(self):
        if self.grid.slurm.down:
            return
        alive = self.live_job_keys()
        if len(alive) > len(set(alive)):
            self.grid.tick()
            alive = self.live_job_keys()
        assert len(alive) == len(set(alive))

    @invariant()
    def nobody_pays_more_than_the_escrow_or_for_a_panicked_job(self):
        for job in self.jobs().values():
            assert job.final_cost <= job.escrow
            if job.state is JobState.PANICKED:
                assert job.final_cost == 0

    def teardown(self):
        self.grid.slurm.dbd_delay_s = 0
        self.grid.slurm.lose_answers = 0
        self.grid.slurm.reject = ""
        self.grid.failpoint = None
        self.grid.slurm.down = False
        for job in self.jobs().values():
            if job.state is JobState.PENDING:
                self.grid.ledger.match(job.id.number, US)
        self.grid.finish()
        final_states = {*COLD, JobState.PENDING}
        assert {job.state for job in self.jobs().values()} <= final_states
        assert self.grid.slurm.attempts(where=lambda attempt: attempt.is_alive) == ()
        assert self.grid.journal.open_entries() == ()


TestSupervisorMachine = SupervisorMachine.TestCase
TestSupervisorMachine.settings = settings(
    max_examples=100, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow]
)
