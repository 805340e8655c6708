# SPDX-License-Identifier: Apache-2.0
"""The supervisor with fakes of the chain and of Slurm."""

import pytest
from structlog.testing import capture_logs
from tests import billing_oracle
from tests.services.supervisor.supervisor_setup import CONFIRMATIONS, CUSTOMER, SupervisorSetup

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.errors import InvalidInput, SchedulerUnavailable


@pytest.fixture
def grid():
    return SupervisorSetup()


def cost_of(job, seconds):
    """Return the expected cost of a run that takes this many seconds."""
    return billing_oracle.cost(seconds, job.price_per_min)


def test_a_job_is_claimed_submitted_set_running_and_settled_once(grid):
    number, slurm_job_id = grid.request_running_job()
    grid.clock.advance(30)
    grid.slurm.end(slurm_job_id)
    grid.run_steps()

    job = grid.ledger.job(number)
    assert job.state is JobState.FINISHED
    assert len(grid.slurm.submissions) == 1
    assert job.final_cost == cost_of(job, grid.slurm.attempt(slurm_job_id).elapsed_s)
    assert grid.ledger.balance(CUSTOMER) == job.escrow - job.final_cost
    assert grid.journal.open_entries() == ()


def test_the_submission_has_the_job_key_the_user_and_the_paid_time(grid):
    number = grid.request_job()
    grid.run_steps(2)

    (submission,) = grid.slurm.submissions
    job = grid.ledger.job(number)
    assert submission.job_key == job.job_key
    assert submission.user.address == CUSTOMER
    assert submission.time_limit_min == job.escrow // job.price_per_min


def test_a_call_that_cannot_be_stored_does_not_delay_other_calls(grid, monkeypatch):
    numbers = [grid.request_job(), grid.request_job()]
    grid.run_steps(2)
    for attempt in grid.slurm.attempts():
        grid.slurm.start(attempt.slurm_job_id)
    first_key = grid.ledger.job(numbers[0]).job_key
    put = grid.outbox.put

    def put_except_first(key, call):
        if getattr(call, "job_key", None) == first_key:
            raise InvalidInput("cannot be stored")
        put(key, call)

    monkeypatch.setattr(grid.outbox, "put", put_except_first)
    grid.run_steps()

    assert grid.state_of(numbers[0]) is JobState.SCHEDULED
    assert grid.state_of(numbers[1]) is JobState.RUNNING


def test_a_call_that_cannot_be_stored_is_not_logged_as_queued(grid, monkeypatch):
    def put_nothing(_key, _call):
        raise InvalidInput("cannot be stored")

    grid.request_job()
    monkeypatch.setattr(grid.outbox, "put", put_nothing)
    with capture_logs() as lines:
        grid.tick()

    events = {line["event"] for line in lines}
    assert "action_failed" in events
    assert "call_queued" not in events


def test_a_job_is_submitted_only_after_the_gate_of_its_customer_opens(grid):
    grid.slurm.missing[CUSTOMER] = ("no home",)
    grid.request_job()
    grid.run_steps(3)
    assert grid.slurm.submissions == []

    grid.slurm.missing.clear()
    grid.run_steps(1)

    assert len(grid.slurm.submissions) == 1


@pytest.mark.parametrize("leaves_record", [False, True])
def test_a_job_that_slurm_keeps_rejecting_is_refused(grid, leaves_record):
    """Slurm may list a rejected submission as a failed job (``leaves_record``)."""
    grid.slurm.reject = "no such partition"
    grid.slurm.reject_leaves_record = leaves_record
    number = grid.request_job()
    # Slurm rejects three submissions, at intervals of a minute. A step takes a second.
    grid.run_steps(120)
    assert grid.state_of(number) is JobState.SCHEDULED

    grid.run_steps(30)

    assert grid.state_of(number) is JobState.PENDING


