# SPDX-License-Identifier: Apache-2.0
"""The ids of scripts, the jobs that use a script, and access to scripts."""

import hashlib
import string
from binascii import b2a_base64
from dataclasses import replace

import pytest
from tests.unit.domain.builders import CUSTOMER, OTHER_ADDRESS, PROVIDER, job, job_id

from gridstead.domain.definitions.job_definition import (
    ScriptRequest,
    ScriptUse,
    denial_reason,
    is_use_missing,
    needs_script,
    script_id,
    script_use_of,
)
from gridstead.domain.jobs.lifecycle import JobState

URL_SAFE = frozenset(string.ascii_letters + string.digits + "-_")
OPEN = {JobState.META_SCHEDULED, JobState.SCHEDULED, JobState.RUNNING}


def request(**changes):
    """Return a request for the script of ``job()``, with changes."""
    base = ScriptRequest(
        batch_location_hash="hash7",
        challenge=b"",
        signature=b"",
        provider=PROVIDER,
        customer=CUSTOMER,
        job_id=job_id(),
    )
    return replace(base, **changes)


def test_script_id_is_31_url_safe_characters():
    ids = {script_id(str(number)) for number in range(100)}

    assert len(ids) == 100
    assert set(map(len, ids)) == {31}
    assert URL_SAFE.issuperset("".join(ids))


def test_script_id_is_the_start_of_the_sha_256_of_the_record():
    digest = hashlib.sha256(b"record").digest()
    text = b2a_base64(digest).decode().replace("+", "-").replace("/", "_")

    assert script_id("record") == text[:31]


def test_job_uses_the_script_that_it_names():
    use = ScriptUse(job_id=job_id(7), batch_location_hash="hash7", customer=CUSTOMER)

    assert script_use_of(job()) == use


@pytest.mark.parametrize("name", ["", "a/b", "x" * 32, "é"])
def test_job_with_an_invalid_script_id_uses_no_script(name):
    assert script_use_of(job(batch_location_hash=name)) is None


@pytest.mark.parametrize(
    "job_on_chain",
    [None, job(batch_location_hash="other"), job(customer=OTHER_ADDRESS), job(number=8)],
)
def test_script_use_is_missing_if_the_chain_has_another_job_or_no_job(job_on_chain):
    assert is_use_missing(script_use_of(job()), job_on_chain)


def test_script_use_is_not_missing_if_the_chain_has_the_job_of_the_use():
    assert not is_use_missing(script_use_of(job()), job(JobState.RUNNING))


def test_script_is_refused_to_other_customers_and_providers():
    customer_refusal = denial_reason(job(), request(customer=OTHER_ADDRESS))
    provider_refusal = denial_reason(job(), request(provider=OTHER_ADDRESS))

    assert customer_refusal == "the job belongs to another customer"
    assert provider_refusal == "the job is not matched to this provider"
    assert denial_reason(job(), request()) is None


@pytest.mark.parametrize("state", JobState)
def test_job_is_open_from_its_match_to_its_end(state):
    assert needs_script(job(state), request()) == (state in OPEN)


def test_job_is_not_open_for_another_script():
    assert not needs_script(job(JobState.RUNNING), request(batch_location_hash="other"))
