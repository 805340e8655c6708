# SPDX-License-Identifier: Apache-2.0
"""What the verification of a site found: playbooks/verify.yml reports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gridstead.errors import UnexpectedOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is not as it must be.

    Attributes:
        host: Where.
        role: Whose it is; ``host`` for the host itself.
        what: What must be so.
        seen: What is there instead.
        who: Who must act: ``operator`` of the provider, or whoever runs the ``grid``.
        hint: What they can do; empty if nobody knows.
    """

    host: str
    role: str
    what: str
    seen: str
    who: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was looked at, and what of it is wrong.

    Attributes:
        looked_at: How many things were.
        hosts: By host and role, all that was looked at, as the playbook reported it.
        findings: What is wrong, in the order of the hosts.
    """

    looked_at: int
    hosts: Mapping[str, Any]
    findings: tuple[Finding, ...]


def to_verification(report: Mapping[str, Any]) -> Verification:
    """Return a report of playbooks/verify.yml as ours.

    Raises:
        UnexpectedOutput: It is none.
    """
    try:
        findings = tuple(Finding(**one) for one in report["findings"])
        return Verification(looked_at=report["looked_at"], hosts=report["hosts"], findings=findings)
    except (KeyError, TypeError) as err:
        raise UnexpectedOutput("playbooks/verify.yml", str(report)) from err
