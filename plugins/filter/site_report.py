# SPDX-License-Identifier: Apache-2.0
"""Filters for the report of verify.yml.

They read the results that the entry points ``verify`` of the roles registered on each host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

RESULT = re.compile(r"__(?P<role>[a-z_]+)_verify_result")
OPERATOR = "operator"


def looks_of(role: str, result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the checks of a role.

    A role whose result has no ``looks``, or that stopped early, counts as one check.
    """
    if "looks" in result:
        return list(result["looks"])
    what = f"what role {role} verifies"
    if result.get("failed"):
        return [wrong(what, str(result.get("msg", "")))]
    return [{"what": what, "ok": True}]


def wrong(what: str, seen: str) -> dict[str, Any]:
    """Return a failed check."""
    return {"what": what, "ok": False, "seen": seen, "who": OPERATOR, "hint": ""}


def roles_of(variables: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the checks of a host by role, sorted by role; skipped roles are left out.

    A host that could not be reached has one more check, under ``host``.
    """
    names = {}
    for name in variables:
        match = RESULT.fullmatch(name)
        if match:
            names[match["role"]] = name
    checks, unreachable = {}, ""
    for role in sorted(names):
        result = variables[names[role]]
        if result.get("unreachable"):
            unreachable = unreachable or str(result["msg"])
        elif not result.get("skipped"):
            checks[role] = looks_of(role, result)
    if unreachable:
        checks["host"] = [wrong("it is reached", unreachable)]
    return checks


def site_report(hostvars: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the checks of each host, and separately the checks that failed.

    Args:
        hostvars: Ansible's variable of this name. Only hosts with ``__site_asked`` are included.

    Returns:
        ``hosts``: checks by host and role. ``findings``: the checks that failed, each with its host
        and role, in the order of the hosts. ``looked_at``: the number of checks.
    """
    hosts = {}
    for name in hostvars:
        if hostvars[name].get("__site_asked"):
            hosts[name] = roles_of(hostvars[name])
    findings, count = [], 0
    for host, roles in hosts.items():
        for role, checks in roles.items():
            count += len(checks)
            findings += _findings(host, role, checks)
    return {"looked_at": count, "findings": findings, "hosts": hosts}


def _findings(
    host: str, role: str, checks: Iterable[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the failed checks, each with its host and role."""
    for check in checks:
        finding = {"host": host, "role": role, **check}
        if not finding.pop("ok"):
            yield finding


def site_findings(report: Mapping[str, Any]) -> str:
    """Return the failed checks of a report as text; empty if none failed."""
    findings = report["findings"]
    if not findings:
        return ""
    lines = [f"{len(findings)} of {report['looked_at']} checks failed:"]
    for finding in findings:
        lines.append("{host}, {role}: {what}: {seen}".format_map(finding))
        lines.append("  {who} must act. {hint}".format_map(finding).rstrip())
    return "\n".join(lines)


class FilterModule:
    """The entry point that Ansible expects."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"site_report": site_report, "site_findings": site_findings}
