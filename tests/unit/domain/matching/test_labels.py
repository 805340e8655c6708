# SPDX-License-Identifier: Apache-2.0
"""Tests of the comparison of a provider's labels with the conditions of a job."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridstead.domain.jobs.job import Affinity
from gridstead.domain.labels.values import number_or_none
from gridstead.domain.matching.labels import satisfies


@pytest.mark.parametrize(
    ("label_value", "operator", "value", "is_satisfied"),
    [
        ("10", ">", "9", True),
        ("10", "<", "9", False),
        ("10.0", "==", "10", True),
        ("abc", "<", "abd", True),
        ("lab", "!=", "lab", False),
        ("epyc-7302", "in", "7302", True),
        ("lab", "=", "lab", True),
        ("5", "<=", "5", True),
        ("5", ">=", "6", False),
        ("lab", "??", "lab", True),  # An unknown operator means equality.
        # Numbers are compared exactly.
        ("0.1", "==", "0.100000000000000000", True),
        ("9007199254740993", ">", "9007199254740992", True),
        ("-0.5", "<", "-0.25", True),
        # These values are not numbers, so they are compared as text.
        ("nan", "==", "nan", True),
        ("1_0", "==", "10", False),
        ("1e3", "==", "1000", False),
        ("+5", "==", "5", False),
        (" 5", "==", "5", False),
        ("5.", "==", "5", False),
        ("٣", "==", "3", False),
        ("1" + 18 * "0", ">", "5", False),
    ],
)
def test_label_is_the_left_operand_of_a_condition(label_value, operator, value, is_satisfied):
    condition = Affinity(key="k", operator=operator, value=value)

    assert satisfies(label_value, condition) is is_satisfied


@given(
    st.from_regex(
        r"-?[0-9]{1,18}(\.[0-9]{1,18})?", fullmatch=True, alphabet=st.characters(codec="ascii")
    )
)
def test_number_is_exact(text):
    assert Fraction(number_or_none(text)) == Fraction(text)
