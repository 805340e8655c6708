# SPDX-License-Identifier: Apache-2.0
"""What an upgrade of Slurm would do to a cluster, and why it cannot, from what module slurm_release
says of its hosts.

Slurm's rules: slurmdbd may be newer than slurmctld and that newer than slurmd and the commands,
never the other way round, and none speaks with one of a series too far away. A series is a year and
a month, ``24.11``; two come a year.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

STAGES = (
    "accounting",
    "controller",
    "backup_controller",
    "compute",
    "login",
)  # the order of the upgrade
DAEMONS = {
    "accounting": "slurmdbd",
    "controller": "slurmctld",
    "backup_controller": "the second slurmctld",
    "compute": "slurmd",
    "login": "the commands",
}
ASKED = ("accounting", "controller")  # whom all later ones ask
SAME = ("controller", "backup_controller")  # who read each other's state
SERIES_MAX = 2
MONTH_OF_SECOND_SERIES = 9
UPSTREAM = re.compile(r"(?:\d+:)?(\d+)\.(\d+)\.(\d+)")

Releases = Mapping[str, Mapping[str, Any]]
Cluster = Mapping[str, Iterable[str]]


def upstream(version: str) -> tuple[int, int, int]:
    """Return year, month and number of a release: ``24.11.5-4+deb13u1`` is (24, 11, 5)."""
    match = UPSTREAM.match(version)
    if match is None:
        message = f"{version!r} is no version of Slurm"
        raise ValueError(message)
    year, month, number = map(int, match.groups())
    return year, month, number


def series(version: str) -> str:
    """Return the series of a version: ``24.11``."""
    return "{:02}.{:02}".format(*upstream(version))


def place(version: str) -> int:
    """Return the place of a version's series among all: neighbours differ by one."""
    year, month, _ = upstream(version)
    return 2 * year + (month >= MONTH_OF_SECOND_SERIES)


def upgrade_told(releases: Releases) -> list[str]:
    """Return what is newer, a line for each package and step, with its hosts. Sorted; empty if
    nothing is.
    """
    steps: dict[str, list[str]] = {}
    for host, release in releases.items():
        for package in release.get("newer", []):
            was = package["from"] or "nothing"
            steps.setdefault(f"{package['name']} {was} -> {package['to']}", []).append(host)
        for key, what in (
            ("unfinished", "is not configured"),
            ("stale", "runs a program that was replaced"),
        ):
            for name in release.get(key, []):
                steps.setdefault(f"{name} {what}", []).append(host)
    return [f"{step}: {', '.join(sorted(hosts))}" for step, hosts in sorted(steps.items())]


def upgrade_stages(releases: Releases, cluster: Cluster) -> dict[str, list[str]]:
    """Return the hosts of each stage on which there is something to do.

    A host with several components has its turn once, with the first of them: they share one set of
    packages.
    """
    left = {
        host
        for host, one in releases.items()
        if any(one.get(key) for key in ("newer", "unfinished", "stale"))
    }
    stages = {}
    for stage in STAGES:
        stages[stage] = [host for host in cluster[stage] if host in left]
        left -= set(stages[stage])
    return stages


def changes_series(release: Mapping[str, Any]) -> bool:
    """Return whether a host would get another series of Slurm."""
    return bool(series(release["version"]) != series(release["target"]))


def upgrade_refusals(releases: Releases, cluster: Cluster) -> list[str]:
    """Return each reason why the upgrade cannot begin; empty if it can.

    Args:
        releases: What module slurm_release says, by host. One that did not answer has no version.
        cluster: The hosts that take part, by stage.
    """
    hosts = dict.fromkeys(host for stage in STAGES for host in cluster[stage])
    silent = [host for host in hosts if not releases.get(host, {}).get("version")]
    found = [f"{host} {why(releases.get(host, {}))}" for host in silent]
    known = {host: releases[host] for host in hosts if host not in silent}
    for host, release in known.items():
        found += alone(host, release)
    targets = {stage: by_target(known, cluster[stage]) for stage in STAGES}
    for upper, lower in combinations(STAGES, 2):
        if upper in ASKED:
            found += together(upper, targets[upper], lower, targets[lower])
    return found


def by_target(releases: Releases, hosts: Iterable[str]) -> dict[str, str]:
    """Return the hosts that would have each version, as words."""
    found: dict[str, list[str]] = {}
    for host in hosts:
        if host in releases:
            found.setdefault(releases[host]["target"], []).append(host)
    return {version: ", ".join(names) for version, names in found.items()}


def why(release: Mapping[str, Any]) -> str:
    """Return why nothing is known of a host."""
    if release.get("unreachable") or "problem" not in release:
        return "does not answer; -e without=HOST leaves out a compute or login host"
    return "has no package of Slurm from Debian"


def alone(host: str, release: Mapping[str, Any]) -> list[str]:
    """Return why a host cannot be upgraded, whatever the others have."""
    found = []
    if release["problem"]:
        found.append(f"{host}: apt says: {' '.join(release['problem'].split())}")
    if release["removed"]:
        found.append(f"{host}: apt would remove {', '.join(release['removed'])}")
    version, target = release["version"], release["target"]
    if upstream(target) < upstream(version):
        found.append(f"{host}: Slurm would go back from {version} to {target}")
    if place(target) - place(version) > SERIES_MAX:
        steps = f"from {series(version)} to {series(target)} are more than {SERIES_MAX} series"
        found.append(f"{host}: {steps}; go by one between them")
    return found


def together(
    upper: str, above: Mapping[str, str], lower: str, below: Mapping[str, str]
) -> list[str]:
    """Return which hosts of a stage would not work with those of an earlier one. Hosts are by
    version.
    """
    found = []
    for version, hosts in below.items():
        for over, others in above.items():
            pair = f"{DAEMONS[lower]} {version} on {hosts} would be {{}} than {DAEMONS[upper]} {over} on {others}"
            if upstream(version) > upstream(over):
                found.append(pair.format("newer"))
            elif (upper, lower) == SAME and upstream(version) < upstream(over):
                found.append(pair.format("older"))
            elif place(over) - place(version) > SERIES_MAX:
                found.append(pair.format(f"more than {SERIES_MAX} series older"))
    return found


class FilterModule:
    """Ansible's way to find the filters of this file."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {
            "changes_series": changes_series,
            "upgrade_refusals": upgrade_refusals,
            "upgrade_stages": upgrade_stages,
            "upgrade_told": upgrade_told,
        }
