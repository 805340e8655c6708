# SPDX-License-Identifier: Apache-2.0
"""The record of a job that follows from its journal entries."""

import pytest
from tests.unit.domain.builders import T0, job, record

from gridstead.domain.supervisor.journal import EntryKind, JournalEntry, JournalRecord, apply


def test_claim_time_is_the_time_of_the_first_claim():
    assert record(job(), (EntryKind.CLAIMED, T0 + 50)).claimed_at == T0


def test_known_slurm_job_id_is_not_a_new_attempt():
    seen = record(job(), (EntryKind.SUBMITTED, T0, 42), (EntryKind.SEEN, T0 + 6, 42))

    assert (seen.attempt_count, seen.slurm_job_id, seen.is_durable) == (1, 42, True)
    assert (
        record(job(), (EntryKind.SUBMITTED, T0, 42), (EntryKind.SEEN, T0 + 6, 43)).attempt_count
        == 2
    )


@pytest.mark.parametrize(
    ("reason", "recorded"), [("no partition", "no partition"), ("", "rejected")]
)
def test_rejection_has_a_reason_until_the_next_submission(reason, recorded):
    rejected = record(job(), (EntryKind.SUBMIT_REJECTED, T0 + 1, None, reason))

    assert (rejected.rejection_reason, rejected.rejected_at, rejected.rejection_count) == (
        recorded,
        T0 + 1,
        1,
    )
    again = apply(
        rejected,
        JournalEntry(job_key=rejected.job_key, kind=EntryKind.SUBMIT_INTENDED, occurred_at=T0 + 61),
    )
    assert (again.rejection_reason, again.rejection_count) == ("", 1)


@pytest.mark.parametrize(("reason", "recorded"), [("not found", "not found"), ("", "no script")])
def test_job_without_a_script_is_unrunnable(reason, recorded):
    assert (
        record(job(), (EntryKind.SCRIPT_UNAVAILABLE, T0, None, reason)).unrunnable_reason
        == recorded
    )


def test_absence_starts_at_the_first_consecutive_absent_sample():
    samples = [(EntryKind.ABSENT, T0 + 10), (EntryKind.ABSENT, T0 + 20)]

    assert record(job(), *samples).absent_since == T0 + 10
    present = (EntryKind.PRESENT, T0 + 25)
    assert record(job(), *samples, present).absent_since is None
    assert record(job(), *samples, present, (EntryKind.ABSENT, T0 + 30)).absent_since == T0 + 30


def test_impostor_does_not_change_the_record():
    submitted = (EntryKind.SUBMITTED, T0, 42)
    impostor = (EntryKind.IMPOSTOR, T0 + 1, None, "uid 0")

    assert record(job(), submitted, impostor) == record(job(), submitted)


def test_closed_job_has_no_record():
    closed = record(job(), (EntryKind.SUBMITTED, T0, 42), (EntryKind.CLOSED, T0 + 99))

    assert closed == JournalRecord(job_key=job().job_key)
