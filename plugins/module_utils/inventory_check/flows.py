# SPDX-License-Identifier: Apache-2.0
"""Checks the flows, which are the network connections that the firewalls allow.

Role base cannot write firewall rules from an invalid flow.
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
from .roles import template_faults

_FLOW_VARIABLES = frozenset({"base_flows", "gridstead_extra_flows"})
_SEE_PAGE = "a flow as docs/reference/flows.md describes it"
_NO_ADDRESS = "0.0.0.0"  # noqa: S104 - means an unset address; nothing listens on it


def check_flows(inventory: Inventory, faulty_names: frozenset[str]) -> Iterator[Diagnostic]:
    """Find invalid flows.

    Args:
        inventory: The inventory.
        faulty_names: Variables with a reported mistake. Flows that need one of these variables are
            skipped.
    """
    host = inventory.first()
    if not host.value("base_firewall", default=True):
        return
    networks = host.value("gridstead_networks") or {}
    # A missing group counts as a group without hosts. Another check reports it.
    groups = dict.fromkeys(known_groups(), ()) | host.value("base_groups", {})
    invalid_networks = list(_check_networks(inventory, networks, groups))
    yield from invalid_networks
    if invalid_networks:
        networks = {}
    # The arguments of input_rules() after the flows and the name of the host.
    context = (groups, _addresses(inventory), networks)
    for variable in ("gridstead_flows", "gridstead_extra_flows"):
        table = host.variables.get(variable) or []
        if not isinstance(table, list):
            yield Diagnostic(
                where=variable,
                fault=f'"{table}"',
                allowed=_SEE_PAGE,
                affected_names=_FLOW_VARIABLES,
            )
            continue
        for number, flow_template in enumerate(table, start=1):
            if faulty_names & host.mentions(flow_template):
                continue
            where = f"{variable}, number {number}"
            for fault in _flow_faults(host, flow_template, context):
                yield Diagnostic(
                    where=where, fault=fault, allowed=_SEE_PAGE, affected_names=_FLOW_VARIABLES
                )


def _check_networks(
    inventory: Inventory, by_group: Any, groups: Mapping[str, list[str]]
) -> Iterator[Diagnostic]:
    affected_names = frozenset({"gridstead_networks"})
    if not isinstance(by_group, Mapping):
        yield Diagnostic(
            where="gridstead_networks",
            fault=f'"{by_group}"',
            allowed="lists of networks by group",
            affected_names=affected_names,
        )
        return
    for group, networks in by_group.items():
        where = f"gridstead_networks.{group}"
        if not _is_list_of_texts(networks):
            allowed = "a list such as [192.0.2.0/24]"
            yield Diagnostic(
                where=where, fault=f'"{networks}"', allowed=allowed, affected_names=affected_names
            )
            continue
        if group not in groups:
            yield Diagnostic(
                where=where, fault="there is no such group", affected_names=affected_names
            )
        parsed_networks = []
        for text in networks:
            try:
                parsed_networks.append(ipaddress.ip_network(text))
            except ValueError as error:
                allowed = "networks such as 192.0.2.0/24"
                yield Diagnostic(
                    where=where, fault=str(error), allowed=allowed, affected_names=affected_names
                )
        if len(parsed_networks) == len(networks):
            yield from _check_addresses(
                inventory.members(group), parsed_networks, where, affected_names
            )


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _check_addresses(
    hosts: list[Host], networks: list[Any], where: str, affected_names: frozenset[str]
) -> Iterator[Diagnostic]:
    for host in hosts:
        host_address = address(host.value("gridstead_address"))
        if host_address and not any(host_address in network for network in networks):
            network_list = ", ".join(map(str, networks))
            fault = f"address {host_address} of host {host.name} is not in {network_list}"
            yield Diagnostic(where=where, fault=fault, affected_names=affected_names)


def _addresses(inventory: Inventory) -> list[dict[str, str]]:
    """Return the name and address of each host.

    A missing address is replaced by 0.0.0.0, because another check reports missing addresses.
    """
    hosts = []
    for name, host in inventory.hosts.items():
        host_address = address(host.value("gridstead_address")) or _NO_ADDRESS
        hosts.append({"name": name, "address": str(host_address)})
    return hosts


def _flow_faults(host: Host, flow_template: Any, context: tuple[Any, Any, Any]) -> list[str]:
    """Return the faults of one flow of a variable: a list with at most one fault."""
    try:
        flow = host.templar.template(flow_template)
        if not isinstance(flow, Mapping):
            return [f'"{flow}" is not a flow']
        _flows.input_rules([flow], host.name, *context)
    except AnsibleFilterError as error:
        return [error.message]
    except AnsibleError as error:
        return template_faults(host, host.mentions(flow_template), error)
    return []
