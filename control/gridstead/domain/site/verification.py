# SPDX-License-Identifier: Apache-2.0
"""The result of the verification of a site, as playbooks/verify.yml reports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gridstead.domain.diagnostic import Diagnostic
from gridstead.errors import UnexpectedOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The checks of a site, and the problems that they found.

    Attributes:
        check_count: The number of checks.
        hosts: All checks by host and role, as the playbook reported them.
        diagnostics: The problems, in the order of the hosts. ``where`` is the host and the role.
            The role is ``host`` for a check of the host itself.
    """

    check_count: int
    hosts: Mapping[str, Any]
    diagnostics: tuple[Diagnostic, ...]


def to_verification(report: Mapping[str, Any]) -> Verification:
    """Return the verification that a report of playbooks/verify.yml describes.

    Raises:
        UnexpectedOutput: If the report does not have the expected format.
    """
    try:
        return Verification(
            check_count=report["looked_at"],
            hosts=report["hosts"],
            diagnostics=tuple(_to_diagnostic(**finding) for finding in report["findings"]),
        )
    except (KeyError, TypeError) as error:
        raise UnexpectedOutput("playbooks/verify.yml", str(report)) from error


def to_report(verification: Verification) -> dict[str, object]:
    """Return a verification in the format of a report of playbooks/verify.yml.

    Guarantee: ``to_verification`` converts the report to an equal verification.
    """
    return {
        "looked_at": verification.check_count,
        "hosts": verification.hosts,
        "findings": [_to_finding(diagnostic) for diagnostic in verification.diagnostics],
    }


def _to_finding(diagnostic: Diagnostic) -> dict[str, str]:
    host, role = diagnostic.where
    return {
        "host": host,
        "role": role,
        "what": diagnostic.what,
        "seen": diagnostic.actual,
        "who": diagnostic.who,
        "hint": diagnostic.hint,
    }


def _to_diagnostic(
    *, host: str, role: str, what: str, seen: str, who: str, hint: str
) -> Diagnostic:
    return Diagnostic(where=(host, role), what=what, actual=seen, who=who, hint=hint)
