# SPDX-License-Identifier: Apache-2.0
"""One test per rule of the plan; failure and doubt first."""

from dataclasses import replace

import pytest
from tests.unit.domain.builders import (
    CLAIM_BLOCK,
    CREDIT,
    OTHER,
    RULES,
    T0,
    accounting,
    attempt,
    job,
    live,
    record,
    snapshot,
    submitted,
)

from gridstead.domain.actions import Cancel, Extend, Note, Put, Submit
from gridstead.domain.attempt import END_STATES, NodeReport
from gridstead.domain.calls import ClaimCancelling, ClaimJobs, ClaimTopUp, Refuse, SetRunning, Settle
from gridstead.domain.job import QueueSizes
from gridstead.domain.journal import EntryKind
from gridstead.domain.lifecycle import JobState
from gridstead.domain.reconcile import plan


def calls(actions):
    return [a.call for a in actions if isinstance(a, Put)]


def notes(actions):
    return [a.entry.kind for a in actions if isinstance(a, Note)]


def cancelled(actions):
    return [a.slurm_job_id for a in actions if isinstance(a, Cancel)]


def test_nothing_is_done_for_a_job_while_slurmctld_is_silent():
    j = job()
    silent = snapshot([j], [submitted(j)], live=None, accounting=accounting(attempt(j, "COMPLETED")))

    assert plan(silent, RULES) == ()


def test_a_submission_is_not_repeated_while_slurmdbd_is_silent():
    j = job()

    assert plan(snapshot([j], [submitted(j)], accounting=None), RULES) == ()


def test_a_submission_is_not_repeated_while_slurmdbd_lags():
    j = job()

    assert plan(snapshot([j], [submitted(j)], accounting=accounting(complete=False)), RULES) == ()


def test_one_sample_without_a_trace_is_only_noted():
    j = job()

    assert notes(plan(snapshot([j], [submitted(j)]), RULES)) == [EntryKind.ABSENT]


def test_a_second_absent_sample_too_soon_proves_nothing():
    j = job()
    r = record(j, (EntryKind.SUBMIT_INTENDED, T0 + 1), (EntryKind.SUBMITTED, T0 + 1, 42), (EntryKind.ABSENT, T0 + 55))

    assert plan(snapshot([j], [r]), RULES) == ()


@pytest.mark.parametrize(("later_s", "settled"), [(0, 1), (1, 0)])
def test_slurmdbd_is_believed_against_slurmctld_about_the_end_of_the_very_same_run_only(later_s, settled):
    j = job(JobState.RUNNING)
    ended = attempt(j, "COMPLETED")
    running = replace(ended, state="RUNNING", started_at=ended.started_at + later_s, ended_at=None)

    actions = plan(snapshot([j], [submitted(j)], live=live(running), accounting=accounting(ended)), RULES)

    assert len([call for call in calls(actions) if isinstance(call, Settle)]) == settled


def test_a_job_without_a_trace_for_six_seconds_is_submitted_again():
    j = job()
    r = record(j, (EntryKind.SUBMIT_INTENDED, T0 + 1), (EntryKind.SUBMITTED, T0 + 1, 42), (EntryKind.ABSENT, T0 + 54))

    (action,) = plan(snapshot([j], [r]), RULES)

    assert isinstance(action, Submit)


def test_a_job_lost_too_often_is_panicked_for_nothing():
    j = job(JobState.RUNNING)
    tries = [(EntryKind.SUBMITTED, T0 + n, n) for n in range(RULES.max_attempts)]
    r = record(j, (EntryKind.SUBMIT_INTENDED, T0), *tries, (EntryKind.ABSENT, T0 + 54))

    (call,) = calls(plan(snapshot([j], [r]), RULES))

    assert (call.state, call.seconds) == (JobState.PANICKED, 0)


def test_a_trace_after_an_absent_sample_forgets_the_absence():
    j = job()
    r = record(j, (EntryKind.SUBMIT_INTENDED, T0 + 1), (EntryKind.SUBMITTED, T0 + 1, 42), (EntryKind.ABSENT, T0 + 50))

    actions = plan(snapshot([j], [r], live=live(attempt(j, "PENDING"))), RULES)

    assert EntryKind.PRESENT in notes(actions)
    assert not any(isinstance(a, Submit) for a in actions)


