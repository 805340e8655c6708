# SPDX-License-Identifier: Apache-2.0
"""Customers cancel claimed jobs, also while the supervisor, Slurm or the chain is down.

The chain has not recorded the start of these jobs. A provider must not lose the run time until the
request to cancel, and a customer must not pay for a job that did not start.
"""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import billing_oracle
from tests.services.supervisor.supervisor_setup import (
    CONFIRMATIONS,
    CUSTOMER,
    PROVIDER,
    SupervisorSetup,
)

from gridstead.domain.jobs.lifecycle import COLD, JobState
from gridstead.domain.transactions.calls import (
    ClaimCancelling,
    ClaimJobs,
    Refuse,
    SetRunning,
    Settle,
)

HOUR_S = 3600


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """What happens to one job during an outage. Seconds since the beginning of the outage.

    Attributes:
        starts_at: When Slurm starts the job. None if the job stays in Slurm's queue.
        runs_s: How long the job runs, if nobody cancels it in Slurm.
        cancelled_at: When the customer cancels the job.
    """

    starts_at: int | None
    runs_s: int
    cancelled_at: int


TIMELINES = st.builds(
    Timeline,
    starts_at=st.none() | st.integers(1, HOUR_S - 1),
    runs_s=st.integers(1, 2 * HOUR_S),
    cancelled_at=st.integers(1, HOUR_S - 1),
)


class Outage:
    """Jobs that are in Slurm when the supervisor stops, and what happens until it is back."""

    def __init__(self, timelines):
        self.grid = SupervisorSetup()
        self.timelines = timelines
        self.numbers = [self.grid.request_job(escrow=10**22) for _ in timelines]
        self.grid.run_steps(3)
        jobs = map(self.grid.ledger.job, self.numbers)
        attempts = {attempt.job_key: attempt for attempt in self.grid.slurm.attempts()}
        self.slurm_ids = [attempts[job.job_key].slurm_job_id for job in jobs]

    def pass_time(self):
        """Let an hour pass, with the events of the timelines, but without the supervisor."""
        began_at = self.grid.clock.now()
        for second, event in sorted(self._events(), key=lambda timed: timed[0]):
            self._advance_to(began_at + second)
            event()
        self._advance_to(began_at + HOUR_S)

    def settle_all(self):
        """Let the supervisor run again until each job has ended."""
        self.grid.start_supervisor()
        self.grid.run_steps(30)

    def job(self, index):
        return self.grid.ledger.job(self.numbers[index])

    def attempt(self, index):
        return self.grid.slurm.attempt(self.slurm_ids[index])

    def _events(self):
        for timeline, number, slurm_id in zip(
            self.timelines, self.numbers, self.slurm_ids, strict=True
        ):
            yield timeline.cancelled_at, lambda number=number: self.grid.ledger.cancel(number)
            if timeline.starts_at is None:
                continue
            yield timeline.starts_at, lambda slurm_id=slurm_id: self.grid.slurm.start(slurm_id)
            ends_at = timeline.starts_at + timeline.runs_s
            if ends_at < HOUR_S:
                yield ends_at, lambda slurm_id=slurm_id: self.grid.slurm.end(slurm_id)

    def _advance_to(self, timestamp):
        self.grid.clock.seconds = max(self.grid.clock.seconds, timestamp)
        self.grid.ledger.mine()


@given(timelines=st.lists(TIMELINES, min_size=1, max_size=4))
@settings(max_examples=60)
def test_each_job_that_is_cancelled_during_an_outage_is_billed_until_its_request(timelines):
    outage = Outage(timelines)
    outage.pass_time()
    requested_at = [outage.job(index).cancel_requested_at for index in range(len(timelines))]

    outage.settle_all()

    earned = 0
    for index in range(len(timelines)):
        job, attempt = outage.job(index), outage.attempt(index)
        run_s = 0
        if attempt.has_started:
            run_s = max(0, min(requested_at[index], attempt.ended_at) - attempt.started_at)
        assert not attempt.is_alive
        assert job.state in COLD - {JobState.PANICKED}
        assert job.final_cost == billing_oracle.cost(run_s, job.price_per_min)
        earned += billing_oracle.earned(job.final_cost)
    assert outage.grid.ledger.balance(PROVIDER) == earned
    assert len(outage.grid.slurm.submissions) == len(timelines)


