# SPDX-License-Identifier: Apache-2.0
"""Tests of the form of the keys and values of labels."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridstead.domain.labels.values import (
    label_key,
    label_value,
    looks_like_number,
    number_or_none,
    plain_decimal,
    sanitise,
)
from gridstead.errors import InvalidInput

MEASURED = st.decimals(
    allow_nan=False, allow_infinity=False, min_value=Decimal("1e-16"), max_value=Decimal("9e16")
)


@pytest.mark.parametrize(
    ("text", "sanitised"),
    [
        ("my_invalid-label123!", "my_invalid-label123"),
        ("validLabel123", "validlabel123"),
        (".a@b#c$d%e^f&g.f", ".a-b-c-d-e-f-g.f"),
    ],
)
def test_text_is_converted_to_the_form_of_the_grid(text, sanitised):
    assert sanitise(text) == sanitised
    assert label_key(text) == sanitised
    assert label_value(text, key="cpu") == sanitised


@pytest.mark.parametrize("text", ["1000", "-2.5", "0.5", "-0", "24.11", "1" * 18 + "." + "1" * 18])
def test_plain_decimal_is_unchanged(text):
    assert label_value(text, key="x") == text


@pytest.mark.parametrize(
    "text",
    ["1e+06", "1e6", "+5", " 5", "5 ", "1,000", "1'000", "10 000", "1,5", "1_0", "50%", "5.", ".5",
     "1" * 19, "0." + "1" * 19, "-5!", "~5", "(5)", "inf", "NaN", "-Infinity", "٣"],
)  # fmt: skip
def test_number_in_another_form_is_refused(text):
    with pytest.raises(InvalidInput, match=r"label compute\.gflops: a number must be a plain"):
        label_value(text, key="compute.gflops")


@pytest.mark.parametrize("text", ["rack1_2", "rack-1", "1.2.3", "2x", "amd64", "0x1f", "zen3"])
def test_text_with_digits_is_not_a_number(text):
    assert not looks_like_number(text)
    assert label_value(text, key="x") == text


@pytest.mark.parametrize("text", ["", "-", "!!!", "é"])
def test_key_or_value_without_a_permitted_character_is_refused(text):
    with pytest.raises(InvalidInput, match="it has none of a to z"):
        label_key(text)
    with pytest.raises(InvalidInput, match="it has none of a to z"):
        label_value(text, key="x")


def test_key_or_value_of_more_than_64_bytes_is_refused():
    assert label_key("k" * 64) == "k" * 64
    assert label_value("v" * 64, key="x") == "v" * 64
    with pytest.raises(InvalidInput, match="it has 65 bytes, at most 64"):
        label_key("k" * 65)
    with pytest.raises(InvalidInput, match="it has 65 bytes, at most 64"):
        label_value("v" * 65, key="x")


@given(st.text(max_size=30))
def test_value_is_refused_or_has_the_same_number(text):
    try:
        value = label_value(text, key="x")
    except InvalidInput:
        return
    assert number_or_none(value) == number_or_none(text)
    assert label_value(value, key="x") == value
    if number_or_none(value) is None:
        assert not looks_like_number(value)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("1234.5", "1234.50"), ("1e+06", "1000000.00"), ("12.345", "12.34"), ("0", "0.00"),
        ("0.00123456", "0.00123"), ("0.9999", "1.000"), ("-0.5", "-0.500"),
        ("1e-16", f"0.{'0' * 15}100"), ("9.9999e16", "99999000000000000.00"),
    ],
)  # fmt: skip
def test_number_is_written_as_a_plain_decimal(number, text):
    assert plain_decimal(Decimal(number)) == text
    assert label_value(text, key="x") == text


@pytest.mark.parametrize("number", ["1e17", "9e-17", "NaN", "Infinity", "-Infinity"])
def test_number_without_a_plain_decimal_is_refused(number):
    with pytest.raises(InvalidInput, match="cannot write"):
        plain_decimal(Decimal(number))


@given(MEASURED)
def test_plain_decimal_differs_from_its_number_by_at_most_half_a_percent(number):
    text = plain_decimal(number)

    assert abs(Fraction(text) - Fraction(number)) <= Fraction(number) / 200
