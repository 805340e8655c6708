# SPDX-License-Identifier: Apache-2.0
"""Names and lines of logs, and who may write and read them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.domain.builders import CUSTOMER, OTHER, job

from gridstead.domain.log import (
    Chunk,
    LogId,
    is_log_identity,
    is_log_name,
    log_identity_of,
    to_chunk_data,
    to_lines,
)
from gridstead.domain.log_access import (
    LONGEST_TOKEN_S,
    TOKEN_GRACE_S,
    WritePermit,
    check_key,
    is_fresh,
    parse_token,
    read_text,
    token_end,
    watch_text,
    write_token,
)
from gridstead.errors import ConfigError

KEY = b"k" * 32
NOW = 1_800_000_000
PERMIT = WritePermit(
    log=LogId(owner=CUSTOMER, name="0x07", log_identity="1" * 32), expires_at=NOW + 60
)


@pytest.mark.parametrize("text", ["", ".", "..", ".a", "-a", "a/b", "a\0", "a\n", "x" * 129, "é"])
def test_a_text_that_is_no_safe_file_name_names_no_log(text):
    assert not is_log_name(text)


@pytest.mark.parametrize("text", ["a", "_", "0x07", "a.b-c_d", "x" * 128])
def test_a_safe_file_name_names_a_log(text):
    assert is_log_name(text)


@pytest.mark.parametrize("text", ["", "1" * 31, "1" * 33, "A" * 32, "g" * 32, "1" * 32 + "\n"])
def test_a_text_of_another_form_is_no_log_identity(text):
    assert not is_log_identity(text)


def test_each_job_has_an_log_identity_of_its_own():
    jobs = [job(), job(number=8), job(stored="other"), job(id=replace(job().id, chain_id=1))]
    log_identities = [log_identity_of(one.job_key) for one in jobs]

    assert all(is_log_identity(log_identity) for log_identity in log_identities)
    assert len(set(log_identities)) == len(jobs)
    assert log_identity_of(job().job_key) == log_identities[0]


@pytest.mark.parametrize(
    ("message", "lines"),
    [
        (b"", [b""]),
        (b"\n", [b""]),
        (b"a\r\n", [b"a"]),
        (b"a\r", [b"a"]),
        (b"a\rb", [b"a\rb"]),
        (b"a\n\nb\r\nc", [b"a", b"", b"b", b"c"]),
    ],
)
def test_a_message_has_the_lines_between_its_line_ends(message, lines):
    data = to_chunk_data(message)

    assert to_lines(data) == lines
    assert Chunk(data=data, timestamp_ns=1).lines == len(lines)


@given(st.binary(max_size=50))
def test_a_chunk_counts_as_many_lines_as_it_has(message):
    data = to_chunk_data(message)

    assert Chunk(data=data, timestamp_ns=1).lines == len(to_lines(data))


def test_a_short_key_is_the_operators_fault():
    check_key(b"k" * 32)
    with pytest.raises(ConfigError):
        check_key(b"k" * 31)


def test_a_token_lasts_beyond_the_paid_time_and_not_for_ever():
    assert token_end(NOW, paid_s=3600) == NOW + 3600 + TOKEN_GRACE_S
    assert token_end(NOW, paid_s=10**9) == NOW + LONGEST_TOKEN_S


def test_a_token_opens_its_own_log():
    assert parse_token(KEY, write_token(KEY, PERMIT), owner=CUSTOMER, log_name="0x07") == PERMIT


@pytest.mark.parametrize(("owner", "log_name"), [(OTHER, "0x07"), (CUSTOMER, "0x08")])
def test_a_token_opens_no_other_log(owner, log_name):
    assert parse_token(KEY, write_token(KEY, PERMIT), owner=owner, log_name=log_name) is None


@pytest.mark.parametrize("token", ["", "é", write_token(b"j" * 32, PERMIT)])
def test_a_text_that_our_key_did_not_make_is_no_token(token):
    assert parse_token(KEY, token, owner=CUSTOMER, log_name="0x07") is None


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_token_whose_text_was_changed_opens_nothing(part):
    parts = write_token(KEY, PERMIT).split(".")
    parts[part] = ("1" if parts[part][0] == "0" else "0") + parts[part][1:]

    assert parse_token(KEY, ".".join(parts), owner=CUSTOMER, log_name="0x07") is None


def test_texts_to_sign_name_purpose_owner_and_time():
    assert read_text(CUSTOMER, "0x07", NOW) == f"read:{CUSTOMER}/0x07/{NOW}"
    assert watch_text(CUSTOMER, NOW) == f"watchList:{CUSTOMER}/{NOW}"


@pytest.mark.parametrize("unit", [1, 1000])
@pytest.mark.parametrize("off_s", [-301, -300, 0, 300, 301])
def test_a_signed_time_is_fresh_for_five_minutes_around_now(off_s, unit):
    assert is_fresh((NOW + off_s) * unit, now=NOW) == (abs(off_s) <= 300)