def test_a_claimed_job_is_submitted_on_the_newest_block():
    j = job()

    (action,) = plan(snapshot([j], [record(j)], height=CLAIM_BLOCK), RULES)

    assert action == Submit(job=j, time_limit_min=100)


def test_an_attempt_that_the_journal_does_not_know_is_adopted_not_repeated():
    """The supervisor died between sbatch and its journal."""
    j = job()
    r = record(j, (EntryKind.SUBMIT_INTENDED, T0 + 1))

    actions = plan(snapshot([j], [r], live=live(attempt(j, "PENDING"))), RULES)

    assert notes(actions) == [EntryKind.SEEN]
    assert not any(isinstance(a, Submit) for a in actions)


def test_an_attempt_of_another_history_is_not_adopted():
    j = job()
    old = replace(attempt(j, "PENDING"), proof=job(stored="older").proof)

    actions = plan(snapshot([j], [record(j)], live=live(old), now=T0 + 120), RULES)

    assert cancelled(actions) == [42]
    assert any(isinstance(a, Submit) for a in actions)


def test_an_attempt_of_another_user_is_not_adopted_but_cancelled():
    j = job()

    actions = plan(snapshot([j], [submitted(j)], live=live(attempt(j, user=OTHER))), RULES)

    assert EntryKind.STRANGER in notes(actions)
    assert cancelled(actions) == [42]
    assert calls(actions) == []


def test_an_attempt_older_than_the_claim_is_not_adopted():
    j = job()
    old = attempt(j, submitted_at=T0 - 61)

    actions = plan(snapshot([j], [submitted(j)], live=live(old)), RULES)

    assert calls(actions) == []
    assert cancelled(actions) == [42]


def test_of_two_live_attempts_the_one_that_runs_stays():
    j = job()
    waiting, running = attempt(j, "PENDING", slurm_job_id=41), attempt(j, "RUNNING", slurm_job_id=43)

    assert cancelled(plan(snapshot([j], [submitted(j)], live=live(waiting, running)), RULES)) == [41]


def test_a_start_waits_for_the_claims_confirmations():
    j = job()

    actions = plan(snapshot([j], [submitted(j)], live=live(attempt(j)), height=CLAIM_BLOCK + 5), RULES)

    assert calls(actions) == []


def test_a_start_carries_slurms_own_time():
    j = job()

    assert calls(plan(snapshot([j], [submitted(j)], live=live(attempt(j))), RULES)) == [
        SetRunning(proof=j.proof, started_at=T0 + 2)
    ]


def test_a_call_that_is_under_way_is_not_put_twice():
    j = job()
    under_way = frozenset({f"running:{j.proof}"})

    actions = plan(snapshot([j], [submitted(j)], live=live(attempt(j)), open_keys=under_way), RULES)

    assert calls(actions) == []


@pytest.mark.parametrize("slurm_state", sorted(END_STATES))
def test_a_job_that_ended_before_its_start_was_told_is_first_set_running(slurm_state):
    """Its end goes along only if the contract would not take it without the start."""
    j = job()

    first, *rest = calls(plan(snapshot([j], [submitted(j)], accounting=accounting(attempt(j, slurm_state))), RULES))

    assert isinstance(first, SetRunning)
    together = END_STATES[slurm_state] in {JobState.FINISHED, JobState.OUT_OF_CREDITS}
    assert [(call.state, call.seconds) for call in rest] == [(END_STATES[slurm_state], 30)] * together


def test_on_the_old_contracts_an_end_waits_for_its_start():
    """There each call is tried out before it is sent."""
    j = job()
    rules = replace(RULES, plain_slack_min=15)

    (call,) = calls(plan(snapshot([j], [submitted(j)], accounting=accounting(attempt(j, "COMPLETED"))), rules))

    assert isinstance(call, SetRunning)