def test_a_job_that_runs_through_an_outage_is_paid_until_its_customer_cancels_it():
    """Before, the customer got the whole escrow back, and the provider nothing."""
    outage = Outage([Timeline(starts_at=10, runs_s=2 * HOUR_S, cancelled_at=HOUR_S - 10)])
    outage.pass_time()
    assert outage.job(0).state is JobState.SCHEDULED

    outage.settle_all()

    job, attempt = outage.job(0), outage.attempt(0)
    run_s = job.cancel_requested_at - attempt.started_at
    assert (job.state, attempt.state) == (JobState.CANCELLED, "CANCELLED")
    assert run_s >= HOUR_S - 20
    assert job.final_cost == billing_oracle.cost(run_s, job.price_per_min)


def test_a_job_that_ended_before_its_request_is_paid_in_full():
    """Without an outage, this is a job that is shorter than the report of its start."""
    outage = Outage([Timeline(starts_at=10, runs_s=100, cancelled_at=120)])
    outage.pass_time()

    outage.settle_all()

    job = outage.job(0)
    assert job.state is JobState.FINISHED
    assert job.final_cost == billing_oracle.cost(100, job.price_per_min)


def test_a_job_that_did_not_start_is_refused_with_a_full_refund():
    outage = Outage([Timeline(starts_at=None, runs_s=1, cancelled_at=60)])
    outage.pass_time()

    outage.settle_all()

    job = outage.job(0)
    assert (job.state, job.final_cost) == (JobState.CANCELLED, 0)
    assert outage.grid.ledger.balance(CUSTOMER) == job.escrow
    assert outage.attempt(0).state == "CANCELLED"


@pytest.fixture
def grid():
    return SupervisorSetup()


def test_a_job_that_is_cancelled_before_its_submission_is_not_submitted(grid):
    grid.slurm.missing[CUSTOMER] = ("no home",)
    number = grid.request_job()
    grid.run_steps(3)
    grid.ledger.cancel(number)
    grid.slurm.missing.clear()
    grid.run_steps(30)

    assert grid.state_of(number) is JobState.CANCELLED
    assert grid.slurm.submissions == []
    assert grid.journal.open_entries() == ()


def test_a_request_waits_while_slurm_is_down(grid):
    number = grid.request_job()
    grid.run_steps(3)
    grid.slurm.down = True
    grid.ledger.cancel(number)
    grid.run_steps(20)
    assert grid.state_of(number) is JobState.SCHEDULED

    grid.slurm.down = False
    grid.run_steps(10)

    assert grid.state_of(number) is JobState.CANCELLED


def stored_calls(grid):
    """Return the kinds of the calls that the supervisor stored in its outbox, in order."""
    return [type(entry.call) for entry in grid.outbox.entries()]


def cancel_and_reorg(grid, number, steps):
    """Cancel a job, run steps, and remove the request and the later blocks in a reorg."""
    height = grid.ledger.head().number
    grid.ledger.cancel(number)
    grid.run_steps(steps)
    grid.ledger.reorg(grid.ledger.head().number - height)
    assert not grid.ledger.job(number).cancel_requested


@pytest.mark.parametrize("steps", range(1, CONFIRMATIONS))
def test_a_reorg_drops_the_request_to_cancel_a_job_in_the_queue_of_slurm(grid, steps):
    """The end of the cancelled attempt is not the end of the job, which is submitted again."""
    number = grid.request_job()
    grid.run_steps(2 * CONFIRMATIONS)
    cancel_and_reorg(grid, number, steps)
    grid.run_steps(3 * CONFIRMATIONS)
    assert grid.state_of(number) is JobState.SCHEDULED
    assert [attempt.state for attempt in grid.slurm.attempts()] == ["CANCELLED", "PENDING"]

    grid.finish_jobs()

    assert grid.state_of(number) is JobState.FINISHED


