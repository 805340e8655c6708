# SPDX-License-Identifier: Apache-2.0
"""The outbox keys and the names of calls. They are stored, so they never change."""

import pytest
from tests.unit.domain.transactions.outbox import job_key, settle_call, start_call

from gridstead.domain.jobs.billing import Prices
from gridstead.domain.jobs.job import Hardware
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import (
    ClaimCancelling,
    ClaimJobs,
    ClaimTopUp,
    Expire,
    Match,
    Refuse,
    Register,
    call_name,
    claim_outbox_key,
    is_claim_outbox_key,
    job_key_of,
    outbox_key,
)

JOB_KEY = job_key(7, "script")
JOB_KEY_TEXT = f"179188/0x{'5c' * 20}/0x{7:064x}/script"
EXPIRE = Expire(job_key=JOB_KEY, state=JobState.META_SCHEDULED, state_block=1)


@pytest.mark.parametrize(
    ("call", "prefix"),
    [
        (start_call(7, "script"), "running"),
        (settle_call(7, "script"), "settle"),
        (Refuse(job_key=JOB_KEY), "refuse"),
        (Match(job_key=JOB_KEY, provider="0x"), "match"),
        (EXPIRE, "expire"),
    ],
)
def test_key_of_a_call_about_a_job_is_its_purpose_and_the_job_key(call, prefix):
    assert outbox_key(call) == f"{prefix}:{JOB_KEY_TEXT}"


def test_call_has_a_job_key_only_if_it_is_about_one_job():
    assert job_key_of(EXPIRE) == JOB_KEY
    assert job_key_of(ClaimJobs(limit=1)) is None


def test_all_registrations_have_one_key():
    hardware = Hardware(gpus_per_node=(), cpus_per_node=(), memory_per_node_mb=())
    prices = Prices(gpu_per_min=0, cpu_per_min=0, memory_mb_per_min=0)

    assert outbox_key(Register(hardware=hardware, prices=prices, labels=())) == "register"


@pytest.mark.parametrize(
    ("call", "key"),
    [
        (ClaimJobs(limit=5), "claim:9:2"),
        (ClaimCancelling(), "claim-cancelling:9:2"),
        (ClaimTopUp(), "claim-top-up:9:2"),
    ],
)
def test_key_of_a_claim_has_its_block_and_index(call, key):
    assert claim_outbox_key(call, block=9, index=2) == key
    assert is_claim_outbox_key(key, call)


def test_key_of_a_claim_is_not_the_key_of_another_type_of_claim():
    assert not is_claim_outbox_key("claim-top-up:9:2", ClaimJobs(limit=5))


def test_name_of_a_call_does_not_change():
    assert call_name(EXPIRE) == "Expire"
