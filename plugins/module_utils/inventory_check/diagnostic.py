# SPDX-License-Identifier: Apache-2.0
"""The result of a check that failed."""

from __future__ import annotations

from dataclasses import dataclass

AUTHOR = "the author of this inventory"
GRID = "the author of this inventory, with values from the grid's operator"
MACHINE = "the user who runs Ansible, on this machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One mistake in an inventory.

    Args:
        where: The group, host or variable that is wrong.
        seen: The present value, or that it is missing.
        allowed: The values that are allowed; empty if ``seen`` already implies them.
        acts: Who must fix the mistake.
        about: The variables and groups that are wrong. Errors that only follow from them are not
            reported again.
    """

    where: str
    seen: str
    allowed: str = ""
    acts: str = AUTHOR
    about: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """Return the diagnostic as one line."""
        line = f"{self.where}: {self.seen.removesuffix('.')}."
        if self.allowed:
            line += f" Allowed: {self.allowed}."
        line += f" To be fixed by {self.acts}."
        return " ".join(line.split())
