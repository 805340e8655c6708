# SPDX-License-Identifier: Apache-2.0
"""Filter ``input_rules``: what a host takes, of a table of flows, as rules of nftables.

Example: with ``flows`` ``[{'what': 'web', 'to': ['gate'], 'from': ['anyone'], 'tcp': [443]}]``,
``{{ flows | input_rules('ash', {'gate': ['ash']}, []) }}`` is ``['tcp dport { 443 } accept comment "web"']``.
Filter ``site_sources``: the matches for whoever belongs to the site.
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
_WHAT = re.compile(r"[A-Za-z0-9 ,.:;'()/-]{1,100}")
_PORT = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")
_PORT_MAX = 65535

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def port_range(text: object) -> tuple[int, int]:
    """Return the first and last port of ``22`` or ``1024-65535``; raise ValueError if it is
    neither.
    """
    found = None if isinstance(text, bool) else _PORT.fullmatch(str(text))
    if not found:
        message = f'"{text}" is no port: a number, or FIRST-LAST'
        raise ValueError(message)
    first, last = int(found[1]), int(found[2] or found[1])
    if not 0 < first <= last <= _PORT_MAX:
        message = f'"{text}" is no port from 1 to {_PORT_MAX}'
        raise ValueError(message)
    return first, last


def sources(
    flow: Mapping[str, Any],
    groups: Mapping[str, Sequence[str]],
    addresses: Mapping[str, str],
    networks: Mapping[str, Sequence[str]],
) -> list[Network] | None:
    """Return the networks a flow comes from, as few as say it; None if it comes from anyone.

    Args:
        flow: The flow, well written.
        groups: Names of hosts by group.
        addresses: Address of each host by name.
        networks: Networks that stand for a group's addresses, by group.
    """
    if ANYONE in flow["from"]:
        return None
    found: set[str] = set()
    for name in flow["from"]:
        # One that is no group is an address or a network itself.
        found |= (
            set(networks.get(name) or [addresses[host] for host in groups[name]])
            if name in groups
            else {name}
        )
    known = [ipaddress.ip_network(one) for one in found]
    return [
        *ipaddress.collapse_addresses(
            one for one in known if isinstance(one, ipaddress.IPv4Network)
        ),
        *ipaddress.collapse_addresses(
            one for one in known if isinstance(one, ipaddress.IPv6Network)
        ),
    ]


def check(flow: Mapping[str, Any], groups: Mapping[str, Sequence[str]]) -> None:
    """The flow is well written, or ValueError says what is not."""
    unknown = sorted(map(str, flow.keys() - _KEYS))
    if unknown:
        message = f"has the keys {', '.join(sorted(_KEYS))}, not {unknown[0]}"
        raise ValueError(message)
    single = [key for key in ("to", "from", *PROTOCOLS) if not isinstance(flow.get(key, []), list)]
    if single:
        message = f'{single[0]} is a list, not "{flow[single[0]]}"'
        raise ValueError(message)
    unnamed = [
        one for key in ("to", "from") for one in flow.get(key, []) if not isinstance(one, str)
    ]
    if unnamed:
        message = f'"{unnamed[0]}" is no group, no address, no network and not {ANYONE}'
        raise ValueError(message)
    if not _WHAT.fullmatch(str(flow.get("what", ""))):
        message = f'what is up to 100 letters, digits and plain marks, not "{flow.get("what", "")}"'
        raise ValueError(message)
    if not str(flow.get("plain", "-")).strip():
        message = "plain says why what goes there is not under TLS"
        raise ValueError(message)
    nowhere = [name for name in flow.get("to", []) if name not in groups]
    if nowhere or not flow.get("to") or "from" not in flow:
        message = f'"{nowhere[0]}" is no group' if nowhere else "to names a group, from says who"
        raise ValueError(message)
    for name in flow["from"]:
        if name != ANYONE and name not in groups:
            _check_source(name)
    for protocol in PROTOCOLS:
        for port in flow.get(protocol, []):
            port_range(port)


def _check_source(name: str) -> None:
    try:
        ipaddress.ip_network(name)
    except ValueError:
        message = f'"{name}" is no group, no address, no network and not {ANYONE}'
        raise ValueError(message) from None


def input_rules(
    flows: Iterable[Mapping[str, Any]],
    host: str,
    groups: Mapping[str, Sequence[str]],
    hosts: Iterable[Mapping[str, str]],
    networks: Mapping[str, Sequence[str]] | None = None,
) -> list[str]:
    """Return the rules of nftables that let the flows to a host in, in their order.

    Args:
        flows: The table: ``what`` it is, ``to`` which groups, ``from`` which groups, addresses or
            anyone, ports of ``tcp`` and ``udp``, and, in ``plain``, why there is no TLS.
        host: The host's name. What it says to itself needs no rule.
        groups: Names of hosts by group.
        hosts: Name and address of each host.
        networks: Networks that stand for a group's addresses, by group.

    Raises:
        AnsibleFilterError: If a flow is not well written; it names the flow.
    """
    known, mine, rules = _by_name(hosts), {name for name in groups if host in groups[name]}, []
    for flow in flows:
        try:
            check(flow, groups)
            if mine.intersection(flow["to"]):
                rules += _rules(flow, sources(flow, groups, known, networks or {}))
        except ValueError as error:
            message = f"flow {flow.get('what', flow)}: {error}"
            raise AnsibleFilterError(message) from error
    return rules


def addresses(
    groups: Mapping[str, Sequence[str]],
    hosts: Iterable[Mapping[str, str]],
    networks: Mapping[str, Sequence[str]] | None = None,
) -> list[str]:
    """Return the matches of nftables for whoever belongs to the site, one for each family that it
    has.
    """
    return _matches(sources({"from": list(groups)}, groups, _by_name(hosts), networks or {}))


def _by_name(hosts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {host["name"]: host["address"] for host in hosts}


def _rules(flow: Mapping[str, Any], allowed: list[Network] | None) -> list[str]:
    return [
        f'{match}{protocol} dport {{ {", ".join(map(str, flow[protocol]))} }} accept comment "{flow["what"]}"'
        for protocol in PROTOCOLS
        if flow.get(protocol)
        for match in ([""] if allowed is None else [f"{one} " for one in _matches(allowed)])
    ]


def _matches(networks: Iterable[Network] | None) -> list[str]:
    found = []
    for version, key in ((4, "ip"), (6, "ip6")):
        some = [_text(one) for one in networks or () if one.version == version]
        found += [f"{key} saddr {{ {', '.join(some)} }}"] if some else []
    return found


def _text(network: Network) -> str:
    return str(network.network_address) if network.num_addresses == 1 else str(network)


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, object]:
        """Return the filters of this file by name."""
        return {"input_rules": input_rules, "site_sources": addresses}