@pytest.mark.parametrize("leaves_record", [False, True])
def test_a_job_that_slurm_rejects_temporarily_runs_later(grid, leaves_record):
    grid.slurm.reject = "an unknown error"
    grid.slurm.reject_leaves_record = leaves_record
    number = grid.request_job()
    grid.run_steps(30)
    grid.slurm.reject = ""
    # The job is submitted again a minute after the rejection.
    grid.run_steps(60)
    grid.finish_jobs()

    assert grid.state_of(number) is JobState.FINISHED
    assert len(grid.slurm.submissions) == 1


def test_a_job_without_a_script_fails_with_a_full_refund(grid):
    grid.scripts.unavailable = True
    number = grid.request_job()
    grid.run_steps(10)

    job = grid.ledger.job(number)
    assert job.state is JobState.FAILED
    assert job.final_cost == 0
    assert grid.ledger.balance(CUSTOMER) == job.escrow


def test_a_job_whose_submission_got_no_answer_is_found_in_slurm(grid):
    """The supervisor finds the Slurm job by its job key and does not submit the job again."""
    grid.slurm.lose_answers = 1
    grid.request_job()
    grid.run_steps(12)

    assert len(grid.slurm.submissions) == 1


@pytest.mark.parametrize(
    "failpoint", ["claimed", "before_submit", "submitted", "before_SetRunning", "before_Settle"]
)
def test_a_job_runs_and_is_settled_once_if_the_supervisor_is_killed(grid, failpoint):
    grid.failpoint = failpoint
    number = grid.request_job()
    grid.run_steps(10)
    grid.finish_jobs()

    assert grid.state_of(number) is JobState.FINISHED
    assert grid.failpoint is None
    assert len(grid.slurm.attempts()) == 1
    assert len(grid.slurm.submissions) == 1


def test_a_job_that_starts_and_ends_while_the_supervisor_is_down_is_settled(grid):
    number = grid.request_job()
    grid.run_steps(2)
    slurm_job_id = grid.slurm.attempts()[0].slurm_job_id
    grid.slurm.start(slurm_job_id)
    grid.clock.advance(20)
    grid.slurm.end(slurm_job_id)
    grid.clock.advance(600)
    grid.ledger.mine(600)
    grid.start_supervisor()
    grid.run_steps()

    job = grid.ledger.job(number)
    assert job.state is JobState.FINISHED
    assert job.final_cost == cost_of(job, 20)


def test_a_job_that_slurmctld_lost_in_a_crash_is_submitted_again(grid):
    number = grid.request_job()
    grid.run_steps(2)
    grid.slurm.crash()
    grid.run_steps(12)
    assert len(grid.slurm.submissions) == 2
    grid.finish_jobs()

    assert grid.state_of(number) is JobState.FINISHED


def test_one_late_answer_of_slurmctld_counts_as_one_sample(grid, monkeypatch):
    """A lost job is submitted again only if several samples (lists of Slurm's jobs) do not have it.

    squeue waits while slurmctld is down, and may answer before the nodes have registered.
    """
    list_jobs = grid.slurm.list_jobs

    def list_jobs_late():
        sample = list_jobs()
        grid.clock.advance(10)
        return sample

    grid.request_job()
    grid.run_steps(2)
    grid.slurm.crash()
    with monkeypatch.context() as patch:
        patch.setattr(grid.slurm, "list_jobs", list_jobs_late)
        grid.step()
    # Only a sample at least six seconds later confirms that Slurm lost the job.
    grid.run_steps(4)
    assert len(grid.slurm.submissions) == 1

    grid.run_steps(4)
    assert len(grid.slurm.submissions) == 2


@pytest.mark.parametrize(("has_report", "step_count"), [(True, 10), (False, 80)])
def test_a_run_whose_end_slurmctld_lost_is_settled_and_cancelled(grid, has_report, step_count):
    """A node's report of the end makes the supervisor query slurmdbd sooner."""
    number, slurm_job_id = grid.request_running_job()
    grid.clock.advance(20)
    attempt = grid.slurm.attempt(slurm_job_id)
    grid.slurm.end(slurm_job_id)
    ended_attempt = grid.slurm.attempt(slurm_job_id)
    grid.slurm.crash()
    assert grid.slurm.attempt(slurm_job_id).state == "RUNNING"
    if has_report:
        grid.reports.add(
            "end", slurm_job_id=slurm_job_id, uid=attempt.uid, occurred_at=ended_attempt.ended_at
        )
    grid.run_steps(step_count)

    job = grid.ledger.job(number)
    assert job.state is JobState.FINISHED
    assert job.final_cost == cost_of(job, ended_attempt.elapsed_s)
    assert not grid.live_attempts()


