# SPDX-License-Identifier: Apache-2.0
"""What the verification of a site found, gathered from what its hosts know after the roles' entry
points ``verify``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

RESULT = re.compile(r"__(?P<role>[a-z_]+)_verify_result")
OPERATOR = "operator"


def looks_of(role: str, result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what a role's verification looked at; one that tells no looks, or broke off, is one
    look itself.
    """
    if "looks" in result:
        return list(result["looks"])
    what = f"what role {role} verifies"
    return (
        [wrong(what, str(result.get("msg", "")))]
        if result.get("failed")
        else [{"what": what, "ok": True}]
    )


def wrong(what: str, seen: str) -> dict[str, Any]:
    """Return a look of ours that found something wrong."""
    return {"what": what, "ok": False, "seen": seen, "who": OPERATOR, "hint": ""}


def roles_of(variables: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return a host's looks by role, sorted by role; none for a role that was not asked.

    A host that could not be reached has one look beside those, under ``host``.
    """
    names = sorted(match["role"] for match in map(RESULT.fullmatch, variables) if match)
    results = {name: variables[f"__{name}_verify_result"] for name in names}
    told = next(
        (str(result["msg"]) for result in results.values() if result.get("unreachable")), ""
    )
    looks = {
        name: looks_of(name, result)
        for name, result in results.items()
        if not (result.get("skipped") or result.get("unreachable"))
    }
    return looks | ({"host": [wrong("it is reached", told)]} if told else {})


def site_report(hostvars: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return what was looked at on each host that was asked, and apart from it all that is wrong.

    Args:
        hostvars: Ansible's. A host was asked if it knows ``__site_asked``.

    Returns:
        ``hosts``: looks by host and role. ``findings``: the looks that found something wrong, each
        with its host and role, in the order of the hosts. ``looked_at``: how many looks there were.
    """
    asked = [name for name in hostvars if hostvars[name].get("__site_asked")]
    hosts = {name: roles_of(hostvars[name]) for name in asked}
    looks = [
        {"host": host, "role": role, **look}
        for host, roles in hosts.items()
        for role, found in roles.items()
        for look in found
    ]
    findings = [
        {key: value for key, value in look.items() if key != "ok"}
        for look in looks
        if not look["ok"]
    ]
    return {"looked_at": len(looks), "findings": findings, "hosts": hosts}


def site_findings(report: Mapping[str, Any]) -> str:
    """Return a report's findings as lines for people; empty without any."""
    lines = (
        [f"{len(report['findings'])} of {report['looked_at']} things are wrong:"]
        if report["findings"]
        else []
    )
    for one in report["findings"]:
        lines.append(f"{one['host']}, {one['role']}: {one['what']}: {one['seen']}")
        lines.append(f"  {one['who']} must act. {one['hint']}".rstrip())
    return "\n".join(lines)


class FilterModule:
    """Ansible's way to find the filters of this file."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"site_report": site_report, "site_findings": site_findings}
