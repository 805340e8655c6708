# SPDX-License-Identifier: Apache-2.0
"""One test per rule of the plan, from claim to start; failure and doubt first."""

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

from gridstead.domain.actions import Submit
from gridstead.domain.calls import ClaimCancelling, ClaimJobs, ClaimTopUp, SetRunning, Settle
from gridstead.domain.job import QueueSizes
from gridstead.domain.journal import EntryKind
from gridstead.domain.lifecycle import JobState
from gridstead.domain.reconcile import plan_jobs


def test_nothing_is_done_for_a_job_while_slurmctld_is_silent():
    j = job()
    silent = snapshot(
        [j], [submitted(j)], live=None, accounting=accounting(attempt(j, "COMPLETED"))
    )

    assert plan_jobs(silent, RULES) == ()


def test_a_submission_is_not_repeated_while_slurmdbd_is_silent():
    j = job()

    assert plan_jobs(snapshot([j], [submitted(j)], accounting=None), RULES) == ()


def test_a_submission_is_not_repeated_while_slurmdbd_lags():
    j = job()

    assert (
        plan_jobs(snapshot([j], [submitted(j)], accounting=accounting(complete=False)), RULES) == ()
    )


def test_a_job_of_no_known_submission_waits_while_slurmdbd_is_silent():
    """An attempt of a journal that was lost may have ended."""
    j = job()

    assert plan_jobs(snapshot([j], [record(j)], accounting=None), RULES) == ()


def test_one_sample_without_a_trace_is_only_noted():
    j = job()

    assert notes(plan_jobs(snapshot([j], [submitted(j)]), RULES)) == [EntryKind.ABSENT]


def test_a_second_absent_sample_too_soon_proves_nothing():
    j = job()
    r = record(
        j,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMITTED, T0 + 1, 42),
        (EntryKind.ABSENT, T0 + 55),
    )

    assert plan_jobs(snapshot([j], [r]), RULES) == ()


@pytest.mark.parametrize(("later_s", "settled"), [(0, 1), (1, 0)])
def test_slurmdbd_is_believed_against_slurmctld_about_the_end_of_the_very_same_run_only(
    later_s, settled
):
    j = job(JobState.RUNNING)
    ended = attempt(j, "COMPLETED")
    running = replace(ended, state="RUNNING", started_at=ended.started_at + later_s, ended_at=None)

    actions = plan_jobs(
        snapshot([j], [submitted(j)], live=live(running), accounting=accounting(ended)), RULES
    )

    assert len([call for call in calls(actions) if isinstance(call, Settle)]) == settled


def test_a_job_without_a_trace_for_six_seconds_is_submitted_again():
    j = job()
    r = record(
        j,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMITTED, T0 + 1, 42),
        (EntryKind.ABSENT, T0 + 54),
    )

    (action,) = plan_jobs(snapshot([j], [r]), RULES)

    assert isinstance(action, Submit)


def test_a_job_lost_too_often_is_panicked_for_nothing():
    j = job(JobState.RUNNING)
    tries = [(EntryKind.SUBMITTED, T0 + n, n) for n in range(RULES.max_attempts)]
    r = record(j, (EntryKind.SUBMIT_INTENDED, T0), *tries, (EntryKind.ABSENT, T0 + 54))

    (call,) = calls(plan_jobs(snapshot([j], [r]), RULES))

    assert (call.state, call.seconds) == (JobState.PANICKED, 0)


def test_a_trace_after_an_absent_sample_forgets_the_absence():
    j = job()
    r = record(
        j,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMITTED, T0 + 1, 42),
        (EntryKind.ABSENT, T0 + 50),
    )

    actions = plan_jobs(snapshot([j], [r], live=live(attempt(j, "PENDING"))), RULES)

    assert EntryKind.PRESENT in notes(actions)
    assert not any(isinstance(a, Submit) for a in actions)


def test_a_claimed_job_is_submitted_on_the_newest_block():
    j = job()

    (action,) = plan_jobs(snapshot([j], [record(j)], height=CLAIM_BLOCK), RULES)

    assert action == Submit(job=j, time_limit_min=100)


def test_an_attempt_that_the_journal_does_not_know_is_adopted_not_repeated():
    """The supervisor died between sbatch and its journal."""
    j = job()
    r = record(j, (EntryKind.SUBMIT_INTENDED, T0 + 1))

    actions = plan_jobs(snapshot([j], [r], live=live(attempt(j, "PENDING"))), RULES)

    assert notes(actions) == [EntryKind.SEEN]
    assert not any(isinstance(a, Submit) for a in actions)


def test_a_submission_is_noted_as_seen_only_once_it_is_durable():
    j = job()
    young = snapshot(
        [j], [submitted(j)], live=live(attempt(j, "PENDING"), taken_at=T0 + 6), now=T0 + 6
    )

    assert plan_jobs(young, RULES) == ()
    assert notes(plan_jobs(replace(young, now=T0 + 7), RULES)) == [EntryKind.SEEN]


