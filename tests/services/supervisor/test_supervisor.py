# SPDX-License-Identifier: Apache-2.0
"""The supervisor on fakes of the chain and of Slurm."""

import pytest
from tests import billing_oracle
from tests.services.supervisor.supervisor_setup import CUSTOMER, SupervisorSetup

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.errors import InvalidInput, SchedulerUnavailable

OTHER = "0x" + "44" * 20


@pytest.fixture
def grid():
    return SupervisorSetup()


def test_a_job_is_claimed_submitted_set_running_and_settled_once(grid):
    number, slurm_job_id = grid.running()
    grid.clock.advance(30)
    grid.slurm.end(slurm_job_id)
    grid.steps()

    job = grid.ledger.job(number)
    assert job.state is JobState.FINISHED
    assert len(grid.slurm.submissions) == 1
    elapsed_s = grid.slurm.attempt(slurm_job_id).elapsed_s
    assert job.final_cost == billing_oracle.cost(elapsed_s, job.price_per_min)
    assert grid.ledger.balance(CUSTOMER) == job.escrow - job.final_cost
    assert grid.journal.open_entries() == ()


def test_the_submission_carries_job_key_user_and_paid_time(grid):
    number = grid.request()
    grid.steps(2)

    (submission,) = grid.slurm.submissions
    job = grid.ledger.job(number)
    assert submission.job_key == job.job_key
    assert submission.user.address == CUSTOMER
    assert submission.time_limit_min == job.escrow // job.price_per_min


def test_a_call_that_cannot_be_stored_does_not_delay_other_calls(grid, monkeypatch):
    numbers = [grid.request(), grid.request()]
    grid.steps(2)
    for attempt in grid.slurm.attempts():
        grid.slurm.start(attempt.slurm_job_id)
    refused = grid.ledger.job(numbers[0]).job_key
    put = grid.outbox.put

    def put_others(key, call):
        if getattr(call, "job_key", None) == refused:
            raise InvalidInput("cannot be stored")
        put(key, call)

    monkeypatch.setattr(grid.outbox, "put", put_others)
    grid.steps()

    assert [grid.state(number) for number in numbers] == [JobState.SCHEDULED, JobState.RUNNING]


def test_a_closed_gate_is_checked_again_and_nothing_is_submitted(grid):
    grid.slurm.missing[CUSTOMER] = ("no home",)
    grid.request()
    grid.steps(3)
    assert grid.slurm.submissions == []

    grid.slurm.missing.clear()
    grid.steps(1)

    assert len(grid.slurm.submissions) == 1


@pytest.mark.parametrize("leaves_record", [False, True])
def test_a_job_that_slurm_keeps_rejecting_is_refused(grid, leaves_record):
    grid.slurm.reject, grid.slurm.reject_leaves_record = "no such partition", leaves_record
    number = grid.request()
    grid.steps(120)
    assert grid.state(number) is JobState.SCHEDULED

    grid.steps(30)

    assert grid.state(number) is JobState.PENDING


@pytest.mark.parametrize("leaves_record", [False, True])
def test_a_job_that_slurm_rejects_for_a_while_runs_later(grid, leaves_record):
    grid.slurm.reject, grid.slurm.reject_leaves_record = "an unknown error", leaves_record
    number = grid.request()
    grid.steps(30)
    grid.slurm.reject = ""
    grid.steps(60)
    grid.finish()

    assert grid.state(number) is JobState.FINISHED
    assert len(grid.slurm.submissions) == 1


def test_a_job_without_a_script_fails_with_a_full_refund(grid):
    grid.scripts.unavailable = True
    number = grid.request()
    grid.steps(10)

    job = grid.ledger.job(number)
    assert (job.state, job.final_cost) == (JobState.FAILED, 0)
    assert grid.ledger.balance(CUSTOMER) == job.escrow


def test_a_submission_whose_answer_was_lost_is_adopted(grid):
    grid.slurm.lose_answers = 1
    grid.request()
    grid.steps(12)

    assert len(grid.slurm.submissions) == 1


@pytest.mark.parametrize(
    "failpoint", ["claimed", "before_submit", "submitted", "before_SetRunning", "before_Settle"]
)
def test_a_supervisor_killed_at_a_failpoint_runs_and_settles_the_job_once(grid, failpoint):
    grid.failpoint = failpoint
    number = grid.request()
    grid.steps(10)
    grid.finish()

    assert grid.state(number) is JobState.FINISHED
    assert grid.failpoint is None
    assert len(grid.slurm.attempts()) == 1
    assert len(grid.slurm.submissions) == 1


def test_a_job_that_starts_and_ends_while_the_supervisor_is_down_is_settled(grid):
    number = grid.request()
    grid.steps(2)
    slurm_job_id = grid.slurm.attempts()[0].slurm_job_id
    grid.slurm.start(slurm_job_id)
    grid.clock.advance(20)
    grid.slurm.end(slurm_job_id)
    grid.clock.advance(600)
    grid.ledger.mine(600)
    grid.start()
    grid.steps()

    job = grid.ledger.job(number)
    assert job.state is JobState.FINISHED
    assert job.final_cost == billing_oracle.cost(20, job.price_per_min)


