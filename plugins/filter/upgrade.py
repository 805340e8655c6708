# SPDX-License-Identifier: Apache-2.0
"""Filters for upgrade.yml: the changes of an upgrade of Slurm, and the reasons against it.

They read the results of module slurm_release.

Slurm's rules: slurmdbd may be newer than slurmctld, and slurmctld may be newer than slurmd and the
commands; the reverse is not allowed. Two components also cannot communicate if their series are too
far apart. A series is a year and a month, for example ``24.11``. Slurm releases two series a year.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

# The order of the upgrade.
STAGES = ("accounting", "controller", "backup_controller", "compute", "login")
DAEMONS = {
    "accounting": "slurmdbd",
    "controller": "slurmctld",
    "backup_controller": "the backup slurmctld",
    "compute": "slurmd",
    "login": "the commands",
}
ASKED = ("accounting", "controller")  # all later stages send requests to these
SAME = ("controller", "backup_controller")  # they read each other's state files
SERIES_MAX = 2
MONTH_OF_SECOND_SERIES = 9
UPSTREAM = re.compile(r"(?:\d+:)?(\d+)\.(\d+)\.(\d+)")

Releases = Mapping[str, Mapping[str, Any]]
Cluster = Mapping[str, Iterable[str]]


def upstream(version: str) -> tuple[int, int, int]:
    """Return year, month and number of a release: ``24.11.5-4+deb13u1`` is (24, 11, 5).

    Raises:
        ValueError: If the text is not a version of Slurm.
    """
    match = UPSTREAM.match(version)
    if match is None:
        message = f"{version!r} is not a version of Slurm"
        raise ValueError(message)
    year, month, number = map(int, match.groups())
    return year, month, number


def series(version: str) -> str:
    """Return the series of a version: ``24.11``."""
    return "{:02}.{:02}".format(*upstream(version))


def place(version: str) -> int:
    """Return the number of a version's series; consecutive series differ by one."""
    year, month, _ = upstream(version)
    return 2 * year + (1 if month >= MONTH_OF_SECOND_SERIES else 0)


def upgrade_changes(releases: Releases) -> list[str]:
    """Return one line for each change that the upgrade makes, with its hosts; sorted."""
    steps: dict[str, list[str]] = {}
    for host, release in releases.items():
        for package in release.get("newer", []):
            before = package["from"] or "nothing"
            steps.setdefault(f"{package['name']} {before} -> {package['to']}", []).append(host)
        for name in release.get("unfinished", []):
            steps.setdefault(f"{name} is not configured", []).append(host)
        for name in release.get("stale", []):
            steps.setdefault(f"{name} runs a program that was replaced", []).append(host)
    lines = []
    for step, hosts in sorted(steps.items()):
        listed = ", ".join(sorted(hosts))
        lines.append(f"{step}: {listed}")
    return lines


def upgrade_stages(releases: Releases, cluster: Cluster) -> dict[str, list[str]]:
    """Return the hosts that each stage must upgrade.

    A host with several components is upgraded once, with the first of them, because its components
    share one set of packages.
    """
    remaining = set()
    for host, release in releases.items():
        if _needs_upgrade(release):
            remaining.add(host)
    stages = {}
    for stage in STAGES:
        stages[stage] = [host for host in cluster[stage] if host in remaining]
        remaining -= set(stages[stage])
    return stages


def _needs_upgrade(release: Mapping[str, Any]) -> bool:
    return bool(release.get("newer") or release.get("unfinished") or release.get("stale"))


def changes_series(release: Mapping[str, Any]) -> bool:
    """Return whether the upgrade gives the host another series of Slurm."""
    return bool(series(release["version"]) != series(release["target"]))


def upgrade_refusals(releases: Releases, cluster: Cluster) -> list[str]:
    """Return each reason why the upgrade cannot start; empty if it can.

    Args:
        releases: Result of module slurm_release by host. A host that did not answer has no version.
        cluster: The hosts to upgrade, by stage.
    """
    hosts: dict[str, None] = {}  # a set in the order of the upgrade
    for stage in STAGES:
        hosts |= dict.fromkeys(cluster[stage])
    reasons, known = [], {}
    for host in hosts:
        release = releases.get(host, {})
        if release.get("version"):
            known[host] = release
        else:
            reasons.append(f"{host} {why(release)}")
    for host, release in known.items():
        reasons += alone(host, release)
    targets = {}
    for stage in STAGES:
        targets[stage] = by_target(known, cluster[stage])
    for upper, lower in combinations(STAGES, 2):
        if upper in ASKED:
            reasons += together(upper, targets[upper], lower, targets[lower])
    return reasons


def by_target(releases: Releases, hosts: Iterable[str]) -> dict[str, str]:
    """Return for each target version the hosts that get it, joined by commas."""
    by_version: dict[str, list[str]] = {}
    for host in hosts:
        if host in releases:
            by_version.setdefault(releases[host]["target"], []).append(host)
    joined = {}
    for version, names in by_version.items():
        joined[version] = ", ".join(names)
    return joined


def why(release: Mapping[str, Any]) -> str:
    """Return why the version of a host is not known."""
    if release.get("unreachable") or "problem" not in release:
        return "does not answer; use -e without=HOST to skip a compute or login host"
    return "has no package of Slurm from Debian"


def alone(host: str, release: Mapping[str, Any]) -> list[str]:
    """Return the reasons against an upgrade that concern only this host."""
    reasons = []
    if release["problem"]:
        reasons.append(f"{host}: apt says: {' '.join(release['problem'].split())}")
    if release["removed"]:
        reasons.append(f"{host}: apt would remove {', '.join(release['removed'])}")
    version, target = release["version"], release["target"]
    if upstream(target) < upstream(version):
        reasons.append(f"{host}: Slurm would go back from {version} to {target}")
    if place(target) - place(version) > SERIES_MAX:
        steps = f"from {series(version)} to {series(target)} are more than {SERIES_MAX} series"
        reasons.append(f"{host}: {steps}; upgrade to a series between them first")
    return reasons


def together(
    upper: str, above: Mapping[str, str], lower: str, below: Mapping[str, str]
) -> list[str]:
    """Return why the hosts of a stage would not work with those of an earlier stage.

    Args:
        upper: The earlier stage.
        above: The hosts of the earlier stage by target version.
        lower: The later stage.
        below: The hosts of the later stage by target version.
    """
    reasons = []
    for version, hosts in below.items():
        for over, others in above.items():
            relation = _conflict(version, over, same=(upper, lower) == SAME)
            if relation:
                reasons.append(
                    f"{DAEMONS[lower]} {version} on {hosts} would be {relation} than"
                    f" {DAEMONS[upper]} {over} on {others}"
                )
    return reasons


def _conflict(version: str, over: str, *, same: bool) -> str:
    if upstream(version) > upstream(over):
        return "newer"
    if same and upstream(version) < upstream(over):
        return "older"
    if place(over) - place(version) > SERIES_MAX:
        return f"more than {SERIES_MAX} series older"
    return ""


class FilterModule:
    """The entry point that Ansible expects."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {
            "changes_series": changes_series,
            "upgrade_refusals": upgrade_refusals,
            "upgrade_stages": upgrade_stages,
            "upgrade_changes": upgrade_changes,
        }
