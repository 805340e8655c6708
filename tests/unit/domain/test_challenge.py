# SPDX-License-Identifier: Apache-2.0
"""Nonces that are given without being remembered."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridstead.domain.challenge import NONCE_LIFE_S, make_challenge, nonce_end, nonce_of

KEY, NEW_KEY = b"k" * 32, b"n" * 32
ALICE, BOB = "0x" + "a1" * 20, "0x" + "b0" * 20
NOW = 1_800_000_000


def nonce(address="", key=KEY):
    return nonce_of(make_challenge(key, now=NOW, chance=b"chance", address=address))


def test_challenge_is_as_the_wire_has_it():
    content = json.loads(make_challenge(KEY, now=NOW, chance=b"chance", address=""))

    assert content["message"] == "login"
    assert len(base64.b64decode(content["nonce"], validate=True)) == 16


@pytest.mark.parametrize("address", [ALICE, BOB, ""])
def test_nonce_for_anybody_is_good_for_each(address):
    assert nonce_end([KEY], nonce(), address=address) == NOW + NONCE_LIFE_S


def test_nonce_for_one_is_good_for_it_alone():
    assert nonce_end([KEY], nonce(ALICE), address=ALICE) == NOW + NONCE_LIFE_S
    assert nonce_end([KEY], nonce(ALICE), address=BOB) is None


def test_older_key_is_still_known():
    assert nonce_end([NEW_KEY, KEY], nonce(), address=ALICE)
    assert nonce_end([NEW_KEY], nonce(), address=ALICE) is None


@given(st.integers(0, 15), st.integers(1, 255))
def test_changed_nonce_is_none_of_ours(place, change):
    content = bytearray(base64.b64decode(nonce()))
    content[place] ^= change

    assert nonce_end([KEY], base64.b64encode(content).decode(), address=ALICE) is None


@given(
    st.text(max_size=40) | st.binary(max_size=20).map(lambda raw: base64.b64encode(raw).decode())
)
def test_any_text_is_none_of_ours(text):
    assert nonce_end([KEY], text, address=ALICE) is None


def test_other_spelling_of_a_nonce_is_none_of_ours():
    """The last digit of base64 has bits that mean nothing; a nonce that is taken once must have one
    spelling.
    """
    spelled = nonce()
    again = spelled[:-3] + chr(ord(spelled[-3]) + 1) + "=="

    assert nonce_end([KEY], again, address=ALICE) is None


@given(st.binary(max_size=300))
def test_any_bytes_have_a_nonce_or_none(challenge):
    assert isinstance(nonce_of(challenge), str)


@pytest.mark.parametrize(
    "challenge", [b"[" * 250, b'{"nonce": 5}', b"[]", b"5", b"\xff", b'{"nonce": "' + b"x" * 300]
)
def test_challenge_that_is_none_has_no_nonce(challenge):
    assert nonce_of(challenge) == ""
