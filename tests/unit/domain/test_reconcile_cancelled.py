# SPDX-License-Identifier: Apache-2.0
"""What the plan undoes, and what it leaves alone, when the chain takes a job away."""

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

from gridstead.domain.actions import Cancel, Submit
from gridstead.domain.journal import EntryKind, JournalEntry, JournalRecords
from gridstead.domain.lifecycle import JobState
from gridstead.domain.reconcile import plan_jobs


def test_a_cold_job_that_still_runs_is_cancelled_at_once():
    j = job(JobState.CANCELLED)

    assert cancelled(
        plan_jobs(snapshot([j], [submitted(j)], live=live(attempt(j)), height=CLAIM_BLOCK), RULES)
    ) == [42]


def test_a_cold_job_is_closed_once_confirmed_and_gone():
    j = job(JobState.FINISHED)
    since = {j.job_key: CLAIM_BLOCK}

    assert (
        plan_jobs(
            snapshot([j], [submitted(j)], unclaimed_since={j.job_key: CLAIM_BLOCK + 1}), RULES
        )
        == ()
    )
    assert notes(plan_jobs(snapshot([j], [submitted(j)], unclaimed_since=since), RULES)) == [
        EntryKind.CLOSED
    ]


def test_a_job_is_not_closed_while_its_submission_may_still_arrive():
    j = job(JobState.FINISHED)
    r = record(j, (EntryKind.SUBMIT_INTENDED, T0 + 1))
    gone = snapshot([j], [r], unclaimed_since={j.job_key: CLAIM_BLOCK}, now=T0 + 61)

    assert plan_jobs(gone, RULES) == ()
    assert notes(plan_jobs(replace(gone, now=T0 + 62), RULES)) == [EntryKind.CLOSED]


def test_a_job_is_not_closed_while_slurmctld_is_silent():
    j = job(JobState.FINISHED)

    assert (
        plan_jobs(
            snapshot([j], [submitted(j)], live=None, unclaimed_since={j.job_key: CLAIM_BLOCK}),
            RULES,
        )
        == ()
    )


def test_an_undone_attempt_that_still_runs_is_cancelled_again_and_noted_once():
    j = job(JobState.CANCELLED)
    r = record(j, (EntryKind.SUBMITTED, T0 + 1, 42), (EntryKind.CANCELLED_BY_US, T0 + 1, 42))

    actions = plan_jobs(snapshot([j], [r], live=live(attempt(j))), RULES)

    assert [type(action) for action in actions] == [Cancel]


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
    since = {j.job_key: CLAIM_BLOCK + 1}

    assert (
        plan_jobs(
            snapshot(jobs, [submitted(j)], live=live(attempt(j)), unclaimed_since=since), RULES
        )
        == ()
    )


@pytest.mark.parametrize("now_on_chain", [*UNCLAIMED, job(JobState.FINISHED, provider=OTHER)])
def test_blocks_as_old_as_the_claim_undo_nothing(now_on_chain):
    """A node that still reads its way up to the claim."""
    j = job()
    jobs = [now_on_chain] if now_on_chain else []
    behind = snapshot(jobs, [submitted(j)], live=live(attempt(j)), unclaimed_since={j.job_key: 1})

    assert plan_jobs(replace(behind, head=replace(behind.head, timestamp=T0)), RULES) == ()


@pytest.mark.parametrize("now_on_chain", UNCLAIMED)
def test_an_attempt_of_a_claim_that_stays_undone_is_ended_and_remembered(now_on_chain):
    j = job()
    jobs = [now_on_chain] if now_on_chain else []
    since = {j.job_key: CLAIM_BLOCK}

    actions = plan_jobs(
        snapshot(jobs, [submitted(j)], live=live(attempt(j)), unclaimed_since=since), RULES
    )

    assert notes(actions) == [EntryKind.CANCELLED_BY_US]
    assert cancelled(actions) == [42]
    assert calls(actions) == []


def test_the_end_of_an_attempt_that_we_undid_says_nothing_of_the_job():
    """The chain gave the job to us again after all: it must run, and the customer must not pay for
    the first try.
    """
    j = job()
    first = attempt(j, "CANCELLED")
    cancelled_by_us = (EntryKind.CANCELLED_BY_US, first.submitted_at, 42)
    r = record(
        j,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMITTED, T0 + 1, 42),
        cancelled_by_us,
        (EntryKind.ABSENT, T0 + 50),
    )

    actions = plan_jobs(snapshot([j], [r], live=live(first), accounting=accounting(first)), RULES)

    assert [type(action) for action in actions] == [Submit]


def test_nothing_new_is_submitted_while_an_undone_attempt_still_ends():
    j = job()
    first = attempt(j)
    cancelled_by_us = (EntryKind.CANCELLED_BY_US, first.submitted_at, 42)
    r = record(
        j,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMITTED, T0 + 1, 42),
        cancelled_by_us,
        (EntryKind.ABSENT, T0 + 50),
    )

    actions = plan_jobs(snapshot([j], [r], live=live(first)), RULES)

    assert [type(action) for action in actions] == [Cancel]


def test_an_orphan_of_our_contracts_is_cancelled():
    j = job(provider=OTHER)

    assert cancelled(plan_jobs(snapshot([j], live=live(attempt(j)), now=T0 + 120), RULES)) == [42]


def test_an_attempt_of_a_claim_that_no_record_knows_yet_is_left_alone():
    j = job()

    assert plan_jobs(snapshot([j], live=live(attempt(j)), now=T0 + 120), RULES) == ()


def test_an_orphan_is_left_alone_while_the_chain_may_lag_behind_it():
    j = job(provider=OTHER)

    assert plan_jobs(snapshot([j], live=live(attempt(j)), now=T0 + 60), RULES) == ()


def test_an_attempt_of_other_contracts_is_none_of_our_business():
    rules = replace(RULES, contract="0x" + "dd" * 20)

    assert plan_jobs(snapshot([], live=live(attempt(job()))), rules) == ()


def test_what_was_undone_opens_no_record_and_outlives_one():
    job_key, records = job().job_key, JournalRecords()
    claimed, closed = (
        JournalEntry(job_key=job_key, kind=kind, occurred_at=T0)
        for kind in (EntryKind.CLAIMED, EntryKind.CLOSED)
    )

    records.extend(
        [
            JournalEntry(
                job_key=job_key, kind=EntryKind.CANCELLED_BY_US, occurred_at=T0, slurm_job_id=42
            )
        ]
    )
    assert records.by_job_key == {}
    records.extend([claimed, closed, claimed])

    assert records.by_job_key[job_key].cancelled_by_us == {(42, T0)}
