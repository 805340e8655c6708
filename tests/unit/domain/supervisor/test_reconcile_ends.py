# SPDX-License-Identifier: Apache-2.0
"""The plan for a job that ends: settlement, refusal and cancellation. A top-up delays the end.

Plain contracts are those of DeepSquare 1.2, from which Gridstead's contracts are derived. Plain
contracts bill whole minutes, and accept at most the minutes since the start plus a slack.
"""

from dataclasses import replace

import pytest
from tests.unit.domain.builders import (
    CREDIT,
    POLICY,
    T0,
    accounting_sample,
    attempt,
    calls_of,
    cancelled_ids,
    controller_sample,
    job,
    journal_entry_kinds,
    journal_record,
    planned_actions,
    snapshot,
    submitted_record,
)

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.actions import Extend, Submit
from gridstead.domain.supervisor.attempt import END_STATES, NodeReport
from gridstead.domain.supervisor.journal import EntryKind
from gridstead.domain.supervisor.reconcile import plan_jobs
from gridstead.domain.transactions.calls import Refuse, SetRunning, Settle


def calls_for_end(our_job, ended, **fields):
    """Return the calls that are planned for a submitted job when slurmdbd reports its end.

    ``ended`` is the attempt that has ended.
    """
    actions = planned_actions(
        [our_job],
        [submitted_record(our_job)],
        accounting_sample=accounting_sample(ended),
        **fields,
    )
    return calls_of(actions)


@pytest.mark.parametrize("deepsquare_slack_min", [None, 15])
@pytest.mark.parametrize("slurm_state", sorted(END_STATES))
def test_end_waits_until_the_start_is_mined(slurm_state, deepsquare_slack_min):
    our_job = job()
    policy = replace(POLICY, deepsquare_slack_min=deepsquare_slack_min)

    calls = calls_for_end(our_job, attempt(our_job, slurm_state), policy=policy)

    assert calls == [SetRunning(job_key=our_job.job_key, started_at=T0 + 2)]


@pytest.mark.parametrize(("slurm_state", "state"), sorted(END_STATES.items()))
def test_end_in_slurmdbd_is_settled_with_the_mapped_state(slurm_state, state):
    our_job = job(JobState.RUNNING)

    (call,) = calls_for_end(our_job, attempt(our_job, slurm_state, exit_code=3 << 8))

    assert call.state is state
    assert call.seconds == 30
    assert call.exit_code == 3 << 8


def test_end_that_only_slurmctld_lists_waits_for_slurmdbd():
    our_job = job(JobState.RUNNING)
    ended_sample = controller_sample(attempt(our_job, "COMPLETED"))

    assert (
        planned_actions([our_job], [submitted_record(our_job)], controller_sample=ended_sample)
        == ()
    )


def test_end_that_never_reaches_slurmdbd_is_settled_from_slurmctld():
    our_job = job(JobState.RUNNING)
    # The job ended at T0 + 32. The supervisor waits 30 seconds for the record in slurmdbd.
    ended_sample = controller_sample(attempt(our_job, "COMPLETED"), taken_at=T0 + 63)

    actions = planned_actions(
        [our_job],
        [submitted_record(our_job)],
        controller_sample=ended_sample,
        accounting_sample=None,
    )

    (call,) = calls_of(actions)
    assert isinstance(call, Settle)


def test_running_state_in_slurmdbd_is_ignored():
    """slurmdbd may list a job as running forever, although it has ended (a runaway job)."""
    our_job = job(JobState.RUNNING)
    runaway_sample = accounting_sample(attempt(our_job, "RUNNING"))

    actions = planned_actions(
        [our_job], [submitted_record(our_job)], accounting_sample=runaway_sample
    )

    # slurmctld does not list the job, and slurmdbd has no end of the job.
    assert journal_entry_kinds(actions) == [EntryKind.ABSENT]


def test_job_that_its_user_cancelled_in_the_queue_is_refunded():
    our_job = job()

    (call,) = calls_for_end(our_job, attempt(our_job, "CANCELLED", started_at=None))

    assert call.state is JobState.CANCELLED
    assert call.seconds == 0


def test_job_that_slurm_could_not_start_panics():
    our_job = job()

    (call,) = calls_for_end(our_job, attempt(our_job, "BOOT_FAIL", started_at=None))

    assert call.state is JobState.PANICKED


