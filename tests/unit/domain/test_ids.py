# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridstead.domain.ids import (
    JobId,
    JobKey,
    is_batch_location_hash,
    parse_address,
    parse_job_key,
    parse_slurm_name,
)
from gridstead.errors import InvalidInput

CONTRACT = "0x" + "ab" * 20


@pytest.mark.parametrize(
    "text", ["", "0x12", "0x" + "g" * 40, "0x" + "a" * 41, "a" * 42, "0x" + "a" * 40 + "\n0"]
)
def test_parse_address_rejects_what_is_not_an_address(text):
    with pytest.raises(InvalidInput):
        parse_address(text)


def test_parse_address_lowers_a_checksummed_address():
    assert parse_address("0x" + "aB" * 20) == CONTRACT


@pytest.mark.parametrize("text", ["", "a/b", "a" * 32, "ü", "a b", "a\n"])
def test_a_batch_location_hash_that_could_break_a_job_key_is_refused(text):
    assert not is_batch_location_hash(text)


@given(
    chain_id=st.integers(0, 2**63),
    number=st.integers(0, 2**256 - 1),
    stored=st.from_regex(r"[A-Za-z0-9_-]{1,31}", fullmatch=True),
)
def test_a_job_key_is_read_back_as_it_was_written(chain_id, number, stored):
    job_key = JobKey(
        job_id=JobId(chain_id=chain_id, contract=CONTRACT, number=number),
        batch_location_hash=stored,
    )

    assert parse_job_key(str(job_key)) == job_key
    assert parse_slurm_name(job_key.job_id.slurm_name) == number


@pytest.mark.parametrize(
    "text",
    ["", "x", "1/0xab/0x1/h", f"1/{CONTRACT}/0x{'0' * 64}/", f" 1/{CONTRACT}/0x{'0' * 64}/h"],
)
def test_a_comment_that_is_no_job_key_proves_nothing(text):
    assert parse_job_key(text) is None
