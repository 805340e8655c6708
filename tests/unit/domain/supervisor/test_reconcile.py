# SPDX-License-Identifier: Apache-2.0
"""Tests of the supervisor's plan for a job from the claim of the job to its start.

An attempt is a Slurm job that was submitted for a job of the grid. A job is absent if slurmctld
lists no attempt and slurmdbd lists no end of an attempt. An attempt is durable when slurmctld has
saved it, so that a crash does not lose it. To note a fact means to write a journal entry.

Plain contracts are the contracts of DeepSquare 1.2.
"""

from dataclasses import replace

import pytest
from tests.unit.domain.builders import (
    CLAIM_BLOCK,
    OTHER_ADDRESS,
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
    submitted_record,
)

from gridstead.domain.jobs.job import QueueSizes
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.actions import Submit
from gridstead.domain.supervisor.journal import EntryKind
from gridstead.domain.transactions.calls import (
    ClaimCancelling,
    ClaimJobs,
    ClaimTopUp,
    SetRunning,
    Settle,
)


def types_of(actions):
    return [type(action) for action in actions]


def test_job_waits_if_slurmctld_does_not_answer():
    our_job = job()
    completed_sample = accounting_sample(attempt(our_job, "COMPLETED"))

    actions = planned_actions(
        [our_job],
        [submitted_record(our_job)],
        controller_sample=None,
        accounting_sample=completed_sample,
    )

    assert actions == ()


def test_submission_is_not_repeated_if_slurmdbd_does_not_answer():
    our_job = job()

    actions = planned_actions([our_job], [submitted_record(our_job)], accounting_sample=None)

    assert actions == ()


def test_submission_is_not_repeated_while_slurmdbd_lacks_records_of_slurmctld():
    our_job = job()
    incomplete_sample = accounting_sample(is_complete=False)

    actions = planned_actions(
        [our_job], [submitted_record(our_job)], accounting_sample=incomplete_sample
    )

    assert actions == ()


def test_job_without_a_submission_waits_if_slurmdbd_does_not_answer():
    """If the journal was lost, only slurmdbd knows whether an attempt has already ended."""
    our_job = job()

    actions = planned_actions([our_job], [journal_record(our_job)], accounting_sample=None)

    assert actions == ()


def test_first_absence_is_noted_without_another_action():
    our_job = job()

    actions = planned_actions([our_job], [submitted_record(our_job)])

    assert journal_entry_kinds(actions) == [EntryKind.ABSENT]
    assert len(actions) == 1


def test_job_is_not_submitted_again_if_the_second_absence_is_too_early():
    our_job = job()
    record_of_5_s_absence = journal_record(
        our_job,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMITTED, T0 + 1, 42),
        (EntryKind.ABSENT, T0 + 55),
    )

    assert planned_actions([our_job], [record_of_5_s_absence]) == ()


@pytest.mark.parametrize(("start_difference_s", "settlement_count"), [(0, 1), (1, 0)])
def test_end_in_slurmdbd_applies_only_to_the_run_that_slurmctld_lists(
    start_difference_s, settlement_count
):
    """The entries in slurmctld and slurmdbd are of the same run if their start times are equal."""
    our_job = job(JobState.RUNNING)
    ended_attempt = attempt(our_job, "COMPLETED")
    started_at = ended_attempt.started_at + start_difference_s
    running_attempt = replace(ended_attempt, state="RUNNING", started_at=started_at, ended_at=None)

    actions = planned_actions(
        [our_job],
        [submitted_record(our_job)],
        controller_sample=controller_sample(running_attempt),
        accounting_sample=accounting_sample(ended_attempt),
    )

    settle_calls = [call for call in calls_of(actions) if isinstance(call, Settle)]
    assert len(settle_calls) == settlement_count


def test_job_that_is_absent_for_six_seconds_is_submitted_again():
    our_job = job()
    record_of_6_s_absence = journal_record(
        our_job,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMITTED, T0 + 1, 42),
        (EntryKind.ABSENT, T0 + 54),
    )

    actions = planned_actions([our_job], [record_of_6_s_absence])

    assert types_of(actions) == [Submit]


def test_job_that_slurm_lost_too_often_panics_without_a_bill():
    our_job = job(JobState.RUNNING)
    attempts = range(POLICY.max_attempts)
    submissions = [(EntryKind.SUBMITTED, T0 + index, index) for index in attempts]
    lost_record = journal_record(
        our_job, (EntryKind.SUBMIT_INTENDED, T0), *submissions, (EntryKind.ABSENT, T0 + 54)
    )

    (call,) = calls_of(planned_actions([our_job], [lost_record]))

    assert call.state is JobState.PANICKED
    assert call.seconds == 0


