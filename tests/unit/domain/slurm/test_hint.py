# SPDX-License-Identifier: Apache-2.0
"""The hints in reports of nodes and in the job completion spool, and the token bucket.

A hint says that a Slurm job has started or ended.
"""

import json

import pytest
from tests.unit.domain.builders import job

from gridstead.domain.slurm.hint import (
    Hint,
    MungeCredential,
    TokenBucket,
    parse_completion,
    parse_report,
    report_of_root,
)
from gridstead.errors import NotAllowed, UnexpectedOutput

# Version, event, Slurm job id, uid, step, node, start time and end time.
END_REPORT = "gridstead1 end 12 200001 batch compute1 1790000000 1790000060"


def completion_line(**changes):
    """Return a line of the job completion spool."""
    record = {
        "version": 1,
        "slurm_job_id": 12,
        "uid": 200_001,
        "end_s": 1_790_000_060,
        "admin_comment": str(job().job_key),
    }
    return json.dumps(record | changes)


@pytest.mark.parametrize("uid", [1, 200_001])
def test_credential_of_a_user_other_than_root_is_refused(uid):
    with pytest.raises(NotAllowed, match=f"uid {uid} "):
        report_of_root(MungeCredential(payload=END_REPORT.encode(), uid=uid, ttl_s=30))


@pytest.mark.parametrize("ttl_s", [-1, 0, 61])
def test_credential_with_too_short_or_too_long_a_lifetime_is_refused(ttl_s):
    with pytest.raises(NotAllowed, match="valid for too long") as error:
        report_of_root(MungeCredential(payload=END_REPORT.encode(), uid=0, ttl_s=ttl_s))

    assert error.value.detail.startswith(f"{ttl_s} s")


@pytest.mark.parametrize("ttl_s", [1, 60])
def test_report_in_a_credential_of_root_is_accepted(ttl_s):
    assert (
        report_of_root(MungeCredential(payload=END_REPORT.encode(), uid=0, ttl_s=ttl_s))
        == END_REPORT
    )


def test_non_ascii_bytes_in_a_report_are_replaced():
    text = report_of_root(MungeCredential(payload=b"a\xff", uid=0, ttl_s=30))

    assert text == "a\N{REPLACEMENT CHARACTER}"


MALFORMED_REPORTS = [
    "",
    "gridstead2" + END_REPORT[10:],
    END_REPORT.replace(" end ", " paid "),
    END_REPORT + " more",
    END_REPORT + "\n",
]


@pytest.mark.parametrize("text", MALFORMED_REPORTS)
def test_malformed_report_is_refused(text):
    with pytest.raises(UnexpectedOutput, match="node report"):
        parse_report(text)


# 4294967292 is the number of the extern step in Slurm (SLURM_EXTERN_CONT).
@pytest.mark.parametrize("step", ["extern", "0", "4294967292"])
def test_report_of_a_step_other_than_the_batch_step_is_not_a_hint(step):
    assert parse_report(END_REPORT.replace("batch", step)) is None


# 4294967291 is the number of the batch step in Slurm (SLURM_BATCH_SCRIPT).
@pytest.mark.parametrize("step", ["batch", "4294967291"])
@pytest.mark.parametrize("event", ["start", "end", "pre_hook_failed"])
def test_report_of_the_batch_step_is_a_hint(event, step):
    text = END_REPORT.replace(" end ", f" {event} ").replace("batch", step)

    assert parse_report(text) == Hint(
        event=event, slurm_job_id=12, uid=200_001, occurred_at=1_790_000_060
    )


TRUNCATED = completion_line()[:-5]
MALFORMED_LINES = [
    "",
    "{",
    "[]",
    "null",
    "{}",
    TRUNCATED,
    completion_line(uid="x"),
    completion_line(uid=None),
]


@pytest.mark.parametrize("line", MALFORMED_LINES)
def test_malformed_completion_line_is_refused(line):
    with pytest.raises(UnexpectedOutput, match="job completion"):
        parse_completion(line)


def test_completion_line_of_another_version_is_refused():
    with pytest.raises(UnexpectedOutput, match="job completion"):
        parse_completion(completion_line(version=2))


@pytest.mark.parametrize("comment", ["", "another comment", None, 5])
def test_completion_line_without_a_job_key_is_not_a_hint(comment):
    assert parse_completion(completion_line(admin_comment=comment)) is None


@pytest.mark.parametrize(("end_s", "occurred_at"), [(1_790_000_060, 1_790_000_060), (None, 0)])
def test_completion_line_of_a_job_of_the_grid_is_a_hint(end_s, occurred_at):
    hint = Hint(event="record", slurm_job_id=12, uid=200_001, occurred_at=occurred_at)

    assert parse_completion(completion_line(end_s=end_s)) == hint


def test_token_bucket_allows_a_burst():
    bucket = TokenBucket(rate_per_s=1, burst=2)

    assert bucket.take(100)
    assert bucket.take(100)
    assert not bucket.take(100)


def test_token_bucket_refills_up_to_the_burst():
    bucket = TokenBucket(rate_per_s=0.5, burst=2)
    bucket.take(100)
    bucket.take(100)

    assert not bucket.take(101)
    assert bucket.take(102)
    assert bucket.take(1000)
    assert bucket.take(1000)
    assert not bucket.take(1000)


def test_token_bucket_is_not_refilled_when_the_clock_is_set_back():
    bucket = TokenBucket(rate_per_s=1, burst=1)
    bucket.take(100)

    assert not bucket.take(50)
    assert bucket.take(51)
