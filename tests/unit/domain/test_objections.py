# SPDX-License-Identifier: Apache-2.0
"""Which calls the present state of their job forbids."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.domain.outbox import CONTRACT, CUSTOMER, WALLET, ending, job_key, running

from gridstead.domain.batches import subject
from gridstead.domain.billing import Resources
from gridstead.domain.calls import ClaimCancelling, ClaimJobs, ClaimTopUp, Expire, Match, Refuse
from gridstead.domain.dispatch import objection
from gridstead.domain.ids import JobId
from gridstead.domain.job import Job
from gridstead.domain.lifecycle import COLD, JobState

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


LYING = replace(JOB, state=JobState.META_SCHEDULED, provider="0x" + "ee" * 20)


@pytest.mark.parametrize("call", [running(), ending(), Refuse(job_key=job_key()), MATCH, EXPIRE])
def test_call_about_a_job_that_is_gone_or_another_is_objected_to(call):
    assert "no such job" in objection(call, None, wallet=WALLET)
    assert "another job" in objection(call, replace(JOB, batch_location_hash="b"), wallet=WALLET)


@pytest.mark.parametrize("call", [running(), ending(), Refuse(job_key=job_key())])
def test_call_about_another_providers_job_is_objected_to(call):
    assert "another provider" in objection(call, replace(JOB, provider=""), wallet=WALLET)


@pytest.mark.parametrize("call", [running(), ending(), Refuse(job_key=job_key())])
@pytest.mark.parametrize("state", sorted(COLD))
def test_call_about_an_ended_job_is_objected_to(call, state):
    assert state.name in objection(call, replace(JOB, state=state), wallet=WALLET)


@pytest.mark.parametrize(
    ("state", "seconds", "words"),
    [
        (JobState.FAILED, 1, "not started"),
        (JobState.CANCELLED, 1, "not started"),
        (JobState.FAILED, 0, ""),
        (JobState.FINISHED, 1, ""),  # it follows its start, and is skipped should that get lost
    ],
)
def test_bill_of_a_run_whose_start_a_reorg_undid_is_objected_to(state, seconds, words):
    """The contract would take such an end, and pay for nothing."""
    call = replace(ending(), state=state, seconds=seconds)
    reason = objection(call, replace(JOB, state=JobState.SCHEDULED), wallet=WALLET)
    assert words in reason
    assert bool(words) == bool(reason)


def test_refusal_of_a_running_job_is_objected_to():
    assert "RUNNING" in objection(Refuse(job_key=job_key()), JOB, wallet=WALLET)


@pytest.mark.parametrize("state", sorted(set(JobState) - {JobState.PENDING}))
def test_match_of_a_job_that_does_not_wait_is_objected_to(state):
    assert state.name in objection(MATCH, replace(JOB, state=state), wallet=WALLET)


@pytest.mark.parametrize(
    ("call", "job"),
    [
        (running(), replace(JOB, state=JobState.SCHEDULED)),
        (ending(), JOB),
        (Refuse(job_key=job_key()), replace(JOB, state=JobState.META_SCHEDULED)),
        (MATCH, replace(JOB, state=JobState.PENDING, provider="")),
        (EXPIRE, LYING),
        (ClaimJobs(limit=1), None),
        (ClaimCancelling(), None),
        (ClaimTopUp(), None),
    ],
)
def test_call_that_fits_is_not_objected_to(call, job):
    assert objection(call, job, wallet=WALLET) == ""


@pytest.mark.parametrize(
    "moved", [replace(LYING, state=JobState.SCHEDULED), replace(LYING, state_block=2)]
)
def test_end_of_a_wait_that_is_another_one_by_now_is_objected_to(moved):
    assert "moved on" in objection(EXPIRE, moved, wallet=WALLET)


def test_calls_about_no_job_have_no_subject():
    assert subject(ClaimJobs(limit=1)) is None
    assert subject(MATCH) == job_key()