def test_job_that_is_listed_again_is_noted_as_present():
    our_job = job()
    absent_record = journal_record(
        our_job,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMITTED, T0 + 1, 42),
        (EntryKind.ABSENT, T0 + 50),
    )

    actions = planned_actions(
        [our_job], [absent_record], controller_sample=controller_sample(attempt(our_job, "PENDING"))
    )

    assert EntryKind.PRESENT in journal_entry_kinds(actions)
    assert Submit not in types_of(actions)


def test_claimed_job_is_submitted_without_confirmations():
    our_job = job()

    actions = planned_actions([our_job], [journal_record(our_job)], height=CLAIM_BLOCK)

    assert actions == (Submit(job=our_job, time_limit_min=100),)


def test_attempt_that_is_missing_in_the_journal_and_durable_is_noted_as_seen():
    """The supervisor crashed after sbatch and before it wrote the journal entry."""
    our_job = job()
    crashed_record = journal_record(our_job, (EntryKind.SUBMIT_INTENDED, T0 + 1))

    actions = planned_actions(
        [our_job],
        [crashed_record],
        controller_sample=controller_sample(attempt(our_job, "PENDING")),
    )

    assert journal_entry_kinds(actions) == [EntryKind.SEEN]
    assert Submit not in types_of(actions)


# The supervisor started the submission at T0 + 1. After 6 seconds the attempt counts as durable.
@pytest.mark.parametrize(("now", "kinds"), [(T0 + 6, []), (T0 + 7, [EntryKind.SEEN])])
def test_submission_is_noted_as_seen_when_it_is_durable(now, kinds):
    our_job = job()
    pending_sample = controller_sample(attempt(our_job, "PENDING"), taken_at=T0 + 6)

    actions = planned_actions(
        [our_job], [submitted_record(our_job)], controller_sample=pending_sample, now=now
    )

    assert journal_entry_kinds(actions) == kinds
    assert len(actions) == len(kinds)


def test_attempt_that_is_missing_in_the_journal_and_not_durable_is_noted_as_submitted():
    our_job = job()
    crashed_record = journal_record(our_job, (EntryKind.SUBMIT_INTENDED, T0 + 1))
    pending_sample = controller_sample(attempt(our_job, "PENDING"))

    actions = planned_actions(
        [our_job], [crashed_record], controller_sample=pending_sample, now=T0 + 3
    )

    assert journal_entry_kinds(actions) == [EntryKind.SUBMITTED]


def test_attempt_of_an_older_chain_for_the_same_job_number_is_cancelled():
    our_job = job()
    old_job = job(batch_location_hash="older")
    old_attempt = attempt(old_job, "PENDING")

    actions = planned_actions(
        [our_job],
        [journal_record(our_job)],
        controller_sample=controller_sample(old_attempt),
        now=T0 + 120,
    )

    assert cancelled_ids(actions) == [42]
    assert Submit in types_of(actions)


def test_attempt_of_another_user_is_cancelled():
    our_job = job()
    impostor = attempt(our_job, user=OTHER_ADDRESS)

    actions = planned_actions(
        [our_job], [submitted_record(our_job)], controller_sample=controller_sample(impostor)
    )

    assert EntryKind.IMPOSTOR in journal_entry_kinds(actions)
    assert cancelled_ids(actions) == [42]
    assert calls_of(actions) == []


def test_attempt_that_is_older_than_the_claim_is_cancelled():
    our_job = job()
    old_attempt = attempt(our_job, submitted_at=T0 - 61)

    actions = planned_actions(
        [our_job], [submitted_record(our_job)], controller_sample=controller_sample(old_attempt)
    )

    assert calls_of(actions) == []
    assert cancelled_ids(actions) == [42]


def test_pending_attempt_is_cancelled_if_another_attempt_runs():
    our_job = job()
    pending_attempt = attempt(our_job, "PENDING", slurm_job_id=41)
    running_attempt = attempt(our_job, "RUNNING", slurm_job_id=43)

    actions = planned_actions(
        [our_job],
        [submitted_record(our_job)],
        controller_sample=controller_sample(pending_attempt, running_attempt),
    )

    assert cancelled_ids(actions) == [41]


