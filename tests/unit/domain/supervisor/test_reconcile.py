# SPDX-License-Identifier: Apache-2.0
"""The rules of the plan from the claim to the start of a job. Failures and unknowns come first."""

from dataclasses import replace

import pytest
from tests.unit.domain.builders import (
    CLAIM_BLOCK,
    OTHER,
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

from gridstead.domain.jobs.job import QueueSizes
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.actions import Submit
from gridstead.domain.supervisor.journal import EntryKind
from gridstead.domain.supervisor.reconcile import plan_jobs
from gridstead.domain.transactions.calls import (
    ClaimCancelling,
    ClaimJobs,
    ClaimTopUp,
    SetRunning,
    Settle,
)


def test_job_waits_if_slurmctld_does_not_answer():
    our_job = job()
    silent = snapshot(
        [our_job],
        [submitted(our_job)],
        live=None,
        accounting=accounting(attempt(our_job, "COMPLETED")),
    )

    assert plan_jobs(silent, RULES) == ()


def test_submission_is_not_repeated_if_slurmdbd_does_not_answer():
    our_job = job()

    assert plan_jobs(snapshot([our_job], [submitted(our_job)], accounting=None), RULES) == ()


def test_submission_is_not_repeated_while_slurmdbd_is_incomplete():
    our_job = job()

    assert (
        plan_jobs(
            snapshot([our_job], [submitted(our_job)], accounting=accounting(is_complete=False)),
            RULES,
        )
        == ()
    )


def test_job_without_a_submission_waits_if_slurmdbd_does_not_answer():
    """The journal may have been lost after an attempt that has ended since."""
    our_job = job()

    assert plan_jobs(snapshot([our_job], [record(our_job)], accounting=None), RULES) == ()


def test_first_absent_sample_is_only_noted():
    our_job = job()

    assert notes(plan_jobs(snapshot([our_job], [submitted(our_job)]), RULES)) == [EntryKind.ABSENT]


def test_second_absent_sample_does_not_count_if_it_is_too_early():
    our_job = job()
    journal_record = record(
        our_job,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMITTED, T0 + 1, 42),
        (EntryKind.ABSENT, T0 + 55),
    )

    assert plan_jobs(snapshot([our_job], [journal_record]), RULES) == ()


@pytest.mark.parametrize(("later_s", "settled"), [(0, 1), (1, 0)])
def test_end_in_slurmdbd_counts_only_for_the_run_that_slurmctld_lists(later_s, settled):
    our_job = job(JobState.RUNNING)
    ended = attempt(our_job, "COMPLETED")
    running = replace(ended, state="RUNNING", started_at=ended.started_at + later_s, ended_at=None)

    actions = plan_jobs(
        snapshot([our_job], [submitted(our_job)], live=live(running), accounting=accounting(ended)),
        RULES,
    )

    assert len([call for call in calls(actions) if isinstance(call, Settle)]) == settled


def test_job_that_is_absent_for_six_seconds_is_submitted_again():
    our_job = job()
    journal_record = record(
        our_job,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMITTED, T0 + 1, 42),
        (EntryKind.ABSENT, T0 + 54),
    )

    (action,) = plan_jobs(snapshot([our_job], [journal_record]), RULES)

    assert isinstance(action, Submit)


def test_job_that_slurm_lost_too_often_panics_without_a_bill():
    our_job = job(JobState.RUNNING)
    tries = [(EntryKind.SUBMITTED, T0 + n, n) for n in range(RULES.max_attempts)]
    journal_record = record(
        our_job, (EntryKind.SUBMIT_INTENDED, T0), *tries, (EntryKind.ABSENT, T0 + 54)
    )

    (call,) = calls(plan_jobs(snapshot([our_job], [journal_record]), RULES))

    assert (call.state, call.seconds) == (JobState.PANICKED, 0)


def test_job_in_a_sample_ends_its_absence():
    our_job = job()
    journal_record = record(
        our_job,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMITTED, T0 + 1, 42),
        (EntryKind.ABSENT, T0 + 50),
    )

    actions = plan_jobs(
        snapshot([our_job], [journal_record], live=live(attempt(our_job, "PENDING"))), RULES
    )

    assert EntryKind.PRESENT in notes(actions)
    assert not any(isinstance(a, Submit) for a in actions)


def test_claimed_job_is_submitted_without_confirmations():
    our_job = job()

    (action,) = plan_jobs(snapshot([our_job], [record(our_job)], height=CLAIM_BLOCK), RULES)

    assert action == Submit(job=our_job, time_limit_min=100)


def test_attempt_that_is_missing_in_the_journal_is_adopted():
    """The supervisor crashed between sbatch and its journal entry."""
    our_job = job()
    journal_record = record(our_job, (EntryKind.SUBMIT_INTENDED, T0 + 1))

    actions = plan_jobs(
        snapshot([our_job], [journal_record], live=live(attempt(our_job, "PENDING"))), RULES
    )

    assert notes(actions) == [EntryKind.SEEN]
    assert not any(isinstance(a, Submit) for a in actions)


def test_submission_is_noted_as_seen_when_it_is_durable():
    our_job = job()
    young = snapshot(
        [our_job],
        [submitted(our_job)],
        live=live(attempt(our_job, "PENDING"), taken_at=T0 + 6),
        now=T0 + 6,
    )

    assert plan_jobs(young, RULES) == ()
    assert notes(plan_jobs(replace(young, now=T0 + 7), RULES)) == [EntryKind.SEEN]