@pytest.mark.parametrize("steps", range(1, CONFIRMATIONS))
@pytest.mark.parametrize("is_start_recorded", [True, False])
def test_a_reorg_drops_the_request_to_cancel_a_running_job(grid, steps, is_start_recorded):
    number = grid.request_job()
    grid.run_steps(2 * CONFIRMATIONS)
    (attempt,) = grid.slurm.attempts()
    grid.slurm.start(attempt.slurm_job_id)
    if is_start_recorded:
        grid.run_steps()
    cancel_and_reorg(grid, number, steps)
    grid.run_steps()
    assert grid.state_of(number) is JobState.RUNNING
    assert len(grid.live_attempts()) == 1

    grid.finish_jobs()

    assert grid.state_of(number) is JobState.FINISHED
    assert len(grid.slurm.submissions) == 1


def test_attempts_that_a_dropped_request_cancelled_do_not_count_as_lost_by_slurm(grid):
    number = grid.request_job()
    grid.run_steps(2 * CONFIRMATIONS)
    for _ in range(grid.policy.max_attempts):
        cancel_and_reorg(grid, number, CONFIRMATIONS - 1)
        grid.run_steps(3 * CONFIRMATIONS)
    assert len(grid.slurm.submissions) == grid.policy.max_attempts + 1

    grid.finish_jobs()

    assert grid.state_of(number) is JobState.FINISHED


@pytest.mark.parametrize("failpoint", [None, "before_Refuse"])
@pytest.mark.parametrize("lost_cancellations", [0, 3])
def test_an_attempt_that_starts_just_before_its_cancellation_is_refused_once(
    grid, failpoint, lost_cancellations
):
    """It starts after the sample in which it was in the queue, so after the request."""
    number = grid.request_job()
    grid.run_steps(2 * CONFIRMATIONS)
    grid.slurm.start_before_cancel = True
    grid.slurm.lose_cancellations = lost_cancellations
    grid.ledger.cancel(number)
    grid.failpoint = failpoint
    grid.run_steps(5 * CONFIRMATIONS)

    (attempt,) = grid.slurm.attempts()
    assert (attempt.state, attempt.has_started) == ("CANCELLED", True)
    assert (grid.state_of(number), grid.ledger.job(number).final_cost) == (JobState.CANCELLED, 0)
    assert stored_calls(grid) == [ClaimJobs, ClaimCancelling, Refuse]
    assert grid.journal.open_entries() == ()


def test_an_attempt_that_starts_after_the_request_and_before_the_sample_is_settled_once(grid):
    number = grid.request_job()
    grid.run_steps(2 * CONFIRMATIONS)
    (attempt,) = grid.slurm.attempts()
    grid.ledger.cancel(number)
    grid.sync_clock()
    grid.slurm.start(attempt.slurm_job_id)
    grid.run_steps(5 * CONFIRMATIONS)

    assert (grid.state_of(number), grid.ledger.job(number).final_cost) == (JobState.CANCELLED, 0)
    assert stored_calls(grid) == [ClaimJobs, ClaimCancelling, SetRunning, Settle]


@pytest.mark.parametrize("steps", range(1, CONFIRMATIONS))
def test_a_reorg_drops_a_request_whose_attempt_started_just_before_its_cancellation(grid, steps):
    number = grid.request_job()
    grid.run_steps(2 * CONFIRMATIONS)
    grid.slurm.start_before_cancel = True
    cancel_and_reorg(grid, number, steps)
    grid.run_steps(3 * CONFIRMATIONS)
    grid.finish_jobs()

    assert grid.state_of(number) is JobState.FINISHED
    assert stored_calls(grid)[-2:] == [SetRunning, Settle]
    assert Refuse not in stored_calls(grid)
    assert len(grid.slurm.submissions) == 2


@pytest.mark.parametrize("failpoint", ["before_SetRunning", "before_Settle", "before_Refuse"])
@pytest.mark.parametrize("starts", [True, False])
def test_a_crash_does_not_change_the_end_of_a_request(grid, failpoint, starts):
    number = grid.request_job()
    grid.run_steps(3)
    (attempt,) = grid.slurm.attempts()
    if starts:
        grid.slurm.start(attempt.slurm_job_id)
        grid.clock.advance(60)
    grid.ledger.cancel(number)
    grid.failpoint = failpoint
    grid.run_steps(30)

    job = grid.ledger.job(number)
    assert job.state is JobState.CANCELLED
    assert job.final_cost == (billing_oracle.cost(60, job.price_per_min) if starts else 0)
    assert len(grid.slurm.submissions) == 1