@pytest.mark.parametrize("slurm_state", ["RUNNING", "COMPLETED"])
def test_start_is_reported_on_the_newest_block(slurm_state):
    our_job = job()
    slurm_attempt = attempt(our_job, slurm_state)

    actions = planned_actions(
        [our_job],
        [submitted_record(our_job)],
        controller_sample=controller_sample(slurm_attempt),
        accounting_sample=accounting_sample(slurm_attempt),
        height=CLAIM_BLOCK,
    )

    assert calls_of(actions) == [SetRunning(job_key=our_job.job_key, started_at=T0 + 2)]


def test_start_is_reported_with_the_start_time_of_slurm():
    our_job = job()

    actions = planned_actions(
        [our_job],
        [submitted_record(our_job)],
        controller_sample=controller_sample(attempt(our_job)),
    )

    assert calls_of(actions) == [SetRunning(job_key=our_job.job_key, started_at=T0 + 2)]


def test_call_that_is_in_the_outbox_is_not_put_again():
    our_job = job()

    actions = planned_actions(
        [our_job],
        [submitted_record(our_job)],
        controller_sample=controller_sample(attempt(our_job)),
        open_outbox_keys=frozenset({f"running:{our_job.job_key}"}),
    )

    assert calls_of(actions) == []


@pytest.mark.parametrize(("now", "types"), [(T0 + 60, []), (T0 + 61, [Submit])])
def test_submission_with_an_unknown_result_is_repeated_after_a_minute(now, types):
    our_job = job()
    record_without_result = journal_record(
        our_job, (EntryKind.SUBMIT_INTENDED, T0 + 1), (EntryKind.ABSENT, T0 + 20)
    )

    actions = planned_actions(
        [our_job],
        [record_without_result],
        controller_sample=controller_sample(taken_at=now),
        now=now,
    )

    assert types_of(actions) == types


def test_intended_submissions_are_not_counted_as_attempts():
    intentions = [(EntryKind.SUBMIT_INTENDED, T0 - age_s) for age_s in range(200, 190, -1)]

    assert journal_record(job(), *intentions).attempt_count == 0


def test_claimable_jobs_are_claimed_with_one_call():
    actions = planned_actions(queues=QueueSizes(claimable=3, cancelling=0, top_up=0))

    assert calls_of(actions) == [ClaimJobs(limit=3)]


def test_several_calls_claim_the_queues_of_plain_contracts():
    policy = replace(POLICY, deepsquare_slack_min=15, claim_limit=4)

    actions = planned_actions(policy=policy, queues=QueueSizes(claimable=9, cancelling=2, top_up=1))

    # Each call claims one entry of a queue. In one tick, the supervisor puts at most
    # ``claim_limit`` calls per queue into the outbox.
    calls = calls_of(actions)
    assert calls[:4] == [ClaimJobs(limit=4)] * 4
    assert calls[4:6] == [ClaimCancelling()] * 2
    assert calls[6:] == [ClaimTopUp()]
    assert len({action.key for action in actions}) == len(actions)


def test_claim_that_is_in_the_outbox_is_not_put_again():
    actions = planned_actions(
        queues=QueueSizes(claimable=3, cancelling=0, top_up=0),
        open_outbox_keys=frozenset({"claim:90"}),
    )

    assert actions == ()


@pytest.mark.parametrize("state", [JobState.SCHEDULED, JobState.PENDING])
def test_nothing_is_planned_for_a_job_that_is_being_submitted(state):
    """The samples may be older than the submission."""
    our_job = job(state)
    record = journal_record(our_job)
    values = {"now": T0 + 7200, "unclaimed_since_block": {our_job.job_key: 0}}

    assert planned_actions([our_job], [record], **values) != ()
    submitting = frozenset({our_job.job_key})
    assert planned_actions([our_job], [record], submitting=submitting, **values) == ()


def test_absence_with_a_time_in_the_future_is_noted_again():
    """The clock was set back. The new entry replaces the future time by the present time."""
    our_job = job()
    entries = [
        (EntryKind.SUBMIT_INTENDED, T0 - 100),
        (EntryKind.SUBMITTED, T0 - 100, 42),
        (EntryKind.ABSENT, T0 + 7200),
    ]

    (action,) = planned_actions([our_job], [journal_record(our_job, *entries)])

    new_entry = (action.entry.kind, action.entry.occurred_at)
    assert journal_record(our_job, *entries, new_entry).absent_since == T0 + 60