def test_an_adopted_attempt_that_may_still_vanish_is_noted_as_submitted():
    j = job()
    r = record(j, (EntryKind.SUBMIT_INTENDED, T0 + 1))

    assert notes(
        plan_jobs(snapshot([j], [r], live=live(attempt(j, "PENDING")), now=T0 + 3), RULES)
    ) == [EntryKind.SUBMITTED]


def test_an_attempt_of_another_history_is_not_adopted():
    j = job()
    old = replace(attempt(j, "PENDING"), job_key=job(stored="older").job_key)

    actions = plan_jobs(snapshot([j], [record(j)], live=live(old), now=T0 + 120), RULES)

    assert cancelled(actions) == [42]
    assert any(isinstance(a, Submit) for a in actions)


def test_an_attempt_of_another_user_is_not_adopted_but_cancelled():
    j = job()

    actions = plan_jobs(snapshot([j], [submitted(j)], live=live(attempt(j, user=OTHER))), RULES)

    assert EntryKind.IMPOSTOR in notes(actions)
    assert cancelled(actions) == [42]
    assert calls(actions) == []


def test_an_attempt_older_than_the_claim_is_not_adopted():
    j = job()
    old = attempt(j, submitted_at=T0 - 61)

    actions = plan_jobs(snapshot([j], [submitted(j)], live=live(old)), RULES)

    assert calls(actions) == []
    assert cancelled(actions) == [42]


def test_of_two_live_attempts_the_one_that_runs_stays():
    j = job()
    waiting, running = (
        attempt(j, "PENDING", slurm_job_id=41),
        attempt(j, "RUNNING", slurm_job_id=43),
    )

    assert cancelled(
        plan_jobs(snapshot([j], [submitted(j)], live=live(waiting, running)), RULES)
    ) == [41]


def test_a_start_waits_for_the_claims_confirmations():
    j = job()

    actions = plan_jobs(
        snapshot([j], [submitted(j)], live=live(attempt(j)), height=CLAIM_BLOCK + 5), RULES
    )

    assert calls(actions) == []


def test_a_start_carries_slurms_own_time():
    j = job()

    assert calls(plan_jobs(snapshot([j], [submitted(j)], live=live(attempt(j))), RULES)) == [
        SetRunning(job_key=j.job_key, started_at=T0 + 2)
    ]


def test_a_call_that_is_under_way_is_not_put_twice():
    j = job()
    under_way = frozenset({f"running:{j.job_key}"})

    actions = plan_jobs(
        snapshot([j], [submitted(j)], live=live(attempt(j)), open_keys=under_way), RULES
    )

    assert calls(actions) == []


def test_a_submission_whose_outcome_is_unknown_may_still_arrive():
    j = job()
    r = record(j, (EntryKind.SUBMIT_INTENDED, T0 + 1), (EntryKind.ABSENT, T0 + 20))

    assert plan_jobs(snapshot([j], [r]), RULES) == ()
    later = snapshot([j], [r], live=live(taken_at=T0 + 61), now=T0 + 61)
    assert [type(action) for action in plan_jobs(later, RULES)] == [Submit]


def test_submissions_that_never_reached_slurm_are_no_attempts():
    j = job()
    tries = [(EntryKind.SUBMIT_INTENDED, T0 - 200 + n) for n in range(10)]

    assert record(j, *tries).attempts == 0


def test_waiting_claims_are_claimed_at_once():
    waiting = snapshot(queues=QueueSizes(claimable=3, cancelling=0, top_up=0))

    assert calls(plan_jobs(waiting, RULES)) == [ClaimJobs(limit=RULES.claim_limit)]


def test_what_waits_on_plain_contracts_is_claimed_one_by_one_at_once():
    rules = replace(RULES, plain_slack_min=15, claim_limit=4)
    puts = plan_jobs(snapshot(queues=QueueSizes(claimable=9, cancelling=2, top_up=1)), rules)

    assert [put.call for put in puts] == [ClaimJobs(limit=4)] * 4 + [ClaimCancelling()] * 2 + [
        ClaimTopUp()
    ]
    assert len({put.key for put in puts}) == len(puts)


def test_a_claim_that_is_under_way_is_not_made_twice():
    waiting = snapshot(
        queues=QueueSizes(claimable=3, cancelling=0, top_up=0), open_keys=frozenset({"claim:90"})
    )

    assert plan_jobs(waiting, RULES) == ()


def test_absence_since_a_time_to_come_counts_from_now_on():
    """The clock was set back; else the job would wait for as long."""
    j = job()
    seen = (EntryKind.SUBMIT_INTENDED, T0 - 100), (EntryKind.SUBMITTED, T0 - 100, 42)
    r = record(j, *seen, (EntryKind.ABSENT, T0 + 7200))

    (action,) = plan_jobs(snapshot([j], [r]), RULES)
    again = record(
        j, *seen, (EntryKind.ABSENT, T0 + 7200), (action.entry.kind, action.entry.occurred_at)
    )

    assert again.absent_since == T0 + 60
