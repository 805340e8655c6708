# SPDX-License-Identifier: Apache-2.0
"""The type of the tables of inventory mistakes. A test adds whole tables to one inventory."""

from __future__ import annotations

from collections.abc import Callable

from tests.roles.inventories import Inventory

# For each mistake: its name, a function that adds the mistake to an inventory, and phrases of its
# message.
Mistakes = dict[str, tuple[Callable[[Inventory], object], tuple[str, ...]]]


def caused_by_earlier_entry(_inventory: Inventory) -> None:
    """Do nothing, because an earlier entry of the table already causes the mistake."""
