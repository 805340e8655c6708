# SPDX-License-Identifier: Apache-2.0
"""How the plan settles, refuses, cancels or extends a job."""

from dataclasses import replace

import pytest
from tests.unit.domain.builders import (
    CREDIT,
    RULES,
    T0,
    accounting,
    attempt,
    calls,
    cancelled,
    job,
    live,
    notes,
    record,
    snapshot,
    submitted,
)

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.actions import Extend, Submit
from gridstead.domain.supervisor.attempt import END_STATES, NodeReport
from gridstead.domain.supervisor.journal import EntryKind
from gridstead.domain.supervisor.reconcile import plan_jobs
from gridstead.domain.transactions.calls import Refuse, SetRunning, Settle


@pytest.mark.parametrize("slurm_state", sorted(END_STATES))
def test_start_is_reported_before_the_end(slurm_state):
    """The end is put at once only if the contract would refuse it without the start."""
    our_job = job()

    first, *rest = calls(
        plan_jobs(
            snapshot(
                [our_job],
                [submitted(our_job)],
                accounting=accounting(attempt(our_job, slurm_state)),
            ),
            RULES,
        )
    )

    assert isinstance(first, SetRunning)
    is_put_at_once = END_STATES[slurm_state] in {JobState.FINISHED, JobState.OUT_OF_CREDITS}
    assert [(call.state, call.seconds) for call in rest] == [
        (END_STATES[slurm_state], 30)
    ] * is_put_at_once


def test_end_on_plain_contracts_waits_until_the_start_is_mined():
    """Each call to these contracts is simulated before it is sent."""
    our_job = job()
    rules = replace(RULES, plain_slack_min=15)

    (call,) = calls(
        plan_jobs(
            snapshot(
                [our_job],
                [submitted(our_job)],
                accounting=accounting(attempt(our_job, "COMPLETED")),
            ),
            rules,
        )
    )

    assert isinstance(call, SetRunning)


@pytest.mark.parametrize(("slurm_state", "state"), sorted(END_STATES.items()))
def test_end_in_accounting_is_settled_with_the_mapped_state(slurm_state, state):
    our_job = job(JobState.RUNNING)
    ended = attempt(our_job, slurm_state, exit_code=3 << 8)

    (call,) = calls(
        plan_jobs(snapshot([our_job], [submitted(our_job)], accounting=accounting(ended)), RULES)
    )

    assert (call.state, call.seconds, call.exit_code) == (state, 30, 3 << 8)


def test_end_that_only_slurmctld_lists_waits_for_slurmdbd():
    our_job = job(JobState.RUNNING)

    assert (
        plan_jobs(
            snapshot([our_job], [submitted(our_job)], live=live(attempt(our_job, "COMPLETED"))),
            RULES,
        )
        == ()
    )


def test_end_that_never_reaches_slurmdbd_is_settled_from_slurmctld():
    our_job = job(JobState.RUNNING)
    listed = live(attempt(our_job, "COMPLETED"), taken_at=T0 + 63)

    (call,) = calls(
        plan_jobs(snapshot([our_job], [submitted(our_job)], live=listed, accounting=None), RULES)
    )

    assert isinstance(call, Settle)


def test_runaway_record_of_slurmdbd_is_not_alive():
    our_job = job(JobState.RUNNING)

    actions = plan_jobs(
        snapshot(
            [our_job], [submitted(our_job)], accounting=accounting(attempt(our_job, "RUNNING"))
        ),
        RULES,
    )

    assert notes(actions) == [EntryKind.ABSENT]


def test_job_that_its_user_cancelled_in_the_queue_is_refunded():
    our_job = job()
    ended = attempt(our_job, "CANCELLED", started_at=None)

    (call,) = calls(
        plan_jobs(snapshot([our_job], [submitted(our_job)], accounting=accounting(ended)), RULES)
    )

    assert (call.state, call.seconds) == (JobState.CANCELLED, 0)


