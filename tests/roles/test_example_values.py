# SPDX-License-Identifier: Apache-2.0
"""Placeholder values of the example in an inventory are recognised."""

import pytest


@pytest.mark.parametrize(
    ("value", "is_left"),
    [
        ("https://rpc.grid.example", True),
        ("mirror.example.org:80", True),
        ("0x" + 40 * "1", True),
        ("sha256:" + 64 * "0", True),
        ("192.0.2.10", True),
        ("198.51.100.0/24", True),
        ("my.example.site", False),
        ("our-example.org", False),
        ("/srv/example", False),
        ("1192.0.2.10", False),
        ("0x" + 20 * "12", False),
        ("0" * 12, False),
    ],
)
def test_placeholder_values_of_the_example_are_reported(value, is_left, inventory):
    inventory.set_variables("db", some_table={"key": [value]})

    mine = "the inventory: still the example's: some_table.key ({}). Allowed: values of your site."
    reported = [line for line in inventory.problems() if line.startswith(mine.format(value))]

    assert bool(reported) is is_left
