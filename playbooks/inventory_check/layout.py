# SPDX-License-Identifier: Apache-2.0
"""Groups, names and addresses: who is there, as what, and where."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator

from inventory_check.problem import Problem
from inventory_check.site import WIRING, Site, address

ONE_HOST = ("slurm_controller", "slurm_accounting", "storage", "control_plane")
TWO_HOSTS = ("directory",)
SOME_HOSTS = ("slurm_login", "slurm_compute")
MAYBE_ONE_HOST = ("slurm_backup_controller", "devnet")
_INSTEAD = {
    "slurm_controller": "exactly one; a second one, which stands by, is in slurm_backup_controller"
}
_SLURM = (
    "slurm_controller",
    "slurm_backup_controller",
    "slurm_accounting",
    "slurm_login",
    "slurm_compute",
)
_USERS = ("slurm_controller", "slurm_backup_controller", "slurm_login", "slurm_compute", "storage")
JOINED = {"slurm": _SLURM, "storage_clients": _USERS, "sssd_clients": _USERS}
_ANY = ("cvmfs_replica", "gateway", "grid", "all", "ungrouped")
GROUPS = frozenset({*ONE_HOST, *TWO_HOSTS, *SOME_HOSTS, *MAYBE_ONE_HOST, *JOINED, *_ANY})

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_LIKE = 0.8


def groups(site: Site) -> Iterator[Problem]:
    """Find groups that are missing, have too many hosts, or have names that nothing reads."""
    for name in ONE_HOST + TWO_HOSTS + SOME_HOSTS + MAYBE_ONE_HOST:
        hosts = site.groups.get(name, [])
        least = 0 if name in MAYBE_ONE_HOST else 1
        most = {SOME_HOSTS: len(hosts), TWO_HOSTS: 2}
        if (
            not least
            <= len(hosts)
            <= next((count for names, count in most.items() if name in names), 1)
        ):
            allowed = {
                ONE_HOST: "exactly one",
                TWO_HOSTS: "one, or two that replicate",
                SOME_HOSTS: "at least one",
                MAYBE_ONE_HOST: "one or none",
            }
            yield Problem(
                where=f"group {name}",
                found=f"{len(hosts)} hosts{': ' if hosts else ''}{', '.join(hosts)}",
                allowed=_INSTEAD.get(name)
                or next(text for names, text in allowed.items() if name in names),
                about=frozenset({f"group {name}"}),
            )
    for name in site.groups.keys() - GROUPS:
        near = difflib.get_close_matches(name, GROUPS, n=1, cutoff=_LIKE)
        if near:
            yield Problem(
                where=f"group {name}",
                found="no play reads it",
                allowed=f"did you mean {near[0]}?",
                about=frozenset({f"group {near[0]}"}),
            )


def memberships(site: Site) -> Iterator[Problem]:
    """Find hosts that are in one group and not in another that belongs to it, or in two that
    exclude each other.
    """
    for name, children in JOINED.items():
        wanted = {host for child in children for host in site.groups.get(child, [])}
        lacking = [host for host in site.hosts if host in wanted - set(site.groups.get(name, []))]
        if lacking:
            yield Problem(
                where=f"group {name}",
                found=f"{', '.join(lacking)} not in it",
                allowed=f"its children are the groups {', '.join(children)}",
                about=frozenset({f"group {name}"}),
            )
    for host in set(site.groups.get("slurm", [])).difference(
        *(site.groups.get(child, []) for child in _SLURM)
    ):
        yield Problem(
            where=f"host {host}",
            found="in group slurm, which gives it the cluster's key, and in none that gives it a part of Slurm",
            allowed=f"one of the groups {', '.join(_SLURM)}, or not slurm",
            about=frozenset({"group slurm"}),
        )
    for host in set(site.groups.get("slurm_backup_controller", [])) & set(
        site.groups.get("slurm_controller", [])
    ):
        yield Problem(
            where=f"host {host}",
            found="in the groups slurm_controller and slurm_backup_controller",
            allowed="a backup controller is another host",
            about=frozenset({"group slurm_backup_controller"}),
        )
    for host in set(site.groups.get("devnet", [])) - set(site.groups.get("grid", [])):
        yield Problem(
            where=f"host {host}",
            found="in group devnet and not in group grid, whose wallets the local chain pays",
            allowed="devnet is a child of grid, or empty",
            about=frozenset({"group devnet"}),
        )


def names(site: Site) -> Iterator[Problem]:
    """Find hosts whose inventory name cannot be their host name."""
    for host in site.hosts:
        if not _NAME.fullmatch(host) or host == "localhost":
            yield Problem(
                where=f"host {host}",
                found="the name is none that a host can have on the network",
                allowed="lower-case letters, digits and dashes, a letter first, at most 63, and not localhost",
                about=frozenset({"inventory_hostname", "base_hosts"}),
            )


def addresses(site: Site) -> Iterator[Problem]:
    """Find hosts without an address of their own, and addresses of two families."""
    given = {name: host.value("gridstead_address") for name, host in site.hosts.items()}
    found = {name: address(value) for name, value in given.items()}
    about = frozenset({"gridstead_address", "ansible_host"})
    for name, one in found.items():
        if one is None or one.is_loopback or one.is_unspecified:
            yield Problem(
                where=f"host {name}, gridstead_address",
                found=f'"{given[name]}"'
                if given[name]
                else "missing (a lab has addresses while it is up)",
                allowed="an IP address at which other hosts reach it; set ansible_host to it, or gridstead_address if "
                "ansible_host is something else",
                about=about,
            )
    for one, count in Counter(found.values()).items():
        if one is not None and count > 1:
            yield Problem(
                where=f"hosts {', '.join(name for name, other in found.items() if other == one)}",
                found=f"all have the gridstead_address {one}",
                allowed="an address for each host",
                about=about,
            )
    families = {one.version: name for name, one in reversed(found.items()) if one is not None}
    if len(families) > 1:
        yield Problem(
            where=f"hosts {families[4]} and {families[6]}, gridstead_address",
            found=f"{found[families[4]]} is IPv4 and {found[families[6]]} is IPv6",
            allowed="addresses of one family on all hosts",
            about=about,
        )


def wiring(site: Site) -> Iterator[Problem]:
    """Find that the roles' wiring is not read."""
    if "gridstead_services" not in site.first().variables:
        yield Problem(
            where="group_vars/all/00-wiring",
            found="missing beside this inventory",
            allowed=f"a link to {WIRING}",
            about=frozenset({"gridstead_address"}),
        )