def test_billed_time_is_at_most_the_paid_time():
    our_job = job(JobState.RUNNING, escrow=CREDIT // 4)

    (call,) = calls_for_end(our_job, attempt(our_job, "TIMEOUT"))

    # A minute costs one credit.
    assert call.seconds == 15


def end_report(occurred_at, *, uid=200_001, slurm_job_id=42):
    return NodeReport(
        sequence=1, event="end", slurm_job_id=slurm_job_id, uid=uid, occurred_at=occurred_at
    )


def test_end_reported_by_a_node_lowers_the_billed_time():
    our_job = job(JobState.RUNNING)
    reports = (end_report(T0 + 10),)

    (call,) = calls_for_end(our_job, attempt(our_job, "COMPLETED"), reports=reports)

    assert call.seconds == 8  # The attempt started at T0 + 2.


@pytest.mark.parametrize(
    "unrelated_report",
    [
        end_report(T0 + 10, uid=0),
        end_report(T0 + 10, slurm_job_id=43),
        end_report(T0 + 1),  # before the start of the attempt
        end_report(T0 + 33),  # after the end of the attempt
    ],
)
def test_report_that_does_not_match_the_attempt_is_ignored(unrelated_report):
    our_job = job(JobState.RUNNING)
    reports = (unrelated_report,)

    (call,) = calls_for_end(our_job, attempt(our_job, "COMPLETED"), reports=reports)

    assert call.seconds == 30


def rejected_record(of_job, *, rejection_count, occurred_at=T0 + 1):
    """Return the record of a job whose submissions Slurm rejected, and that Slurm does not list."""
    intended_entry = (EntryKind.SUBMIT_INTENDED, occurred_at)
    rejected_entry = (EntryKind.SUBMIT_REJECTED, occurred_at, None, "no such partition")
    absent_entry = (EntryKind.ABSENT, occurred_at + 1)
    return journal_record(of_job, *[intended_entry, rejected_entry] * rejection_count, absent_entry)


def test_job_that_slurm_rejected_too_often_is_refused():
    our_job = job()

    actions = planned_actions([our_job], [rejected_record(our_job, rejection_count=3)])

    assert calls_of(actions) == [Refuse(job_key=our_job.job_key)]


UNCONFIRMED_HEIGHT = job().state_block + POLICY.confirmations - 1


def test_job_is_not_refused_before_its_claim_is_confirmed():
    our_job = job()
    rejected = rejected_record(our_job, rejection_count=3)

    assert planned_actions([our_job], [rejected], height=UNCONFIRMED_HEIGHT) == ()


@pytest.mark.parametrize(("height", "types"), [(105, []), (106, [Settle])])
def test_job_is_settled_after_its_claim_is_confirmed(height, types):
    our_job = job(JobState.RUNNING, state_block=102)
    ended_attempt = attempt(our_job, "COMPLETED")

    calls = calls_for_end(our_job, ended_attempt, height=height, claim_blocks={our_job.id: 100})

    assert [type(call) for call in calls] == types


@pytest.mark.parametrize(("height", "types"), [(107, []), (108, [Settle])])
def test_job_whose_claim_block_is_unknown_is_settled_after_its_start_is_confirmed(height, types):
    our_job = job(JobState.RUNNING, state_block=102)

    calls = calls_for_end(our_job, attempt(our_job, "COMPLETED"), height=height)

    assert [type(call) for call in calls] == types


def test_job_that_never_started_is_not_settled_before_its_claim_is_confirmed():
    our_job = job()
    cancelled_attempt = attempt(our_job, "CANCELLED", started_at=None)

    assert calls_for_end(our_job, cancelled_attempt, height=UNCONFIRMED_HEIGHT) == []


def test_job_with_a_malformed_script_id_does_not_fail_before_its_claim_is_confirmed():
    our_job = job(batch_location_hash="a/b")

    assert planned_actions([our_job], [journal_record(our_job)], height=UNCONFIRMED_HEIGHT) == ()


def test_job_that_slurm_rejected_too_often_panics_if_its_start_is_on_the_chain():
    our_job = job(JobState.RUNNING)

    (call,) = calls_of(planned_actions([our_job], [rejected_record(our_job, rejection_count=3)]))

    assert call.state is JobState.PANICKED
    assert call.seconds == 0


@pytest.mark.parametrize("rejection_count", [1, 2])
@pytest.mark.parametrize(("waited_s", "types"), [(59, []), (60, [Submit]), (-7200, [Submit])])
def test_rejected_job_is_submitted_again_after_a_minute(rejection_count, waited_s, types):
    """Any rejection may be temporary: Slurm's messages for temporary refusals are not all known.

    ``waited_s`` is negative if the clock was set back.
    """
    our_job = job()

    actions = planned_actions(
        [our_job],
        [rejected_record(our_job, rejection_count=rejection_count, occurred_at=T0 + 1)],
        now=T0 + 1 + waited_s,
        controller_sample=controller_sample(taken_at=T0 + 60),
    )

    assert [type(action) for action in actions] == types


def test_rejected_job_is_not_submitted_again_while_the_result_of_a_submission_is_unknown():
    our_job = job()
    record_without_result = journal_record(
        our_job,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMIT_REJECTED, T0 + 1, None, "not now"),
        (EntryKind.SUBMIT_INTENDED, T0 + 61),
        (EntryKind.ABSENT, T0 + 62),
    )

    actions = planned_actions(
        [our_job],
        [record_without_result],
        now=T0 + 120,
        controller_sample=controller_sample(taken_at=T0 + 120),
    )

    assert actions == ()