def test_job_that_slurm_could_not_start_panics():
    our_job = job()
    ended = attempt(our_job, "BOOT_FAIL", started_at=None)

    (call,) = calls(
        plan_jobs(snapshot([our_job], [submitted(our_job)], accounting=accounting(ended)), RULES)
    )

    assert call.state is JobState.PANICKED


def test_billed_time_is_at_most_the_paid_time():
    our_job = job(JobState.RUNNING, escrow=CREDIT // 4)

    (call,) = calls(
        plan_jobs(
            snapshot(
                [our_job], [submitted(our_job)], accounting=accounting(attempt(our_job, "TIMEOUT"))
            ),
            RULES,
        )
    )

    assert call.seconds == 15


def report(occurred_at, *, uid=200_001, slurm_job_id=42, event="end"):
    return NodeReport(
        sequence=1, event=event, slurm_job_id=slurm_job_id, uid=uid, occurred_at=occurred_at
    )


def test_end_reported_by_a_node_lowers_the_billed_time():
    our_job = job(JobState.RUNNING)
    ended = accounting(attempt(our_job, "COMPLETED"))

    (call,) = calls(
        plan_jobs(
            snapshot([our_job], [submitted(our_job)], accounting=ended, reports=(report(T0 + 10),)),
            RULES,
        )
    )

    assert call.seconds == 8


@pytest.mark.parametrize(
    "unrelated",
    [report(T0 + 10, uid=0), report(T0 + 10, slurm_job_id=43), report(T0 + 1), report(T0 + 33)],
)
def test_report_that_does_not_match_is_not_billed(unrelated):
    our_job = job(JobState.RUNNING)
    ended = accounting(attempt(our_job, "COMPLETED"))

    (call,) = calls(
        plan_jobs(
            snapshot([our_job], [submitted(our_job)], accounting=ended, reports=(unrelated,)), RULES
        )
    )

    assert call.seconds == 30


def refused(of, *, times, occurred_at=T0 + 1):
    """Return the record of an absent job of which Slurm refused some submissions."""
    intended = (EntryKind.SUBMIT_INTENDED, occurred_at)
    rejected = (EntryKind.SUBMIT_REJECTED, occurred_at, None, "no such partition")
    return record(of, *[intended, rejected] * times, (EntryKind.ABSENT, occurred_at + 1))


def test_job_that_slurm_rejected_too_often_is_refused():
    our_job = job()

    assert calls(plan_jobs(snapshot([our_job], [refused(our_job, times=3)]), RULES)) == [
        Refuse(job_key=our_job.job_key)
    ]


def test_job_is_not_refused_or_settled_before_its_claim_is_confirmed():
    our_job = job()
    ended = accounting(attempt(our_job, "COMPLETED"))
    young = {"height": RULES.confirmations + our_job.state_block - 1}

    assert plan_jobs(snapshot([our_job], [refused(our_job, times=3)], **young), RULES) == ()
    assert (
        plan_jobs(snapshot([our_job], [submitted(our_job)], accounting=ended, **young), RULES) == ()
    )
    assert (
        plan_jobs(snapshot([job(stored="a/b")], [record(job(stored="a/b"))], **young), RULES) == ()
    )


def test_running_job_that_slurm_rejected_too_often_panics():
    our_job = job(JobState.RUNNING)

    (call,) = calls(plan_jobs(snapshot([our_job], [refused(our_job, times=3)]), RULES))

    assert (call.state, call.seconds, call.error) == (JobState.PANICKED, 0, "no such partition")


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(("seconds", "is_submitted"), [(59, False), (60, True), (-7200, True)])
def test_rejected_job_is_submitted_again_after_a_minute(times, seconds, is_submitted):
    """Slurm has many messages for a temporary refusal, and their list is not known."""
    our_job = job()
    view = snapshot(
        [our_job],
        [refused(our_job, times=times)],
        now=T0 + 1 + seconds,
        live=live(taken_at=T0 + 60),
    )

    actions = plan_jobs(view, RULES)

    assert [type(action) for action in actions] == [Submit] * is_submitted


def test_cancelled_job_is_settled_at_once_after_a_rejection():
    our_job = job(cancel_requested=True)

    (call,) = calls(plan_jobs(snapshot([our_job], [refused(our_job, times=1)], now=T0 + 10), RULES))

    assert call.state is JobState.CANCELLED


def test_job_waits_for_a_submission_with_an_unknown_result_after_a_rejection():
    our_job = job()
    journal_record = record(
        our_job,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMIT_REJECTED, T0 + 1, None, "not now"),
        (EntryKind.SUBMIT_INTENDED, T0 + 61),
        (EntryKind.ABSENT, T0 + 62),
    )

    assert (
        plan_jobs(
            snapshot([our_job], [journal_record], now=T0 + 120, live=live(taken_at=T0 + 120)), RULES
        )
        == ()
    )


