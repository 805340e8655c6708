# SPDX-License-Identifier: Apache-2.0
"""The record of one mistake in an inventory, and the persons who may have to fix it."""

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
        fault: What is wrong, for example the present value, or that the value is missing.
        allowed: The allowed values. Empty if ``fault`` already implies them.
        responsible: Who must fix the mistake.
        affected_names: The variables and groups without a valid value. Checks skip every value that
            needs one of them.
    """

    where: str
    fault: str
    allowed: str = ""
    responsible: str = AUTHOR
    affected_names: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """Return the diagnostic as one line."""
        end = "" if self.fault.endswith("?") else "."
        line = f"{self.where}: {self.fault.removesuffix('.')}{end}"
        if self.allowed:
            line += f" Allowed: {self.allowed}."
        line += f" To be fixed by {self.responsible}."
        return " ".join(line.split())
