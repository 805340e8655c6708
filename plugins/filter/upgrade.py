# SPDX-License-Identifier: Apache-2.0
"""Filters for upgrade.yml: the changes of an upgrade of Slurm, and why the upgrade cannot start.

The filters read the results of module slurm_release.

Slurm has two rules for the versions of a cluster. First, slurmdbd may be newer than slurmctld, and
slurmctld may be newer than slurmd and the commands, but not the reverse. Second, two components
cannot communicate if one is more than two series older. A series is a year and a month, for
example ``24.11``. Slurm releases two series a year.
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
SERVERS = ("accounting", "controller")  # all later stages send requests to these stages
# Two stages with the same version, because they read each other's state files.
SAME_VERSION = ("controller", "backup_controller")
SERIES_DISTANCE_MAX = 2
MONTH_OF_SECOND_SERIES = 9
# Year, month and number in a Debian version, which may begin with an epoch: ``1:24.11.5-4``.
UPSTREAM = re.compile(r"(?:\d+:)?(\d+)\.(\d+)\.(\d+)")

Releases = Mapping[str, Mapping[str, Any]]
Cluster = Mapping[str, Iterable[str]]


def parse_version(version: str) -> tuple[int, int, int]:
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
    return "{:02}.{:02}".format(*parse_version(version))


def series_number(version: str) -> int:
    """Return the number of a version's series. Consecutive series have consecutive numbers."""
    year, month, _ = parse_version(version)
    return 2 * year + (1 if month >= MONTH_OF_SECOND_SERIES else 0)


def upgrade_changes(releases: Releases) -> list[str]:
    """Return a line for each change that the upgrade makes, with the affected hosts, sorted."""
    hosts_by_change: dict[str, list[str]] = {}
    for host, release in releases.items():
        for package in release.get("newer", []):
            old_version = package["from"] or "nothing"
            change = f"{package['name']} {old_version} -> {package['to']}"
            hosts_by_change.setdefault(change, []).append(host)
        for name in release.get("unfinished", []):
            hosts_by_change.setdefault(f"{name} is not configured", []).append(host)
        for name in release.get("stale", []):
            change = f"{name} runs a program that was replaced"
            hosts_by_change.setdefault(change, []).append(host)
    lines = []
    for change, hosts in sorted(hosts_by_change.items()):
        host_list = ", ".join(sorted(hosts))
        lines.append(f"{change}: {host_list}")
    return lines


def upgrade_stages(releases: Releases, cluster: Cluster) -> dict[str, list[str]]:
    """Return the hosts that each stage must upgrade.

    A host with several components is upgraded once, in the stage of its first component, because
    all components share one set of packages.
    """
    remaining_hosts = set()
    for host, release in releases.items():
        if _needs_upgrade(release):
            remaining_hosts.add(host)
    stages = {}
    for stage in STAGES:
        stages[stage] = [host for host in cluster[stage] if host in remaining_hosts]
        remaining_hosts -= set(stages[stage])
    return stages


def _needs_upgrade(release: Mapping[str, Any]) -> bool:
    return bool(release.get("newer") or release.get("unfinished") or release.get("stale"))


def changes_series(release: Mapping[str, Any]) -> bool:
    """Return whether the upgrade installs another series of Slurm on the host."""
    return bool(series(release["version"]) != series(release["target"]))


def upgrade_refusals(releases: Releases, cluster: Cluster) -> list[str]:
    """Return the reasons why the upgrade cannot start; empty if it can.

    Args:
        releases: Result of module slurm_release by host. A host that did not answer has no version.
        cluster: The hosts of the cluster that the upgrade does not skip, by stage.
    """
    hosts: dict[str, None] = {}  # a set in the order of the upgrade
    for stage in STAGES:
        hosts |= dict.fromkeys(cluster[stage])
    reasons, known_releases = [], {}
    for host in hosts:
        release = releases.get(host, {})
        if release.get("version"):
            known_releases[host] = release
        else:
            reasons.append(f"{host} {missing_version_reason(release)}")
    for host, release in known_releases.items():
        reasons += host_refusals(host, release)
    targets = {}
    for stage in STAGES:
        targets[stage] = hosts_by_target(known_releases, cluster[stage])
    for upper, lower in combinations(STAGES, 2):
        if upper in SERVERS:
            reasons += version_conflicts(upper, targets[upper], lower, targets[lower])
    return reasons


def hosts_by_target(releases: Releases, hosts: Iterable[str]) -> dict[str, str]:
    """Return the hosts for each target version, as text separated by commas."""
    by_version: dict[str, list[str]] = {}
    for host in hosts:
        if host in releases:
            by_version.setdefault(releases[host]["target"], []).append(host)
    text_by_version = {}
    for version, names in by_version.items():
        text_by_version[version] = ", ".join(names)
    return text_by_version


def missing_version_reason(release: Mapping[str, Any]) -> str:
    """Return why the version of a host is not known. The caller writes the host before the text."""
    if release.get("unreachable") or "problem" not in release:
        return "does not answer; use -e without=HOST to skip a compute or login host"
    return "has no package of Slurm from Debian"


def host_refusals(host: str, release: Mapping[str, Any]) -> list[str]:
    """Return why a host cannot be upgraded, whatever the versions of other hosts are."""
    reasons = []
    if release["problem"]:
        reasons.append(f"{host}: apt reports: {' '.join(release['problem'].split())}")
    if release["removed"]:
        reasons.append(f"{host}: apt would remove {', '.join(release['removed'])}")
    version, target = release["version"], release["target"]
    if parse_version(target) < parse_version(version):
        reasons.append(f"{host}: Slurm would be downgraded from {version} to {target}")
    if series_number(target) - series_number(version) > SERIES_DISTANCE_MAX:
        reasons.append(
            f"{host}: {series(target)} is more than {SERIES_DISTANCE_MAX} series newer than"
            f" {series(version)}; upgrade to a series between them first"
        )
    return reasons


def version_conflicts(
    upper: str, upper_targets: Mapping[str, str], lower: str, lower_targets: Mapping[str, str]
) -> list[str]:
    """Return the conflicts between the versions of a stage and of an earlier stage.

    Args:
        upper: The earlier stage.
        upper_targets: The hosts of the earlier stage by target version.
        lower: The later stage.
        lower_targets: The hosts of the later stage by target version.
    """
    reasons = []
    must_be_same = (upper, lower) == SAME_VERSION
    for lower_version, lower_hosts in lower_targets.items():
        for upper_version, upper_hosts in upper_targets.items():
            relation = _conflict(lower_version, upper_version, must_be_same=must_be_same)
            if relation:
                reasons.append(
                    f"{DAEMONS[lower]} {lower_version} on {lower_hosts} would be {relation} than"
                    f" {DAEMONS[upper]} {upper_version} on {upper_hosts}"
                )
    return reasons


def _conflict(lower_version: str, upper_version: str, *, must_be_same: bool) -> str:
    """Return why the version of the later stage is not allowed, such as ``newer``.

    Return an empty text if the version is allowed.
    """
    if parse_version(lower_version) > parse_version(upper_version):
        return "newer"
    if must_be_same and parse_version(lower_version) < parse_version(upper_version):
        return "older"
    if series_number(upper_version) - series_number(lower_version) > SERIES_DISTANCE_MAX:
        return f"more than {SERIES_DISTANCE_MAX} series older"
    return ""


class FilterModule:
    """The filters of this file. Ansible requires this class name."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {
            "changes_series": changes_series,
            "upgrade_refusals": upgrade_refusals,
            "upgrade_stages": upgrade_stages,
            "upgrade_changes": upgrade_changes,
        }
