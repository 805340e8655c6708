# SPDX-License-Identifier: Apache-2.0

import pytest
from tests import billing_oracle
from tests.services.supervisor_setup import CUSTOMER, SupervisorSetup

from gridstead.domain.lifecycle import JobState
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


def test_a_call_that_cannot_be_stored_keeps_no_other_back(grid, monkeypatch):
    numbers = [grid.request(), grid.request()]
    grid.steps(2)
    for attempt in grid.slurm.attempts():
        grid.slurm.start(attempt.slurm_job_id)
    refused = grid.ledger.job(numbers[0]).job_key
    put = grid.outbox.put

    def picky(key, call):
        if getattr(call, "job_key", None) == refused:
            raise InvalidInput("cannot be stored")
        put(key, call)

    monkeypatch.setattr(grid.outbox, "put", picky)
    grid.steps()

    assert [grid.state(number) for number in numbers] == [JobState.SCHEDULED, JobState.RUNNING]


def test_a_closed_gate_is_asked_again_and_nothing_is_submitted(grid):
    grid.slurm.missing[CUSTOMER] = ("no home",)
    grid.request()
    grid.steps(3)
    assert grid.slurm.submissions == []

    grid.slurm.missing.clear()
    grid.steps(1)

    assert len(grid.slurm.submissions) == 1


@pytest.mark.parametrize("leaves_record", [False, True])
def test_a_job_that_slurm_rejects_again_and_again_is_given_back(grid, leaves_record):
    grid.slurm.reject, grid.slurm.reject_leaves_record = "no such partition", leaves_record
    number = grid.request()
    grid.steps(120)
    assert grid.state(number) is JobState.SCHEDULED

    grid.steps(30)

    assert grid.state(number) is JobState.PENDING


@pytest.mark.parametrize("leaves_record", [False, True])
def test_a_job_that_slurm_rejects_for_a_while_runs(grid, leaves_record):
    grid.slurm.reject, grid.slurm.reject_leaves_record = "words that nobody knows", leaves_record
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
    "boundary", ["claimed", "before_submit", "submitted", "before_SetRunning", "before_Settle"]
)
def test_a_supervisor_killed_at_a_boundary_runs_and_settles_the_job_once(grid, boundary):
    grid.failpoint = boundary
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


def test_one_answer_that_took_long_is_not_two_samples(grid, monkeypatch):
    """squeue waits for a slurmctld that is down and answers when it is back, before its nodes have
    reported.
    """
    ask = grid.slurm.live

    def late():
        sample = ask()
        grid.clock.advance(10)
        return sample

    grid.request()
    grid.steps(2)
    grid.slurm.crash()
    with monkeypatch.context() as patch:
        patch.setattr(grid.slurm, "live", late)
        grid.step()
    grid.steps(4)
    assert len(grid.slurm.submissions) == 1

    grid.steps(4)
    assert len(grid.slurm.submissions) == 2


@pytest.mark.parametrize("reported", [True, False])
def test_a_run_that_slurmctld_forgot_has_ended_is_settled_and_taken_away(grid, reported):
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


def test_slurmdbd_is_asked_about_all_jobs_soon_after_the_clock_is_set_back(grid, monkeypatch):
    """Else a run that slurmctld forgot has ended is billed that much later."""
    number, _ = grid.running()
    ask, asked = grid.slurm.accounting, []

    def listening(names, *, since):
        asked.extend(names)
        return ask(names, since=since)

    monkeypatch.setattr(grid.slurm, "accounting", listening)
    grid.clock.advance(-7200)
    grid.tick()

    assert asked == [grid.ledger.job(number).id.slurm_name]


def test_a_job_lost_again_and_again_is_panicked_and_refunded(grid):
    number = grid.request()
    for _ in range(60):
        grid.step()
        grid.slurm.crash()

    job = grid.ledger.job(number)
    assert (job.state, job.final_cost) == (JobState.PANICKED, 0)


def test_a_running_job_that_its_customer_cancels_is_billed_for_what_ran(grid):
    number, _ = grid.running()
    grid.clock.advance(30)
    grid.ledger.cancel(number)
    grid.steps()

    job = grid.ledger.job(number)
    assert job.state is JobState.CANCELLED
    assert 0 < job.final_cost < job.escrow


def test_a_queued_job_that_its_customer_cancels_leaves_slurm(grid):
    number = grid.request()
    grid.steps(2)
    grid.ledger.cancel(number)
    grid.steps()

    assert grid.state(number) is JobState.CANCELLED
    assert not grid.slurm.attempts(where=lambda a: a.alive)


def test_nothing_is_settled_while_slurm_is_silent(grid):
    number, slurm_job_id = grid.running()
    grid.slurm.end(slurm_job_id)
    grid.slurm.down = True
    grid.steps(100)
    assert grid.state(number) is JobState.RUNNING

    grid.slurm.down = False
    grid.steps()

    assert grid.state(number) is JobState.FINISHED


def test_a_bill_waits_for_the_last_of_many_reports(grid):
    """A supervisor that was just started reads a day of reports, and the one that counts may be the
    last.
    """
    number, slurm_job_id = grid.running()
    attempt = grid.slurm.attempt(slurm_job_id)
    for other in range(5):
        grid.reports.add(
            "end", slurm_job_id=900 + other, uid=attempt.uid, occurred_at=attempt.started_at + 1
        )
    grid.reports.add(
        "end", slurm_job_id=slurm_job_id, uid=attempt.uid, occurred_at=attempt.started_at + 20
    )
    grid.reports.most = 2
    grid.clock.advance(60)
    grid.slurm.end(slurm_job_id)
    grid.start()
    grid.steps()

    job = grid.ledger.job(number)
    cost = billing_oracle.cost(20, job.price_per_min)
    assert (job.state, job.final_cost) == (JobState.FINISHED, cost)


def test_slurmrestd_away_for_minutes_loses_no_job(grid, monkeypatch):
    number = grid.request()
    submit = grid.slurm.submit

    def away(_):
        raise SchedulerUnavailable("could not submit job")

    monkeypatch.setattr(grid.slurm, "submit", away)
    grid.steps(300)
    assert grid.state(number) is JobState.SCHEDULED
    monkeypatch.setattr(grid.slurm, "submit", submit)
    grid.steps(80)
    grid.finish()

    assert grid.state(number) is JobState.FINISHED