def test_slurmdbd_is_queried_for_all_jobs_after_the_clock_was_set_back(grid, monkeypatch):
    """slurmctld may have lost the end of a run. The query finds the end in slurmdbd."""
    number, _ = grid.request_running_job()
    list_records = grid.slurm.list_records
    queried_ids = []

    def list_records_and_note(job_ids, *, since):
        queried_ids.extend(job_ids)
        return list_records(job_ids, since=since)

    monkeypatch.setattr(grid.slurm, "list_records", list_records_and_note)
    grid.clock.advance(-7200)
    grid.tick()

    assert queried_ids == [grid.ledger.job_id(number)]


def test_a_job_that_is_lost_repeatedly_is_panicked_and_refunded(grid):
    number = grid.request_job()
    # These are enough steps to lose three submissions, which is the maximum.
    for _ in range(60):
        grid.step()
        grid.slurm.crash()

    job = grid.ledger.job(number)
    assert job.state is JobState.PANICKED
    assert job.final_cost == 0
    assert grid.ledger.balance(CUSTOMER) == job.escrow


def test_a_running_job_that_its_customer_cancels_is_billed_for_its_run_time(grid):
    number, _ = grid.request_running_job()
    grid.clock.advance(30)
    grid.ledger.cancel(number)
    grid.run_steps(CONFIRMATIONS + 4)

    job = grid.ledger.job(number)
    assert job.state is JobState.CANCELLED
    assert 0 < job.final_cost < job.escrow


def test_a_queued_job_that_its_customer_cancels_is_cancelled_in_slurm(grid):
    number = grid.request_job()
    grid.run_steps(2)
    grid.ledger.cancel(number)
    grid.run_steps()

    assert grid.state_of(number) is JobState.CANCELLED
    assert not grid.live_attempts()


def test_nothing_is_settled_while_slurm_does_not_answer(grid):
    number, slurm_job_id = grid.request_running_job()
    grid.slurm.end(slurm_job_id)
    grid.slurm.down = True
    grid.run_steps(100)
    assert grid.state_of(number) is JobState.RUNNING

    grid.slurm.down = False
    grid.run_steps()

    assert grid.state_of(number) is JobState.FINISHED


def test_a_job_is_settled_after_the_last_of_many_reports_was_read(grid):
    """After a restart, the nodes' reports of a day are read. The last report may lower a bill."""
    number, slurm_job_id = grid.request_running_job()
    attempt = grid.slurm.attempt(slurm_job_id)
    for other_job_id in range(900, 905):
        grid.reports.add(
            "end", slurm_job_id=other_job_id, uid=attempt.uid, occurred_at=attempt.started_at + 1
        )
    grid.reports.add(
        "end", slurm_job_id=slurm_job_id, uid=attempt.uid, occurred_at=attempt.started_at + 20
    )
    grid.reports.batch_size = 2
    grid.clock.advance(60)
    grid.slurm.end(slurm_job_id)
    grid.start_supervisor()
    grid.run_steps()

    job = grid.ledger.job(number)
    assert job.state is JobState.FINISHED
    assert job.final_cost == cost_of(job, 20)


def test_no_job_is_lost_while_slurmrestd_is_down_for_minutes(grid, monkeypatch):
    number = grid.request_job()
    submit = grid.slurm.submit

    def fail(_submission):
        raise SchedulerUnavailable("could not submit job")

    monkeypatch.setattr(grid.slurm, "submit", fail)
    grid.run_steps(300)
    assert grid.state_of(number) is JobState.SCHEDULED
    monkeypatch.setattr(grid.slurm, "submit", submit)
    grid.run_steps(80)
    grid.finish_jobs()

    assert grid.state_of(number) is JobState.FINISHED