def test_adopted_attempt_is_noted_as_submitted_until_it_is_durable():
    our_job = job()
    journal_record = record(our_job, (EntryKind.SUBMIT_INTENDED, T0 + 1))

    assert notes(
        plan_jobs(
            snapshot(
                [our_job], [journal_record], live=live(attempt(our_job, "PENDING")), now=T0 + 3
            ),
            RULES,
        )
    ) == [EntryKind.SUBMITTED]


def test_attempt_of_another_history_is_cancelled():
    our_job = job()
    old = replace(attempt(our_job, "PENDING"), job_key=job(stored="older").job_key)

    actions = plan_jobs(snapshot([our_job], [record(our_job)], live=live(old), now=T0 + 120), RULES)

    assert cancelled(actions) == [42]
    assert any(isinstance(a, Submit) for a in actions)


def test_attempt_of_another_user_is_cancelled():
    our_job = job()

    actions = plan_jobs(
        snapshot([our_job], [submitted(our_job)], live=live(attempt(our_job, user=OTHER))), RULES
    )

    assert EntryKind.IMPOSTOR in notes(actions)
    assert cancelled(actions) == [42]
    assert calls(actions) == []


def test_attempt_that_is_older_than_the_claim_is_cancelled():
    our_job = job()
    old = attempt(our_job, submitted_at=T0 - 61)

    actions = plan_jobs(snapshot([our_job], [submitted(our_job)], live=live(old)), RULES)

    assert calls(actions) == []
    assert cancelled(actions) == [42]


def test_pending_attempt_is_cancelled_if_another_one_runs():
    our_job = job()
    waiting, running = (
        attempt(our_job, "PENDING", slurm_job_id=41),
        attempt(our_job, "RUNNING", slurm_job_id=43),
    )

    assert cancelled(
        plan_jobs(snapshot([our_job], [submitted(our_job)], live=live(waiting, running)), RULES)
    ) == [41]


def test_start_is_reported_after_the_confirmations_of_the_claim():
    our_job = job()

    actions = plan_jobs(
        snapshot(
            [our_job], [submitted(our_job)], live=live(attempt(our_job)), height=CLAIM_BLOCK + 5
        ),
        RULES,
    )

    assert calls(actions) == []


def test_start_is_reported_with_the_time_of_slurm():
    our_job = job()

    assert calls(
        plan_jobs(snapshot([our_job], [submitted(our_job)], live=live(attempt(our_job))), RULES)
    ) == [SetRunning(job_key=our_job.job_key, started_at=T0 + 2)]


def test_call_with_an_open_key_is_not_put_again():
    our_job = job()
    under_way = frozenset({f"running:{our_job.job_key}"})

    actions = plan_jobs(
        snapshot([our_job], [submitted(our_job)], live=live(attempt(our_job)), open_keys=under_way),
        RULES,
    )

    assert calls(actions) == []


def test_job_waits_for_a_submission_with_an_unknown_result():
    our_job = job()
    journal_record = record(
        our_job, (EntryKind.SUBMIT_INTENDED, T0 + 1), (EntryKind.ABSENT, T0 + 20)
    )

    assert plan_jobs(snapshot([our_job], [journal_record]), RULES) == ()
    later = snapshot([our_job], [journal_record], live=live(taken_at=T0 + 61), now=T0 + 61)
    assert [type(action) for action in plan_jobs(later, RULES)] == [Submit]


def test_intended_submissions_are_not_attempts():
    our_job = job()
    tries = [(EntryKind.SUBMIT_INTENDED, T0 - 200 + n) for n in range(10)]

    assert record(our_job, *tries).attempt_count == 0


def test_claimable_jobs_are_claimed_with_one_call():
    waiting = snapshot(queues=QueueSizes(claimable=3, cancelling=0, top_up=0))

    assert calls(plan_jobs(waiting, RULES)) == [ClaimJobs(limit=RULES.claim_limit)]


def test_entries_of_plain_contracts_are_claimed_with_one_call_each():
    rules = replace(RULES, plain_slack_min=15, claim_limit=4)
    puts = plan_jobs(snapshot(queues=QueueSizes(claimable=9, cancelling=2, top_up=1)), rules)

    assert [put.call for put in puts] == [ClaimJobs(limit=4)] * 4 + [ClaimCancelling()] * 2 + [
        ClaimTopUp()
    ]
    assert len({put.key for put in puts}) == len(puts)


def test_claim_with_an_open_key_is_not_put_again():
    waiting = snapshot(
        queues=QueueSizes(claimable=3, cancelling=0, top_up=0), open_keys=frozenset({"claim:90"})
    )

    assert plan_jobs(waiting, RULES) == ()


def test_absence_from_a_future_time_is_noted_again():
    """The clock was set back. Otherwise the job would wait until that time."""
    our_job = job()
    seen = (EntryKind.SUBMIT_INTENDED, T0 - 100), (EntryKind.SUBMITTED, T0 - 100, 42)
    journal_record = record(our_job, *seen, (EntryKind.ABSENT, T0 + 7200))

    (action,) = plan_jobs(snapshot([our_job], [journal_record]), RULES)
    again = record(
        our_job, *seen, (EntryKind.ABSENT, T0 + 7200), (action.entry.kind, action.entry.occurred_at)
    )

    assert again.absent_since == T0 + 60
