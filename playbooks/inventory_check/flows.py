# SPDX-License-Identifier: Apache-2.0
"""Who may reach what: flows that are not well written, which would keep role base from making a
firewall.
"""

from __future__ import annotations

import importlib.util
import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from ansible.errors import AnsibleError, AnsibleFilterError

from inventory_check.layout import GROUPS
from inventory_check.problem import Problem
from inventory_check.roles import uncomputed
from inventory_check.site import CHECKOUT, Host, Site, address

spec = importlib.util.spec_from_file_location(
    "flows", CHECKOUT / "roles/base/filter_plugins/flows.py"
)
_flows = importlib.util.module_from_spec(spec)
spec.loader.exec_module(_flows)

_ABOUT = frozenset({"base_flows", "gridstead_extra_flows"})
_PAGE = "docs/reference/flows.md tells the form of a flow"


def flows(site: Site, reported: frozenset[str]) -> Iterator[Problem]:
    """Find flows that are not well written.

    Args:
        site: The inventory.
        reported: What is known to be wrong; a flow that needs it is not looked at.
    """
    host = site.first()
    if not host.value("base_firewall", default=True):
        return
    # A group that is missing is told elsewhere.
    networks, groups = (
        host.value("gridstead_networks") or {},
        dict.fromkeys(GROUPS, ()) | host.value("base_groups", {}),
    )
    wrong = [*_networks(site, networks, groups)]
    yield from wrong
    addresses = [{"name": name, "address": str(_address(one))} for name, one in site.hosts.items()]
    for where in ("gridstead_flows", "gridstead_extra_flows"):
        table = host.variables.get(where) or []
        if not isinstance(table, list):
            yield Problem(where=where, found=f'"{table}"', allowed=_PAGE, about=_ABOUT)
            continue
        for number, written in enumerate(table, start=1):
            if not reported & host.mentions(written):
                for found in _refused(
                    host, written, (groups, addresses, {} if wrong else networks)
                ):
                    yield Problem(
                        where=f"{where}, number {number}", found=found, allowed=_PAGE, about=_ABOUT
                    )


def _networks(site: Site, networks: Any, groups: Mapping[str, list[str]]) -> Iterator[Problem]:
    about = frozenset({"gridstead_networks"})
    if not isinstance(networks, Mapping):
        yield Problem(
            where="gridstead_networks",
            found=f'"{networks}"',
            allowed="lists of networks by group",
            about=about,
        )
        return
    for name, given in networks.items():
        where, known = f"gridstead_networks.{name}", []
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            yield Problem(
                where=where,
                found=f'"{given}"',
                allowed="a list such as [192.0.2.0/24]",
                about=about,
            )
            continue
        if name not in groups:
            yield Problem(where=where, found="no such group", about=about)
        for one in given:
            try:
                known.append(ipaddress.ip_network(one))
            except ValueError as error:
                yield Problem(
                    where=where,
                    found=str(error),
                    allowed="networks such as 192.0.2.0/24",
                    about=about,
                )
        for host in site.members(name) if len(known) == len(given) else ():
            at = address(host.value("gridstead_address"))
            if at and not any(at in one for one in known):
                found = f"none of {', '.join(given)} holds {at}, which is {host.name}"
                yield Problem(where=where, found=found, about=about)


def _address(host: Host) -> object:
    """Return a host's address; any where it has none, which is told elsewhere."""
    return address(host.value("gridstead_address")) or "0.0.0.0"  # noqa: S104 - nothing listens there


def _refused(host: Host, written: Any, place: tuple[Any, Any, Any]) -> list[str]:
    """Return what is wrong with a flow as it is written, at most one thing."""
    try:
        flow = host.templar.template(written)
        if not isinstance(flow, Mapping):
            return [f'"{flow}" is no flow']
        _flows.input_rules([flow], host.name, *place)
    except AnsibleFilterError as error:
        return [error.message]
    except AnsibleError as error:
        return uncomputed(host, host.mentions(written), error)
    return []
