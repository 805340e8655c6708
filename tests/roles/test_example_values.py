# SPDX-License-Identifier: Apache-2.0
"""Tests that the check reports values of the example inventory that an operator did not replace."""

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("value", "is_placeholder"),
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
def test_placeholder_values_of_the_example_are_reported(value, is_placeholder, inventory):
    inventory.set_variables("db", some_table={"key": [value]})

    message = (
        f"the inventory: these values are still from the example: some_table.key ({value})."
        " Allowed: values of your site."
    )
    is_reported = any(line.startswith(message) for line in inventory.problems())
    assert is_reported is is_placeholder
