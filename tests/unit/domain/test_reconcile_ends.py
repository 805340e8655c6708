# SPDX-License-Identifier: Apache-2.0
"""How the plan ends a job: settled, given back, cancelled or prolonged."""

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

from gridstead.domain.actions import Extend, Submit
from gridstead.domain.attempt import END_STATES, NodeReport
from gridstead.domain.calls import Refuse, SetRunning, Settle
from gridstead.domain.journal import EntryKind
from gridstead.domain.lifecycle import JobState
from gridstead.domain.reconcile import plan_jobs


@pytest.mark.parametrize("slurm_state", sorted(END_STATES))
def test_a_job_that_ended_before_its_start_was_told_is_first_set_running(slurm_state):
    """Its end goes along only if the contract would not take it without the start."""
    j = job()

    first, *rest = calls(
        plan_jobs(
            snapshot([j], [submitted(j)], accounting=accounting(attempt(j, slurm_state))), RULES
        )
    )

    assert isinstance(first, SetRunning)
    together = END_STATES[slurm_state] in {JobState.FINISHED, JobState.OUT_OF_CREDITS}
    assert [(call.state, call.seconds) for call in rest] == [
        (END_STATES[slurm_state], 30)
    ] * together


def test_on_the_old_contracts_an_end_waits_for_its_start():
    """There each call is tried out before it is sent."""
    j = job()
    rules = replace(RULES, plain_slack_min=15)

    (call,) = calls(
        plan_jobs(
            snapshot([j], [submitted(j)], accounting=accounting(attempt(j, "COMPLETED"))), rules
        )
    )

    assert isinstance(call, SetRunning)


@pytest.mark.parametrize(("slurm_state", "state"), sorted(END_STATES.items()))
def test_an_end_in_accounting_is_settled_as_the_table_says(slurm_state, state):
    j = job(JobState.RUNNING)
    ended = attempt(j, slurm_state, exit_code=3 << 8)

    (call,) = calls(plan_jobs(snapshot([j], [submitted(j)], accounting=accounting(ended)), RULES))

    assert (call.state, call.seconds, call.exit_code) == (state, 30, 3 << 8)


def test_an_end_that_only_slurmctld_lists_waits_for_slurmdbd():
    j = job(JobState.RUNNING)

    assert plan_jobs(snapshot([j], [submitted(j)], live=live(attempt(j, "COMPLETED"))), RULES) == ()


def test_an_end_that_slurmdbd_never_gets_is_settled_by_slurmctld():
    j = job(JobState.RUNNING)
    listed = live(attempt(j, "COMPLETED"), taken_at=T0 + 63)

    (call,) = calls(plan_jobs(snapshot([j], [submitted(j)], live=listed, accounting=None), RULES))

    assert isinstance(call, Settle)


def test_a_runaway_row_of_slurmdbd_is_not_alive():
    j = job(JobState.RUNNING)

    actions = plan_jobs(
        snapshot([j], [submitted(j)], accounting=accounting(attempt(j, "RUNNING"))), RULES
    )

    assert notes(actions) == [EntryKind.ABSENT]


def test_a_job_cancelled_in_the_queue_by_its_user_is_refunded():
    j = job()
    ended = attempt(j, "CANCELLED", started_at=None)

    (call,) = calls(plan_jobs(snapshot([j], [submitted(j)], accounting=accounting(ended)), RULES))

    assert (call.state, call.seconds) == (JobState.CANCELLED, 0)


def test_a_job_that_could_not_be_started_is_the_providers_fault():
    j = job()
    ended = attempt(j, "BOOT_FAIL", started_at=None)

    (call,) = calls(plan_jobs(snapshot([j], [submitted(j)], accounting=accounting(ended)), RULES))

    assert call.state is JobState.PANICKED


