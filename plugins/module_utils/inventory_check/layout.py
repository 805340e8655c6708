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

_HOST_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_SIMILARITY_CUTOFF = 0.8


@functools.cache
def group_table() -> Mapping[str, Mapping[str, Any]]:
    """Return the groups of an inventory by name, as ``meta/site.yml`` defines them."""
    groups: dict[str, Any] = yaml.safe_load(TABLE.read_text())["groups"]
    return groups


def known_groups() -> frozenset[str]:
    """Return the names of the groups that plays use, and of the groups that Ansible adds."""
    return frozenset({*group_table(), "all", "ungrouped"})


def children_by_parent() -> dict[str, list[str]]:
    """Return the children of each group that consists of other groups."""
    children = {}
    for name, group in group_table().items():
        if "children" in group:
            children[name] = group["children"]
    return children


def check_groups(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find groups with too few or too many hosts, and misspelled groups."""
    for name, group in group_table().items():
        hosts = inventory.groups.get(name, [])
        minimum = group.get("least", 0)
        maximum = group.get("most", len(hosts))
        if len(hosts) < minimum or len(hosts) > maximum:
            host_list = f": {', '.join(hosts)}" if hosts else ""
            yield Diagnostic(
                where=f"group {name}",
                fault=f"{len(hosts)} hosts{host_list}",
                allowed=group["allowed"],
                affected_names=frozenset({f"group {name}"}),
            )
    for name in inventory.groups.keys() - known_groups():
        similar_groups = difflib.get_close_matches(
            name, known_groups(), n=1, cutoff=_SIMILARITY_CUTOFF
        )
        if similar_groups:
            yield Diagnostic(
                where=f"group {name}",
                fault=f"no play uses this group; did you mean {similar_groups[0]}?",
                affected_names=frozenset({f"group {similar_groups[0]}"}),
            )


def check_memberships(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find hosts that are in a group but not in its parent, and contradictory groups of a host."""
    for name, children in children_by_parent().items():
        missing_hosts = _members(inventory, *children) - _members(inventory, name)
        if missing_hosts:
            in_order = [host for host in inventory.hosts if host in missing_hosts]
            verb = "is" if len(in_order) == 1 else "are"
            yield Diagnostic(
                where=f"group {name}",
                fault=f"{', '.join(in_order)} {verb} not in this group",
                allowed=f"all hosts of the groups {', '.join(children)}",
                affected_names=frozenset({f"group {name}"}),
            )
    yield from _check_contradictions(inventory)


def _members(inventory: Inventory, *groups: str) -> set[str]:
    """Return the names of the hosts that are in any of the groups."""
    return {host.name for host in inventory.members(*groups)}


def _check_contradictions(inventory: Inventory) -> Iterator[Diagnostic]:
    components = children_by_parent()["slurm"]
    for host in _members(inventory, "slurm") - _members(inventory, *components):
        yield Diagnostic(
            where=f"host {host}",
            fault="in group slurm, which installs the MUNGE key, but in no group that installs a"
            " component of Slurm",
            allowed=f"one of the groups {', '.join(components)}, or no membership in slurm",
            affected_names=frozenset({"group slurm"}),
        )
    controllers = _members(inventory, "slurm_controller")
    for host in controllers & _members(inventory, "slurm_backup_controller"):
        yield Diagnostic(
            where=f"host {host}",
            fault="in the groups slurm_controller and slurm_backup_controller",
            allowed="another host as backup controller",
            affected_names=frozenset({"group slurm_backup_controller"}),
        )
    for host in _members(inventory, "devnet") - _members(inventory, "grid"):
        yield Diagnostic(
            where=f"host {host}",
            fault="in group devnet but not in group grid, whose wallets the local chain funds",
            allowed="group devnet as a child of grid, or no host in devnet",
            affected_names=frozenset({"group devnet"}),
        )


def check_host_names(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find hosts whose inventory name cannot be their host name."""
    for host in inventory.hosts:
        if not _HOST_NAME.fullmatch(host) or host == "localhost":
            yield Diagnostic(
                where=f"host {host}",
                fault="not a valid host name",
                allowed="at most 63 characters: a to z, digits and dashes; the first character must"
                " be a to z, the last must not be a dash, and the name must not be localhost",
                affected_names=frozenset({"inventory_hostname", "base_hosts"}),
            )


def check_addresses(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find hosts without an address, addresses that several hosts have, and mixed IP versions."""
    affected_names = frozenset({"gridstead_address", "ansible_host"})
    by_address, by_version = {}, {}
    for name, host in inventory.hosts.items():
        value = host.value("gridstead_address")
        parsed_address = address(value)
        if parsed_address is None or parsed_address.is_loopback or parsed_address.is_unspecified:
            yield Diagnostic(
                where=f"host {name}, gridstead_address",
                fault=f'"{value}"' if value else "missing (a lab has addresses while it is up)",
                allowed="an IP address at which other hosts reach this host; set gridstead_address"
                " if ansible_host is not such an address",
                affected_names=affected_names,
            )
        if parsed_address is not None:
            by_address.setdefault(parsed_address, []).append(name)
            by_version.setdefault(parsed_address.version, (name, parsed_address))
    yield from _check_uniqueness(by_address, affected_names)
    if len(by_version) > 1:
        (name4, address4), (name6, address6) = by_version[4], by_version[6]
        yield Diagnostic(
            where=f"hosts {name4} and {name6}, gridstead_address",
            fault=f"{address4} is IPv4 and {address6} is IPv6",
            allowed="addresses of one family, IPv4 or IPv6, on all hosts",
            affected_names=affected_names,
        )


def _check_uniqueness(
    by_address: Mapping[Any, list[str]], affected_names: frozenset[str]
) -> Iterator[Diagnostic]:
    for shared_address, hosts in by_address.items():
        if len(hosts) > 1:
            yield Diagnostic(
                where=f"hosts {', '.join(hosts)}",
                fault=f"all have the gridstead_address {shared_address}",
                allowed="a different address for each host",
                affected_names=affected_names,
            )


def check_wiring(inventory: Inventory) -> Iterator[Diagnostic]:
    """Find an inventory without the link to the variables that connect the roles (00-wiring)."""
    if "gridstead_services" not in inventory.first().variables:
        yield Diagnostic(
            where="group_vars/all/00-wiring",
            fault="missing next to this inventory",
            allowed=f"a link to {WIRING}",
            affected_names=frozenset({"gridstead_address"}),
        )
