# SPDX-License-Identifier: Apache-2.0
"""The objections to calls that are not valid for the current state of their job.

An objection is a text that says why a call must not be sent. The text is empty if the call may be
sent.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.domain.transactions.outbox import (
    CONTRACT,
    CUSTOMER,
    WALLET,
    job_key,
    settle_call,
    start_call,
)

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Job
from gridstead.domain.jobs.lifecycle import COLD, JobState
from gridstead.domain.transactions.calls import (
    ClaimCancelling,
    ClaimJobs,
    ClaimTopUp,
    Expire,
    Match,
    Refuse,
)
from gridstead.domain.transactions.objection import objection

JOB = Job(
    id=JobId(chain_id=179188, contract=CONTRACT, number=1),
    state=JobState.RUNNING,
    customer=CUSTOMER,
    provider=WALLET,
    resources=Resources(gpus=0, tasks=1, cpus_per_task=1, memory_per_cpu_mb=1),
    batch_location_hash="a",
    escrow=1,
    submitted_at=1,
    state_block=1,
)
MATCH = Match(job_key=job_key(), provider=WALLET)
EXPIRE = Expire(job_key=job_key(), state=JobState.META_SCHEDULED, state_block=1)

UNCLAIMED = replace(JOB, state=JobState.META_SCHEDULED, provider="0x" + "ee" * 20)


@pytest.mark.parametrize(
    "call", [start_call(), settle_call(), Refuse(job_key=job_key()), MATCH, EXPIRE]
)
def test_call_has_an_objection_if_its_job_is_missing_or_has_another_script(call):
    assert "no such job" in objection(call, None, wallet=WALLET)
    assert "another job" in objection(call, replace(JOB, batch_location_hash="b"), wallet=WALLET)


@pytest.mark.parametrize("call", [start_call(), settle_call(), Refuse(job_key=job_key())])
def test_call_for_a_job_of_another_provider_has_an_objection(call):
    assert "another provider" in objection(call, replace(JOB, provider=""), wallet=WALLET)


@pytest.mark.parametrize("call", [start_call(), settle_call(), Refuse(job_key=job_key())])
@pytest.mark.parametrize("state", sorted(COLD))
def test_call_for_an_ended_job_has_an_objection(call, state):
    assert state.name in objection(call, replace(JOB, state=state), wallet=WALLET)


@pytest.mark.parametrize(
    ("state", "seconds", "expected"),
    [
        (JobState.FAILED, 1, "the job has not started on chain"),
        (JobState.CANCELLED, 1, "the job has not started on chain"),
        (JobState.FAILED, 0, ""),
        # The start is sent before the end. If the start is lost, the contract skips the end.
        (JobState.FINISHED, 1, ""),
    ],
)
def test_bill_of_a_job_whose_start_a_reorg_removed_has_an_objection(state, seconds, expected):
    """The contract accepts FAILED and CANCELLED even without a start, but then pays nothing."""
    call = replace(settle_call(), state=state, seconds=seconds)
    scheduled_job = replace(JOB, state=JobState.SCHEDULED)

    assert objection(call, scheduled_job, wallet=WALLET) == expected


def test_refusal_of_a_running_job_has_an_objection():
    assert "RUNNING" in objection(Refuse(job_key=job_key()), JOB, wallet=WALLET)


@pytest.mark.parametrize("state", sorted(set(JobState) - {JobState.PENDING}))
def test_match_of_a_job_that_is_not_pending_has_an_objection(state):
    assert state.name in objection(MATCH, replace(JOB, state=state), wallet=WALLET)


@pytest.mark.parametrize(
    ("call", "job"),
    [
        (start_call(), replace(JOB, state=JobState.SCHEDULED)),
        (settle_call(), JOB),
        (Refuse(job_key=job_key()), replace(JOB, state=JobState.META_SCHEDULED)),
        (MATCH, replace(JOB, state=JobState.PENDING, provider="")),
        (EXPIRE, UNCLAIMED),
        (ClaimJobs(limit=1), None),
        (ClaimCancelling(), None),
        (ClaimTopUp(), None),
    ],
)
def test_call_that_is_valid_for_the_state_of_its_job_has_no_objection(call, job):
    assert objection(call, job, wallet=WALLET) == ""


@pytest.mark.parametrize(
    "job", [replace(UNCLAIMED, state=JobState.SCHEDULED), replace(UNCLAIMED, state_block=2)]
)
def test_expiry_has_an_objection_if_the_state_of_the_job_has_changed(job):
    assert "changed its state" in objection(EXPIRE, job, wallet=WALLET)
