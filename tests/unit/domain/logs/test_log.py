# SPDX-License-Identifier: Apache-2.0
"""Tests of the names, identities and lines of logs, and of tokens and signatures for access."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.domain.builders import CUSTOMER, OTHER_ADDRESS, job

from gridstead.domain.logs.access import (
    MAX_TOKEN_LIFE_S,
    TOKEN_GRACE_S,
    WritePermit,
    check_key_length,
    is_fresh,
    make_write_token,
    parse_token,
    read_request_text,
    token_expiry,
    watch_request_text,
)
from gridstead.domain.logs.log import (
    Chunk,
    LogId,
    is_log_identity,
    is_log_name,
    log_identity_of,
    log_of,
    to_chunk_data,
    to_lines,
)
from gridstead.errors import ConfigError

KEY = b"k" * 32
NOW = 1_800_000_000
PERMIT = WritePermit(
    log=LogId(owner=CUSTOMER, name="0x07", log_identity="1" * 32), expires_at=NOW + 60
)


@pytest.mark.parametrize("text", ["", ".", "..", ".a", "-a", "a/b", "a\0", "a\n", "x" * 129, "é"])
def test_unsafe_file_name_is_not_a_log_name(text):
    assert not is_log_name(text)


@pytest.mark.parametrize("text", ["a", "_", "0x07", "a.b-c_d", "x" * 128])
def test_safe_file_name_is_a_log_name(text):
    assert is_log_name(text)


@pytest.mark.parametrize("text", ["", "1" * 31, "1" * 33, "A" * 32, "g" * 32, "1" * 32 + "\n"])
def test_malformed_text_is_not_a_log_identity(text):
    assert not is_log_identity(text)


def test_each_job_has_its_own_log_identity():
    job_id = job().id
    jobs = [
        job(),
        job(number=8),
        job(batch_location_hash="other"),
        job(id=replace(job_id, chain_id=1)),
        job(id=replace(job_id, contract=OTHER_ADDRESS)),
    ]

    log_identities = [log_identity_of(logged_job.job_key) for logged_job in jobs]

    assert all(map(is_log_identity, log_identities))
    assert len(set(log_identities)) == len(jobs)
    assert log_identity_of(job().job_key) == log_identities[0]


@pytest.mark.parametrize(
    ("message", "lines"),
    [
        (b"", [b""]),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\r\n", [b"a"]),
        (b"a\r", [b"a"]),
        (b"a\rb", [b"a\rb"]),
        (b"a\n\nb\r\nc", [b"a", b"", b"b", b"c"]),
    ],
)
def test_message_is_split_at_its_line_ends(message, lines):
    data = to_chunk_data(message)

    assert to_lines(data) == lines
    assert Chunk(data=data, timestamp_ns=1).line_count == len(lines)


@given(st.binary(max_size=50))
def test_chunk_counts_its_lines(message):
    data = to_chunk_data(message)

    assert Chunk(data=data, timestamp_ns=1).line_count == len(to_lines(data))


def test_key_shorter_than_32_bytes_is_a_configuration_error():
    check_key_length(b"k" * 32)
    with pytest.raises(ConfigError):
        check_key_length(b"k" * 31)


def test_token_is_valid_for_the_paid_time_and_a_grace_period():
    assert token_expiry(NOW, paid_s=3600) == NOW + 3600 + TOKEN_GRACE_S


def test_token_is_valid_for_at_most_the_longest_token_time():
    assert token_expiry(NOW, paid_s=10**9) == NOW + MAX_TOKEN_LIFE_S


def test_token_is_valid_for_its_log():
    assert (
        parse_token(KEY, make_write_token(KEY, PERMIT), owner=CUSTOMER, log_name="0x07") == PERMIT
    )


@pytest.mark.parametrize(("owner", "log_name"), [(OTHER_ADDRESS, "0x07"), (CUSTOMER, "0x08")])
def test_token_is_not_valid_for_another_log(owner, log_name):
    assert parse_token(KEY, make_write_token(KEY, PERMIT), owner=owner, log_name=log_name) is None


@pytest.mark.parametrize("token", ["", "é", make_write_token(b"j" * 32, PERMIT)])
def test_token_that_was_not_signed_with_the_key_is_not_valid(token):
    assert parse_token(KEY, token, owner=CUSTOMER, log_name="0x07") is None


@pytest.mark.parametrize("part", [0, 1, 2])
def test_altered_token_is_not_valid(part):
    parts = make_write_token(KEY, PERMIT).split(".")
    new_digit = "1" if parts[part].startswith("0") else "0"
    parts[part] = new_digit + parts[part][1:]

    assert parse_token(KEY, ".".join(parts), owner=CUSTOMER, log_name="0x07") is None


def test_signed_texts_contain_purpose_owner_and_time():
    assert read_request_text(CUSTOMER, "0x07", NOW) == f"read:{CUSTOMER}/0x07/{NOW}"
    assert watch_request_text(CUSTOMER, NOW) == f"watchList:{CUSTOMER}/{NOW}"


@pytest.mark.parametrize("units_per_s", [1, 1000])
@pytest.mark.parametrize("offset_s", [-301, -300, 0, 300, 301])
def test_signed_time_is_fresh_within_five_minutes_of_now(offset_s, units_per_s):
    timestamp = (NOW + offset_s) * units_per_s

    assert is_fresh(timestamp, now=NOW) == (abs(offset_s) <= 300)


def test_log_of_a_job_has_its_slurm_name_and_its_identity():
    name = "0x" + "0" * 63 + "7"

    log = LogId(owner=CUSTOMER, name=name, log_identity=log_identity_of(job().job_key))
    assert log_of(job(number=7)) == log