def test_a_job_that_a_crash_of_slurmctld_lost_is_submitted_again(grid):
    number = grid.request()
    grid.steps(2)
    grid.slurm.crash()
    grid.steps(12)
    assert len(grid.slurm.submissions) == 2
    grid.finish()

    assert grid.state(number) is JobState.FINISHED


def test_one_late_answer_of_slurmctld_counts_as_one_sample(grid, monkeypatch):
    """squeue waits while slurmctld is down and may answer before the nodes have registered."""
    live = grid.slurm.live

    def late_live():
        sample = live()
        grid.clock.advance(10)
        return sample

    grid.request()
    grid.steps(2)
    grid.slurm.crash()
    with monkeypatch.context() as patch:
        patch.setattr(grid.slurm, "live", late_live)
        grid.step()
    grid.steps(4)
    assert len(grid.slurm.submissions) == 1

    grid.steps(4)
    assert len(grid.slurm.submissions) == 2


@pytest.mark.parametrize("reported", [True, False])
def test_a_run_whose_end_slurmctld_forgot_is_settled_and_cancelled(grid, reported):
    number, slurm_job_id = grid.running()
    grid.clock.advance(20)
    attempt = grid.slurm.attempt(slurm_job_id)
    grid.slurm.end(slurm_job_id)
    ended = grid.slurm.attempt(slurm_job_id)
    grid.slurm.crash()
    assert grid.slurm.attempt(slurm_job_id).state == "RUNNING"
    if reported:
        grid.reports.add(
            "end", slurm_job_id=slurm_job_id, uid=attempt.uid, occurred_at=ended.ended_at
        )
    grid.steps(10 if reported else 80)

    job = grid.ledger.job(number)
    cost = billing_oracle.cost(ended.elapsed_s, job.price_per_min)
    assert (job.state, job.final_cost) == (JobState.FINISHED, cost)
    assert not grid.slurm.attempts(where=lambda a: a.alive)


def test_slurmdbd_is_queried_for_all_jobs_soon_after_the_clock_was_set_back(grid, monkeypatch):
    """Otherwise a run whose end slurmctld forgot would be billed late."""
    number, _ = grid.running()
    accounting, queried = grid.slurm.accounting, []

    def recording_accounting(job_ids, *, since):
        queried.extend(job_ids)
        return accounting(job_ids, since=since)

    monkeypatch.setattr(grid.slurm, "accounting", recording_accounting)
    grid.clock.advance(-7200)
    grid.tick()

    assert queried == [grid.ledger.job_id(number)]


def test_a_job_that_is_lost_repeatedly_is_panicked_and_refunded(grid):
    number = grid.request()
    for _ in range(60):
        grid.step()
        grid.slurm.crash()

    job = grid.ledger.job(number)
    assert (job.state, job.final_cost) == (JobState.PANICKED, 0)


def test_a_running_job_that_its_customer_cancels_is_billed_for_its_run_time(grid):
    number, _ = grid.running()
    grid.clock.advance(30)
    grid.ledger.cancel(number)
    grid.steps()

    job = grid.ledger.job(number)
    assert job.state is JobState.CANCELLED
    assert 0 < job.final_cost < job.escrow


def test_a_queued_job_that_its_customer_cancels_is_cancelled_in_slurm(grid):
    number = grid.request()
    grid.steps(2)
    grid.ledger.cancel(number)
    grid.steps()

    assert grid.state(number) is JobState.CANCELLED
    assert not grid.slurm.attempts(where=lambda a: a.alive)


def test_nothing_is_settled_while_slurm_does_not_answer(grid):
    number, slurm_job_id = grid.running()
    grid.slurm.end(slurm_job_id)
    grid.slurm.down = True
    grid.steps(100)
    assert grid.state(number) is JobState.RUNNING

    grid.slurm.down = False
    grid.steps()

    assert grid.state(number) is JobState.FINISHED


def test_a_bill_waits_for_the_last_of_many_reports(grid):
    """A supervisor that has just started reads a day of reports; the decisive one may be last."""
    number, slurm_job_id = grid.running()
    attempt = grid.slurm.attempt(slurm_job_id)
    for other in range(5):
        grid.reports.add(
            "end", slurm_job_id=900 + other, uid=attempt.uid, occurred_at=attempt.started_at + 1
        )
    grid.reports.add(
        "end", slurm_job_id=slurm_job_id, uid=attempt.uid, occurred_at=attempt.started_at + 20
    )
    grid.reports.max_reports = 2
    grid.clock.advance(60)
    grid.slurm.end(slurm_job_id)
    grid.start()
    grid.steps()

    job = grid.ledger.job(number)
    cost = billing_oracle.cost(20, job.price_per_min)
    assert (job.state, job.final_cost) == (JobState.FINISHED, cost)


def test_no_job_is_lost_while_slurmrestd_is_down_for_minutes(grid, monkeypatch):
    number = grid.request()
    submit = grid.slurm.submit

    def unavailable(_):
        raise SchedulerUnavailable("could not submit job")

    monkeypatch.setattr(grid.slurm, "submit", unavailable)
    grid.steps(300)
    assert grid.state(number) is JobState.SCHEDULED
    monkeypatch.setattr(grid.slurm, "submit", submit)
    grid.steps(80)
    grid.finish()

    assert grid.state(number) is JobState.FINISHED
