# SPDX-License-Identifier: Apache-2.0
"""Tests of the supervisor's plan for attempts whose job is no longer claimed by this provider.

An attempt is a Slurm job that was submitted for a job of the grid. A provider claims a job on the
chain. A claim can disappear in a reorganisation of the chain. An orphan is an attempt that has no
record in the journal and whose job is not claimed by this provider.
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
    snapshot,
    submitted_record,
)

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.actions import Cancel, Submit
from gridstead.domain.supervisor.journal import EntryKind, JournalEntry, JournalRecords
from gridstead.domain.supervisor.reconcile import plan_jobs

# The states of the job on the chain after its claim disappeared. None if the chain has no such job.
UNCLAIMED = [
    job(JobState.META_SCHEDULED),
    job(JobState.PENDING, provider=""),
    job(provider=OTHER_ADDRESS),
    job(JobState.PENDING, batch_location_hash="other", customer=OTHER_ADDRESS, provider=""),
    None,
]


def jobs_on_chain(job_on_chain):
    return [] if job_on_chain is None else [job_on_chain]


def test_running_attempt_of_a_job_that_ended_on_the_chain_is_cancelled_at_once():
    our_job = job(JobState.CANCELLED)

    actions = planned_actions(
        [our_job],
        [submitted_record(our_job)],
        controller_sample=controller_sample(attempt(our_job)),
        height=CLAIM_BLOCK,
    )

    assert cancelled_ids(actions) == [42]


# The newest block is CLAIM_BLOCK + CONFIRMATIONS.
@pytest.mark.parametrize(
    ("unclaimed_since_block", "kinds"), [(CLAIM_BLOCK + 1, []), (CLAIM_BLOCK, [EntryKind.CLOSED])]
)
def test_ended_job_without_attempts_is_closed_after_the_confirmations(unclaimed_since_block, kinds):
    our_job = job(JobState.FINISHED)

    actions = planned_actions(
        [our_job],
        [submitted_record(our_job)],
        unclaimed_since_block={our_job.job_key: unclaimed_since_block},
    )

    assert journal_entry_kinds(actions) == kinds
    assert len(actions) == len(kinds)


# The supervisor started the submission at T0 + 1, and it may reach Slurm for 60 seconds.
@pytest.mark.parametrize(("now", "kinds"), [(T0 + 61, []), (T0 + 62, [EntryKind.CLOSED])])
def test_job_is_not_closed_while_its_submission_may_still_reach_slurm(now, kinds):
    our_job = job(JobState.FINISHED)
    record_without_result = journal_record(our_job, (EntryKind.SUBMIT_INTENDED, T0 + 1))

    actions = planned_actions(
        [our_job],
        [record_without_result],
        unclaimed_since_block={our_job.job_key: CLAIM_BLOCK},
        now=now,
    )

    assert journal_entry_kinds(actions) == kinds
    assert len(actions) == len(kinds)


def test_job_is_not_closed_if_slurmctld_does_not_answer():
    our_job = job(JobState.FINISHED)

    actions = planned_actions(
        [our_job],
        [submitted_record(our_job)],
        controller_sample=None,
        unclaimed_since_block={our_job.job_key: CLAIM_BLOCK},
    )

    assert actions == ()


def test_attempt_that_survived_its_cancellation_is_cancelled_again():
    our_job = job(JobState.CANCELLED)
    cancelled_record = journal_record(
        our_job, (EntryKind.SUBMITTED, T0 + 1, 42), (EntryKind.CANCELLED_BY_US, T0 + 1, 42)
    )

    actions = planned_actions(
        [our_job], [cancelled_record], controller_sample=controller_sample(attempt(our_job))
    )

    assert [type(action) for action in actions] == [Cancel]


@pytest.mark.parametrize("job_on_chain", UNCLAIMED)
def test_attempt_is_not_cancelled_until_its_claim_is_missing_for_enough_blocks(job_on_chain):
    our_job = job()

    actions = planned_actions(
        jobs_on_chain(job_on_chain),
        [submitted_record(our_job)],
        controller_sample=controller_sample(attempt(our_job)),
        # The newest block is CLAIM_BLOCK + CONFIRMATIONS. One more block is needed.
        unclaimed_since_block={our_job.job_key: CLAIM_BLOCK + 1},
    )

    assert actions == ()


@pytest.mark.parametrize("job_on_chain", UNCLAIMED)
def test_attempt_is_cancelled_when_its_claim_is_missing_for_enough_blocks(job_on_chain):
    our_job = job()

    actions = planned_actions(
        jobs_on_chain(job_on_chain),
        [submitted_record(our_job)],
        controller_sample=controller_sample(attempt(our_job)),
        unclaimed_since_block={our_job.job_key: CLAIM_BLOCK},
    )

    assert journal_entry_kinds(actions) == [EntryKind.CANCELLED_BY_US]
    assert cancelled_ids(actions) == [42]
    assert calls_of(actions) == []


@pytest.mark.parametrize(
    "job_on_chain", [*UNCLAIMED, job(JobState.FINISHED, provider=OTHER_ADDRESS)]
)
def test_attempt_is_not_cancelled_if_the_latest_block_is_older_than_the_claim(job_on_chain):
    """The blockchain node lags behind and does not have the block of the claim yet."""
    our_job = job()
    state = snapshot(
        jobs_on_chain(job_on_chain),
        [submitted_record(our_job)],
        controller_sample=controller_sample(attempt(our_job)),
        unclaimed_since_block={our_job.job_key: 1},
    )
    older_head = replace(state.head, timestamp=T0)

    assert plan_jobs(replace(state, head=older_head), POLICY) == ()


def record_of_a_cancelled_attempt(our_job, cancelled_attempt):
    """Return the record of a job whose attempt was cancelled and then absent from Slurm."""
    return journal_record(
        our_job,
        (EntryKind.SUBMIT_INTENDED, T0 + 1),
        (EntryKind.SUBMITTED, T0 + 1, 42),
        (EntryKind.CANCELLED_BY_US, cancelled_attempt.submitted_at, 42),
        (EntryKind.ABSENT, T0 + 50),
    )


def test_job_that_is_claimed_again_is_submitted_again():
    """The attempt that we cancelled after the first claim must not be billed."""
    our_job = job()
    cancelled_attempt = attempt(our_job, "CANCELLED")

    actions = planned_actions(
        [our_job],
        [record_of_a_cancelled_attempt(our_job, cancelled_attempt)],
        controller_sample=controller_sample(cancelled_attempt),
        accounting_sample=accounting_sample(cancelled_attempt),
    )

    assert [type(action) for action in actions] == [Submit]


def test_job_is_not_submitted_again_while_its_cancelled_attempt_is_alive():
    our_job = job()
    live_attempt = attempt(our_job)

    actions = planned_actions(
        [our_job],
        [record_of_a_cancelled_attempt(our_job, live_attempt)],
        controller_sample=controller_sample(live_attempt),
    )

    assert [type(action) for action in actions] == [Cancel]


def test_orphan_for_a_job_of_our_contracts_is_cancelled():
    other_job = job(provider=OTHER_ADDRESS)

    actions = planned_actions(
        [other_job], controller_sample=controller_sample(attempt(other_job)), now=T0 + 120
    )

    assert cancelled_ids(actions) == [42]


def test_attempt_of_a_claimed_job_without_a_record_is_not_cancelled():
    our_job = job()

    assert (
        planned_actions(
            [our_job], controller_sample=controller_sample(attempt(our_job)), now=T0 + 120
        )
        == ()
    )


def test_orphan_is_not_cancelled_while_its_claim_may_be_in_a_later_block():
    other_job = job(provider=OTHER_ADDRESS)
    # The attempt was submitted at T0 + 1. The supervisor waits 60 seconds for the claim.

    assert (
        planned_actions(
            [other_job], controller_sample=controller_sample(attempt(other_job)), now=T0 + 60
        )
        == ()
    )


def test_attempt_for_a_job_of_other_contracts_is_not_cancelled():
    policy = replace(POLICY, contract="0x" + "dd" * 20)

    assert (
        planned_actions(
            policy=policy, controller_sample=controller_sample(attempt(job())), now=T0 + 120
        )
        == ()
    )


def test_cancelled_attempts_are_retained_after_a_job_is_closed():
    job_key = job().job_key
    records = JournalRecords()
    cancelled_entry = JournalEntry(
        job_key=job_key, kind=EntryKind.CANCELLED_BY_US, occurred_at=T0, slurm_job_id=42
    )
    claimed_entry = JournalEntry(job_key=job_key, kind=EntryKind.CLAIMED, occurred_at=T0)
    closed_entry = JournalEntry(job_key=job_key, kind=EntryKind.CLOSED, occurred_at=T0)

    records.extend([cancelled_entry])
    assert records.by_job_key == {}
    records.extend([claimed_entry, closed_entry, claimed_entry])

    assert records.by_job_key[job_key].cancelled_by_us == {(42, T0)}
