# SPDX-License-Identifier: Apache-2.0
"""What the entries of a job add up to."""

import pytest
from tests.unit.domain.builders import T0, job, record

from gridstead.domain.journal import EntryKind, JournalEntry, JournalRecord, apply


def test_a_job_is_claimed_when_it_was_first_seen():
    assert record(job(), (EntryKind.CLAIMED, T0 + 50)).claimed_at == T0


def test_an_id_that_slurm_gave_before_is_no_further_attempt():
    seen = record(job(), (EntryKind.SUBMITTED, T0, 42), (EntryKind.SEEN, T0 + 6, 42))

    assert (seen.attempts, seen.slurm_job_id, seen.seen) == (1, 42, True)
    assert record(job(), (EntryKind.SUBMITTED, T0, 42), (EntryKind.SEEN, T0 + 6, 43)).attempts == 2


@pytest.mark.parametrize(("reason", "told"), [("no partition", "no partition"), ("", "rejected")])
def test_a_rejection_has_a_reason_until_the_next_submission(reason, told):
    rejected = record(job(), (EntryKind.SUBMIT_REJECTED, T0 + 1, None, reason))

    assert (rejected.rejected, rejected.rejected_at, rejected.rejections) == (told, T0 + 1, 1)
    again = apply(
        rejected,
        JournalEntry(job_key=rejected.job_key, kind=EntryKind.SUBMIT_INTENDED, occurred_at=T0 + 61),
    )
    assert (again.rejected, again.rejections) == ("", 1)


@pytest.mark.parametrize(("reason", "told"), [("not found", "not found"), ("", "no script")])
def test_a_job_without_a_script_cannot_run(reason, told):
    assert record(job(), (EntryKind.SCRIPT_UNAVAILABLE, T0, None, reason)).unrunnable == told


def test_absence_counts_from_the_first_sample_in_a_row_without_a_trace():
    samples = [(EntryKind.ABSENT, T0 + 10), (EntryKind.ABSENT, T0 + 20)]

    assert record(job(), *samples).absent_since == T0 + 10
    present = (EntryKind.PRESENT, T0 + 25)
    assert record(job(), *samples, present).absent_since is None
    assert record(job(), *samples, present, (EntryKind.ABSENT, T0 + 30)).absent_since == T0 + 30


def test_a_stranger_changes_nothing():
    submitted = (EntryKind.SUBMITTED, T0, 42)
    stranger = (EntryKind.IMPOSTOR, T0 + 1, None, "uid 0")

    assert record(job(), submitted, stranger) == record(job(), submitted)


def test_a_closed_job_has_no_record():
    closed = record(job(), (EntryKind.SUBMITTED, T0, 42), (EntryKind.CLOSED, T0 + 99))

    assert closed == JournalRecord(job_key=job().job_key)