@pytest.mark.parametrize(("slurm_state", "state"), sorted(END_STATES.items()))
def test_an_end_in_accounting_is_settled_as_the_table_says(slurm_state, state):
    j = job(JobState.RUNNING)
    ended = attempt(j, slurm_state, exit_code=3 << 8)

    (call,) = calls(plan(snapshot([j], [submitted(j)], accounting=accounting(ended)), RULES))

    assert (call.state, call.seconds, call.exit_code) == (state, 30, 3 << 8)


def test_an_end_that_only_slurmctld_lists_waits_for_slurmdbd():
    j = job(JobState.RUNNING)

    assert plan(snapshot([j], [submitted(j)], live=live(attempt(j, "COMPLETED"))), RULES) == ()


def test_an_end_that_slurmdbd_never_gets_is_settled_by_slurmctld():
    j = job(JobState.RUNNING)
    listed = live(attempt(j, "COMPLETED"), at=T0 + 63)

    (call,) = calls(plan(snapshot([j], [submitted(j)], live=listed, accounting=None), RULES))

    assert isinstance(call, Settle)


def test_a_runaway_row_of_slurmdbd_is_not_alive():
    j = job(JobState.RUNNING)

    actions = plan(snapshot([j], [submitted(j)], accounting=accounting(attempt(j, "RUNNING"))), RULES)

    assert notes(actions) == [EntryKind.ABSENT]


def test_a_job_cancelled_in_the_queue_by_its_user_is_refunded():
    j = job()
    ended = attempt(j, "CANCELLED", started_at=None)

    (call,) = calls(plan(snapshot([j], [submitted(j)], accounting=accounting(ended)), RULES))

    assert (call.state, call.seconds) == (JobState.CANCELLED, 0)


def test_a_job_that_could_not_be_started_is_the_providers_fault():
    j = job()
    ended = attempt(j, "BOOT_FAIL", started_at=None)

    (call,) = calls(plan(snapshot([j], [submitted(j)], accounting=accounting(ended)), RULES))

    assert call.state is JobState.PANICKED


def test_a_bill_is_not_longer_than_the_paid_time():
    j = job(JobState.RUNNING, lock=CREDIT // 4)

    (call,) = calls(plan(snapshot([j], [submitted(j)], accounting=accounting(attempt(j, "TIMEOUT"))), RULES))

    assert call.seconds == 15


def report(at, *, uid=200_001, slurm_job_id=42, event="end"):
    return NodeReport(sequence=1, event=event, slurm_job_id=slurm_job_id, uid=uid, at=at)


def test_a_nodes_end_lowers_the_bill_of_an_end_that_slurmctld_learned_late():
    j = job(JobState.RUNNING)
    ended = accounting(attempt(j, "COMPLETED"))

    (call,) = calls(plan(snapshot([j], [submitted(j)], accounting=ended, reports=(report(T0 + 10),)), RULES))

    assert call.seconds == 8


@pytest.mark.parametrize(
    "stranger", [report(T0 + 10, uid=0), report(T0 + 10, slurm_job_id=43), report(T0 + 1), report(T0 + 33)]
)
def test_a_report_that_does_not_match_changes_no_bill(stranger):
    j = job(JobState.RUNNING)
    ended = accounting(attempt(j, "COMPLETED"))

    (call,) = calls(plan(snapshot([j], [submitted(j)], accounting=ended, reports=(stranger,)), RULES))

    assert call.seconds == 30


def test_a_job_that_slurm_rejects_is_given_back():
    j = job()
    r = record(
        j,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMIT_REJECTED, T0 + 1, None, "no such partition"),
        (EntryKind.ABSENT, T0 + 40),
    )

    assert calls(plan(snapshot([j], [r]), RULES)) == [Refuse(proof=j.proof)]


def test_a_job_without_a_script_fails_and_costs_nothing():
    j = job()
    r = record(j, (EntryKind.SCRIPT_UNAVAILABLE, T0 + 1, None, "not found"))

    (call,) = calls(plan(snapshot([j], [r]), RULES))

    assert (call.state, call.seconds, call.error) == (JobState.FAILED, 0, "not found")


