# SPDX-License-Identifier: Apache-2.0
"""What a check finds."""

from __future__ import annotations

from dataclasses import dataclass

AUTHOR = "whoever writes this inventory"
GRID = "whoever writes this inventory, with what the grid's operator tells"
MACHINE = "whoever runs Ansible, on this machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One wrong assumption.

    Args:
        where: Group, host or variable.
        found: What is there, or that nothing is.
        allowed: What may be there; empty if found says it.
        acts: Who must mend it.
        about: Variables and groups that are wrong. What follows from them is not told again.
    """

    where: str
    found: str
    allowed: str = ""
    acts: str = AUTHOR
    about: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """Return it as one line."""
        allowed = f" Allowed: {self.allowed}." if self.allowed else ""
        return " ".join(
            f"{self.where}: {self.found.removesuffix('.')}.{allowed} To mend by {self.acts}.".split()
        )
