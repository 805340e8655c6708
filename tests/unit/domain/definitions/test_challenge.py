# SPDX-License-Identifier: Apache-2.0
"""Tests of the challenges that providers sign. The service verifies nonces without storing them."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridstead.domain.definitions.challenge import (
    NONCE_LIFE_S,
    make_challenge,
    nonce_expiry,
    nonce_of,
)

KEY, NEW_KEY = b"k" * 32, b"n" * 32
ALICE, BOB = "0x" + "a1" * 20, "0x" + "b0" * 20
NOW = 1_800_000_000


def nonce(address="", key=KEY):
    return nonce_of(make_challenge(key, now=NOW, random_bytes=b"random", address=address))


def test_challenge_has_the_wire_format():
    content = json.loads(make_challenge(KEY, now=NOW, random_bytes=b"random", address=""))

    assert content["message"] == "login"
    assert len(base64.b64decode(content["nonce"], validate=True)) == 16


@pytest.mark.parametrize("address", [ALICE, BOB, ""])
def test_nonce_that_was_made_without_an_address_is_valid_for_every_address(address):
    assert nonce_expiry([KEY], nonce(), address=address) == NOW + NONCE_LIFE_S


def test_nonce_for_an_address_is_not_valid_for_another_address():
    assert nonce_expiry([KEY], nonce(ALICE), address=ALICE) == NOW + NONCE_LIFE_S
    assert nonce_expiry([KEY], nonce(ALICE), address=BOB) is None


def test_nonce_of_an_older_key_is_valid_while_the_service_has_the_key():
    assert nonce_expiry([NEW_KEY, KEY], nonce(), address=ALICE)
    assert nonce_expiry([NEW_KEY], nonce(), address=ALICE) is None


@given(st.integers(0, 15), st.integers(1, 255))
def test_altered_nonce_is_not_valid(position, change):
    content = bytearray(base64.b64decode(nonce()))
    content[position] ^= change

    assert nonce_expiry([KEY], base64.b64encode(content).decode(), address=ALICE) is None


base64_texts = st.binary(max_size=20).map(lambda data: base64.b64encode(data).decode())


@given(st.text(max_size=40) | base64_texts)
def test_arbitrary_text_is_not_a_valid_nonce(text):
    assert nonce_expiry([KEY], text, address=ALICE) is None


def test_another_encoding_of_a_nonce_is_not_valid():
    """The last base64 digit has unused bits, so a nonce has several encodings.

    Only one encoding is valid, so that a client cannot use a nonce again in another encoding.
    """
    text = nonce()
    last_digit = text[-3]  # The text ends with "==".
    other_text = text[:-3] + chr(ord(last_digit) + 1) + "=="

    assert base64.b64decode(other_text) == base64.b64decode(text)
    assert nonce_expiry([KEY], other_text, address=ALICE) is None


@given(st.binary(max_size=300))
def test_nonce_of_arbitrary_bytes_is_text(challenge):
    assert isinstance(nonce_of(challenge), str)


@pytest.mark.parametrize(
    "challenge", [b"[" * 250, b'{"nonce": 5}', b"[]", b"5", b"\xff", b'{"nonce": "' + b"x" * 300]
)
def test_malformed_challenge_has_no_nonce(challenge):
    assert nonce_of(challenge) == ""