def test_job_without_a_script_fails_without_a_bill():
    our_job = job()
    record_without_script = journal_record(
        our_job, (EntryKind.SCRIPT_UNAVAILABLE, T0 + 1, None, "not found")
    )

    (call,) = calls_of(planned_actions([our_job], [record_without_script]))

    assert call.state is JobState.FAILED
    assert call.seconds == 0


@pytest.mark.parametrize("failing_job", [job(escrow=CREDIT - 1), job(batch_location_hash="a/b")])
def test_job_with_a_small_escrow_or_a_malformed_script_id_fails(failing_job):
    (call,) = calls_of(planned_actions([failing_job], [journal_record(failing_job)]))

    assert call.state is JobState.FAILED


def test_running_job_that_its_customer_cancelled_is_cancelled_in_slurm():
    our_job = job(JobState.RUNNING, cancel_requested=True)
    running_sample = controller_sample(attempt(our_job))

    actions = planned_actions(
        [our_job], [submitted_record(our_job)], controller_sample=running_sample
    )

    assert cancelled_ids(actions) == [42]


def test_time_limit_is_extended_after_a_top_up():
    our_job = job(JobState.RUNNING, escrow=150 * CREDIT)
    running_sample = controller_sample(attempt(our_job, time_limit_min=100))

    actions = planned_actions(
        [our_job], [submitted_record(our_job)], controller_sample=running_sample
    )

    assert Extend(slurm_job_id=42, job_key=our_job.job_key, time_limit_min=150) in actions


def test_billed_time_on_plain_contracts_stays_within_the_slack():
    our_job = replace(job(JobState.RUNNING), started_at=T0 - 1000)
    ended_attempt = replace(attempt(our_job, "COMPLETED"), started_at=T0 - 7200, ended_at=T0 - 1800)
    state = snapshot(
        [our_job], [submitted_record(our_job)], accounting_sample=accounting_sample(ended_attempt)
    )

    (call,) = calls_of(plan_jobs(state, POLICY))
    (plain_call,) = calls_of(plan_jobs(state, replace(POLICY, deepsquare_slack_min=15)))

    # The attempt ran from T0 - 7200 to T0 - 1800. Plain contracts do not accept the whole time.
    assert call.seconds == 5400
    whole_minutes = (state.head.timestamp - our_job.started_at) // 60
    assert plain_call.seconds == whole_minutes * 60 + 900


def test_slurms_record_of_a_rejected_submission_is_not_the_end_of_the_job():
    our_job = job()
    leftover_attempt = attempt(our_job, "FAILED", started_at=None)

    actions = planned_actions(
        [our_job],
        [rejected_record(our_job, rejection_count=3)],
        accounting_sample=accounting_sample(leftover_attempt),
        controller_sample=controller_sample(leftover_attempt),
    )

    assert calls_of(actions) == [Refuse(job_key=our_job.job_key)]


def test_job_is_settled_at_the_end_of_a_submission_that_followed_a_rejection():
    our_job = job()
    resubmitted_record = journal_record(
        our_job,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMIT_REJECTED, T0 + 1, None, "not now"),
        (EntryKind.SUBMIT_INTENDED, T0 + 61),
        (EntryKind.SUBMITTED, T0 + 61, 43),
    )
    rejected_attempt = attempt(our_job, "FAILED", started_at=None)
    cancelled_attempt = attempt(our_job, "CANCELLED", slurm_job_id=43, started_at=None)

    actions = planned_actions(
        [our_job],
        [resubmitted_record],
        accounting_sample=accounting_sample(rejected_attempt, cancelled_attempt),
    )

    (call,) = calls_of(actions)
    assert call.state is JobState.CANCELLED
