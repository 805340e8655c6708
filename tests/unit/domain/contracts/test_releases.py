# SPDX-License-Identifier: Apache-2.0
"""Which versions of contracts this release can use."""

import pytest

from gridstead.domain.contracts.releases import THIS_RELEASE, generation_of


@pytest.mark.parametrize(
    ("version", "generation"),
    [("", 1), ("2.0.0", 2), ("2.7.1", 2), (THIS_RELEASE, 3), ("1.2.0", None), ("4.0.0", None),
     ("x", None), ("\x00" * 40, None), ("30.0.0", None), ("3", 3)],
)  # fmt: skip
def test_generation_is_the_first_number_of_a_version(version, generation):
    assert generation_of(version) == generation
