# SPDX-License-Identifier: Apache-2.0
"""Checks the flows, which define who may connect to what.

Role base cannot write a firewall from an invalid flow.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from ansible.errors import AnsibleError, AnsibleFilterError
from ansible_collections.gridstead.site.plugins.filter import flows as _flows

from .diagnostic import Diagnostic
from .inventory import Host, Inventory, address
from .layout import known_groups
from .roles import uncomputed

_ABOUT = frozenset({"base_flows", "gridstead_extra_flows"})
_PAGE = "docs/reference/flows.md describes the form of a flow"
_NO_ADDRESS = "0.0.0.0"  # noqa: S104 - nothing listens there


def flows(inventory: Inventory, reported: frozenset[str]) -> Iterator[Diagnostic]:
    """Find invalid flows.

    Args:
        inventory: The inventory.
        reported: Variables with a reported mistake; a flow that needs one of them is skipped.
    """
    host = inventory.first()
    if not host.value("base_firewall", default=True):
        return
    networks = host.value("gridstead_networks") or {}
    # Another check reports a missing group.
    groups = dict.fromkeys(known_groups(), ()) | host.value("base_groups", {})
    wrong_networks = [*_networks(inventory, networks, groups)]
    yield from wrong_networks
    context = (groups, _addresses(inventory), {} if wrong_networks else networks)
    for variable in ("gridstead_flows", "gridstead_extra_flows"):
        table = host.variables.get(variable) or []
        if not isinstance(table, list):
            yield Diagnostic(where=variable, seen=f'"{table}"', allowed=_PAGE, about=_ABOUT)
            continue
        for number, written in enumerate(table, start=1):
            if reported & host.mentions(written):
                continue
            where = f"{variable}, number {number}"
            for fault in _refused(host, written, context):
                yield Diagnostic(where=where, seen=fault, allowed=_PAGE, about=_ABOUT)


def _networks(
    inventory: Inventory, by_group: Any, groups: Mapping[str, list[str]]
) -> Iterator[Diagnostic]:
    about = frozenset({"gridstead_networks"})
    if not isinstance(by_group, Mapping):
        yield Diagnostic(
            where="gridstead_networks",
            seen=f'"{by_group}"',
            allowed="lists of networks by group",
            about=about,
        )
        return
    for group, networks in by_group.items():
        where = f"gridstead_networks.{group}"
        if not _is_list_of_texts(networks):
            allowed = "a list such as [192.0.2.0/24]"
            yield Diagnostic(where=where, seen=f'"{networks}"', allowed=allowed, about=about)
            continue
        if group not in groups:
            yield Diagnostic(where=where, seen="no such group", about=about)
        parsed = []
        for text in networks:
            try:
                parsed.append(ipaddress.ip_network(text))
            except ValueError as error:
                allowed = "networks such as 192.0.2.0/24"
                yield Diagnostic(where=where, seen=str(error), allowed=allowed, about=about)
        if len(parsed) == len(networks):
            yield from _outside(inventory.members(group), parsed, where, about)


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _outside(
    hosts: list[Host], networks: list[Any], where: str, about: frozenset[str]
) -> Iterator[Diagnostic]:
    for host in hosts:
        host_address = address(host.value("gridstead_address"))
        if host_address and not any(host_address in network for network in networks):
            listed = ", ".join(map(str, networks))
            fault = f"{host_address} of host {host.name} is in none of {listed}"
            yield Diagnostic(where=where, seen=fault, about=about)


def _addresses(inventory: Inventory) -> list[dict[str, str]]:
    """Return the name and address of each host.

    A missing address, which another check reports, gives 0.0.0.0.
    """
    hosts = []
    for name, host in inventory.hosts.items():
        host_address = address(host.value("gridstead_address")) or _NO_ADDRESS
        hosts.append({"name": name, "address": str(host_address)})
    return hosts


def _refused(host: Host, written: Any, context: tuple[Any, Any, Any]) -> list[str]:
    """Return what is wrong with a written flow; at most one fault."""
    try:
        flow = host.templar.template(written)
        if not isinstance(flow, Mapping):
            return [f'"{flow}" is not a flow']
        _flows.input_rules([flow], host.name, *context)
    except AnsibleFilterError as error:
        return [error.message]
    except AnsibleError as error:
        return uncomputed(host, host.mentions(written), error)
    return []
