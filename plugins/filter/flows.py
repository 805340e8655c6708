# SPDX-License-Identifier: Apache-2.0
"""Filters that create nftables rules from a table of flows, which are allowed connections.

Filter ``input_rules`` returns the rules of one host. Example: with ``flows``
``[{'what': 'web', 'to': ['gate'], 'from': ['anyone'], 'tcp': [443]}]``,
``{{ flows | gridstead.site.input_rules('ash', {'gate': ['ash']}, []) }}`` is
``['tcp dport { 443 } accept comment "web"']``.

Filter ``site_sources`` returns nftables matches for the addresses of the site.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

ANYONE = "anyone"
PROTOCOLS = ("tcp", "udp")
_KEYS = {"what", "to", "from", "plain", *PROTOCOLS}
_FLOW_NAME = re.compile(r"[A-Za-z0-9 ,.:;'()/-]{1,100}")
_PORT = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")  # a port or a range such as 8000-8010
_PORT_MAX = 65535

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def port_range(text: object) -> tuple[int, int]:
    """Return the first and last port of ``22`` or ``1024-65535``.

    Raises:
        ValueError: If the text is neither a port nor a range.
    """
    match = None if isinstance(text, bool) else _PORT.fullmatch(str(text))
    if not match:
        message = f'"{text}" is not a port: use a number or FIRST-LAST'
        raise ValueError(message)
    first, last = int(match[1]), int(match[2] or match[1])
    if not 0 < first <= last <= _PORT_MAX:
        message = f'"{text}" is not a port from 1 to {_PORT_MAX}'
        raise ValueError(message)
    return first, last


def source_networks(
    flow: Mapping[str, Any],
    groups: Mapping[str, Sequence[str]],
    addresses: Mapping[str, str],
    networks: Mapping[str, Sequence[str]],
) -> list[Network] | None:
    """Return the merged source networks of a flow. None if connections from anyone are allowed.

    Args:
        flow: A valid flow.
        groups: Names of hosts by group.
        addresses: Address of each host by name.
        networks: Networks that replace the addresses of a group's hosts, by group.
    """
    if ANYONE in flow["from"]:
        return None
    texts: set[str] = set()
    for name in flow["from"]:
        if name not in groups:
            texts.add(name)  # an address or a network
        elif networks.get(name):
            texts.update(networks[name])
        else:
            for host in groups[name]:
                texts.add(addresses[host])
    by_version: dict[int, list[Any]] = {4: [], 6: []}
    for text in texts:
        network = ipaddress.ip_network(text)
        by_version[network.version].append(network)
    return [
        *ipaddress.collapse_addresses(by_version[4]),
        *ipaddress.collapse_addresses(by_version[6]),
    ]


def check_flow(flow: Mapping[str, Any], groups: Mapping[str, Sequence[str]]) -> None:
    """Check that a flow is valid.

    Raises:
        ValueError: If the flow is invalid. The message names the mistake.
    """
    message = _key_fault(flow) or _value_fault(flow, groups)
    if message:
        raise ValueError(message)
    for name in flow["from"]:
        if name != ANYONE and name not in groups:
            _check_source(name)
    for protocol in PROTOCOLS:
        for port in flow.get(protocol, []):
            port_range(port)


def _key_fault(flow: Mapping[str, Any]) -> str:
    for key in sorted(map(str, flow.keys() - _KEYS)):
        return f"unknown key {key}; the keys are {', '.join(sorted(_KEYS))}"
    for key in ("to", "from", *PROTOCOLS):
        if not isinstance(flow.get(key, []), list):
            return f'{key} must be a list, not "{flow[key]}"'
    for name in [*flow.get("to", []), *flow.get("from", [])]:
        if not isinstance(name, str):
            return f'"{name}" is not a group, an address, a network or {ANYONE}'
    return ""


def _value_fault(flow: Mapping[str, Any], groups: Mapping[str, Sequence[str]]) -> str:
    if not _FLOW_NAME.fullmatch(str(flow.get("what", ""))):
        what = flow.get("what", "")
        return (
            f'what must have 1 to 100 alphanumeric characters or simple punctuation, not "{what}"'
        )
    if not str(flow.get("plain", "-")).strip():
        return "plain must explain why the flow does not use TLS"
    for name in flow.get("to", []):
        if name not in groups:
            return f'"{name}" is not a group'
    if not flow.get("to") or "from" not in flow:
        return "to must name a group, and from must name the sources"
    return ""


def _check_source(name: str) -> None:
    try:
        ipaddress.ip_network(name)
    except ValueError:
        message = f'"{name}" is not a group, an address, a network or {ANYONE}'
        raise ValueError(message) from None


def input_rules(
    flows: Iterable[Mapping[str, Any]],
    host: str,
    groups: Mapping[str, Sequence[str]],
    hosts: Iterable[Mapping[str, str]],
    networks: Mapping[str, Sequence[str]] | None = None,
) -> list[str]:
    """Return the nftables rules that accept the flows to one host, in the order of the flows.

    Args:
        flows: The table. In a flow, ``what`` is its name, ``to`` lists groups, ``from`` lists
            groups, addresses or ``anyone``, ``tcp`` and ``udp`` list ports, and ``plain`` explains
            why the flow does not use TLS.
        host: The name of the host. Loopback connections need no rule.
        groups: Names of hosts by group.
        hosts: Name and address of each host.
        networks: Networks that replace the addresses of a group's hosts, by group.

    Raises:
        AnsibleFilterError: If a flow is invalid. The message names the flow.
    """
    addresses_by_name, rules = _addresses_by_name(hosts), []
    groups_of_host = {name for name in groups if host in groups[name]}
    for flow in flows:
        try:
            check_flow(flow, groups)
            if groups_of_host.intersection(flow["to"]):
                allowed_sources = source_networks(flow, groups, addresses_by_name, networks or {})
                rules += _rules(flow, allowed_sources)
        except ValueError as error:
            message = f"flow {flow.get('what', flow)}: {error}"
            raise AnsibleFilterError(message) from error
    return rules


def site_sources(
    groups: Mapping[str, Sequence[str]],
    hosts: Iterable[Mapping[str, str]],
    networks: Mapping[str, Sequence[str]] | None = None,
) -> list[str]:
    """Return nftables matches for the addresses of the site, one for each address family in use."""
    flow = {"from": list(groups)}
    return _matches(source_networks(flow, groups, _addresses_by_name(hosts), networks or {}))


def _addresses_by_name(hosts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    by_name = {}
    for host in hosts:
        by_name[host["name"]] = host["address"]
    return by_name


def _rules(flow: Mapping[str, Any], allowed: list[Network] | None) -> list[str]:
    rules = []
    for protocol in PROTOCOLS:
        if not flow.get(protocol):
            continue
        ports = ", ".join(map(str, flow[protocol]))
        accept = f'{protocol} dport {{ {ports} }} accept comment "{flow["what"]}"'
        if allowed is None:
            rules.append(accept)
        else:
            rules += [f"{match} {accept}" for match in _matches(allowed)]
    return rules


def _matches(networks: Iterable[Network]) -> list[str]:
    texts_by_family: dict[str, list[str]] = {"ip": [], "ip6": []}
    for network in networks:
        family = "ip" if network.version == 4 else "ip6"
        texts_by_family[family].append(_text(network))
    matches = []
    for family, texts in texts_by_family.items():
        if texts:
            matches.append(f"{family} saddr {{ {', '.join(texts)} }}")
    return matches


def _text(network: Network) -> str:
    return str(network.network_address) if network.num_addresses == 1 else str(network)


class FilterModule:
    """The filters of this file. Ansible requires this class name."""

    def filters(self) -> dict[str, object]:
        """Return the filters of this file by name."""
        return {"input_rules": input_rules, "site_sources": site_sources}