def test_a_bill_is_not_longer_than_the_paid_time():
    j = job(JobState.RUNNING, escrow=CREDIT // 4)

    (call,) = calls(
        plan_jobs(
            snapshot([j], [submitted(j)], accounting=accounting(attempt(j, "TIMEOUT"))), RULES
        )
    )

    assert call.seconds == 15


def report(occurred_at, *, uid=200_001, slurm_job_id=42, event="end"):
    return NodeReport(
        sequence=1, event=event, slurm_job_id=slurm_job_id, uid=uid, occurred_at=occurred_at
    )


def test_a_nodes_end_lowers_the_bill_of_an_end_that_slurmctld_learned_late():
    j = job(JobState.RUNNING)
    ended = accounting(attempt(j, "COMPLETED"))

    (call,) = calls(
        plan_jobs(
            snapshot([j], [submitted(j)], accounting=ended, reports=(report(T0 + 10),)), RULES
        )
    )

    assert call.seconds == 8


@pytest.mark.parametrize(
    "impostor",
    [report(T0 + 10, uid=0), report(T0 + 10, slurm_job_id=43), report(T0 + 1), report(T0 + 33)],
)
def test_a_report_that_does_not_match_changes_no_bill(impostor):
    j = job(JobState.RUNNING)
    ended = accounting(attempt(j, "COMPLETED"))

    (call,) = calls(
        plan_jobs(snapshot([j], [submitted(j)], accounting=ended, reports=(impostor,)), RULES)
    )

    assert call.seconds == 30


def refused(of, *, times, occurred_at=T0 + 1):
    """Return the record of a job that Slurm refused so often, the last time then, and of which it
    has no trace.
    """
    intended, told = (
        (EntryKind.SUBMIT_INTENDED, occurred_at),
        (EntryKind.SUBMIT_REJECTED, occurred_at, None, "no such partition"),
    )
    return record(of, *[intended, told] * times, (EntryKind.ABSENT, occurred_at + 1))


def test_a_job_that_slurm_rejects_again_and_again_is_given_back():
    j = job()

    assert calls(plan_jobs(snapshot([j], [refused(j, times=3)]), RULES)) == [
        Refuse(job_key=j.job_key)
    ]


def test_a_claim_that_may_still_be_undone_is_neither_given_back_nor_settled():
    j = job()
    ended = accounting(attempt(j, "COMPLETED"))
    young = {"height": RULES.confirmations + j.state_block - 1}

    assert plan_jobs(snapshot([j], [refused(j, times=3)], **young), RULES) == ()
    assert plan_jobs(snapshot([j], [submitted(j)], accounting=ended, **young), RULES) == ()
    assert (
        plan_jobs(snapshot([job(stored="a/b")], [record(job(stored="a/b"))], **young), RULES) == ()
    )


def test_a_running_job_whose_new_submission_slurm_rejects_again_and_again_is_panicked():
    j = job(JobState.RUNNING)

    (call,) = calls(plan_jobs(snapshot([j], [refused(j, times=3)]), RULES))

    assert (call.state, call.seconds, call.error) == (JobState.PANICKED, 0, "no such partition")


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(("seconds", "tried"), [(59, False), (60, True), (-7200, True)])
def test_a_job_that_slurm_rejects_is_submitted_again_before_it_is_given_back(times, seconds, tried):
    """Slurm has many words for "not now", and nobody knows all of them."""
    j = job()
    snap = snapshot(
        [j], [refused(j, times=times)], now=T0 + 1 + seconds, live=live(taken_at=T0 + 60)
    )

    actions = plan_jobs(snap, RULES)

    assert [type(action) for action in actions] == [Submit] * tried


def test_a_rejected_job_that_its_customer_cancels_is_cancelled_at_once():
    j = job(cancel_requested=True)

    (call,) = calls(plan_jobs(snapshot([j], [refused(j, times=1)], now=T0 + 10), RULES))

    assert call.state is JobState.CANCELLED


def test_a_submission_after_a_rejection_may_be_under_way_as_any_other():
    j = job()
    r = record(
        j,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMIT_REJECTED, T0 + 1, None, "not now"),
        (EntryKind.SUBMIT_INTENDED, T0 + 61),
        (EntryKind.ABSENT, T0 + 62),
    )

    assert plan_jobs(snapshot([j], [r], now=T0 + 120, live=live(taken_at=T0 + 120)), RULES) == ()


def test_a_job_without_a_script_fails_and_costs_nothing():
    j = job()
    r = record(j, (EntryKind.SCRIPT_UNAVAILABLE, T0 + 1, None, "not found"))

    (call,) = calls(plan_jobs(snapshot([j], [r]), RULES))

    assert (call.state, call.seconds, call.error) == (JobState.FAILED, 0, "not found")


def test_a_job_whose_credits_do_not_pay_a_minute_fails_at_once():
    j = job(escrow=CREDIT - 1)

    (call,) = calls(plan_jobs(snapshot([j], [record(j)]), RULES))

    assert call.state is JobState.FAILED


def test_a_job_with_a_malformed_script_id_fails_at_once():
    j = job(stored="a/b")

    (call,) = calls(plan_jobs(snapshot([j], [record(j)]), RULES))

    assert call.state is JobState.FAILED


def test_a_cancelled_job_that_runs_is_cancelled_in_slurm():
    j = job(JobState.RUNNING, cancel_requested=True)

    assert cancelled(plan_jobs(snapshot([j], [submitted(j)], live=live(attempt(j))), RULES)) == [42]


def test_a_topped_up_job_gets_the_time_it_paid_for():
    j = job(JobState.RUNNING, escrow=150 * CREDIT)
    running = attempt(j, time_limit_min=100)

    actions = plan_jobs(snapshot([j], [submitted(j)], live=live(running)), RULES)

    assert Extend(slurm_job_id=42, job_key=j.job_key, time_limit_min=150) in actions


def test_a_report_to_plain_contracts_stays_within_their_slack():
    j = replace(job(JobState.RUNNING), started_at=T0 - 1000)
    ended = replace(attempt(j, "COMPLETED"), started_at=T0 - 7200, ended_at=T0 - 1800)
    snap = snapshot([j], [submitted(j)], accounting=accounting(ended))

    (whole,) = calls(plan_jobs(snap, RULES))
    (within,) = calls(plan_jobs(snap, replace(RULES, plain_slack_min=15)))
    assert whole.seconds == 5400
    assert within.seconds == (snap.head.timestamp - j.started_at) // 60 * 60 + 900


def test_a_rejection_wins_over_the_record_that_slurm_leaves_of_it():
    j = job()
    left = attempt(j, "FAILED", started_at=None)
    snap = snapshot([j], [refused(j, times=3)], accounting=accounting(left), live=live(left))

    assert calls(plan_jobs(snap, RULES)) == [Refuse(job_key=j.job_key)]


def test_an_accepted_submission_that_ends_before_it_starts_ends_the_job_also_after_a_rejection():
    j = job()
    r = record(
        j,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMIT_REJECTED, T0 + 1, None, "not now"),
        (EntryKind.SUBMIT_INTENDED, T0 + 61),
        (EntryKind.SUBMITTED, T0 + 61, 43),
    )
    rows = [
        attempt(j, "FAILED", started_at=None),
        attempt(j, "CANCELLED", slurm_job_id=43, started_at=None),
    ]

    (call,) = calls(plan_jobs(snapshot([j], [r], accounting=accounting(*rows)), RULES))

    assert call.state is JobState.CANCELLED