def test_job_without_a_script_fails_without_a_bill():
    our_job = job()
    journal_record = record(our_job, (EntryKind.SCRIPT_UNAVAILABLE, T0 + 1, None, "not found"))

    (call,) = calls(plan_jobs(snapshot([our_job], [journal_record]), RULES))

    assert (call.state, call.seconds, call.error) == (JobState.FAILED, 0, "not found")


def test_job_whose_escrow_does_not_pay_for_a_minute_fails():
    our_job = job(escrow=CREDIT - 1)

    (call,) = calls(plan_jobs(snapshot([our_job], [record(our_job)]), RULES))

    assert call.state is JobState.FAILED


def test_job_with_a_malformed_script_id_fails():
    our_job = job(stored="a/b")

    (call,) = calls(plan_jobs(snapshot([our_job], [record(our_job)]), RULES))

    assert call.state is JobState.FAILED


def test_running_job_that_its_customer_cancelled_is_cancelled_in_slurm():
    our_job = job(JobState.RUNNING, cancel_requested=True)

    assert cancelled(
        plan_jobs(snapshot([our_job], [submitted(our_job)], live=live(attempt(our_job))), RULES)
    ) == [42]


def test_time_limit_is_extended_after_a_top_up():
    our_job = job(JobState.RUNNING, escrow=150 * CREDIT)
    running = attempt(our_job, time_limit_min=100)

    actions = plan_jobs(snapshot([our_job], [submitted(our_job)], live=live(running)), RULES)

    assert Extend(slurm_job_id=42, job_key=our_job.job_key, time_limit_min=150) in actions


def test_billed_time_on_plain_contracts_stays_within_the_slack():
    our_job = replace(job(JobState.RUNNING), started_at=T0 - 1000)
    ended = replace(attempt(our_job, "COMPLETED"), started_at=T0 - 7200, ended_at=T0 - 1800)
    view = snapshot([our_job], [submitted(our_job)], accounting=accounting(ended))

    (whole,) = calls(plan_jobs(view, RULES))
    (within,) = calls(plan_jobs(view, replace(RULES, plain_slack_min=15)))
    assert whole.seconds == 5400
    assert within.seconds == (view.head.timestamp - our_job.started_at) // 60 * 60 + 900


def test_record_of_a_rejected_submission_is_not_an_end():
    our_job = job()
    leftover = attempt(our_job, "FAILED", started_at=None)
    view = snapshot(
        [our_job], [refused(our_job, times=3)], accounting=accounting(leftover), live=live(leftover)
    )

    assert calls(plan_jobs(view, RULES)) == [Refuse(job_key=our_job.job_key)]


def test_end_of_a_later_submission_counts_after_a_rejection():
    our_job = job()
    journal_record = record(
        our_job,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMIT_REJECTED, T0 + 1, None, "not now"),
        (EntryKind.SUBMIT_INTENDED, T0 + 61),
        (EntryKind.SUBMITTED, T0 + 61, 43),
    )
    rows = [
        attempt(our_job, "FAILED", started_at=None),
        attempt(our_job, "CANCELLED", slurm_job_id=43, started_at=None),
    ]

    (call,) = calls(
        plan_jobs(snapshot([our_job], [journal_record], accounting=accounting(*rows)), RULES)
    )

    assert call.state is JobState.CANCELLED
