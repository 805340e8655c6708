# SPDX-License-Identifier: Apache-2.0
"""Which script is a job's, and for whom."""

import hashlib
import string
from binascii import b2a_base64

import pytest
from tests.unit.domain.builders import CUSTOMER, OTHER, US, job

from gridstead.domain.job_definition import (
    ScriptRequest,
    ScriptUse,
    is_missing,
    is_open,
    refusal,
    script_id,
    use_of,
)
from gridstead.domain.lifecycle import JobState

URL_SAFE = frozenset(string.ascii_letters + string.digits + "-_")
OPEN = {JobState.META_SCHEDULED, JobState.SCHEDULED, JobState.RUNNING}


def request(**changes):
    values = {"batch_location_hash": "hash7", "challenge": b"", "signature": b"", "job_number": 7}
    return ScriptRequest(**({"provider": US, "customer": CUSTOMER} | values | changes))


def test_an_id_is_31_characters_that_are_safe_in_a_url():
    ids = {script_id(str(number)) for number in range(100)}

    assert len(ids) == 100
    assert {len(one) for one in ids} == {31}
    assert URL_SAFE.issuperset("".join(ids))


def test_an_id_is_the_start_of_the_sha_256_of_the_record():
    digest = hashlib.sha256(b"record").digest()
    text = b2a_base64(digest).decode().replace("+", "-").replace("/", "_")

    assert script_id("record") == text[:31]


def test_a_job_uses_the_script_that_its_customer_named():
    use = ScriptUse(job_number=7, batch_location_hash="hash7", customer=CUSTOMER)

    assert use_of(job()) == use


@pytest.mark.parametrize("stored", ["", "a/b", "x" * 32, "é"])
def test_a_job_whose_text_is_no_id_uses_no_script(stored):
    assert use_of(job(stored=stored)) is None


@pytest.mark.parametrize("found", [None, job(stored="other"), job(customer=OTHER), job(number=8)])
def test_a_use_is_missing_without_its_very_job(found):
    assert is_missing(use_of(job()), found)


def test_a_use_whose_job_is_there_is_not_missing():
    assert not is_missing(use_of(job()), job(JobState.RUNNING))


def test_a_script_is_refused_to_others_than_its_customers_provider():
    assert refusal(job(), request(customer=OTHER)) == "the job is not of this customer"
    assert refusal(job(), request(provider=OTHER)) == "the job is not matched to this provider"
    assert refusal(job(), request()) is None


@pytest.mark.parametrize("state", JobState)
def test_a_job_is_open_while_it_is_matched_and_hot(state):
    assert is_open(job(state), request()) == (state in OPEN)


def test_a_job_is_not_open_for_another_script():
    assert not is_open(job(JobState.RUNNING), request(batch_location_hash="other"))
