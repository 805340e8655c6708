# SPDX-License-Identifier: Apache-2.0
"""The texts of addresses, job keys and Slurm job names, and their parsers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridstead.domain.jobs.ids import (
    JobId,
    JobKey,
    is_batch_location_hash,
    parse_address,
    parse_job_key,
    parse_slurm_job_name,
)
from gridstead.errors import InvalidInput

CONTRACT = "0x" + "ab" * 20


@pytest.mark.parametrize(
    "text", ["", "0x12", "0x" + "g" * 40, "0x" + "a" * 41, "a" * 42, "0x" + "a" * 40 + "\n0"]
)
def test_malformed_address_is_refused(text):
    with pytest.raises(InvalidInput):
        parse_address(text)


def test_checksummed_address_is_parsed_to_lower_case():
    assert parse_address("0x" + "aB" * 20) == CONTRACT


@pytest.mark.parametrize("text", ["", "a/b", "a" * 32, "ü", "a b", "a\n"])
def test_malformed_batch_location_hash_is_not_valid(text):
    assert not is_batch_location_hash(text)


@given(
    chain_id=st.integers(0, 2**63),
    number=st.integers(0, 2**256 - 1),
    script_id=st.from_regex(r"[A-Za-z0-9_-]{1,31}", fullmatch=True),
)
def test_job_key_is_parsed_from_its_text(chain_id, number, script_id):
    job_key = JobKey(
        job_id=JobId(chain_id=chain_id, contract=CONTRACT, number=number),
        batch_location_hash=script_id,
    )

    assert parse_job_key(str(job_key)) == job_key
    assert parse_slurm_job_name(job_key.job_id.slurm_job_name) == number


@pytest.mark.parametrize(
    "text",
    ["", "x", "1/0xab/0x1/h", f"1/{CONTRACT}/0x{'0' * 64}/", f" 1/{CONTRACT}/0x{'0' * 64}/h"],
)
def test_malformed_admin_comment_is_not_a_job_key(text):
    assert parse_job_key(text) is None


def test_text_of_a_job_id_is_the_job_number():
    assert str(JobId(chain_id=1, contract=CONTRACT, number=7)) == "7"