def test_a_job_whose_credits_do_not_pay_a_minute_fails_at_once():
    j = job(lock=CREDIT - 1)

    (call,) = calls(plan(snapshot([j], [record(j)]), RULES))

    assert call.state is JobState.FAILED


def test_a_job_with_a_malformed_script_id_fails_at_once():
    j = job(stored="a/b")

    (call,) = calls(plan(snapshot([j], [record(j)]), RULES))

    assert call.state is JobState.FAILED


def test_a_cancelled_job_that_runs_is_cancelled_in_slurm():
    j = job(JobState.RUNNING, cancel_requested=True)

    assert cancelled(plan(snapshot([j], [submitted(j)], live=live(attempt(j))), RULES)) == [42]


def test_a_topped_up_job_gets_the_time_it_paid_for():
    j = job(JobState.RUNNING, lock=150 * CREDIT)
    running = attempt(j, time_limit_min=100)

    actions = plan(snapshot([j], [submitted(j)], live=live(running)), RULES)

    assert Extend(slurm_job_id=42, proof=j.proof, time_limit_min=150) in actions


def test_a_cold_job_that_still_runs_is_cancelled_at_once():
    j = job(JobState.CANCELLED)

    assert cancelled(plan(snapshot([j], [submitted(j)], live=live(attempt(j)), height=CLAIM_BLOCK), RULES)) == [42]


def test_a_cold_job_is_closed_once_confirmed_and_gone():
    j = job(JobState.FINISHED)
    since = {j.proof: CLAIM_BLOCK}

    assert plan(snapshot([j], [submitted(j)], unclaimed_since={j.proof: CLAIM_BLOCK + 1}), RULES) == ()
    assert notes(plan(snapshot([j], [submitted(j)], unclaimed_since=since), RULES)) == [EntryKind.CLOSED]


UNCLAIMED = [
    job(JobState.META_SCHEDULED),
    job(JobState.PENDING, provider=""),
    job(provider=OTHER),
    job(JobState.PENDING, stored="other", customer=OTHER, provider=""),
    None,
]


@pytest.mark.parametrize("now_on_chain", UNCLAIMED)
def test_a_claim_that_a_reorg_undid_or_a_lagging_node_hides_is_waited_for(now_on_chain):
    j = job()
    jobs = [now_on_chain] if now_on_chain else []
    since = {j.proof: CLAIM_BLOCK + 1}

    assert plan(snapshot(jobs, [submitted(j)], live=live(attempt(j)), unclaimed_since=since), RULES) == ()


@pytest.mark.parametrize("now_on_chain", [*UNCLAIMED, job(JobState.FINISHED, provider=OTHER)])
def test_blocks_as_old_as_the_claim_undo_nothing(now_on_chain):
    """A node that still reads its way up to the claim."""
    j = job()
    jobs = [now_on_chain] if now_on_chain else []
    behind = snapshot(jobs, [submitted(j)], live=live(attempt(j)), unclaimed_since={j.proof: 1})

    assert plan(replace(behind, head=replace(behind.head, timestamp=T0)), RULES) == ()


@pytest.mark.parametrize("now_on_chain", UNCLAIMED)
def test_an_attempt_of_a_claim_that_stays_undone_is_ended_and_remembered(now_on_chain):
    j = job()
    jobs = [now_on_chain] if now_on_chain else []
    since = {j.proof: CLAIM_BLOCK}

    actions = plan(snapshot(jobs, [submitted(j)], live=live(attempt(j)), unclaimed_since=since), RULES)

    assert notes(actions) == [EntryKind.UNDONE]
    assert cancelled(actions) == [42]
    assert calls(actions) == []


def test_the_end_of_an_attempt_that_we_undid_says_nothing_of_the_job():
    """The chain gave the job to us again after all: it must run, and the customer must not pay for the first try."""
    j = job()
    first = attempt(j, "CANCELLED")
    undone = (EntryKind.UNDONE, first.submitted_at, 42)
    r = record(
        j, (EntryKind.SUBMIT_INTENDED, T0 + 1), (EntryKind.SUBMITTED, T0 + 1, 42), undone, (EntryKind.ABSENT, T0 + 50)
    )

    actions = plan(snapshot([j], [r], live=live(first), accounting=accounting(first)), RULES)

    assert [type(action) for action in actions] == [Submit]


