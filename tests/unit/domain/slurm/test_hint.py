# SPDX-License-Identifier: Apache-2.0
"""The hints in reports of nodes and of the job completion plugin, and the token bucket."""

import json

import pytest
from tests.unit.domain.builders import job

from gridstead.domain.slurm.hint import (
    Hint,
    MungeCredential,
    RateLimit,
    admit,
    parse_completion,
    parse_report,
)
from gridstead.errors import NotAllowed, UnexpectedOutput

END = "gridstead1 end 12 200001 batch compute1 1790000000 1790000060"


def completion(**changes):
    record = {
        "version": 1,
        "slurm_job_id": 12,
        "uid": 200_001,
        "end_s": 1_790_000_060,
        "admin_comment": str(job().job_key),
    }
    return json.dumps(record | changes)


@pytest.mark.parametrize("uid", [1, 200_001])
def test_credential_of_another_user_than_root_is_refused(uid):
    with pytest.raises(NotAllowed, match=f"uid {uid} "):
        admit(MungeCredential(payload=END.encode(), uid=uid, life_s=30))


@pytest.mark.parametrize("life_s", [-1, 0, 61])
def test_credential_without_validity_or_with_a_long_validity_is_refused(life_s):
    with pytest.raises(NotAllowed, match="valid for too long") as refusal:
        admit(MungeCredential(payload=END.encode(), uid=0, life_s=life_s))

    assert refusal.value.detail.startswith(f"{life_s} s")


@pytest.mark.parametrize("life_s", [1, 60])
def test_report_in_a_credential_of_root_is_returned(life_s):
    assert admit(MungeCredential(payload=END.encode(), uid=0, life_s=life_s)) == END


def test_bytes_of_a_report_that_are_not_ascii_are_replaced():
    assert (
        admit(MungeCredential(payload=b"a\xff", uid=0, life_s=30)) == "a\N{REPLACEMENT CHARACTER}"
    )


NO_REPORTS = [
    "",
    "gridstead2" + END[10:],
    END.replace(" end ", " paid "),
    END + " more",
    END + "\n",
]


@pytest.mark.parametrize("text", NO_REPORTS)
def test_malformed_report_is_refused(text):
    with pytest.raises(UnexpectedOutput, match="node report"):
        parse_report(text)


@pytest.mark.parametrize("step", ["extern", "0", "4294967292"])
def test_report_of_another_step_than_the_batch_step_is_not_a_hint(step):
    assert parse_report(END.replace("batch", step)) is None


@pytest.mark.parametrize("step", ["batch", "4294967291"])
@pytest.mark.parametrize("event", ["start", "end"])
def test_report_of_the_batch_step_is_a_hint(event, step):
    text = END.replace(" end ", f" {event} ").replace("batch", step)

    assert parse_report(text) == Hint(
        event=event, slurm_job_id=12, uid=200_001, occurred_at=1_790_000_060
    )


TRUNCATED = completion()[:-5]
MALFORMED = ["", "{", "[]", "null", "{}", TRUNCATED, completion(uid="x"), completion(uid=None)]


@pytest.mark.parametrize("line", MALFORMED)
def test_malformed_completion_line_is_refused(line):
    with pytest.raises(UnexpectedOutput, match="job completion"):
        parse_completion(line)


def test_completion_line_of_another_version_is_refused():
    with pytest.raises(UnexpectedOutput, match="job completion"):
        parse_completion(completion(version=2))


@pytest.mark.parametrize("comment", ["", "another comment", None, 5])
def test_completion_line_without_a_job_key_is_not_a_hint(comment):
    assert parse_completion(completion(admin_comment=comment)) is None


@pytest.mark.parametrize(("end_s", "occurred_at"), [(1_790_000_060, 1_790_000_060), (None, 0)])
def test_completion_line_of_a_job_of_the_grid_is_a_hint(end_s, occurred_at):
    hint = Hint(event="record", slurm_job_id=12, uid=200_001, occurred_at=occurred_at)

    assert parse_completion(completion(end_s=end_s)) == hint


def test_token_bucket_allows_a_burst():
    limit = RateLimit(per_second=1, burst=2)

    assert [limit.allows(100), limit.allows(100), limit.allows(100)] == [True, True, False]


def test_token_bucket_refills_up_to_the_burst():
    limit = RateLimit(per_second=0.5, burst=2)
    for _ in range(2):
        limit.allows(100)

    assert [limit.allows(101), limit.allows(102)] == [False, True]
    assert [limit.allows(1000) for _ in range(3)] == [True, True, False]


def test_token_bucket_gets_no_tokens_if_the_clock_is_set_back():
    limit = RateLimit(per_second=1, burst=1)
    limit.allows(100)

    assert not limit.allows(50)
    assert limit.allows(51)
