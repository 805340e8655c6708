# SPDX-License-Identifier: Apache-2.0
"""Checks groups, host names and addresses."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from .diagnostic import Diagnostic
from .inventory import TABLE, WIRING, Inventory, address

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_LIKE = 0.8


@functools.cache
def table() -> Mapping[str, Mapping[str, Any]]:
    """Return the groups of an inventory by name, as ``meta/site.yml`` defines them."""
    groups: dict[str, Any] = yaml.safe_load(TABLE.read_text())["groups"]
    return groups


def known_groups() -> frozenset[str]:
    """Return the names of all groups that plays use, and of those that Ansible adds."""
    return frozenset({*table(), "all", "ungrouped"})


def parents() -> dict[str, list[str]]:
    """Return the groups that consist of other groups, with these groups."""
    children = {}
    for name, group in table().items():
        if "children" in group:
            children[name] = group["children"]
    return children


def groups(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find groups with too few or too many hosts, and misspelled groups."""
    for name, group in table().items():
        hosts = inventory.groups.get(name, [])
        most = group.get("most", len(hosts))
        if not group.get("least", 0) <= len(hosts) <= most:
            listed = f": {', '.join(hosts)}" if hosts else ""
            yield Diagnostic(
                where=f"group {name}",
                seen=f"{len(hosts)} hosts{listed}",
                allowed=group["allowed"],
                about=frozenset({f"group {name}"}),
            )
    for name in inventory.groups.keys() - known_groups():
        near = difflib.get_close_matches(name, known_groups(), n=1, cutoff=_LIKE)
        if near:
            yield Diagnostic(
                where=f"group {name}",
                seen="no play uses it",
                allowed=f"did you mean {near[0]}?",
                about=frozenset({f"group {near[0]}"}),
            )


def memberships(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find hosts that lack a parent group, and hosts in two groups that exclude each other."""
    for name, children in parents().items():
        lacking = _members(inventory, *children) - _members(inventory, name)
        if lacking:
            in_order = [host for host in inventory.hosts if host in lacking]
            yield Diagnostic(
                where=f"group {name}",
                seen=f"{', '.join(in_order)} not in it",
                allowed=f"its children are the groups {', '.join(children)}",
                about=frozenset({f"group {name}"}),
            )
    yield from _contradictory(inventory)


def _members(inventory: Inventory, *groups: str) -> set[str]:
    """Return the names of the hosts that are in any of the groups."""
    return {host.name for host in inventory.members(*groups)}


def _contradictory(inventory: Inventory) -> Iterator[Diagnostic]:
    components = parents()["slurm"]
    for host in _members(inventory, "slurm") - _members(inventory, *components):
        yield Diagnostic(
            where=f"host {host}",
            seen="in group slurm, which installs the MUNGE key, but in no group that installs a"
            " component of Slurm",
            allowed=f"one of the groups {', '.join(components)}, or not slurm",
            about=frozenset({"group slurm"}),
        )
    controllers = _members(inventory, "slurm_controller")
    for host in controllers & _members(inventory, "slurm_backup_controller"):
        yield Diagnostic(
            where=f"host {host}",
            seen="in the groups slurm_controller and slurm_backup_controller",
            allowed="a backup controller is another host",
            about=frozenset({"group slurm_backup_controller"}),
        )
    for host in _members(inventory, "devnet") - _members(inventory, "grid"):
        yield Diagnostic(
            where=f"host {host}",
            seen="in group devnet but not in group grid, whose wallets the local chain funds",
            allowed="devnet is a child of grid, or empty",
            about=frozenset({"group devnet"}),
        )


def names(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find hosts whose inventory name cannot be their host name."""
    for host in inventory.hosts:
        if not _NAME.fullmatch(host) or host == "localhost":
            yield Diagnostic(
                where=f"host {host}",
                seen="not a valid host name",
                allowed="at most 63 characters: a to z, digits and dashes, first a to z; not"
                " localhost",
                about=frozenset({"inventory_hostname", "base_hosts"}),
            )


def addresses(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find hosts without an address, addresses of two hosts, and two address families."""
    about = frozenset({"gridstead_address", "ansible_host"})
    by_address, by_version = {}, {}
    for name, host in inventory.hosts.items():
        value = host.value("gridstead_address")
        parsed = address(value)
        if parsed is None or parsed.is_loopback or parsed.is_unspecified:
            yield Diagnostic(
                where=f"host {name}, gridstead_address",
                seen=f'"{value}"' if value else "missing (a lab has addresses while it is up)",
                allowed="an IP address at which other hosts reach it; set ansible_host to it, or"
                " gridstead_address if ansible_host is something else",
                about=about,
            )
        if parsed is not None:
            by_address.setdefault(parsed, []).append(name)
            by_version.setdefault(parsed.version, (name, parsed))
    yield from _shared(by_address, about)
    if len(by_version) > 1:
        (name4, address4), (name6, address6) = by_version[4], by_version[6]
        yield Diagnostic(
            where=f"hosts {name4} and {name6}, gridstead_address",
            seen=f"{address4} is IPv4 and {address6} is IPv6",
            allowed="addresses of one family on all hosts",
            about=about,
        )


def _shared(by_address: Mapping[Any, list[str]], about: frozenset[str]) -> Iterator[Diagnostic]:
    for shared, hosts in by_address.items():
        if len(hosts) > 1:
            yield Diagnostic(
                where=f"hosts {', '.join(hosts)}",
                seen=f"all have the gridstead_address {shared}",
                allowed="an address for each host",
                about=about,
            )


def wiring(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find an inventory without the link to the roles' wiring."""
    if "gridstead_services" not in inventory.first().variables:
        yield Diagnostic(
            where="group_vars/all/00-wiring",
            seen="missing next to this inventory",
            allowed=f"a link to {WIRING}",
            about=frozenset({"gridstead_address"}),
        )
