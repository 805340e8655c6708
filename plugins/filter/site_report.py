# SPDX-License-Identifier: Apache-2.0
"""Filters for the report of verify.yml.

The playbook verify.yml runs the file tasks/verify.yml of each role. Each of these files registers a
result on each host. The filters read the results.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

RESULT = re.compile(r"__(?P<role>[a-z_]+)_verify_result")
OPERATOR = "operator"


def checks_of(role: str, result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the checks of a role on a host.

    The key ``looks`` of the result contains the list of checks. If the result does not have this
    key, for example because the task failed, the result counts as one check.
    """
    if "looks" in result:
        return list(result["looks"])
    description = f"all checks of role {role} succeed"
    if result.get("failed"):
        return [failed_check(description, str(result.get("msg", "")))]
    return [{"what": description, "ok": True}]


def failed_check(what: str, fault: str) -> dict[str, Any]:
    """Return a failed check for which the operator must act.

    Args:
        what: What was checked, as a clause.
        fault: What is wrong.
    """
    return {"what": what, "ok": False, "seen": fault, "who": OPERATOR, "hint": ""}


def checks_by_role(variables: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the checks of a host by role, sorted by role. Skipped roles are left out.

    A host that could not be reached has one more check, with the key ``host`` instead of a role.
    """
    results = {}
    for name in variables:
        match = RESULT.fullmatch(name)
        if match:
            results[match["role"]] = variables[name]
    checks, unreachable_message = {}, ""
    for role, result in sorted(results.items()):
        if result.get("unreachable"):
            unreachable_message = unreachable_message or str(result["msg"])
        elif not result.get("skipped"):
            checks[role] = checks_of(role, result)
    if unreachable_message:
        checks["host"] = [failed_check("Ansible can connect to the host", unreachable_message)]
    return checks


def site_report(hostvars: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return all checks by host, and a list of the checks that failed.

    Args:
        hostvars: Ansible's variable ``hostvars``. The report contains the hosts with the fact
            ``__site_is_checked``. Other hosts were excluded, for example with ``--limit``.

    Returns:
        A dictionary with three keys. ``hosts`` has the checks by host and role. ``findings`` is the
        list of the failed checks, each with its host and role. ``looked_at`` is the number of all
        checks.
    """
    hosts = {}
    for name in hostvars:
        if hostvars[name].get("__site_is_checked"):
            hosts[name] = checks_by_role(hostvars[name])
    findings, count = [], 0
    for host, roles in hosts.items():
        for role, checks in roles.items():
            count += len(checks)
            findings += _failed_checks(host, role, checks)
    return {"looked_at": count, "findings": findings, "hosts": hosts}


def _failed_checks(
    host: str, role: str, checks: Iterable[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the failed checks, each with its host and role."""
    for check in checks:
        if not check["ok"]:
            finding = {"host": host, "role": role, **check}
            del finding["ok"]
            yield finding


def site_findings(report: Mapping[str, Any]) -> str:
    """Return the failed checks of a report as text. Return "" if no check failed."""
    findings = report["findings"]
    if not findings:
        return ""
    lines = [f"{len(findings)} of {report['looked_at']} checks failed:"]
    for finding in findings:
        lines.append("{host}, {role}: {what}: {seen}".format_map(finding))
        lines.append("  {who} must act. {hint}".format_map(finding).rstrip())
    return "\n".join(lines)


class FilterModule:
    """The filters of this file. Ansible requires this class name."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"site_report": site_report, "site_findings": site_findings}
