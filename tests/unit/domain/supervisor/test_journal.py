# SPDX-License-Identifier: Apache-2.0
"""Tests of the record of a job, which the supervisor computes from the job's journal entries."""

import pytest
from tests.unit.domain.builders import T0, job, journal_record

from gridstead.domain.supervisor.journal import EntryKind, JournalEntry, JournalRecords, apply


def test_claim_time_is_the_time_of_the_first_claim():
    record = journal_record(job(), (EntryKind.CLAIMED, T0 + 50))

    assert record.claimed_at == T0


def test_second_entry_with_the_same_slurm_job_id_is_not_a_new_attempt():
    record = journal_record(job(), (EntryKind.SUBMITTED, T0, 42), (EntryKind.SEEN, T0 + 6, 42))

    assert record.attempt_count == 1
    assert record.slurm_job_id == 42
    assert record.is_durable


def test_second_entry_with_a_new_slurm_job_id_is_a_new_attempt():
    record = journal_record(job(), (EntryKind.SUBMITTED, T0, 42), (EntryKind.SEEN, T0 + 6, 43))

    assert record.attempt_count == 2


def test_attempt_that_we_cancelled_is_not_counted():
    submitted_entries = [(EntryKind.SUBMITTED, T0, 42), (EntryKind.SEEN, T0 + 6, 43)]
    cancelled_entry = (EntryKind.CANCELLED_BY_US, T0 + 1, 43)

    record = journal_record(job(), *submitted_entries, cancelled_entry, cancelled_entry)

    assert record.attempt_count == 1


def test_cancellation_of_an_earlier_attempt_does_not_change_the_count():
    submitted_entries = [(EntryKind.SUBMITTED, T0, 42), (EntryKind.SEEN, T0 + 6, 43)]

    record = journal_record(job(), *submitted_entries, (EntryKind.CANCELLED_BY_US, T0, 42))

    assert record.attempt_count == 2


@pytest.mark.parametrize(
    ("reason", "recorded_reason"), [("no partition", "no partition"), ("", "rejected")]
)
def test_rejection_has_a_reason_until_the_next_submission(reason, recorded_reason):
    rejected_record = journal_record(job(), (EntryKind.SUBMIT_REJECTED, T0 + 1, None, reason))

    assert rejected_record.rejection_reason == recorded_reason
    assert rejected_record.rejected_at == T0 + 1
    assert rejected_record.rejection_count == 1

    intended_entry = JournalEntry(
        job_key=rejected_record.job_key, kind=EntryKind.SUBMIT_INTENDED, occurred_at=T0 + 61
    )
    resubmitted_record = apply(rejected_record, intended_entry)
    assert resubmitted_record.rejection_reason == ""
    assert resubmitted_record.rejection_count == 1


@pytest.mark.parametrize(
    ("reason", "recorded_reason"), [("not found", "not found"), ("", "no script")]
)
def test_job_without_a_script_is_unrunnable(reason, recorded_reason):
    record = journal_record(job(), (EntryKind.SCRIPT_UNAVAILABLE, T0, None, reason))

    assert record.unrunnable_reason == recorded_reason


def test_absence_starts_at_the_first_of_consecutive_absent_samples():
    record = journal_record(job(), (EntryKind.ABSENT, T0 + 10), (EntryKind.ABSENT, T0 + 20))

    assert record.absent_since == T0 + 10


def test_absence_ends_when_the_job_is_present():
    absent_then_present = [(EntryKind.ABSENT, T0 + 10), (EntryKind.PRESENT, T0 + 25)]
    record = journal_record(job(), *absent_then_present)
    assert record.absent_since is None

    absent_again = journal_record(job(), *absent_then_present, (EntryKind.ABSENT, T0 + 30))
    assert absent_again.absent_since == T0 + 30


def test_impostor_does_not_change_the_record():
    """An impostor is a Slurm job that has the job's key but does not belong to the job."""
    submitted_entry = (EntryKind.SUBMITTED, T0, 42)
    impostor = (EntryKind.IMPOSTOR, T0 + 1, None, "uid 0")

    assert journal_record(job(), submitted_entry, impostor) == journal_record(
        job(), submitted_entry
    )


def test_closed_job_has_no_record():
    job_key = job().job_key
    claimed_entry = JournalEntry(job_key=job_key, kind=EntryKind.CLAIMED, occurred_at=T0)
    closed_entry = JournalEntry(job_key=job_key, kind=EntryKind.CLOSED, occurred_at=T0 + 99)
    records = JournalRecords()

    records.extend([claimed_entry, closed_entry])

    assert records.by_job_key == {}
