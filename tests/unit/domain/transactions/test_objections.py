# SPDX-License-Identifier: Apache-2.0
"""The objections to calls that are not valid for the current state of their job."""

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
    job_key_of,
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
def test_objection_if_the_job_does_not_exist_or_has_another_script(call):
    assert "no such job" in objection(call, None, wallet=WALLET)
    assert "another job" in objection(call, replace(JOB, batch_location_hash="b"), wallet=WALLET)


@pytest.mark.parametrize("call", [start_call(), settle_call(), Refuse(job_key=job_key())])
def test_objection_if_the_job_belongs_to_another_provider(call):
    assert "another provider" in objection(call, replace(JOB, provider=""), wallet=WALLET)


@pytest.mark.parametrize("call", [start_call(), settle_call(), Refuse(job_key=job_key())])
@pytest.mark.parametrize("state", sorted(COLD))
def test_objection_if_the_job_has_ended(call, state):
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
def test_objection_to_a_bill_if_a_reorg_removed_the_start(state, seconds, expected):
    """The contract would accept such an end and pay nothing."""
    call = replace(settle_call(), state=state, seconds=seconds)
    scheduled_job = replace(JOB, state=JobState.SCHEDULED)

    assert objection(call, scheduled_job, wallet=WALLET) == expected


def test_objection_to_the_refusal_of_a_running_job():
    assert "RUNNING" in objection(Refuse(job_key=job_key()), JOB, wallet=WALLET)


@pytest.mark.parametrize("state", sorted(set(JobState) - {JobState.PENDING}))
def test_objection_to_the_match_of_a_job_that_is_not_pending(state):
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
def test_no_objection_to_a_call_that_is_valid_for_the_state_of_the_job(call, job):
    assert objection(call, job, wallet=WALLET) == ""


@pytest.mark.parametrize(
    "job", [replace(UNCLAIMED, state=JobState.SCHEDULED), replace(UNCLAIMED, state_block=2)]
)
def test_objection_to_an_expiry_if_the_job_has_changed_its_state_since_the_call(job):
    assert "changed its state" in objection(EXPIRE, job, wallet=WALLET)


def test_only_calls_about_a_job_have_a_job_key():
    assert job_key_of(ClaimJobs(limit=1)) is None
    assert job_key_of(MATCH) == job_key()
