# SPDX-License-Identifier: Apache-2.0
"""A diagnostic is one finding of a check, with the person who must act and what they can do.

The checks of contracts, of a site and of settings return diagnostics.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """How serious a diagnostic is, most serious first. The value is the exit code."""

    ESCROW = 70  # the escrow cannot pay everyone
    POWER = 77  # an account has an authority that no account should have
    CODE = 76  # the code of a contract is not the code that this release deploys
    WIRING = 78  # something is missing or has the wrong value
    NOTE = 0  # nothing is wrong, but an administrator should know it


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """Something that is wrong, or that an administrator should know.

    Attributes:
        where: The place as a path: host and role, or a contract, or the keys of a setting.
        what: What is wrong. If ``actual`` is not empty, what must be true.
        actual: What is true instead. Empty if ``what`` says what is wrong.
        who: Who must act: the ``operator`` of the provider, the operator of the ``grid``, or the
            ``administrator`` of the contracts.
        hint: What this person can do, as a sentence. Empty if nothing is known to help.
        severity: How serious the diagnostic is.
    """

    where: tuple[str, ...]
    what: str
    actual: str = ""
    who: str = "operator"
    hint: str = ""
    severity: Severity = Severity.WIRING

    @property
    def text(self) -> str:
        """The diagnostic in one line, without its place."""
        return f"{self.what}, found {self.actual}" if self.actual else self.what


def most_serious_first(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return the diagnostics sorted by severity. Those of equal severity keep their order."""
    order = list(Severity)
    return tuple(sorted(diagnostics, key=lambda diagnostic: order.index(diagnostic.severity)))


def exit_code(diagnostics: Iterable[Diagnostic]) -> int:
    """Return the exit code of the most serious diagnostic. Returns 0 if there are only notes."""
    ordered_diagnostics = most_serious_first(diagnostics)
    return ordered_diagnostics[0].severity.value if ordered_diagnostics else 0