def test_nothing_new_is_submitted_while_an_undone_attempt_still_ends():
    j = job()
    first = attempt(j)
    undone = (EntryKind.UNDONE, first.submitted_at, 42)
    r = record(
        j, (EntryKind.SUBMIT_INTENDED, T0 + 1), (EntryKind.SUBMITTED, T0 + 1, 42), undone, (EntryKind.ABSENT, T0 + 50)
    )

    actions = plan(snapshot([j], [r], live=live(first)), RULES)

    assert [type(action) for action in actions] == [Cancel]


def test_a_submission_whose_outcome_is_unknown_may_still_arrive():
    j = job()
    r = record(j, (EntryKind.SUBMIT_INTENDED, T0 + 1), (EntryKind.ABSENT, T0 + 20))

    assert plan(snapshot([j], [r]), RULES) == ()
    later = snapshot([j], [r], live=live(at=T0 + 61), now=T0 + 61)
    assert [type(action) for action in plan(later, RULES)] == [Submit]


def test_submissions_that_never_reached_slurm_are_no_attempts():
    j = job()
    tries = [(EntryKind.SUBMIT_INTENDED, T0 - 200 + n) for n in range(10)]

    assert record(j, *tries).attempts == 0


def test_an_orphan_of_our_contracts_is_cancelled():
    j = job(provider=OTHER)

    assert cancelled(plan(snapshot([j], live=live(attempt(j)), now=T0 + 120), RULES)) == [42]


def test_an_attempt_of_other_contracts_is_none_of_our_business():
    rules = replace(RULES, contract="0x" + "dd" * 20)

    assert plan(snapshot([], live=live(attempt(job()))), rules) == ()


def test_waiting_claims_are_claimed_at_once():
    waiting = snapshot(queues=QueueSizes(claimable=3, cancelling=0, top_up=0))

    assert calls(plan(waiting, RULES)) == [ClaimJobs(limit=RULES.claim_limit)]


def test_what_waits_on_plain_contracts_is_claimed_one_by_one_at_once():
    rules = replace(RULES, plain_slack_min=15, claim_limit=4)
    puts = plan(snapshot(queues=QueueSizes(claimable=9, cancelling=2, top_up=1)), rules)

    assert [put.call for put in puts] == [ClaimJobs(limit=4)] * 4 + [ClaimCancelling()] * 2 + [ClaimTopUp()]
    assert len({put.key for put in puts}) == len(puts)


def test_a_report_to_plain_contracts_stays_within_their_slack():
    j = replace(job(JobState.RUNNING), started_at=T0 - 1000)
    ended = replace(attempt(j, "COMPLETED"), started_at=T0 - 7200, ended_at=T0 - 1800)
    snap = snapshot([j], [submitted(j)], accounting=accounting(ended))

    (whole,) = calls(plan(snap, RULES))
    (within,) = calls(plan(snap, replace(RULES, plain_slack_min=15)))
    assert whole.seconds == 5400
    assert within.seconds == (snap.head.timestamp - j.started_at) // 60 * 60 + 900


def test_a_claim_that_is_under_way_is_not_made_twice():
    waiting = snapshot(queues=QueueSizes(claimable=3, cancelling=0, top_up=0), open_keys=frozenset({"claim:90"}))

    assert plan(waiting, RULES) == ()


def test_a_rejection_wins_over_the_record_that_slurm_leaves_of_it():
    j = job()
    r = record(j, (EntryKind.SUBMIT_INTENDED, T0 + 1), (EntryKind.SUBMIT_REJECTED, T0 + 1, None, "no such gres"))
    left = accounting(attempt(j, "FAILED", started_at=None))

    assert calls(plan(snapshot([j], [r], accounting=left), RULES)) == [Refuse(proof=j.proof)]
