# SPDX-License-Identifier: Apache-2.0
"""What the plan cancels, and what it does not cancel, when a claim disappears from the chain."""

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

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.actions import Cancel, Submit
from gridstead.domain.supervisor.journal import EntryKind, JournalEntry, JournalRecords
from gridstead.domain.supervisor.reconcile import plan_jobs


def test_running_attempt_of_a_cold_job_is_cancelled_at_once():
    our_job = job(JobState.CANCELLED)

    assert cancelled(
        plan_jobs(
            snapshot(
                [our_job], [submitted(our_job)], live=live(attempt(our_job)), height=CLAIM_BLOCK
            ),
            RULES,
        )
    ) == [42]


def test_cold_job_without_attempts_is_closed_after_the_confirmations():
    our_job = job(JobState.FINISHED)
    since = {our_job.job_key: CLAIM_BLOCK}

    assert (
        plan_jobs(
            snapshot(
                [our_job], [submitted(our_job)], unclaimed_since={our_job.job_key: CLAIM_BLOCK + 1}
            ),
            RULES,
        )
        == ()
    )
    assert notes(
        plan_jobs(snapshot([our_job], [submitted(our_job)], unclaimed_since=since), RULES)
    ) == [EntryKind.CLOSED]


def test_job_is_not_closed_while_its_submission_may_still_arrive():
    our_job = job(JobState.FINISHED)
    journal_record = record(our_job, (EntryKind.SUBMIT_INTENDED, T0 + 1))
    gone = snapshot(
        [our_job], [journal_record], unclaimed_since={our_job.job_key: CLAIM_BLOCK}, now=T0 + 61
    )

    assert plan_jobs(gone, RULES) == ()
    assert notes(plan_jobs(replace(gone, now=T0 + 62), RULES)) == [EntryKind.CLOSED]


def test_job_is_not_closed_if_slurmctld_does_not_answer():
    our_job = job(JobState.FINISHED)

    assert (
        plan_jobs(
            snapshot(
                [our_job],
                [submitted(our_job)],
                live=None,
                unclaimed_since={our_job.job_key: CLAIM_BLOCK},
            ),
            RULES,
        )
        == ()
    )


def test_attempt_that_survived_our_cancellation_is_cancelled_again():
    our_job = job(JobState.CANCELLED)
    journal_record = record(
        our_job, (EntryKind.SUBMITTED, T0 + 1, 42), (EntryKind.CANCELLED_BY_US, T0 + 1, 42)
    )

    actions = plan_jobs(snapshot([our_job], [journal_record], live=live(attempt(our_job))), RULES)

    assert [type(action) for action in actions] == [Cancel]


UNCLAIMED = [
    job(JobState.META_SCHEDULED),
    job(JobState.PENDING, provider=""),
    job(provider=OTHER),
    job(JobState.PENDING, stored="other", customer=OTHER, provider=""),
    None,
]


@pytest.mark.parametrize("job_on_chain", UNCLAIMED)
def test_missing_claim_is_waited_for_until_the_confirmations(job_on_chain):
    our_job = job()
    jobs = [job_on_chain] if job_on_chain else []
    since = {our_job.job_key: CLAIM_BLOCK + 1}

    assert (
        plan_jobs(
            snapshot(
                jobs, [submitted(our_job)], live=live(attempt(our_job)), unclaimed_since=since
            ),
            RULES,
        )
        == ()
    )


@pytest.mark.parametrize("job_on_chain", [*UNCLAIMED, job(JobState.FINISHED, provider=OTHER)])
def test_blocks_that_are_older_than_the_claim_are_ignored(job_on_chain):
    """The node lags behind and has not read the block of the claim yet."""
    our_job = job()
    jobs = [job_on_chain] if job_on_chain else []
    behind = snapshot(
        jobs,
        [submitted(our_job)],
        live=live(attempt(our_job)),
        unclaimed_since={our_job.job_key: 1},
    )

    assert plan_jobs(replace(behind, head=replace(behind.head, timestamp=T0)), RULES) == ()


@pytest.mark.parametrize("job_on_chain", UNCLAIMED)
def test_attempt_is_cancelled_if_its_claim_is_missing_for_the_confirmations(job_on_chain):
    our_job = job()
    jobs = [job_on_chain] if job_on_chain else []
    since = {our_job.job_key: CLAIM_BLOCK}

    actions = plan_jobs(
        snapshot(jobs, [submitted(our_job)], live=live(attempt(our_job)), unclaimed_since=since),
        RULES,
    )

    assert notes(actions) == [EntryKind.CANCELLED_BY_US]
    assert cancelled(actions) == [42]
    assert calls(actions) == []


def test_job_is_submitted_again_after_we_cancelled_its_attempt():
    """The job is claimed by us again: it must run, and the first attempt must not be billed."""
    our_job = job()
    first = attempt(our_job, "CANCELLED")
    cancelled_by_us = (EntryKind.CANCELLED_BY_US, first.submitted_at, 42)
    journal_record = record(
        our_job,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMITTED, T0 + 1, 42),
        cancelled_by_us,
        (EntryKind.ABSENT, T0 + 50),
    )

    actions = plan_jobs(
        snapshot([our_job], [journal_record], live=live(first), accounting=accounting(first)), RULES
    )

    assert [type(action) for action in actions] == [Submit]


def test_job_is_not_submitted_while_its_cancelled_attempt_is_alive():
    our_job = job()
    first = attempt(our_job)
    cancelled_by_us = (EntryKind.CANCELLED_BY_US, first.submitted_at, 42)
    journal_record = record(
        our_job,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMITTED, T0 + 1, 42),
        cancelled_by_us,
        (EntryKind.ABSENT, T0 + 50),
    )

    actions = plan_jobs(snapshot([our_job], [journal_record], live=live(first)), RULES)

    assert [type(action) for action in actions] == [Cancel]


def test_orphan_of_our_contracts_is_cancelled():
    our_job = job(provider=OTHER)

    assert cancelled(
        plan_jobs(snapshot([our_job], live=live(attempt(our_job)), now=T0 + 120), RULES)
    ) == [42]


def test_attempt_of_a_claimed_job_without_a_record_is_not_cancelled():
    our_job = job()

    assert plan_jobs(snapshot([our_job], live=live(attempt(our_job)), now=T0 + 120), RULES) == ()


def test_orphan_is_not_cancelled_while_it_is_younger_than_the_newest_block():
    our_job = job(provider=OTHER)

    assert plan_jobs(snapshot([our_job], live=live(attempt(our_job)), now=T0 + 60), RULES) == ()


def test_attempt_of_other_contracts_is_not_cancelled():
    rules = replace(RULES, contract="0x" + "dd" * 20)

    assert plan_jobs(snapshot([], live=live(attempt(job())), now=T0 + 120), rules) == ()


def test_cancelled_attempts_are_retained_after_a_job_is_closed():
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
