# SPDX-License-Identifier: Apache-2.0
"""Tests of the search for a constant of the contracts by the name that a user types."""

import pytest

from gridstead.domain.contracts.constants import CONSTANTS, find_constant
from gridstead.errors import InvalidInput


@pytest.mark.parametrize(
    "text", ["deepsquareCut", "deepsquare-cut", "DEEPSQUARECUT", " deepsquare_cut "]
)
def test_constant_is_found_by_name(text):
    assert find_constant(text).name == "deepsquareCut"


def test_unknown_constant_is_refused_with_the_closest_name():
    with pytest.raises(InvalidInput, match="invalid constant 'deepsquareCat'") as refusal:
        find_constant("deepsquareCat")

    assert "Did you mean deepsquareCut?" in refusal.value.hint
    assert "minimumAmount" in refusal.value.hint


def test_unknown_constant_without_a_close_name_is_refused_with_all_names():
    with pytest.raises(InvalidInput, match="invalid constant") as refusal:
        find_constant("x" * 1000)

    assert "Did you mean" not in refusal.value.hint
    assert len(CONSTANTS) == 8
    for constant in CONSTANTS:
        assert constant.name in refusal.value.hint
